import { parseDuration, parseSize } from '../lib/units.js'
import { FORMS } from './formats.js'
import { type Schema, wordsOf } from './schema.js'

/** One violation of a schema, without text: each reader (policies, API, options) has its own messages. */
export type Finding =
  /** A value of another type, or a number that cannot be represented exactly. */
  | { readonly rule: 'kind' }
  | { readonly rule: 'words'; readonly words: readonly unknown[] }
  | { readonly rule: 'bytes'; readonly most: number }
  | { readonly rule: 'shortest'; readonly least: number; readonly given: number }
  | { readonly rule: 'longest'; readonly most: number; readonly given: number }
  | { readonly rule: 'pattern'; readonly pattern: string }
  /** `allowed` describes the form, such as "must be a URL with http or https". */
  | { readonly rule: 'form'; readonly allowed: string }
  /** Outside the bounds of a number, a duration or a size. */
  | { readonly rule: 'range' }
  | { readonly rule: 'multiple'; readonly of: number }
  | { readonly rule: 'fewest'; readonly least: number; readonly given: number; readonly exact: boolean }
  | { readonly rule: 'most'; readonly most: number; readonly given: number; readonly exact: boolean }
  /** Two items of a list are equal; indexes from 0. */
  | { readonly rule: 'repeated'; readonly first: number; readonly second: number }

/** Result of a check. `value` is normalized (a duration in milliseconds, a size in bytes) and valid only without findings. */
export interface Checked {
  readonly value: unknown
  readonly findings: readonly Finding[]
}

/** Checks a string, number or boolean against its schema. For lists and maps use `countFindings` and `repeatFindings`, and check each entry. */
export function checkScalar(schema: Schema, written: unknown): Checked {
  const value = inSeconds(schema, written)
  const words = wordsOf(schema)
  if (words !== undefined) return { value, findings: words.includes(value) ? [] : [{ rule: 'words', words }] }
  if (schema['x-kind'] === 'duration') return checkDuration(schema, value)
  // A plain number is a number of bytes.
  if (schema['x-kind'] === 'size') return checkQuantity(schema, typeof value === 'string' ? parseSize(value) : value)
  switch (schema.type) {
    case 'string':
      return typeof value === 'string' ? checkText(schema, value) : wrongKind(value)
    case 'integer':
      return Number.isSafeInteger(value)
        ? { value, findings: numberFindings(schema, value as number) }
        : wrongKind(value)
    case 'number':
      return Number.isFinite(value) ? { value, findings: numberFindings(schema, value as number) } : wrongKind(value)
    case 'boolean':
      return typeof value === 'boolean' ? { value, findings: [] } : wrongKind(value)
    case 'null':
      return value === null ? { value, findings: [] } : wrongKind(value)
    default:
      return { value, findings: [] }
  }
}

function wrongKind(value: unknown): Checked {
  return { value, findings: [{ rule: 'kind' }] }
}

/** Checks a duration, or a number of seconds; the value is in milliseconds. */
function checkDuration(schema: Schema, value: unknown): Checked {
  const isWritten = typeof value === 'string' || typeof value === 'number'
  return checkQuantity(schema, isWritten ? parseDuration(String(value)) : undefined)
}

/** Converts a duration to seconds if the schema counts seconds; returns other values unchanged. */
function inSeconds(schema: Schema, value: unknown): unknown {
  if (schema['x-unit'] !== 'seconds' || typeof value !== 'string') return value
  const milliseconds = parseDuration(value)
  return milliseconds === undefined ? value : milliseconds / 1000
}

function checkQuantity(schema: Schema, value: unknown): Checked {
  if (typeof value !== 'number') return wrongKind(value)
  const { 'x-min': min = 0, 'x-max': max = Number.MAX_SAFE_INTEGER, 'x-multiple': multiple = 1 } = schema
  if (!(value >= min && value <= max)) return { value, findings: [{ rule: 'range' }] }
  return { value, findings: value % multiple === 0 ? [] : [{ rule: 'multiple', of: multiple }] }
}

function checkText(schema: Schema, text: string): Checked {
  const { minLength = 0, maxLength = Number.POSITIVE_INFINITY, pattern, 'x-max-bytes': bytes, 'x-form': form } = schema
  const findings: Finding[] = []
  if (bytes !== undefined && Buffer.byteLength(text) > bytes) findings.push({ rule: 'bytes', most: bytes })
  const length = text.length > maxLength || text.length < minLength * 2 ? characters(text) : text.length
  if (length < minLength) findings.push({ rule: 'shortest', least: minLength, given: length })
  if (length > maxLength) findings.push({ rule: 'longest', most: maxLength, given: length })
  if (pattern !== undefined && !new RegExp(pattern, 'u').test(text)) findings.push({ rule: 'pattern', pattern })
  // Form readers receive only texts of allowed length.
  if (form === undefined || findings.length > 0) return { value: text, findings }
  const formed = FORMS[form](text)
  return formed.ok
    ? { value: formed.text, findings }
    : { value: text, findings: [{ rule: 'form', allowed: formed.refused }] }
}

function characters(text: string): number {
  let count = 0
  for (const _ of text) count++
  return count
}

function numberFindings(schema: Schema, value: number): readonly Finding[] {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = schema
  const outside =
    (minimum !== undefined && value < minimum) ||
    (maximum !== undefined && value > maximum) ||
    (exclusiveMinimum !== undefined && value <= exclusiveMinimum) ||
    (exclusiveMaximum !== undefined && value >= exclusiveMaximum)
  if (outside) return [{ rule: 'range' }]
  return multipleOf !== undefined && value % multipleOf !== 0 ? [{ rule: 'multiple', of: multipleOf }] : []
}

/** Checks the number of entries of a list or map. */
export function countFindings(schema: Schema, count: number): readonly Finding[] {
  const least = schema.minItems ?? schema.minProperties ?? 0
  const most = schema.maxItems ?? schema.maxProperties ?? Number.POSITIVE_INFINITY
  const exact = least === most
  if (count < least) return [{ rule: 'fewest', least, given: count, exact }]
  return count > most ? [{ rule: 'most', most, given: count, exact }] : []
}

/** Finds the first repeated item if the schema requires distinct items. */
export function repeatFindings({ uniqueItems }: Schema, items: readonly unknown[]): readonly Finding[] {
  if (uniqueItems !== true) return []
  const seen = new Map<string, number>()
  for (const [second, item] of items.entries()) {
    const text = JSON.stringify(item)
    const first = seen.get(text)
    if (first !== undefined) return [{ rule: 'repeated', first, second }]
    seen.set(text, second)
  }
  return []
}
