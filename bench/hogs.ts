import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { findProgram } from './process.js'

/** End of hogs whose benchmark was killed (s). */
const LONGEST = 3 * 3_600

/**
 * Starts `count` processes of stress-ng that fill the caches of the machine, as busy neighbours do. Returns a function that stops them;
 * undefined if stress-ng is not installed.
 */
export function startHogs(count: number): (() => Promise<void>) | undefined {
  const program = findProgram('stress-ng')
  if (program === undefined) return undefined
  const child = spawn(program, ['--quiet', '--cache', String(count), '--timeout', `${LONGEST}s`], { stdio: 'ignore' })
  const kill = (): void => {
    child.kill('SIGTERM')
  }
  process.once('exit', kill)
  return async () => {
    process.removeListener('exit', kill)
    const ended = once(child, 'exit')
    kill()
    await ended
  }
}
