import { didYouMean } from '../lib/suggest.js'
import { formatDuration } from '../lib/units.js'
import { checkScalar, countFindings, type Finding, repeatFindings } from '../schema/constraints.js'
import { type Schema, wordsOf } from '../schema/schema.js'

/** Returns a noun phrase for the values that a schema accepts. */
export function describe(schema: Schema): string {
  const branches = schema.anyOf ?? schema.oneOf
  if (branches !== undefined) return describeBranches(branches)
  const words = wordsOf(schema)
  if (words !== undefined) return describeWords(words)
  if (schema.type === 'array')
    return schema.items === undefined ? 'a list' : `a list (each item ${describe(schema.items)})`
  if (schema.type === 'integer' || schema.type === 'number') return describeNumber(schema)
  if (schema['x-kind'] === 'duration') return 'a duration such as 90s'
  if (schema['x-kind'] === 'expression') return 'a CEL expression'
  if (schema['x-kind'] === 'regex') return 'a regular expression'
  return schema.type === undefined ? 'a value' : KINDS[schema.type]
}

const MAX_QUOTE = 60
const MAX_WORDS = 24
const KINDS = {
  string: 'a text',
  number: 'a number',
  integer: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'a map',
  null: 'null'
}

/** Branches that exist only for a better message are not suggested. */
export function describeBranches(branches: readonly Schema[]): string {
  const advised = branches.filter(({ deprecated }) => deprecated !== true)
  return [...new Set((advised.length > 0 ? advised : branches).map(describe))].join(' or ')
}

function describeWords(words: readonly unknown[]): string {
  if (words.length === 1) return quote(words[0])
  if (words.length <= MAX_WORDS) return `one of ${words.map(quote).join(', ')}`
  return `one of ${words.length} words such as ${words.slice(0, 8).map(quote).join(', ')} (sluice schema lists them all)`
}

function describeNumber({ type, minimum, maximum }: Schema): string {
  const kind = type === 'integer' ? 'a whole number' : 'a number'
  if (minimum !== undefined && maximum !== undefined) return `${kind} from ${minimum} to ${maximum}`
  if (minimum !== undefined) return `${kind} of at least ${minimum}`
  return maximum === undefined ? kind : `${kind} of at most ${maximum}`
}

/** Returns all violations of a text, number or boolean. `written`: its characters in the document. */
export function scalarProblems(schema: Schema, value: unknown, written: string): string[] {
  return checkScalar(schema, value).findings.map((finding) => say(finding, schema, written, 'item'))
}

export function listProblems(schema: Schema, list: readonly unknown[]): string[] {
  const findings = [...countFindings(schema, list.length), ...repeatFindings(schema, list)]
  return findings.map((finding) => say(finding, schema, '', 'item'))
}

export function mapProblems(schema: Schema, map: object): string[] {
  return countFindings(schema, Object.keys(map).length).map((finding) => say(finding, schema, '', 'entry'))
}

/** Formats a finding as a message of `sluice check`. */
function say(finding: Finding, schema: Schema, written: string, noun: 'item' | 'entry'): string {
  switch (finding.rule) {
    case 'words':
      return `must be ${describe(schema)}, not ${quote(written)}${didYouMean(written, finding.words.filter(isText))}`
    case 'kind':
      if (isDuration(schema))
        return 'must be a duration such as 90s or 1h30m, with the units h, m, s, ms; a number without a unit counts seconds'
      return `must be ${describe(schema)}, not ${written}`
    case 'range':
      if (isDuration(schema)) return `must be ${describeSpan(schema)}, not ${written}`
      return `must be ${describeNumber(schema)}${describeEnds(schema)}, not ${written}`
    case 'multiple':
      return `must be a multiple of ${isDuration(schema) ? formatDuration(finding.of) : finding.of}, not ${written}`
    case 'bytes':
      return `must have at most ${finding.most} bytes`
    case 'shortest':
      return finding.least === 1 ? 'must not be empty' : `must have at least ${finding.least} characters`
    case 'longest':
      return `must have at most ${finding.most} characters, not ${finding.given}`
    case 'pattern':
      return `must match the pattern ${finding.pattern}`
    case 'form':
      return finding.allowed
    case 'fewest': {
      const { least, given, exact } = finding
      if (exact) return `must have exactly ${counted(least, noun)}, not ${given}`
      return `must have at least ${counted(least, noun)}${given === 0 ? '' : `, not ${given}`}`
    }
    case 'most':
      return `must have ${finding.exact ? 'exactly' : 'at most'} ${counted(finding.most, noun)}, not ${finding.given}`
    case 'repeated':
      // Items may be secrets, so the message gives their positions.
      return `must not repeat an item: item ${finding.second} is the same as item ${finding.first}`
  }
}

function isDuration(schema: Schema): boolean {
  return schema['x-kind'] === 'duration'
}

function describeSpan({ 'x-min': min = 0, 'x-max': max }: Schema): string {
  return max === undefined ? `at least ${formatDuration(min)}` : `from ${formatDuration(min)} to ${formatDuration(max)}`
}

function isText(word: unknown): word is string {
  return typeof word === 'string'
}

function describeEnds({ exclusiveMinimum, exclusiveMaximum }: Schema): string {
  const above = exclusiveMinimum === undefined ? '' : `, more than ${exclusiveMinimum}`
  const below = exclusiveMaximum === undefined ? '' : `, less than ${exclusiveMaximum}`
  return `${above}${below}`
}

function counted(count: number, noun: 'item' | 'entry'): string {
  return `${count} ${count === 1 ? noun : noun === 'item' ? 'items' : 'entries'}`
}

function quote(word: unknown): string {
  if (typeof word !== 'string') return String(word)
  return word.length > MAX_QUOTE ? `"${word.slice(0, MAX_QUOTE)}…"` : `"${word}"`
}
