import { isObject } from '../lib/json.js'
import { type FieldCode, fieldErrors } from '../schema/errors.js'
import { ControlError } from './errors.js'

/*
 * Bodies that are no record of a resource. What reads them fails with a ControlError `FIELD_INVALID`, `FIELD_REQUIRED` or
 * `FIELD_UNKNOWN`.
 */

/** Characters of a name. */
export const LONGEST_NAME = 1_024

/** The members of an object, each one of `known`. `at`: its path, '' for the body itself. */
export function membersOf(value: unknown, at: string, known: readonly string[]): Record<string, unknown> {
  if (!isObject(value)) throw refused('FIELD_INVALID', at, 'must be an object')
  const other = Object.keys(value).find((key) => !known.includes(key))
  if (other === undefined) return value
  const field = at === '' ? other.slice(0, 64) : `${at}.${other.slice(0, 64)}`
  throw refused('FIELD_UNKNOWN', field, `is not known; there are ${known.join(', ')}`)
}

/** A list; one that is missing is empty. */
export function listOf(value: unknown, at: string): readonly unknown[] {
  if (value === undefined || value === null) return []
  if (!Array.isArray(value)) throw refused('FIELD_INVALID', at, 'must be a list')
  return value
}

/** A text that must be there. */
export function textOf(value: unknown, at: string): string {
  if (value === undefined) throw refused('FIELD_REQUIRED', at, 'is missing')
  if (typeof value !== 'string' || value.includes('\0')) throw refused('FIELD_INVALID', at, 'must be text without NUL')
  return value
}

/** A text of 1 to 1,024 characters that must be there. */
export function nameOf(value: unknown, at: string): string {
  const name = textOf(value, at)
  if (name === '' || name.length > LONGEST_NAME) {
    throw refused('FIELD_INVALID', at, `must have 1 to ${LONGEST_NAME} characters`)
  }
  return name
}

/** Returns the error for a rejected field; it does not repeat the value. */
export function refused(code: FieldCode, field: string, message: string): ControlError {
  return new ControlError(fieldErrors[code], field === '' ? `the body ${message}` : `${field} ${message}`, { field })
}

/** Reads an integer within limits; `absent` is the default. */
export function countOf(value: unknown, at: string, bounds: { least: number; most: number; absent: number }): number {
  if (value === undefined || value === null) return bounds.absent
  if (typeof value !== 'number' || !Number.isInteger(value) || value < bounds.least || value > bounds.most)
    throw refused('FIELD_INVALID', at, `must be a whole number from ${bounds.least} to ${bounds.most}`)
  return value
}

/** Reads one of several words; `absent` is the default. */
export function wordOf<W extends string>(value: unknown, at: string, words: readonly W[], absent: W): W {
  if (value === undefined || value === null) return absent
  const word = words.find((one) => one === value)
  if (word === undefined) throw refused('FIELD_INVALID', at, `must be one of ${words.join(', ')}`)
  return word
}

/** An absolute http or https URL: the member `url`. */
export function urlOf(value: unknown): URL {
  const url = textOf(value, 'url')
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
    throw refused('FIELD_INVALID', 'url', 'must be an absolute http or https URL')
  return new URL(url)
}

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/

/** A method of HTTP: the member `method`. */
export function methodOf(value: unknown): string {
  const method = textOf(value, 'method')
  if (!TOKEN.test(method)) throw refused('FIELD_INVALID', 'method', 'must be a method of HTTP')
  return method
}

/** Reads the values of one field; `at`: its position in the body. */
export function fieldValuesOf(name: string, given: unknown, at: string): string[] {
  if (!TOKEN.test(name)) throw refused('FIELD_INVALID', at, 'must be the name of a field')
  return (Array.isArray(given) ? given : [given]).map((one) => {
    const value = textOf(one, at)
    if (/[\r\n]/.test(value)) throw refused('FIELD_INVALID', at, 'must be one line')
    return value
  })
}
