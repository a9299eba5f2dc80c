import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { readImports } from './imports.mjs'
import { cpuOf, Report } from './report.mjs'
import { changedTests, engineTests, FAST_FILE_CPU, SMOKE, testFiles, tierOf } from './tiers.mjs'

/**
 * Runs compiled tests: `node test/run.mjs [--tier TIER,…] [--changed] [--jobs N] [--timeout SECONDS] [--again] [--cpu-slack FACTOR] [FILE…]`. Exits with 1
 * when something failed.
 *
 * - Without a FILE: the fast tier and the smoke tests. `--tier fast,full` runs those tiers instead, `--changed` what a change reaches (test/tiers.mjs).
 * - The full tier runs the tests that read the list of engines a second time, on the engine that is not the default.
 * - A fast file that takes more CPU than FAST_FILE_CPU, also by itself, has failed. A machine that others use too counts more CPU for
 *   the same work: --cpu-slack multiplies the limit there.
 * - Each job is a process that runs file after file. With --again a few files that failed beside others run once more by themselves, which
 *   decides. They are listed at the end, because such a test depends on the load of the machine.
 *
 * A plain `node` runs them, and not `tap run`: that one puts module hooks into every test and every process that a test
 * starts, which makes their start three times as long and runs the product other than its users do.
 */

/** A file that takes too long ends itself and says what it waited for; one that cannot is killed so much later. Seconds. */
const GRACE = 15
/** Most files that are run once more: where more have failed, it was not the machine. */
const MOST_AGAIN = 4
/** The engine that is not the default, by its name in TEST_ENGINE. */
const SECOND_ENGINE = 'http-proxy'
/** For two cores: while some wait for a time-out or another process, others compute. */
const JOBS = '3'
/** What `statfs` calls it (linux/magic.h), and what a run may take of it. Bytes. */
const TMPFS = 0x01021994
const ROOM = 4 * 2 ** 30
/** What a file has in its text that plans at its top, or looks at all of its process: memory, the event loop, open sockets. */
const ALONE =
  /^t\.plan\(|\/(?:memory|loop-hold)\.js'|process\.memoryUsage|monitorEventLoopDelay|getActiveResourcesInfo|\bgc\b/m
/**
 * For processes that serve many files, each for a moment: code is optimised later, and one thread collects garbage, because the other processor
 * has a job of its own. A seventh less CPU. What a release of Node does not know is left out.
 */
const OF_SHARED = ['--single-threaded-gc', '--interrupt-budget=1000000', '--min-semi-space-size=8']
/**
 * What glibc takes from the system comes in pages of 2 MiB, where Linux gives them to those that ask: on a virtual machine each fault of a page can cost
 * some 15 µs, and a start of the product has 20,000 of them. Other systems ignore it. Not for files that look at memory: clearing such a page takes longer.
 */
const ALLOCATION = 'glibc.malloc.hugetlb=1'
const START = join(import.meta.dirname, 'start.cjs')
/** What start.cjs says of a file that has ended. */
const ENDED = /^# Subtest: ended \S+?(, the last)?\n(?: .*\n)*ok .*\n/m

const { values, positionals } = parseArgs({
  options: {
    jobs: { type: 'string', default: JOBS },
    timeout: { type: 'string', default: '120' },
    again: { type: 'boolean', default: false },
    'cpu-slack': { type: 'string', default: '1' },
    tier: { type: 'string' },
    changed: { type: 'boolean', default: false }
  },
  allowPositionals: true
})
const timeout = Number(values.timeout)
/** Seconds. */
const fastFileCpu = FAST_FILE_CPU * Number(values['cpu-slack'])
const waiting = chosenTests()
const report = new Report(process.stdout)
/** Temporary files of this run, and what tests share because it takes long to make. A database server runs as another user, who has to get below it. */
const folder = mkdtempSync(join(process.env.TMPDIR ?? memory() ?? tmpdir(), 'sluice-'))
chmodSync(folder, 0o711)

/** The tests of this run in their order: the compiled file, and the engine where it is not the default. */
function chosenTests() {
  if (positionals.length > 0) return positionals.map((file) => ({ file }))
  const imports = readImports()
  const all = testFiles(imports)
  const tiers = values.tier?.split(',')
  const tests = values.changed
    ? changedTests(imports)
    : all.filter((file) => (tiers === undefined ? inQuickRun(file) : tiers.includes(tierOf(file))))
  const again = tiers?.includes('full') ? engineTests(imports, all).filter((file) => tierOf(file) !== 'long') : []
  return [
    ...tests.map((file) => ({ file: compiled(file) })),
    ...again.map((file) => ({ file: compiled(file), engine: SECOND_ENGINE }))
  ]
}

function inQuickRun(file) {
  return tierOf(file) === 'fast' || SMOKE.includes(file)
}

function compiled(source) {
  return join('dist-test', source.replace(/\.ts$/, '.js'))
}

/** Ends the PostgreSQL that tests of this run shared (test/store/shared-postgres.ts), and waits until it writes no more. */
function endPostgres() {
  const place = join(folder, 'postgres-server')
  if (!existsSync(place)) return
  const [, keeper] = readFileSync(place, 'utf8').split(' ').map(Number)
  const gone = () => !existsSync(`/proc/${keeper}`)
  process.kill(keeper, 'SIGTERM')
  for (let tries = 0; tries < 50 && !gone(); tries++) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100)
}

async function work() {
  let shared
  for (let test = waiting.shift(); test !== undefined; test = waiting.shift()) {
    const { file, engine } = test
    if (alone(file)) {
      report.file(test, await runAlone(test))
      continue
    }
    if (shared !== undefined && shared.engine !== engine) {
      await shared.end()
      shared = undefined
    }
    shared ??= new SharedProcess(engine)
    if (!(await shared.run(file))) shared = undefined
  }
  await shared?.end()
}

