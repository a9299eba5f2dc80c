import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { connect } from 'node:net'
import type { Test } from 'tap'
import { until } from './until.js'

/** Options of a test that needs a program: without it the test is left out, with the reason. */
export function needs(path: string): { readonly skip: string | false } {
  return { skip: existsSync(path) ? false : `${path} is not installed` }
}

/** A program of another make that listens on `port` of this machine; it is ended with the test. Answers its process id. */
export async function peerProgram(
  t: Pick<Test, 'teardown'>,
  port: number,
  command: string,
  words: readonly string[]
): Promise<number> {
  const child = spawn(command, words, { stdio: 'ignore' })
  const exited = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGTERM')
    await exited
  })
  await until(() => accepts(port))
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
