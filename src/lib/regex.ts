import { LRUCache } from 'lru-cache'
import { RE2JS, RE2JSException } from 're2js'
import { systemClock } from './clock.js'
import { Automaton, type Meter } from './regex-automaton.js'
import { type RegexProgram, toProgram } from './regex-program.js'

/** First match of a pattern: UTF-16 offsets and the text of each group, group 0 first; '' for an unused group. */
interface RegexMatch {
  readonly start: number
  readonly end: number
  readonly groups: readonly string[]
}

/** A compiled pattern in RE2 syntax: linear time, no look-around, no back-references. */
export interface Regex {
  readonly pattern: string
  /** Number of instructions. `exec` and the replacements take at most a nanosecond or two for each at each character. */
  readonly size: number
  /** Returns whether the pattern matches anywhere in `text`. */
  test(text: string): boolean
  /** Like `test`, charging the work; returns undefined if the meter is exhausted before the result is known. */
  testWithin(text: string, meter: Meter): boolean | undefined
  exec(text: string): RegexMatch | undefined
  /**
   * Replaces every match. `$1`, `${1}`, `${name}` and `$0` are groups, `$$` is a dollar; an unknown group is ''. One search takes linear
   * time, but each of many may scan the rest of the text: throws `RegexTooSlow` after `longest` milliseconds.
   */
  replaceAll(text: string, replacement: string, longest?: number, shown?: Shown): string
  replaceFirst(text: string, replacement: string, shown?: Shown): string
}

/** Replaces a piece of the searched text that begins at `start` in the result. */
type Shown = (piece: string, start: number) => string

const asItIs: Shown = (piece) => piece

/** Finding all matches takes longer than the caller allows. */
export class RegexTooSlow extends Error {
  constructor() {
    super('the matches take too long')
  }
}

export type CompiledRegex =
  | { readonly ok: true; readonly regex: Regex }
  | { readonly ok: false; readonly message: string }

/** Maximum length of a pattern in UTF-16 units. */
export const MAX_PATTERN = 4096
/** Maximum number of instructions: repetition makes short patterns large. */
const MAX_PROGRAM = 20_000
/** Maximum `expandedSize` of a pattern compiled at run time. */
const MAX_DYNAMIC = 2_048
/** A group reference in a replacement. */
const GROUP = /\$(?:(\$)|(\d{1,2})|\{(\w+)\}|<(\w+)>)/g

/** Variants of a pattern. */
export interface RegexOptions {
  /** `.` also matches line breaks. */
  readonly dotAll?: boolean
  /**
   * Maximum length of the pattern in UTF-16 units, for patterns of the operator.
   * @default MAX_PATTERN
   */
  readonly maxLength?: number
}

/** Compiles `pattern` (RE2 syntax), or returns the mistake in one sentence. */
export function compileRegex(pattern: string, options: RegexOptions = {}): CompiledRegex {
  const program = compile(pattern, options)
  return typeof program === 'string'
    ? { ok: false, message: program }
    : { ok: true, regex: new Re2Regex(pattern, program) }
}

/** Compiles `pattern` (RE2 syntax) to tables, or returns the mistake in one sentence. */
export function compileProgram(pattern: string, options: RegexOptions = {}): RegexProgram | string {
  const program = compile(pattern, options)
  return typeof program === 'string' ? program : toProgram(program.re2Input)
}

function compile(pattern: string, { dotAll = false, maxLength = MAX_PATTERN }: RegexOptions): RE2JS | string {
  if (pattern.length > maxLength) return `the pattern is longer than ${maxLength} characters`
  try {
    const program = RE2JS.compile(pattern, dotAll ? RE2JS.DOTALL : 0)
    return program.programSize() > MAX_PROGRAM
      ? 'the pattern is too large once its repetitions are written out'
      : program
  } catch (error) {
    if (error instanceof RE2JSException) return reasonFor(pattern)
    throw error
  }
}

/**
 * Cache of patterns known only at run time. Their number and size are bounded, because clients may influence them: compiling takes about
 * three microseconds per repeated character.
 */
export class RegexCache {
  readonly #compiled: LRUCache<string, CompiledRegex>

