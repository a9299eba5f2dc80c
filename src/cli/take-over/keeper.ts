import { once } from 'node:events'
import { appendFileSync } from 'node:fs'
import { createConnection, type Socket } from 'node:net'
import { codeOf } from '../../lib/errors.js'
import { ExitCode, type StopSignals } from '../process.js'
import { readLines, type TakeOverRequest, type ToAsker, takeOverPlace, writeLine } from './protocol.js'

/** Signals that are meant for the process that serves. */
const PASSED_ON = ['SIGHUP', 'SIGUSR1'] as const
const MOST = 64 * 1024
const FLAG = '--take-over'

/** The words of a command as they were given, without the flag that asks for a take-over. */
export function commandOf({ execPath, execArgv, argv }: Pick<NodeJS.Process, 'execPath' | 'execArgv' | 'argv'>) {
  return { program: execPath, words: [...execArgv, ...argv.slice(1).filter((word) => word !== FLAG)] }
}

/**
 * Asks the process on `folder` to let a new one take its place, prints each step on standard error, and stays until the new one
 * ends: signals go on to it. Resolves with its exit code; undefined: no process runs on the folder.
 */
export async function takeOver(folder: string, signals: StopSignals): Promise<number | undefined> {
  const socket = await connected(folder)
  if (socket === undefined) return undefined
  const { program, words } = commandOf(process)
  const environment = Object.fromEntries(
    Object.entries(process.env).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]))
  )
  const request: TakeOverRequest = { pid: process.pid, program, words, folder: process.cwd(), environment }
  let pid: number | undefined
  const pass = (signal: NodeJS.Signals) => {
    try {
      if (pid !== undefined) process.kill(pid, signal)
    } catch {
      // It has ended, which the connection shows.
    }
  }
  for (const signal of PASSED_ON) process.on(signal, pass)
  void signals.next().then(pass)
  return await new Promise((resolve) => {
    let code: number = ExitCode.failure
    readLines<ToAsker>(socket, MOST, (message) => {
      if (message.kind === 'step') say(`take-over: ${message.text}`)
      else if (message.kind === 'line') say(message.text)
      else if (message.kind === 'failed') say(`error: nothing was taken over: ${message.text}`)
      else if (message.kind === 'begun') pid = message.pid
      else if (message.kind === 'ends') code = message.code
      else say(`take-over: process ${pid} serves; the one before it ends when its connections have`)
    })
    socket.once('close', () => {
      for (const signal of PASSED_ON) process.off(signal, pass)
      resolve(code)
    })
    writeLine(socket, request)
  })
}

/** Says it behind what the new process has written to the same file: a descriptor that does not append would write over it. */
function say(line: string): void {
  try {
    appendFileSync('/proc/self/fd/2', `${line}\n`)
  } catch {
    // A socket cannot be opened again.
    console.error(line)
  }
}

/** Undefined: no process listens there. Rejects with the system's error for all else, as a folder of another user. */
async function connected(folder: string): Promise<Socket | undefined> {
  try {
    const { path, close } = takeOverPlace(folder)
    const socket = createConnection(path)
    await once(socket, 'connect').finally(close)
    return socket.on('error', () => undefined)
  } catch (error) {
    if (['ENOENT', 'ECONNREFUSED'].includes(codeOf(error) ?? '')) return undefined
    throw error
  }
}
