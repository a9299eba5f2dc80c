import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Stage } from './fault.js'
import { MAIN } from './product.js'

export interface Command {
  readonly running: boolean
  /** Asks it to end. */
  stop(): void
  /** Its process stands still, and goes on with `resume`. */
  pause(): void
  resume(): void
  /** Resolves when it has ended: its exit code and what it said on standard error. */
  readonly ended: Promise<{ readonly code: number | null; readonly said: string }>
}

/** Runs a command of the product beside its processes; it is killed with the stage. */
export function command(stage: Stage, words: readonly string[], cwd: string, env: Record<string, string>): Command {
  const child = spawn(process.execPath, [MAIN, ...words], {
    cwd,
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { PATH: process.env.PATH, ...env }
  })
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text
  })
  const ended = once(child, 'close').then(() => ({ code: child.exitCode, said: said.trim() }))
  stage.teardown(async () => {
    child.kill('SIGKILL')
    await ended
  })
  return {
    get running() {
      return child.exitCode === null && child.signalCode === null
    },
    stop: () => void child.kill('SIGTERM'),
    pause: () => void child.kill('SIGSTOP'),
    resume: () => void child.kill('SIGCONT'),
    ended
  }
}
