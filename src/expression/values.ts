import { Duration, UnsignedInt } from './cel-parser.js'
import { EvaluationError } from './expression.js'
import { charge, chargeForComparison, type Meter } from './state.js'

/**
 * Values of expressions in JavaScript: bigint (int), UnsignedInt (uint), number (double), string, boolean, null,
 * Uint8Array (bytes), Array (list), Map (map), Date (timestamp), Duration, and the engine's type values.
 */
export type TypeName =
  | 'int'
  | 'uint'
  | 'double'
  | 'string'
  | 'bool'
  | 'null_type'
  | 'bytes'
  | 'list'
  | 'map'
  | 'timestamp'
  | 'duration'
  | 'type'

/** Longest text that an expression may make, in UTF-16 units. */
export const MAX_TEXT = 1_048_576
/** Longest list that an expression may make. */
export const MAX_LIST = 100_000

/** The CEL type of a value in the representation of the engine. */
export function typeOf(value: unknown): TypeName {
  switch (typeof value) {
    case 'string':
      return 'string'
    case 'bigint':
      return 'int'
    case 'number':
      return 'double'
    case 'boolean':
      return 'bool'
    default:
      if (value === null) return 'null_type'
      if (Array.isArray(value)) return 'list'
      if (value instanceof Map) return 'map'
      if (value instanceof Uint8Array) return 'bytes'
      if (value instanceof Date) return 'timestamp'
      if (value instanceof Duration) return 'duration'
      if (value instanceof UnsignedInt) return 'uint'
      return 'type'
  }
}

/** Plain data in our representation: whole numbers become int, other numbers double, objects and lists are copied. */
export function engineValue(data: unknown): unknown {
  if (typeof data === 'number') return Number.isSafeInteger(data) ? BigInt(data) : data
  if (typeof data !== 'object' || data === null) return data
  if (Array.isArray(data)) return data.map(engineValue)
  if (data instanceof Map) return new Map([...data].map(([key, value]) => [key, engineValue(value)]))
  const prototype = Object.getPrototypeOf(data)
  if (prototype !== Object.prototype && prototype !== null) return data
  return new Map(Object.entries(data).map(([key, value]) => [key, engineValue(value)]))
}

/** A number given for a field of declared type `type`; other values as `engineValue` makes them. */
export function engineValueAs(type: string, data: unknown): unknown {
  if (typeof data === 'number') {
    if (type === 'double') return data
    if (type === 'int' && Number.isFinite(data)) return BigInt(Math.trunc(data))
  }
  return engineValue(data)
}

/**
 * CEL equality: numbers compare by value across their types, values of other different types are unequal. Takes from
 * `meter` what is compared: a list that stands in another many times is compared as many times.
 */
export function equals(a: unknown, b: unknown, meter: Meter = UNLIMITED): boolean {
  if (typeof a === 'string') {
    if (typeof b !== 'string' || a.length !== b.length) return false
    chargeForComparison(meter, a.length)
    return a === b
  }
  if (a === b) return true
  const type = typeOf(a)
  const other = typeOf(b)
  if (isNumber(type) && isNumber(other)) return order(numeric(a), numeric(b)) === 0
  if (type !== other) return false
  switch (type) {
    case 'list':
      return equalLists(a as readonly unknown[], b as readonly unknown[], meter)
    case 'map':
      return equalMaps(a as ReadonlyMap<unknown, unknown>, b as ReadonlyMap<unknown, unknown>, meter)
    case 'bytes':
      chargeForComparison(meter, (a as Uint8Array).length)
      return Buffer.compare(a as Uint8Array, b as Uint8Array) === 0
    case 'timestamp':
      return (a as Date).getTime() === (b as Date).getTime()
    case 'duration':
      return nanosOf(a as Duration) === nanosOf(b as Duration)
    default:
      return false
  }
}

const UNLIMITED: Meter = { budget: Number.POSITIVE_INFINITY }

function equalLists(a: readonly unknown[], b: readonly unknown[], meter: Meter): boolean {
  if (a.length !== b.length) return false
  charge(meter, 1)
  for (let i = 0; i < a.length; i++) {
    charge(meter, 1)
    if (!equals(a[i], b[i], meter)) return false
  }
  return true
}