  /** `size`: maximum number of patterns. */
  constructor(size = 256) {
    this.#compiled = new LRUCache({ max: size })
  }

  /** Returns whether the pattern is cached. */
  knows(pattern: string): boolean {
    return this.#compiled.has(pattern)
  }

  get(pattern: string): CompiledRegex {
    const known = this.#compiled.get(pattern)
    if (known !== undefined) return known
    // Rejected without caching: unbounded keys would defeat the bound on the number of patterns.
    if (expandedSize(pattern) > MAX_DYNAMIC) {
      return { ok: false, message: 'the pattern is too large for one that is made while traffic passes' }
    }
    const compiled = compileRegex(pattern)
    this.#compiled.set(pattern, compiled)
    return compiled
  }
}

class Re2Regex implements Regex {
  readonly pattern: string
  readonly size: number
  readonly #program: RE2JS
  /** The text of a purely literal pattern. */
  readonly #literal: string | undefined
  #automaton: Automaton | undefined

  constructor(pattern: string, program: RE2JS) {
    this.pattern = pattern
    this.size = program.programSize()
    this.#program = program
    const { prefixComplete, prefix } = program.re2Input
    this.#literal = prefixComplete && typeof prefix === 'string' && prefix !== '' ? prefix : undefined
  }

  test(text: string): boolean {
    return this.testWithin(text, { budget: Number.POSITIVE_INFINITY }) === true
  }

  testWithin(text: string, meter: Meter): boolean | undefined {
    if (this.#literal !== undefined) return text.includes(this.#literal)
    return this.automaton.test(text, meter)
  }

  get automaton(): Automaton {
    this.#automaton ??= new Automaton(toProgram(this.#program.re2Input))
    return this.#automaton
  }

  exec(text: string): RegexMatch | undefined {
    const matcher = this.#program.matcher(text)
    if (!matcher.find()) return undefined
    const groups: string[] = []
    for (let i = 0; i <= matcher.groupCount(); i++) groups.push(matcher.group(i) ?? '')
    return { start: matcher.start(), end: matcher.end(), groups }
  }

  replaceAll(text: string, replacement: string, longest = Number.POSITIVE_INFINITY, shown = asItIs): string {
    return this.#replace(text, replacement, Number.POSITIVE_INFINITY, systemClock.monotonic() + longest, shown)
  }

  replaceFirst(text: string, replacement: string, shown = asItIs): string {
    return this.#replace(text, replacement, 1, Number.POSITIVE_INFINITY, shown)
  }

  #replace(text: string, replacement: string, times: number, end: number, shown: Shown): string {
    const matcher = this.#program.matcher(text)
    const names = this.#program.namedGroups()
    let replaced = ''
    let from = 0
    for (let i = 0; i < times && matcher.find(); i++) {
      if (systemClock.monotonic() > end) throw new RegexTooSlow()
      replaced += shown(text.slice(from, matcher.start()), from)
      replaced += replacement.replace(GROUP, (_, dollar, digits, braced, angled) => {
        if (dollar !== undefined) return '$'
        const name: string = digits ?? braced ?? angled
        const index = /^\d+$/.test(name) ? Number(name) : Object.hasOwn(names, name) ? names[name] : undefined
        const piece = index === undefined || index > matcher.groupCount() ? null : matcher.group(index)
        return piece === null || piece === undefined ? '' : shown(piece, matcher.start(index))
      })
      from = matcher.end()
    }
    return replaced + shown(text.slice(from), from)
  }
}