/** A file system in memory with room for all: what is written there waits for no disk. */
function memory() {
  const place = '/dev/shm'
  const { type, bavail, bsize } = existsSync(place) ? statfsSync(place) : {}
  return type === TMPFS && bavail * bsize >= ROOM ? place : undefined
}

/** Does the file need a process of its own? */
function alone(file) {
  return ALONE.test(readFileSync(file, 'utf8'))
}

function start(words, stdio, engine, flags = [], env = {}) {
  const chosen = engine === undefined ? {} : { TEST_ENGINE: engine }
  return spawn(process.execPath, [...flags, START, ...words], {
    env: {
      ...env,
      ...process.env,
      ...chosen,
      TAP_TIMEOUT: String(timeout),
      TEST_FOLDER: folder,
      TEST_RUNNER: String(process.pid),
      TMPDIR: folder
    },
    stdio
  })
}

async function runAlone({ file, engine }) {
  const begun = performance.now()
  const child = start([file], ['ignore', 'pipe', 'inherit'], engine)
  const overdue = setTimeout(() => child.kill('SIGKILL'), (timeout + GRACE) * 1000)
  const output = []
  child.stdout.on('data', (chunk) => output.push(chunk))
  const [code, signal] = await once(child, 'close')
  clearTimeout(overdue)
  return { output: Buffer.concat(output).toString(), code, signal, ms: performance.now() - begun }
}

function isDearFast({ file, engine, cpu }) {
  return engine === undefined && existsSync(file) && tierOf(file) === 'fast' && cpu > fastFileCpu
}

/** Those that this Node has. */
function known(flags) {
  const names = execFileSync(process.execPath, ['--v8-options'], { encoding: 'utf8' })
  return flags.filter((flag) => new RegExp(`^ +${flag.split('=')[0]} `, 'm').test(names))
}

class SharedProcess {
  static #flags = known(OF_SHARED)
  engine
  #child
  #output = ''
  #closed
  #heard = () => {}
  #last = ''

  constructor(engine) {
    this.engine = engine
    const stdio = ['ignore', 'pipe', 'inherit', 'ipc']
    this.#child = start([], stdio, engine, SharedProcess.#flags, { GLIBC_TUNABLES: ALLOCATION })
    this.#child.stdout.setEncoding('utf8')
    this.#child.stdout.on('data', (text) => {
      this.#output += text
      this.#heard()
    })
    this.#child.on('error', () => undefined)
    // Not `close` of the process: it does not come where the parent has disconnected.
    this.#closed = Promise.all([once(this.#child, 'exit'), once(this.#child.stdout, 'close')]).then(([exit]) => exit)
  }

  /** Runs a file; whether the process is there for another one. */
  async run(file) {
    const test = { file, engine: this.engine }
    const begun = performance.now()
    this.#last = file
    const overdue = setTimeout(() => this.#child.kill('SIGKILL'), (timeout + GRACE) * 1000)
    this.#child.send(file, () => undefined)
    const end = await Promise.race([this.#ended(), this.#closed])
    clearTimeout(overdue)
    const ms = performance.now() - begun
    if (Array.isArray(end)) {
      const [code, signal] = end
      // What it waited for, or what ended the process, is in the output; a file that has not ended has not passed.
      report.file(test, { output: this.#output, code: code === 0 ? 'no end' : code, signal, ms })
      return false
    }
    report.file(test, { output: document(this.#output.slice(0, end.index)), code: 0, signal: null, ms })
    this.#output = this.#output.slice(end.index + end.length)
    if (!end.last) return true
    await this.end()
    return false
  }

  /** Ends the process: what it still has to say belongs to its last file. */
  async end() {
    if (this.#child.connected) this.#child.disconnect()
    const overdue = setTimeout(() => this.#child.kill('SIGKILL'), GRACE * 1000)
    const [, signal] = await this.#closed
    clearTimeout(overdue)
    if (signal !== null || /^not ok/m.test(this.#output))
      report.file(
        { file: `${this.#last} and files before it` },
        { output: document(this.#output), code: 0, signal, ms: 0 }
      )
  }

  async #ended() {
    for (;;) {
      const found = ENDED.exec(this.#output)
      if (found !== null) return { index: found.index, length: found[0].length, last: found[1] !== undefined }
      await new Promise((heard) => {
        this.#heard = heard
      })
    }
  }
}

/** A part of the output of a process as a document of its own: numbered from one, with a plan. */
function document(part) {
  let count = 0
  const numbered = part
    .replace(/^(TAP version 14\n|1\.\.\d+$)/gm, '')
    .replace(/^((?:not )?ok) \d+/gm, (_, word) => `${word} ${++count}`)
  return `TAP version 14\n${numbered}\n1..${count}\n`
}

process.on('exit', endPostgres)
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1))
await Promise.all(Array.from({ length: Number(values.jobs) }, work))
for (const test of values.again ? report.takeFailed(MOST_AGAIN, ({ file }) => existsSync(file)) : []) {
  console.log(`\n${test.file} failed beside others, as told above; now by itself:`)
  report.file(test, await runAlone(test))
}
// A run of named files may be on another release of Node or with threads, and a long one repeats more.
const judged = positionals.length === 0 && process.env.SLUICE_TEST_LONG === undefined
for (const test of judged ? report.dearest(isDearFast) : []) {
  const { output } = await runAlone(test)
  report.judgeCost(test, Math.min(test.cpu, cpuOf(output)), fastFileCpu)
}
process.exitCode = report.end() ? 0 : 1
