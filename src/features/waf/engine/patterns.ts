import { compileRegex, type Regex } from '../../../lib/regex.js'
import type { Transaction } from './transaction.js'
import { WorkExceeded } from './transformation-chains.js'

/** Maximum length of a pattern in UTF-16 units. */
const MAX_PATTERN = 16_384
/** Characters before and after the end of a match in which its groups are looked for: finding them is much slower than a match. */
const CAPTURE_WINDOW = 2_048
/** Steps of a search for groups for each character and instruction, as a fraction of the upper bound that patterns rarely come near. */
const CAPTURE_COST = 1 / 16

/** A pattern of a rule for one value, and for all values joined by line breaks. */
export class RulePattern {
  readonly #single: Regex
  readonly #joined: Regex | undefined

  private constructor(single: Regex, joined: Regex | undefined) {
    this.#single = single
    this.#joined = joined
  }

  /** Compiles a pattern, or returns the mistake in one sentence. */
  static compile(pattern: string): RulePattern | string {
    const options = { dotAll: true, maxLength: MAX_PATTERN }
    const single = compileRegex(pattern, options)
    if (!single.ok) return single.message
    // `\A` and `\z` hold at the ends of one value only, which the joined text does not have.
    if (/\\[AzZ]/.test(pattern)) return new RulePattern(single.regex, undefined)
    if (!hasAnchors(pattern)) return new RulePattern(single.regex, single.regex)
    const joined = compileRegex(pattern, { ...options, multiline: true })
    return new RulePattern(single.regex, joined.ok ? joined.regex : undefined)
  }

  /** Returns whether joined values can be tested. */
  get joins(): boolean {
    return this.#joined !== undefined
  }

  /** Returns false if no value of the joined text matches; true if one may. Throws `WorkExceeded`. */
  mayMatch(joined: string, transaction: Transaction): boolean {
    transaction.spend(joined.length)
    const found = this.#joined?.testWithin(joined, transaction.meter)
    if (found === undefined) throw new WorkExceeded()
    return found
  }

  /** Returns whether a value matches. Throws `WorkExceeded`. */
  test(text: string, transaction: Transaction): boolean {
    return this.#end(text, transaction) >= 0
  }

  /** Like `test`, and keeps the match and its groups. Throws `WorkExceeded`. */
  capture(text: string, transaction: Transaction): boolean {
    const end = this.#end(text, transaction)
    if (end < 0) return false
    const from = Math.max(0, end - CAPTURE_WINDOW)
    const window = text.slice(from, end + CAPTURE_WINDOW)
    transaction.spend(Math.ceil(window.length * this.#single.size * CAPTURE_COST))
    transaction.capture(this.#single.exec(window)?.groups ?? [''])
    return true
  }

  #end(text: string, transaction: Transaction): number {
    transaction.spend(text.length + 1)
    const end = this.#single.endWithin(text, transaction.meter)
    if (end === undefined) throw new WorkExceeded()
    return end
  }
}

/** Returns whether a pattern may hold `^` or `$` outside of a character class; true when in doubt. */
function hasAnchors(pattern: string): boolean {
  return /(?<!(?<!\\)\[)\^|\$/.test(pattern)
}
