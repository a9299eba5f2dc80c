import { CidrSet, parseCidr } from '../../../lib/ip.js'
import type { NeedPlace } from '../../../lib/need-table.js'
import { type Need, rarestPart } from '../../../lib/regex-needs.js'
import { lowerText } from '../bytes.js'
import { detectSqli } from '../detect/sqli.js'
import { detectXss } from '../detect/xss.js'
import { MAX_PHRASE, parsePhraseFile, parsePhrases, searchPhrases } from '../phrases.js'
import { type OperatorUse, type Place, PlaceError } from '../seclang/rule.js'
import { compileByteRange, validateUrlEncoding, validateUtf8Encoding } from '../validators.js'
import { compileMacros, hasMacros, type Macro } from './macros.js'
import type { RuleTables } from './tables.js'
import type { Transaction } from './transaction.js'

/** Condition of a rule, compiled. */
export interface Matcher {
  /** Returns whether a value matches, before negation; keeps the match in TX if the rule captures. Throws `WorkExceeded`. */
  matches(text: string, transaction: Transaction): boolean
  /** Needs of every match; without any if undefined. */
  readonly needs?: readonly NeedPlace[] | undefined
  /** Returns false if no value of a text joined by line breaks matches. Undefined if joined values cannot be tested. */
  readonly mayMatch?: ((joined: string, transaction: Transaction) => boolean) | undefined
}

/** Context for compiling an operator. */
export interface OperatorScope {
  readonly place: Place
  readonly captures: boolean
  readonly rule: { readonly id: number; readonly severity: string }
  readonly tables: RuleTables
  /** Returns the text of a data file beside the rules; undefined if it does not exist. */
  data(name: string): string | undefined
}

type Compile = (argument: string, scope: OperatorScope) => Matcher

/** Steps for each character of the detection of SQL injection and of scripts. */
const DETECTION_COST = 16

/** Compiles an operator. Throws `PlaceError`. */
export function compileOperator({ name, argument }: OperatorUse, scope: OperatorScope): Matcher {
  const compile = OPERATORS[name.toLowerCase()]
  if (compile === undefined) throw new PlaceError(scope.place, `the operator @${name} is not known`)
  return compile(argument, scope)
}

const OPERATORS: Readonly<Record<string, Compile>> = {
  rx: compilePattern,
  pm: (argument, scope) => phraseMatcher(`pm ${argument}`, () => parsePhrases(argument), scope),
  pmf: phrasesFromFile,
  pmfromfile: phrasesFromFile,
  streq: containing((value, argument) => value === argument),
  contains: containing((value, argument) => value.includes(argument)),
  beginswith: containing((value, argument) => value.startsWith(argument)),
  endswith: containing((value, argument) => value.endsWith(argument)),
  within: text((value, argument) => argument.includes(value)),
  eq: number((value, argument) => value === argument),
  ge: number((value, argument) => value >= argument),
  gt: number((value, argument) => value > argument),
  le: number((value, argument) => value <= argument),
  lt: number((value, argument) => value < argument),
  ipmatch: compileAddresses,
  validatebyterange: compileRange,
  validateurlencoding: (_, { tables }) => ({
    ...charged((value) => validateUrlEncoding(value) !== undefined),
    needs: tables.needs.places('validateUrlEncoding', () => [['%']])
  }),
  validateutf8encoding: () => charged((value) => validateUtf8Encoding(value) !== undefined),
  unconditionalmatch: () => ({ matches: () => true }),
  nomatch: () => ({ matches: () => false }),
  detectsqli: (_, { captures }) => ({
    matches: (value, transaction) => {
      transaction.spend(DETECTION_COST * (value.length + 1))
      const fingerprint = detectSqli(value)
      if (fingerprint !== undefined && captures) transaction.capture([fingerprint])
      return fingerprint !== undefined
    }
  }),
  detectxss: (_, { captures, tables }) => ({
    // Scripts are in elements or in attributes.
    needs: tables.needs.places('detectXSS', () => [['<', '=']]),
    matches: (value, transaction) => {
      transaction.spend(DETECTION_COST * (value.length + 1))
      const found = detectXss(value)
      if (found && captures) transaction.capture([value])
      return found
    }
  })
}

function compilePattern(argument: string, { place, captures, tables }: OperatorScope): Matcher {
  if (hasMacros(argument)) throw new PlaceError(place, 'a pattern cannot contain a macro')
  const pattern = tables.pattern(argument)
  if (typeof pattern === 'string') throw new PlaceError(place, pattern)
  return {
    matches: captures
      ? (value, transaction) => pattern.capture(value, transaction)
      : (value, transaction) => pattern.test(value, transaction),
    needs: tables.needs.places(`rx ${argument}`, () => pattern.findNeeds()),
    mayMatch: pattern.joins ? (joined, transaction) => pattern.mayMatch(joined, transaction) : undefined
  }
}

