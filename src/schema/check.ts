import type { TSchema } from 'typebox'
import { isObject } from '../lib/json.js'
import { checkScalar, countFindings, type Finding, repeatFindings } from './constraints.js'
import type { FieldCode } from './errors.js'
import type { Schema } from './schema.js'

export type Report = (at: string, code: FieldCode, message: string) => void

const UNPAIRED = /\p{Surrogate}|\0/u

/**
 * Checks a JSON value against its schema, for the management API. Reports every problem with the API's codes and messages; returns the
 * normalized value, or undefined after a report.
 */
export function checkValue(declared: TSchema | Schema, value: unknown, at: string, report: Report): unknown {
  const schema = declared as Schema
  if (schema.enum === undefined && schema.type === 'array') return checkList(schema, value, at, report)
  if (schema.enum === undefined && schema.type === 'object') return checkMap(schema, value, at, report)
  // A store would not return an unpaired surrogate unchanged.
  if (schema.type === 'string' && typeof value === 'string' && UNPAIRED.test(value)) {
    report(at, 'FIELD_INVALID', 'must be Unicode text without NUL')
    return undefined
  }
  const { value: read, findings } = checkScalar(schema, value)
  const [first] = findings
  if (first === undefined) return read
  report(at, ...say(first, schema))
  return undefined
}

function checkList(schema: Schema, value: unknown, at: string, report: Report): unknown[] | undefined {
  if (!Array.isArray(value)) {
    report(at, 'FIELD_INVALID', 'must be a list')
    return undefined
  }
  if (isReported(countFindings(schema, value.length), schema, at, report)) return undefined
  const items = value.map((item, index) => checkValue(schema.items ?? {}, item, `${at}[${index}]`, report))
  if (items.includes(undefined)) return undefined
  return isReported(repeatFindings(schema, items), schema, at, report) ? undefined : items
}

function checkMap(schema: Schema, value: unknown, at: string, report: Report): object | undefined {
  if (!isObject(value)) {
    report(at, 'FIELD_INVALID', 'must be an object')
    return undefined
  }
  const entries = Object.entries(value)
  if (isReported(countFindings(schema, entries.length), schema, at, report)) return undefined
  const form = schema['x-key-form']
  const keys: Schema = { type: 'string', ...(form === undefined ? {} : { 'x-form': form }) }
  const values = typeof schema.additionalProperties === 'object' ? schema.additionalProperties : {}
  const read: [string, unknown][] = []
  for (const [key, item] of entries) {
    const place = `${at}.${key.slice(0, 64)}`
    const name = checkValue(keys, key, place, report)
    const entry = checkValue(values, item, place, report)
    if (name === undefined || entry === undefined) continue
    read.push([name as string, entry])
  }
  if (read.length < entries.length) return undefined
  if (new Set(read.map(([name]) => name)).size < read.length) {
    report(at, 'FIELD_INVALID', 'must not hold a name twice; names are compared in their normal form')
    return undefined
  }
  return Object.fromEntries(read)
}

function isReported(findings: readonly Finding[], schema: Schema, at: string, report: Report): boolean {
  for (const finding of findings) report(at, ...say(finding, schema))
  return findings.length > 0
}

const KINDS = { string: 'must be text', boolean: 'must be true or false', null: 'must be null' }

/** Returns the API's code and message for a finding. */
function say(finding: Finding, schema: Schema): readonly [code: FieldCode, message: string] {
  switch (finding.rule) {
    case 'kind':
      return ['FIELD_INVALID', sayKind(schema)]
    case 'range':
      return ['FIELD_INVALID', sayNumber(schema)]
    case 'words':
      return ['FIELD_INVALID', `must be ${finding.words.length > 1 ? 'one of ' : ''}${finding.words.join(', ')}`]
    case 'bytes':
      return ['TOO_LONG', `must not be longer than ${finding.most} bytes`]
    case 'longest':
      return ['TOO_LONG', `must not be longer than ${finding.most} characters`]
    case 'shortest':
      return ['FIELD_INVALID', 'must not be empty']
    case 'pattern':
      return ['FIELD_INVALID', `must match the pattern ${finding.pattern}`]
    case 'form':
      return ['FIELD_INVALID', finding.allowed]
    case 'multiple':
      return ['FIELD_INVALID', `must be a multiple of ${finding.of}`]
    case 'fewest':
      return [
        'FIELD_INVALID',
        finding.least === 1 ? 'must not be empty' : `must have at least ${finding.least} entries`
      ]
    case 'most':
      return ['TOO_MANY', `must not have more than ${finding.most} entries`]
    case 'repeated':
      return ['FIELD_INVALID', 'must not hold an entry twice']
  }
}

function sayKind(schema: Schema): string {
  const { type } = schema
  return type === 'string' || type === 'boolean' || type === 'null' ? KINDS[type] : sayNumber(schema)
}

function sayNumber({ type, minimum, maximum, 'x-unit': unit }: Schema): string {
  const { NEGATIVE_INFINITY: least, POSITIVE_INFINITY: most } = Number
  const number = `must be a ${type === 'integer' ? 'whole ' : ''}number`
  const range = `from ${minimum ?? least} to ${maximum ?? most}`
  return unit === undefined ? `${number} ${range}` : `${number} of seconds ${range}, or a duration such as 10s`
}