/** Step budget of the search for a text that two patterns share: some milliseconds. */
const SHARING = 300_000
/** Character classes beyond Latin-1, whose members are not enumerated. */
const LISTED_BY_NAME = /\\(?:[pP]|x\{)/
/** Representatives of all characters beyond Latin-1 in the search. */
const BEYOND = [0x3b1, 0x4e2d, 0xfffd, 0x1f600]

/**
 * Returns whether some text matches both patterns; undefined if the search takes too long or if a pattern uses character properties beyond
 * Latin-1.
 */
export function sharesText(one: Regex, other: Regex): boolean | undefined {
  if (!(one instanceof Re2Regex && other instanceof Re2Regex)) return undefined
  const patterns = one.pattern + other.pattern
  if (LISTED_BY_NAME.test(patterns)) return undefined
  const characters = new Set([...Array(256).keys(), ...BEYOND])
  for (const character of patterns) characters.add(character.codePointAt(0) as number)
  return one.automaton.sharesText(other.automaton, characters, { budget: SHARING })
}

/** Returns a pattern that matches exactly `text`. */
export function quotedPattern(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')
}

/** Returns the group references in a replacement: `$1`, `${name}`, `$<name>`. */
export function groupReferences(replacement: string): readonly string[] {
  return [...replacement.matchAll(GROUP)].filter(([, dollar]) => dollar === undefined).map(([written]) => written)
}

/**
 * Replaces `${1}` and `${name}` for groups of the pattern, as in Go and Traefik, by `$<1>` and `$<name>`, because `${…}` is an expression
 * here. Lengths and offsets do not change.
 */
export function withGroupReferences(replacement: string, pattern: string | undefined): string {
  const names = pattern === undefined || !compileRegex(pattern).ok ? {} : RE2JS.compile(pattern).namedGroups()
  return replacement.replace(/(\$\$)|\$\{(\w+)\}/g, (written, _dollar, name) => {
    if (name === undefined) return written
    return /^\d{1,2}$/.test(name) || Object.hasOwn(names, name) ? `$<${name}>` : written
  })
}

const FOREIGN_REFERENCES: readonly (readonly [RegExp, (group: string) => string])[] = [
  // sed, Apache, Python
  [/\\([0-9])/, (group) => `$${group}`],
  [/\\g<(\w+)>/, toReference],
  // JavaScript, .NET
  [/(?<!\$)\$&/, () => '$0'],
  [/(?<!\$)\{([0-9])\}/, (group) => `$${group}`],
  // IIS, Caddy
  [/\{R:([0-9])\}/, (group) => `$${group}`],
  [/\{(?:http\.regexp|re)\.(?:\w+\.)?(\w+)\}/, toReference],
  // Kong
  [/\$\(uri_captures\[['"]?(\w+)['"]?\]\)/, toReference],
  // Apache
  [/%\{([A-Z_]+)\}/, () => '${…} with an expression'],
  [/%([1-9])(?![0-9A-Fa-f])/, (group) => `$${group}`]
]

function toReference(group: string): string {
  return /^\d/.test(group) ? `$${group}` : `$<${group}>`
}

/** Finds a group reference of another program, and returns the equivalent; undefined without one. */
export function foreignReference(
  replacement: string
): { readonly written: string; readonly right: string } | undefined {
  for (const [pattern, right] of FOREIGN_REFERENCES) {
    const found = pattern.exec(replacement)
    if (found !== null) return { written: found[0], right: right(found[1] as string) }
  }
  return undefined
}

/** Returns the references in a replacement to groups that `pattern` (RE2 syntax) does not have; empty for an invalid pattern. */
export function missingGroups(pattern: string, replacement: string): readonly string[] {
  const written = groupReferences(replacement)
  if (written.length === 0 || !compileRegex(pattern).ok) return []
  const program = RE2JS.compile(pattern)
  const names = program.namedGroups()
  return written.filter((reference) => {
    const name = reference.replace(/[${}<>]/g, '')
    return /^\d+$/.test(name) ? Number(name) > program.groupCount() : !Object.hasOwn(names, name)
  })
}

/** Returns an upper bound of a pattern's size with its counted repetitions expanded. */
function expandedSize(pattern: string): number {
  let size = pattern.length
  for (const [, low, high] of pattern.matchAll(/\{(\d+)(?:,(\d*))?\}/g))
    size *= Math.max(1, Number(low), Number(high ?? 0))
  return size
}

/** Explains why RE2 rejects `pattern`: mostly because of constructs of other dialects. */
function reasonFor(pattern: string): string {
  if (/\(\?<?[=!]/.test(pattern)) return 'look-ahead and look-behind are not part of RE2 syntax'
  if (/\\[1-9]/.test(pattern)) return 'back-references are not part of RE2 syntax'
  if (/\(\?>|[+*?}]\+/.test(pattern)) return 'possessive and atomic groups are not part of RE2 syntax'
  return 'the pattern is not valid RE2 syntax'
}
