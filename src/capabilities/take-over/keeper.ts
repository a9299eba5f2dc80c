import { once } from 'node:events'
import { appendFileSync } from 'node:fs'
import { createConnection, type Socket } from 'node:net'
import { ExitCode, type StopSignals } from '../../cli/process.js'
import { codeOf } from '../../lib/errors.js'
import { isRunning, listenerAt } from './listening-sockets.js'
import { readLines, type TakeOverRequest, type ToAsker, takeOverPlace, writeLine } from './protocol.js'

/** Signals that are forwarded to the serving process. */
const PASSED_ON = ['SIGHUP', 'SIGUSR1'] as const
/** Maximum length of a line (bytes). */
const MOST = 64 * 1024
/** Silence of the running process that the command reports (ms). */
const SAID_AFTER = 5_000
/** Silence before the first answer after which the running process counts as hung (ms). */
const MUTE_AFTER = 15_000
/** Maximum time for a killed process to exit (ms). */
const GONE_WITHIN = 5_000
/** Option that requests a take-over. */
const FLAG = '--take-over'

/**
 * Returns the words of a command as they were given, without the flag that asks for a take-over. A single executable has its own path in place of
 * the script, which is no word of the command.
 */
export function commandOf({ execPath, execArgv, argv }: Pick<NodeJS.Process, 'execPath' | 'execArgv' | 'argv'>) {
  const own = argv[1] === execPath ? 2 : 1
  return { program: execPath, words: [...execArgv, ...argv.slice(own).filter((word) => word !== FLAG)] }
}

/**
 * Asks the process on `folder` to hand over to a successor, prints each step on standard error, and forwards signals until
 * the successor exits. Resolves with its exit code, or undefined if no process runs on the folder. Kills a process that is
 * hung.
 */
export async function takeOver(folder: string, signals: StopSignals): Promise<number | undefined> {
  const socket = await connected(folder)
  if (socket === undefined) return undefined
  const { program, words } = commandOf(process)
  const environment = Object.fromEntries(
    Object.entries(process.env).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]))
  )
  const request: TakeOverRequest = { pid: process.pid, program, words, folder: process.cwd(), environment }
  const silence = new Silence()
  let pid: number | undefined
  let answered = false
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
    const mute = setTimeout(async () => {
      if (await endMute(folder)) return
      // It still has the resources that a start needs.
      answered = true
      socket.destroy()
    }, MUTE_AFTER)
    readLines<ToAsker>(socket, MOST, (message) => {
      answered = true
      clearTimeout(mute)
      silence.ends()
      if (message.kind === 'step' || message.kind === 'begun') silence.begins()
      if (message.kind === 'step') say(`take-over: ${message.text}`)
      else if (message.kind === 'line') say(message.text)
      else if (message.kind === 'failed') say(`error: nothing was taken over: ${message.text}`)
      else if (message.kind === 'begun') pid = message.pid
      else if (message.kind === 'ends') code = message.code
      else say(`take-over: process ${pid} serves; the old one exits when its connections have drained`)
    })
    socket.once('close', () => {
      clearTimeout(mute)
      silence.ends()
      for (const signal of PASSED_ON) process.off(signal, pass)
      if (answered) resolve(code)
      else {
        say('take-over: the old process exited before the first step; starting normally')
        resolve(undefined)
      }
    })
    silence.begins()
    writeLine(socket, request)
  })
}

/** Reports how long the running process has been silent, at growing intervals. */
class Silence {
  #timer: NodeJS.Timeout | undefined

  begins(after = SAID_AFTER): void {
    clearTimeout(this.#timer)
    const next = after === SAID_AFTER ? SAID_AFTER : after / 2
    this.#timer = setTimeout(() => {
      say(`take-over: no answer for ${after / 1_000} s; still waiting`)
      this.begins(after * 2)
    }, next)
  }

  ends(): void {
    clearTimeout(this.#timer)
  }
}

/** Kills the unresponsive process on `folder`; resolves when it has exited, with false if it cannot be found or killed. */
async function endMute(folder: string): Promise<boolean> {
  const pid = listenerAt(folder)
  if (pid === undefined) {
    say(`error: the process on ${folder} does not respond and cannot be found: stop it, and start again`)
    return false
  }
  say(`take-over: process ${pid} has not responded for ${MUTE_AFTER / 1_000} s; killing it`)
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    say(`error: process ${pid} cannot be killed (${codeOf(error) ?? 'unknown'}): stop it, and start again`)
    return false
  }
  const end = performance.now() + GONE_WITHIN
  while (isRunning(pid) && performance.now() < end)
    await new Promise((resolve) => setTimeout(resolve, GONE_WITHIN / 100))
  return true
}

/** Prints after the new process's output to the same file: a descriptor without append mode would overwrite it. */
function say(line: string): void {
  try {
    appendFileSync('/proc/self/fd/2', `${line}\n`)
  } catch {
    // A socket cannot be opened again.
    console.error(line)
  }
}

/** Connects; undefined if no process listens there. Rejects with the system's error otherwise, such as for a folder of another user. */
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
