import { existsSync } from 'node:fs'
import { rename, writeFile } from 'node:fs/promises'
import { sharedServerFile, startOwnPostgres } from './postgres-server.js'

/**
 * Keeps the PostgreSQL of a run of tests: `node shared-postgres.js FOLDER RUNNER`. It ends with the process RUNNER, with the folder, or on a SIGTERM.
 */

/** How often it looks for the runner, in milliseconds. */
const LOOK = 300

const [folder = '', runner = ''] = process.argv.slice(2)
const teardowns: (() => Promise<unknown>)[] = []
const server = await startOwnPostgres({ teardown: (run) => void teardowns.push(run) })
await writeFile(`${sharedServerFile(folder)}.new`, `${server.port} ${process.pid}`)
await rename(`${sharedServerFile(folder)}.new`, sharedServerFile(folder))
const looking = setInterval(() => {
  if (!existsSync(folder) || !isRunning(Number(runner))) void end()
}, LOOK)
process.once('SIGTERM', () => void end())

async function end(): Promise<void> {
  clearInterval(looking)
  for (const run of teardowns) await run().catch(() => undefined)
  process.exit()
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
