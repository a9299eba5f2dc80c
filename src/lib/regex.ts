import { LRUCache } from 'lru-cache'
import { RE2JS, RE2JSException } from 're2js'
import { systemClock } from './clock.js'
import { Automaton, type Meter } from './regex-automaton.js'

/** First match of a pattern: code unit offsets and the text of each group, group 0 first; '' for a group that took no part. */
interface RegexMatch {
  readonly start: number
  readonly end: number
  readonly groups: readonly string[]
}

/** A compiled pattern of RE2 syntax: linear time, no look-around, no back-references. */
export interface Regex {
  readonly pattern: string
  /** Instructions of the compiled pattern. `exec` and the replacements take at most a nanosecond or two for each of them at each character. */
  readonly size: number
  /** True when the pattern matches anywhere in `text`. */
  test(text: string): boolean
  /** As `test`, at the cost of the work that it takes; undefined when the meter was used up before the answer was known. */
  testWithin(text: string, meter: Meter): boolean | undefined
  exec(text: string): RegexMatch | undefined
  /**
   * Every match replaced. `$1`, `${1}`, `${name}` and `$0` stand for groups, `$$` for a dollar; an unknown group is ''. One search
   * takes linear time, but each of many may look at the whole rest of the text: throws `RegexTooSlow` after `longest` milliseconds.
   */
  replaceAll(text: string, replacement: string, longest?: number, shown?: Shown): string
  replaceFirst(text: string, replacement: string, shown?: Shown): string
}

/** Puts another text in place of a piece of the searched text that begins at `start` and goes into the result. */
type Shown = (piece: string, start: number) => string

const asItIs: Shown = (piece) => piece

/** All matches of a text take longer than the caller allows. */
export class RegexTooSlow extends Error {
  constructor() {
    super('the matches take too long')
  }
}

export type CompiledRegex =
  | { readonly ok: true; readonly regex: Regex }
  | { readonly ok: false; readonly message: string }

/** Longest pattern accepted, in UTF-16 units. */
export const MAX_PATTERN = 4096
/** Largest compiled program: repetition makes short patterns large. */
const MAX_PROGRAM = 20_000
/** Largest `expandedSize` of a pattern that is compiled while traffic passes. */
const MAX_DYNAMIC = 2_048
const GROUP = /\$(?:(\$)|(\d{1,2})|\{(\w+)\}|<(\w+)>)/g

/** Compiles `pattern` (RE2 syntax), or says in one sentence what is wrong with it. */
export function compileRegex(pattern: string): CompiledRegex {
  if (pattern.length > MAX_PATTERN) {
    return { ok: false, message: `the pattern is longer than ${MAX_PATTERN} characters` }
  }
  try {
    const program = RE2JS.compile(pattern)
    if (program.programSize() > MAX_PROGRAM) {
      return { ok: false, message: 'the pattern is too large once its repetitions are written out' }
    }
    return { ok: true, regex: new Re2Regex(pattern, program) }
  } catch (error) {
    if (error instanceof RE2JSException) return { ok: false, message: reasonFor(pattern) }
    throw error
  }
}

/**
 * Patterns that are known at run time only, compiled once while they are in use. Their number is bounded, and so is the
 * size of each, because a client may have a hand in it: compiling takes about three microseconds per repeated character.
 */
export class RegexCache {
  readonly #compiled: LRUCache<string, CompiledRegex>

  /** `size` patterns are kept. */
  constructor(size = 256) {
    this.#compiled = new LRUCache({ max: size })
  }

  /** True when `get` need not compile. */
  knows(pattern: string): boolean {
    return this.#compiled.has(pattern)
  }

  get(pattern: string): CompiledRegex {
    const known = this.#compiled.get(pattern)
    if (known !== undefined) return known
    // Refused before it is kept: a key of unbounded length would make the bound on the number of patterns worthless.
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
  /** The text that the pattern is, when it is nothing else. */
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
    this.#automaton ??= new Automaton(this.#program.re2Input)
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

/** Steps of the search for a text that two patterns share: some milliseconds. */
const SHARING = 300_000
/** Classes of characters beyond Latin-1, whose members are not listed one by one. */
const LISTED_BY_NAME = /\\(?:[pP]|x\{)/
/** Characters that stand for all beyond Latin-1 in the search. */
const BEYOND = [0x3b1, 0x4e2d, 0xfffd, 0x1f600]

/**
 * Returns true if some text matches both patterns, searched anywhere, and false if none does; undefined where the search takes too long
 * or where a pattern names characters beyond Latin-1 by their properties.
 */
export function sharesText(one: Regex, other: Regex): boolean | undefined {
  if (!(one instanceof Re2Regex && other instanceof Re2Regex)) return undefined
  const patterns = one.pattern + other.pattern
  if (LISTED_BY_NAME.test(patterns)) return undefined
  const characters = new Set([...Array(256).keys(), ...BEYOND])
  for (const character of patterns) characters.add(character.codePointAt(0) as number)
  return one.automaton.sharesText(other.automaton, characters, { budget: SHARING })
}

/** `text` as a pattern that it alone matches. */
export function quotedPattern(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')
}

/** What stands for a group in a replacement: `$1`, `${name}`, `$<name>`. */
export function groupReferences(replacement: string): readonly string[] {
  return [...replacement.matchAll(GROUP)].filter(([, dollar]) => dollar === undefined).map(([written]) => written)
}

/**
 * A replacement with `$<1>` and `$<name>` in place of `${1}` and of `${name}` for groups of the pattern, as Go and Traefik write them: there
 * `${…}` is an expression. Each is as long as before, so offsets stay true.
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

/** A reference to a group as another program writes it, with what says the same here; undefined: there is none. */
export function foreignReference(
  replacement: string
): { readonly written: string; readonly right: string } | undefined {
  for (const [pattern, right] of FOREIGN_REFERENCES) {
    const found = pattern.exec(replacement)
    if (found !== null) return { written: found[0], right: right(found[1] as string) }
  }
  return undefined
}

/** What stands in a replacement for groups that `pattern` (RE2 syntax) does not have; nothing for a pattern that is wrong. */
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

/** An upper bound of a pattern's size when its counted repetitions are written out. */
function expandedSize(pattern: string): number {
  let size = pattern.length
  for (const [, low, high] of pattern.matchAll(/\{(\d+)(?:,(\d*))?\}/g))
    size *= Math.max(1, Number(low), Number(high ?? 0))
  return size
}

/** Why RE2 refuses `pattern`, in our words: most refusals are constructs that other dialects have. */
function reasonFor(pattern: string): string {
  if (/\(\?<?[=!]/.test(pattern)) return 'look-ahead and look-behind are not part of RE2 syntax'
  if (/\\[1-9]/.test(pattern)) return 'back-references are not part of RE2 syntax'
  if (/\(\?>|[+*?}]\+/.test(pattern)) return 'possessive and atomic groups are not part of RE2 syntax'
  return 'the pattern is not valid RE2 syntax'
}
