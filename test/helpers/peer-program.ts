import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { connect } from 'node:net'
import type { Test } from 'tap'
import { until } from './until.js'

/** Kept text of what a program writes to standard error, in characters. */
const MOST_ERRORS = 10_000

/** Options of a test that needs a program: without it the test is left out, with the reason. */
export function needs(path: string): { readonly skip: string | false } {
  return { skip: existsSync(path) ? false : `${path} is not installed` }
}

/** How a program runs, and what it is waited for. */
interface PeerOptions {
  readonly env?: NodeJS.ProcessEnv
  /** Is it ready? @default it accepts connections at the port */
  readonly ready?: () => Promise<boolean>
}

/**
 * Starts a program of another make that listens on `port` of this machine, and resolves with its process id. It is ended with the test. Rejects with
 * what it wrote if it ends before it is ready.
 */
export async function peerProgram(
  t: Pick<Test, 'teardown'>,
  port: number,
  command: string,
  words: readonly string[],
  { env = process.env, ready = () => accepts(port) }: PeerOptions = {}
): Promise<number> {
  const child = spawn(command, words, { env, stdio: ['ignore', 'ignore', 'pipe'] })
  let errors = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors = `${errors}${text}`.slice(-MOST_ERRORS)
  })
  const exited = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGTERM')
    await exited
  })
  await until(async () => {
    if (child.exitCode !== null) throw new Error(`${command} ended: ${errors}`)
    return await ready()
  })
  return child.pid as number
}

/** Does something listen there? */
export function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.on('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.on('error', () => resolve(false))
  })
}
