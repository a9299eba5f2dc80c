import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { Report } from './report.mjs'

/**
 * Runs compiled tests: `node test/run.mjs [--jobs N] [--timeout SECONDS] [--again] [FILE…]`, all of them without a FILE. Exits with 1
 * when something failed. Each job is a process that runs file after file. With --again a few files that failed beside others are told
 * and run once more by themselves, which decides: the machine may have been busy.
 *
 * A plain `node` runs them, and not `tap run`: that one puts module hooks into every test and every process that a test
 * starts, which makes their start three times as long and runs the product other than its users do.
 */

/** A file that takes too long ends itself and says what it waited for; one that cannot is killed so much later. Seconds. */
const GRACE = 15
/** Most files that are run once more: where more have failed, it was not the machine. */
const MOST_AGAIN = 4
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
    again: { type: 'boolean', default: false }
  },
  allowPositionals: true
})
const timeout = Number(values.timeout)
const waiting = positionals.length > 0 ? positionals : everyTest('dist-test/test')
const report = new Report(process.stdout)
/** Temporary files of this run, and what tests share because it takes long to make. A database server runs as another user, who has to get below it. */
const folder = mkdtempSync(join(process.env.TMPDIR ?? memory() ?? tmpdir(), 'sluice-'))
chmodSync(folder, 0o711)

async function work() {
  let shared
  for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
    if (alone(file)) {
      await runAlone(file)
      continue
    }
    shared ??= new SharedProcess()
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

function start(words, stdio, flags = [], env = {}) {
  return spawn(process.execPath, [...flags, START, ...words], {
    env: { ...env, ...process.env, TAP_TIMEOUT: String(timeout), TEST_FOLDER: folder, TMPDIR: folder },
    stdio
  })
}

async function runAlone(file) {
  const begun = performance.now()
  const child = start([file], ['ignore', 'pipe', 'inherit'])
  const overdue = setTimeout(() => child.kill('SIGKILL'), (timeout + GRACE) * 1000)
  const output = []
  child.stdout.on('data', (chunk) => output.push(chunk))
  const [code, signal] = await once(child, 'close')
  clearTimeout(overdue)
  report.file(file, Buffer.concat(output).toString(), { code, signal, ms: performance.now() - begun })
}

/** Those that this Node has. */
function known(flags) {
  const names = execFileSync(process.execPath, ['--v8-options'], { encoding: 'utf8' })
  return flags.filter((flag) => new RegExp(`^ +${flag.split('=')[0]} `, 'm').test(names))
}

class SharedProcess {
  static #flags = known(OF_SHARED)
  #child = start([], ['ignore', 'pipe', 'inherit', 'ipc'], SharedProcess.#flags, { GLIBC_TUNABLES: ALLOCATION })
  #output = ''
  #closed
  #heard = () => {}
  #last = ''

  constructor() {
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
      report.file(file, this.#output, { code: code === 0 ? 'no end' : code, signal, ms })
      return false
    }
    report.file(file, document(this.#output.slice(0, end.index)), { code: 0, signal: null, ms })
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
      report.file(`${this.#last} and files before it`, document(this.#output), { code: 0, signal, ms: 0 })
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

function everyTest(folder) {
  return readdirSync(folder, { recursive: true })
    .filter((name) => name.endsWith('.test.js'))
    .sort()
    .map((name) => join(folder, name))
}

process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1))
await Promise.all(Array.from({ length: Number(values.jobs) }, work))
for (const file of values.again ? report.takeFailed(MOST_AGAIN, existsSync) : []) {
  console.log(`\n${file} failed beside others, as told above; now by itself:`)
  await runAlone(file)
}
process.exitCode = report.end() ? 0 : 1
