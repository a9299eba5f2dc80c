import { Transform } from 'node:stream'
import { Parser } from 'tap-parser'

/**
 * Reporter of the test runner: one line for each file, every failure in full, and at the end `N passed, N failed`
 * (and `N skipped`, if there are any). Counts assertions, not files.
 */
export default class Reporter extends Transform {
  #parser = new Parser()
  #counts = { passed: 0, failed: 0, skipped: 0 }
  #failures = []

  constructor() {
    super()
    this.#follow(this.#parser, [])
  }

  #follow(parser, names) {
    parser.on('child', (child) => this.#follow(child, [...names, child.name]))
    parser.on('assert', (result) => this.#assert(result, names))
    parser.on('bailout', (reason) => this.#fail([...names, `bail out: ${reason}`].join(' > '), undefined))
  }

  #assert(result, names) {
    // A point that closes a subtest repeats what its assertions said, unless the subtest itself broke (time-out, crash).
    if (names.length === 0) {
      const mark = result.skip ? 'skip' : result.ok ? 'ok' : 'not ok'
      const time = result.time === undefined ? '' : ` (${Math.round(result.time)} ms)`
      this.push(`${mark} ${result.name}${time}\n`)
      if (result.ok && !result.skip) return
      if (!result.ok && this.#failures.some(({ name }) => name.startsWith(`${result.name} > `))) return
    } else if (result.closingTestPoint) return
    if (result.skip || result.todo) this.#counts.skipped += 1
    else if (result.ok) this.#counts.passed += 1
    else this.#fail([...names, result.name].join(' > '), result.diag)
  }

  #fail(name, diagnosis) {
    this.#counts.failed += 1
    this.#failures.push({ name, diagnosis })
  }

  _transform(chunk, _encoding, done) {
    this.#parser.write(chunk)
    done()
  }

  _flush(done) {
    this.#parser.end()
    for (const { name, diagnosis } of this.#failures) this.push(describe(name, diagnosis))
    const { passed, failed, skipped } = this.#counts
    this.push(`\n${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}\n`)
    done()
  }
}

function describe(name, diagnosis) {
  const { at, diff, source, stack, found, wanted, ...rest } = diagnosis ?? {}
  const lines = [`FAILED: ${name}`]
  if (at?.fileName !== undefined) lines.push(`at ${at.fileName}:${at.lineNumber}:${at.columnNumber}`)
  if (source !== undefined) lines.push(source.trimEnd())
  if (diff !== undefined) lines.push(diff.trimEnd())
  else if (wanted !== undefined) lines.push(`wanted: ${JSON.stringify(wanted)}`, `found: ${JSON.stringify(found)}`)
  if (Object.keys(rest).length > 0) lines.push(JSON.stringify(rest, null, 2))
  if (stack !== undefined) lines.push(stack.trimEnd())
  return `\n${lines.join('\n').replaceAll('\n', '\n    ')}\n`
}