function equalMaps(a: ReadonlyMap<unknown, unknown>, b: ReadonlyMap<unknown, unknown>, meter: Meter): boolean {
  if (a.size !== b.size) return false
  charge(meter, 1)
  for (const [key, value] of a) {
    charge(meter, 2)
    if (!b.has(key) || !equals(value, b.get(key), meter)) return false
  }
  return true
}

/** Order of two values of one ordered type (numbers of any type): negative, 0, positive, NaN; undefined when they have none. */
export function compare(a: unknown, b: unknown, meter: Meter = UNLIMITED): number | undefined {
  if (typeof a === 'string' && typeof b === 'string') {
    chargeForComparison(meter, Math.min(a.length, b.length))
    return compareText(a, b)
  }
  const type = typeOf(a)
  const other = typeOf(b)
  if (isNumber(type) && isNumber(other)) {
    const x = numeric(a)
    const y = numeric(b)
    // CEL orders integers and doubles as doubles.
    return typeof x === typeof y ? order(x, y) : order(Number(x), Number(y))
  }
  if (type !== other) return undefined
  switch (type) {
    case 'bool':
      return Number(a) - Number(b)
    case 'bytes':
      return Buffer.compare(a as Uint8Array, b as Uint8Array)
    case 'timestamp':
      return (a as Date).getTime() - (b as Date).getTime()
    case 'duration':
      return order(nanosOf(a as Duration), nanosOf(b as Duration))
    default:
      return undefined
  }
}

function order(a: bigint | number, b: bigint | number): number {
  return a < b ? -1 : a > b ? 1 : a >= b ? 0 : Number.NaN
}

/** By code points, which is not the order of UTF-16 units. */
export function compareText(a: string, b: string): number {
  const length = Math.min(a.length, b.length)
  for (let i = 0; i < length; i++) {
    const x = a.charCodeAt(i)
    const y = b.charCodeAt(i)
    if (x !== y) {
      const high = isSurrogate(x)
      return high === isSurrogate(y) ? x - y : high ? 1 : -1
    }
  }
  return a.length - b.length
}

function isSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdfff
}

export function isNumber(type: string): boolean {
  return type === 'int' || type === 'double' || type === 'uint'
}

/** The number of an int, uint or double. */
export function numeric(value: unknown): bigint | number {
  return value instanceof UnsignedInt ? value.value : (value as bigint | number)
}

/** A map key: numbers of equal value are one key, whatever their type. */
export function keyOf(value: unknown): unknown {
  if (value instanceof UnsignedInt) return value.value
  return typeof value === 'number' && Number.isInteger(value) ? BigInt(value) : value
}

/** The whole duration in nanoseconds. */
export function nanosOf(duration: Duration): bigint {
  return duration.seconds * 1_000_000_000n + BigInt(duration.nanos)
}

const MAX_DURATION_NANOS = 9_223_372_036_854_775_807n

/** A duration of `nanos`; seconds and nanoseconds have one sign. Beyond 64 bits of nanoseconds: failed. */
export function durationOf(nanos: bigint): Duration {
  if (nanos > MAX_DURATION_NANOS || nanos < -MAX_DURATION_NANOS)
    throw new EvaluationError('failed', 'duration out of range')
  return new Duration(nanos / 1_000_000_000n, Number(nanos % 1_000_000_000n))
}

/** A timestamp of the years 1 to 9999. */
export function timestampOf(milliseconds: number): Date {
  if (milliseconds >= -62_135_596_800_000 && milliseconds <= 253_402_300_799_999) return new Date(milliseconds)
  throw new EvaluationError('failed', 'timestamp out of range')
}

const BAD_KEY = new EvaluationError('failed', 'a map key must be a string, a number or a boolean')

/** `value` as the key of a new map. */
export function mapKey(value: unknown): unknown {
  const key = keyOf(value)
  if (typeof key === 'string' || typeof key === 'bigint' || typeof key === 'boolean') return key
  throw BAD_KEY
}