function phrasesFromFile(argument: string, scope: OperatorScope): Matcher {
  const read = () =>
    argument.split(/\s+/).flatMap((name) => {
      const content = scope.data(name)
      if (content === undefined)
        throw new PlaceError(scope.place, `the data file ${name} does not exist beside the rules`)
      return parsePhraseFile(content)
    })
  return phraseMatcher(`pmFromFile ${argument}`, read, scope)
}

function phraseMatcher(
  key: string,
  read: () => readonly string[],
  { place, captures, tables }: OperatorScope
): Matcher {
  const list = () => {
    const phrases = read()
    if (phrases.length === 0) throw new PlaceError(place, 'there is no phrase to look for')
    const long = phrases.find((phrase) => phrase.length > MAX_PHRASE)
    if (long === undefined) return phrases
    throw new PlaceError(place, `a phrase has ${long.length} characters, more than ${MAX_PHRASE}`)
  }
  const find = searchPhrases(tables.phrases(key, list))
  return {
    needs: tables.needs.places(key, () => [phraseNeed(list())]),
    matches: (value, transaction) => {
      transaction.spend(value.length + 1)
      const phrase = find(value)
      if (phrase !== undefined && captures) transaction.capture([phrase])
      return phrase !== undefined
    },
    mayMatch: (joined, transaction) => {
      transaction.spend(joined.length)
      return find(joined) !== undefined
    }
  }
}

/** Length of the parts of phrases that are looked for first. */
const PART = 4

/** Returns parts of phrases, of which every phrase contains one. */
function phraseNeed(phrases: readonly string[]): Need {
  return [...new Set(phrases.filter((phrase) => phrase !== '').map((phrase) => rarestPart(lowerText(phrase), PART)))]
}

/** An operator over two texts, the second of which may contain macros. */
function text(compare: (value: string, argument: string) => boolean): Compile {
  return (written, { rule, captures }) => {
    const argument = compileMacros(written, rule)
    return {
      matches: (value, transaction) => {
        transaction.spend(value.length + 1)
        const found = compare(value, argument(transaction))
        if (found && captures) transaction.capture([value])
        return found
      }
    }
  }
}

/** An operator over two texts that is true only if a value contains the second one. */
function containing(compare: (value: string, argument: string) => boolean): Compile {
  const compile = text(compare)
  return (written, scope) => ({
    ...compile(written, scope),
    needs:
      hasMacros(written) || written.length < PART
        ? undefined
        : scope.tables.needs.places(`text ${written}`, () => [phraseNeed([written])])
  })
}

/** An operator over two whole numbers, the second of which may be a macro. A text that is no number counts as 0. */
function number(compare: (value: number, argument: number) => boolean): Compile {
  return (written, { rule, place }) => {
    if (!hasMacros(written)) {
      if (!/^[+-]?\d+$/.test(written)) throw new PlaceError(place, `"${written}" is not a whole number`)
      const argument = Number(written)
      return { matches: (value) => compare(toNumber(value), argument) }
    }
    const argument: Macro = compileMacros(written, rule)
    return { matches: (value, transaction) => compare(toNumber(value), toNumber(argument(transaction))) }
  }
}

/** Returns the whole number at the start of a text, 0 without one. */
export function toNumber(text: string): number {
  const number = Number.parseInt(text, 10)
  return Number.isNaN(number) ? 0 : number
}

function compileAddresses(argument: string, { place }: OperatorScope): Matcher {
  const networks = argument.split(',').map((word) => {
    const network = parseCidr(word.trim())
    if (network === undefined) throw new PlaceError(place, `"${word.trim()}" is neither an address nor a network`)
    return network
  })
  const set = new CidrSet(networks)
  return {
    matches: (value) => set.match(value) !== undefined
  }
}

function compileRange(argument: string, { place, tables }: OperatorScope): Matcher {
  try {
    const firstOutside = compileByteRange(argument)
    const matcher = charged((value) => firstOutside(value) !== undefined)
    const outside = ALL_BYTES.filter((byte) => firstOutside(byte) !== undefined)
    if (outside.length > MAX_OUTSIDE) return matcher
    return { ...matcher, needs: tables.needs.places(`validateByteRange ${argument}`, () => [outside.map(lowerText)]) }
  } catch (error) {
    throw error instanceof RangeError ? new PlaceError(place, error.message) : error
  }
}

/** Maximum number of bytes that are looked for in the search for needs. */
const MAX_OUTSIDE = 8
/** Texts of one byte. */
const ALL_BYTES: readonly string[] = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(byte))

/** A matcher that reads a value once. */
function charged(matches: (value: string) => boolean): Matcher {
  return {
    matches: (value, transaction) => {
      transaction.spend(value.length + 1)
      return matches(value)
    }
  }
}
