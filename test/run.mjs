import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { Report } from './report.mjs'

/**
 * Runs compiled tests, each file as a process of its own: `node test/run.mjs [--jobs N] [--timeout SECONDS] [FILE…]`, all
 * of them without a FILE. Exits with 1 when something failed.
 *
 * A plain `node` runs them, and not `tap run`: that one puts module hooks into every test and every process that a test
 * starts, which makes their start three times as long and runs the product other than its users do.
 */

/** A file that takes too long ends itself and says what it waited for; one that cannot is killed so much later. Seconds. */
const GRACE = 15
/** For two cores: while some wait for a time-out or another process, others compute. */
const JOBS = '3'
const START = join(import.meta.dirname, 'start.cjs')

const { values, positionals } = parseArgs({
  options: { jobs: { type: 'string', default: JOBS }, timeout: { type: 'string', default: '120' } },
  allowPositionals: true
})
const timeout = Number(values.timeout)
const waiting = positionals.length > 0 ? positionals : everyTest('dist-test/test')
const report = new Report(process.stdout)
await Promise.all(Array.from({ length: Number(values.jobs) }, work))
process.exitCode = report.end() ? 0 : 1

async function work() {
  for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) await run(file)
}

async function run(file) {
  const begun = performance.now()
  const child = spawn(process.execPath, ['--enable-source-maps', START, file], {
    env: { ...process.env, TAP_TIMEOUT: String(timeout) },
    stdio: ['ignore', 'pipe', 'inherit']
  })
  const overdue = setTimeout(() => child.kill('SIGKILL'), (timeout + GRACE) * 1000)
  const output = []
  child.stdout.on('data', (chunk) => output.push(chunk))
  const [code, signal] = await once(child, 'close')
  clearTimeout(overdue)
  report.file(file, Buffer.concat(output).toString(), { code, signal, ms: performance.now() - begun })
}

function everyTest(folder) {
  return readdirSync(folder, { recursive: true })
    .filter((name) => name.endsWith('.test.js'))
    .sort()
    .map((name) => join(folder, name))
}
