import { readFileSync } from 'node:fs'
import { SourceMap } from 'node:module'
import { Parser } from 'tap-parser'

/** Files whose CPU time is listed at the end of a run. */
const LISTED = 3

/**
 * Report of a run of tests: one line for each file as it ends, then the dearest files, every failure in full, and at the end
 * `N passed, N failed` (and `N skipped`, if there are any). Counts assertions, not files.
 */
export class Report {
  #out
  #counts = { passed: 0, failed: 0, skipped: 0 }
  #failures = []
  /** Tests that have failed, in the order in which they did. */
  #failed = new Set()
  /** Every test with its CPU time in seconds. */
  #costs = []
  /** Names of tests that failed beside others and ran once more. */
  #again = []

  constructor(out) {
    this.#out = out
  }

  /** A test that has ended: the TAP that it wrote, its exit code or the signal that ended it, and the time that it took. */
  file(test, { output, code, signal, ms }) {
    const name = nameOf(test)
    const before = this.#counts.failed
    const parser = new Parser()
    this.#follow(parser, [name])
    parser.end(output)
    const { ok, count, failures } = parser.results
    // The parser takes an empty output for the same.
    const skipped = /^1\.\.0\b/m.test(output)
    const broken = failures.filter(({ tapError }) => tapError !== undefined).map(({ tapError }) => tapError)
    if (signal !== null) this.#fail([name, `ended by ${signal}`])
    // What made it end so is already told.
    else if (this.#counts.failed === before && (code !== 0 || !ok)) this.#fail([name, `ended with ${code}`, ...broken])
    else if (count === 0 && !skipped) this.#fail([name, 'asserted nothing'])
    if (skipped) this.#counts.skipped += 1
    if (this.#counts.failed > before) this.#failed.add(test)
    const mark = this.#counts.failed > before ? 'not ok' : skipped ? 'skip' : 'ok'
    const cpu = cpuOf(output)
    this.#costs.push({ ...test, cpu })
    this.#out.write(`${mark} ${name} (${Math.round(ms)} ms, ${cpu.toFixed(1)} s of CPU)\n`)
  }

  /** The tests for which `matches` answers true, with the CPU seconds of each, the dearest first. */
  dearest(matches) {
    return this.#costs.filter(matches).sort((one, other) => other.cpu - one.cpu)
  }

  /** Fails a test that takes more CPU seconds than it may. */
  judgeCost(test, cpu, limit) {
    if (cpu > limit)
      this.#fail([
        nameOf(test),
        `took ${cpu.toFixed(1)} s of CPU, a fast file may take ${limit}: make it cheaper, or a full one`
      ])
  }

  /**
   * The tests that have failed, which are to be run once more: tells how, and counts it no more. None when more than `most` have, or
   * something that `isFile` does not know: then it is not that the machine was busy.
   */
  takeFailed(most, isFile) {
    const tests = [...this.#failed]
    if (tests.length > most || !tests.every(isFile)) return []
    for (const { name, diagnosis } of this.#failures) this.#out.write(describe(name, diagnosis))
    this.#failed.clear()
    this.#failures = []
    this.#counts.failed = 0
    this.#again = tests.map(nameOf)
    return tests
  }

  /** Tells the failures and the counts; whether there are none of the former. */
  end() {
    const sum = this.#costs.reduce((total, { cpu }) => total + cpu, 0)
    const dearest = this.dearest(() => true).slice(0, LISTED)
    this.#out.write(`\n${this.#costs.length} files, ${Math.round(sum)} s of CPU. The dearest:\n`)
    for (const test of dearest) this.#out.write(`  ${nameOf(test)} (${test.cpu.toFixed(1)} s of CPU)\n`)
    if (this.#again.length > 0) this.#out.write('\nThese failed beside others, which is a fault of the test:\n')
    for (const name of this.#again) this.#out.write(`  ${name}\n`)
    for (const { name, diagnosis } of this.#failures) this.#out.write(describe(name, diagnosis))
    const { passed, failed, skipped } = this.#counts
    this.#out.write(`\n${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}\n`)
    return failed === 0
  }

  #follow(parser, names) {
    parser.on('child', (child) => this.#follow(child, [...names, child.name]))
    parser.on('assert', (result) => this.#assert(result, names))
    parser.on('bailout', (reason) => this.#fail([...names, `bail out: ${reason}`]))
  }

  #assert(result, names) {
    // It repeats what the assertions of a subtest said, unless the subtest itself broke.
    if (result.closingTestPoint && (result.ok || this.#toldOf([...names, result.name]))) return
    if (result.skip || result.todo) this.#counts.skipped += 1
    else if (result.ok) this.#counts.passed += 1
    else this.#fail([...names, result.name], result.diag)
  }

  #toldOf(names) {
    const path = `${names.join(' > ')} > `
    return this.#failures.some(({ name }) => name.startsWith(path))
  }

  #fail(names, diagnosis) {
    this.#counts.failed += 1
    this.#failures.push({ name: names.join(' > '), diagnosis })
  }
}

/** CPU seconds of a test, from the comment that `start.cjs` adds to its TAP; 0 where it could not be measured. */
export function cpuOf(output) {
  return Number(/^# cpu (\S+)$/m.exec(output)?.[1] ?? 0)
}

function nameOf({ file, engine }) {
  return engine === undefined ? file : `${file} on ${engine}`
}

function describe(name, diagnosis) {
  const { at, diff, source, stack, found, wanted, ...rest } = diagnosis ?? {}
  const lines = [`FAILED: ${name}`]
  if (at?.fileName !== undefined) lines.push(`at ${inSources(`${at.fileName}:${at.lineNumber}:${at.columnNumber}`)}`)
  if (source !== undefined) lines.push(source.trimEnd())
  if (diff !== undefined) lines.push(diff.trimEnd())
  else if (wanted !== undefined) lines.push(`wanted: ${JSON.stringify(wanted)}`, `found: ${JSON.stringify(found)}`)
  if (Object.keys(rest).length > 0) lines.push(JSON.stringify(rest, null, 2))
  if (stack !== undefined) lines.push(inSources(stack.trimEnd()))
  return `\n${lines.join('\n').replaceAll('\n', '\n    ')}\n`
}

/**
 * Places of compiled files, `dist-test/test/a.test.js:1:2`, as places of their sources. Done here for what failed: a Node that looks up
 * places itself (`--enable-source-maps`) reads the map of every file that it loads, which is a fifth of most tests.
 */
function inSources(text) {
  return text.replace(/(?:file:\/\/)?[^\s()]*dist-test\/([^\s():]+)\.js:(\d+):(\d+)/g, (place, name, line, column) => {
    try {
      const map = new SourceMap(JSON.parse(readFileSync(`dist-test/${name}.js.map`, 'utf8')))
      const { originalLine, originalColumn } = map.findEntry(Number(line) - 1, Number(column) - 1)
      return originalLine === undefined ? place : `${name}.ts:${originalLine + 1}:${originalColumn + 1}`
    } catch {
      return place
    }
  })
}
