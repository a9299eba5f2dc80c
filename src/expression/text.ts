import { Duration } from './cel-parser.js'
import { EvaluationError } from './expression.js'
import { MAX_TEXT, nanosOf, typeOf } from './values.js'

/** Most items of lists and maps that one text shows: writing them takes some 10 ms. */
const MAX_ITEMS = 100_000
/** Number of items that an expensive value counts as. */
const WEIGHT = { nested: 3, entry: 6, number: 4, time: 8 } as const
const TOO_MUCH = new EvaluationError(
  'failed',
  `a text would show more than ${MAX_ITEMS} items (entries of maps, times and fractions count several times) or ${MAX_TEXT} characters`
)

/** Remaining size of a text. */
export class Room {
  items = MAX_ITEMS + WEIGHT.nested
  characters = MAX_TEXT
}

/**
 * Throws `failed` when `value` is too much for a text. A list that stands in another many times counts as many times, so
 * that a few lists in each other cannot become a text of gigabytes.
 */
function checkRoom(value: unknown, room: Room): void {
  if (typeof value === 'string') room.characters -= value.length
  else if (typeof value === 'number') room.items -= WEIGHT.number
  else if (value instanceof Uint8Array) room.characters -= value.length
  else if (value instanceof Date || value instanceof Duration) room.items -= WEIGHT.time
  else if (Array.isArray(value)) {
    room.items -= value.length + WEIGHT.nested
    for (const item of value) {
      if (room.items < 0) break
      checkRoom(item, room)
    }
  } else if (value instanceof Map) {
    room.items -= value.size * WEIGHT.entry + WEIGHT.nested
    for (const [key, item] of value) {
      if (room.items < 0) break
      checkRoom(key, room)
      checkRoom(item, room)
    }
  }
  if (room.items < 0 || room.characters < 0) throw TOO_MUCH
}

function checked(value: unknown, room?: Room): unknown {
  if (typeof value === 'object') checkRoom(value, room ?? new Room())
  return value
}

/**
 * A value as text: lists joined by `,`, maps as JSON, timestamps RFC 3339, durations in seconds, bytes as UTF-8. Throws `failed`
 * when it is too much, for what a text has left where it has several parts.
 */
export function textOf(value: unknown, room?: Room): string {
  return textIn(checked(value, room))
}

function textIn(value: unknown): string {
  switch (typeOf(value)) {
    case 'string':
      return value as string
    case 'double':
      return doubleText(value as number)
    case 'null_type':
      return 'null'
    case 'bytes':
      return Buffer.from(value as Uint8Array).toString('utf8')
    case 'list':
      return (value as readonly unknown[]).map(textIn).join(',')
    case 'map':
      return JSON.stringify(dataIn(value))
    case 'timestamp':
      return timestampText(value as Date)
    case 'duration':
      return durationText(value as Duration)
    case 'type':
      return typeText(value as { readonly name: string })
    default:
      return String(value)
  }
}

/**
 * Converts a value to plain JSON data: integers as numbers if safe, else decimal text; bytes as base64; maps as objects. Throws `failed` if
 * too large.
 */
export function dataOf(value: unknown): unknown {
  return dataIn(checked(value))
}

function dataIn(value: unknown): unknown {
  switch (typeOf(value)) {
    case 'int':
    case 'uint': {
      const number = Number(value)
      return Number.isSafeInteger(number) ? number : String(value)
    }
    case 'double':
      return Number.isFinite(value) ? value : doubleText(value as number)
    case 'bytes':
      return Buffer.from(value as Uint8Array).toString('base64')
    case 'list':
      return (value as readonly unknown[]).map(dataIn)
    case 'map':
      return objectOf(value as ReadonlyMap<unknown, unknown>)
    case 'timestamp':
    case 'duration':
    case 'type':
      return textIn(value)
    default:
      return value
  }
}

/** An object whose keys are plain data, whatever they are called. */
function objectOf(map: ReadonlyMap<unknown, unknown>): Record<string, unknown> {
  const object: Record<string, unknown> = {}
  for (const [key, value] of map) {
    Object.defineProperty(object, textIn(key), {
      value: dataIn(value),
      enumerable: true,
      configurable: true,
      writable: true
    })
  }
  return object
}

/** Formats a double like CEL's `string(double)`. */
export function doubleText(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return '+Inf'
  if (value === Number.NEGATIVE_INFINITY) return '-Inf'
  return Object.is(value, -0) ? '-0' : String(value)
}

/** RFC 3339 in UTC, with milliseconds only when there are any. */
export function timestampText(value: Date): string {
  return value
    .toISOString()
    .replace('.000Z', 'Z')
    .replace(/(\.\d+?)0+Z$/, '$1Z')
}

/** Decimal seconds with the unit `s`. */
export function durationText(value: Duration): string {
  const nanos = nanosOf(value)
  const size = nanos < 0n ? -nanos : nanos
  const fraction = (size % 1_000_000_000n).toString().padStart(9, '0').replace(/0+$/, '')
  return `${nanos < 0n ? '-' : ''}${size / 1_000_000_000n}${fraction === '' ? '' : `.${fraction}`}s`
}

function typeText({ name }: { readonly name: string }): string {
  return name === 'null' ? 'null_type' : name
}
