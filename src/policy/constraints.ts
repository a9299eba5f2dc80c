import { didYouMean } from '../lib/suggest.js'
import type { Schema } from './shape.js'

/** What a schema takes, for the middle of a sentence. */
export function describe(schema: Schema): string {
  const branches = schema.anyOf ?? schema.oneOf
  if (branches !== undefined) return describeBranches(branches)
  const words = wordsOf(schema)
  if (words !== undefined) return describeWords(words)
  if (schema.type === 'array')
    return schema.items === undefined ? 'a list' : `a list (each item ${describe(schema.items)})`
  if (schema.type === 'integer' || schema.type === 'number') return describeNumber(schema)
  if (schema['x-sluice'] === 'duration') return 'a duration such as 90s'
  if (schema['x-sluice'] === 'expression') return 'a CEL expression'
  if (schema['x-sluice'] === 'regex') return 'a regular expression'
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

/** Branches that exist only for a better message are no advice. */
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

/** Everything that a text, number or truth value breaks. `written`: its characters in the document. */
export function checkScalar(schema: Schema, value: unknown, written: string): string[] {
  const words = wordsOf(schema)
  if (words !== undefined && !words.includes(value)) {
    const near = didYouMean(
      written,
      words.filter((word) => typeof word === 'string')
    )
    return [`must be ${describe(schema)}, not ${quote(written)}${near}`]
  }
  if (typeof value === 'number') return checkNumber(schema, value, written)
  return typeof value === 'string' ? checkText(schema, value) : []
}

function checkText({ minLength = 0, maxLength = Number.POSITIVE_INFINITY, pattern }: Schema, text: string): string[] {
  const problems: string[] = []
  const length = text.length > maxLength || text.length < minLength * 2 ? [...text].length : text.length
  if (length < minLength)
    problems.push(minLength === 1 ? 'must not be empty' : `must have at least ${minLength} characters`)
  if (length > maxLength) problems.push(`must have at most ${maxLength} characters, not ${length}`)
  if (pattern !== undefined && !new RegExp(pattern, 'u').test(text)) problems.push(`must match the pattern ${pattern}`)
  return problems
}

function checkNumber(schema: Schema, value: number, written: string): string[] {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = schema
  const range =
    (minimum !== undefined && value < minimum) ||
    (maximum !== undefined && value > maximum) ||
    (exclusiveMinimum !== undefined && value <= exclusiveMinimum) ||
    (exclusiveMaximum !== undefined && value >= exclusiveMaximum)
  if (range) {
    const above = exclusiveMinimum === undefined ? '' : `, more than ${exclusiveMinimum}`
    const below = exclusiveMaximum === undefined ? '' : `, less than ${exclusiveMaximum}`
    return [`must be ${describeNumber(schema)}${above}${below}, not ${written}`]
  }
  return multipleOf !== undefined && value % multipleOf !== 0
    ? [`must be a multiple of ${multipleOf}, not ${written}`]
    : []
}

export function checkList({ minItems, maxItems, uniqueItems }: Schema, list: readonly unknown[]): string[] {
  const problems = checkCount(list.length, minItems, maxItems, 'item')
  if (uniqueItems === true) {
    const seen = new Map<string, number>()
    for (const [index, item] of list.entries()) {
      const text = JSON.stringify(item)
      const before = seen.get(text)
      // Items may be secrets, so the message names places.
      if (before !== undefined)
        return [...problems, `must not repeat an item: item ${index} is the same as item ${before}`]
      seen.set(text, index)
    }
  }
  return problems
}

export function checkMap({ minProperties, maxProperties }: Schema, map: object): string[] {
  return checkCount(Object.keys(map).length, minProperties, maxProperties, 'entry')
}

function checkCount(count: number, min: number | undefined, max: number | undefined, noun: 'item' | 'entry'): string[] {
  const plural = noun === 'item' ? 'items' : 'entries'
  const say = (limit: number) => `${limit} ${limit === 1 ? noun : plural}`
  if (min !== undefined && min === max && count !== min) return [`must have exactly ${say(min)}, not ${count}`]
  if (min !== undefined && count < min) return [`must have at least ${say(min)}${count === 0 ? '' : `, not ${count}`}`]
  return max !== undefined && count > max ? [`must have at most ${say(max)}, not ${count}`] : []
}

function wordsOf(schema: Schema): readonly unknown[] | undefined {
  return schema.enum ?? (schema.const === undefined ? undefined : [schema.const])
}

function quote(word: unknown): string {
  if (typeof word !== 'string') return String(word)
  return word.length > MAX_QUOTE ? `"${word.slice(0, MAX_QUOTE)}…"` : `"${word}"`
}
