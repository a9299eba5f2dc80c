import type { Duration } from './cel-parser.js'
import { nanosOf, typeOf } from './values.js'

/** A value as text: lists joined by `,`, maps as JSON, timestamps RFC 3339, durations in seconds, bytes as UTF-8. */
export function textOf(value: unknown): string {
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
      return (value as readonly unknown[]).map(textOf).join(',')
    case 'map':
      return JSON.stringify(dataOf(value))
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

/** A value as plain JSON data: integers as numbers where safe, else decimal text; bytes as base64; maps as objects. */
export function dataOf(value: unknown): unknown {
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
      return (value as readonly unknown[]).map(dataOf)
    case 'map':
      return objectOf(value as ReadonlyMap<unknown, unknown>)
    case 'timestamp':
    case 'duration':
    case 'type':
      return textOf(value)
    default:
      return value
  }
}

/** An object whose keys are plain data, whatever they are called. */
function objectOf(map: ReadonlyMap<unknown, unknown>): Record<string, unknown> {
  const object: Record<string, unknown> = {}
  for (const [key, value] of map) {
    Object.defineProperty(object, textOf(key), {
      value: dataOf(value),
      enumerable: true,
      configurable: true,
      writable: true
    })
  }
  return object
}

/** As CEL's `string(double)` writes it. */
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
