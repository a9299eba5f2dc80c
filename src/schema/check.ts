import type { TSchema } from 'typebox'
import { isObject } from '../lib/json.js'
import type { FieldCode } from './errors.js'
import { FORMS, type FormName } from './formats.js'

/** What field schemas may say; `checkValue` reads this much of JSON Schema and nothing else may be used. */
export interface ValueSchema {
  readonly type?: 'string' | 'integer' | 'number' | 'boolean' | 'array' | 'object'
  readonly enum?: readonly unknown[]
  readonly minLength?: number
  readonly maxLength?: number
  /** Length of the UTF-8 form. */
  readonly 'x-max-bytes'?: number
  /** What the text must be; its reader may put it into a normal form. */
  readonly 'x-form'?: FormName
  readonly minimum?: number
  readonly maximum?: number
  readonly items?: ValueSchema
  readonly minItems?: number
  readonly maxItems?: number
  readonly uniqueItems?: boolean
  /** Of a map from text to values of one kind. */
  readonly additionalProperties?: ValueSchema
  readonly minProperties?: number
  readonly maxProperties?: number
  readonly 'x-key-form'?: FormName
}

export type Report = (at: string, code: FieldCode, message: string) => void

const UNPAIRED = /\p{Surrogate}|\0/u

/** Reads `value` by its schema: every problem goes to `report`; the answer is its normal form, undefined after a report. */
export function checkValue(schema: TSchema | ValueSchema, value: unknown, at: string, report: Report): unknown {
  const rules = schema as ValueSchema
  if (rules.enum !== undefined) return checkWord(rules.enum, value, at, report)
  switch (rules.type) {
    case 'string':
      return checkText(rules, value, at, report)
    case 'array':
      return checkList(rules, value, at, report)
    case 'object':
      return checkMap(rules, value, at, report)
    case 'boolean':
      if (typeof value === 'boolean') return value
      report(at, 'FIELD_INVALID', 'must be true or false')
      return undefined
    default:
      return checkNumber(rules, value, at, report)
  }
}

function checkWord(words: readonly unknown[], value: unknown, at: string, report: Report): unknown {
  if (words.includes(value)) return value
  report(at, 'FIELD_INVALID', `must be ${words.length > 1 ? 'one of ' : ''}${words.join(', ')}`)
  return undefined
}

function checkText(schema: ValueSchema, value: unknown, at: string, report: Report): string | undefined {
  const refuse = (code: FieldCode, message: string) => {
    report(at, code, message)
    return undefined
  }
  if (typeof value !== 'string') return refuse('FIELD_INVALID', 'must be text')
  if (UNPAIRED.test(value)) return refuse('FIELD_INVALID', 'must be Unicode text without NUL')
  const bytes = schema['x-max-bytes']
  if (bytes !== undefined && Buffer.byteLength(value) > bytes) {
    return refuse('TOO_LONG', `must not be longer than ${bytes} bytes`)
  }
  const { maxLength, minLength = 0 } = schema
  if (maxLength !== undefined && value.length > maxLength && characters(value) > maxLength) {
    return refuse('TOO_LONG', `must not be longer than ${maxLength} characters`)
  }
  if (characters(value) < minLength) return refuse('FIELD_INVALID', 'must not be empty')
  const name = schema['x-form']
  if (name === undefined) return value
  const formed = FORMS[name](value)
  return formed.ok ? formed.text : refuse('FIELD_INVALID', formed.refused)
}

function characters(text: string): number {
  let count = 0
  for (const _ of text) count++
  return count
}

function checkNumber(schema: ValueSchema, value: unknown, at: string, report: Report): number | undefined {
  const { minimum = Number.NEGATIVE_INFINITY, maximum = Number.POSITIVE_INFINITY } = schema
  const whole = schema.type === 'integer'
  const fits = typeof value === 'number' && (whole ? Number.isSafeInteger(value) : Number.isFinite(value))
  if (fits && value >= minimum && value <= maximum) return value
  report(at, 'FIELD_INVALID', `must be a ${whole ? 'whole ' : ''}number from ${minimum} to ${maximum}`)
  return undefined
}

function checkList(schema: ValueSchema, value: unknown, at: string, report: Report): unknown[] | undefined {
  if (!Array.isArray(value)) {
    report(at, 'FIELD_INVALID', 'must be a list')
    return undefined
  }
  if (!checkCount(value.length, schema.minItems, schema.maxItems, at, report)) return undefined
  const items = value.map((item, index) => checkValue(schema.items ?? {}, item, `${at}[${index}]`, report))
  if (items.includes(undefined)) return undefined
  if (schema.uniqueItems === true && new Set(items).size < items.length) {
    report(at, 'FIELD_INVALID', 'must not hold an entry twice')
    return undefined
  }
  return items
}

function checkMap(schema: ValueSchema, value: unknown, at: string, report: Report): object | undefined {
  if (!isObject(value)) {
    report(at, 'FIELD_INVALID', 'must be an object')
    return undefined
  }
  const entries = Object.entries(value)
  if (!checkCount(entries.length, schema.minProperties, schema.maxProperties, at, report)) return undefined
  const form = schema['x-key-form']
  const read: [string, unknown][] = []
  for (const [key, item] of entries) {
    const place = `${at}.${key.slice(0, 64)}`
    const name = checkText(form === undefined ? {} : { 'x-form': form }, key, place, report)
    const entry = checkValue(schema.additionalProperties ?? {}, item, place, report)
    if (name === undefined || entry === undefined) continue
    read.push([name, entry])
  }
  if (read.length < entries.length) return undefined
  if (new Set(read.map(([name]) => name)).size < read.length) {
    report(at, 'FIELD_INVALID', 'must not hold a name twice; names are compared in their normal form')
    return undefined
  }
  return Object.fromEntries(read)
}

function checkCount(count: number, least = 0, most = Number.POSITIVE_INFINITY, at: string, report: Report): boolean {
  if (count < least)
    report(at, 'FIELD_INVALID', least === 1 ? 'must not be empty' : `must have at least ${least} entries`)
  if (count > most) report(at, 'TOO_MANY', `must not have more than ${most} entries`)
  return count >= least && count <= most
}
