/**
 * What the engine's values are. The engine's own classes (unsigned integers, durations, types) are recognised by their
 * shape, so that the functions do not depend on the engine; data of a client is always a plain object or a `Map` and
 * cannot be taken for one of them.
 */
export type Kind =
  | 'null'
  | 'bool'
  | 'int'
  | 'uint'
  | 'double'
  | 'string'
  | 'bytes'
  | 'list'
  | 'map'
  | 'timestamp'
  | 'duration'
  | 'type'
  | 'unknown'

interface Uint {
  readonly value: bigint
}

interface Duration {
  readonly seconds: bigint
  readonly nanos: number
}

interface Type {
  readonly name: string
}

/** The CEL type of a value of the engine; `unknown` for what no function can work with. */
export function kindOf(value: unknown): Kind {
  switch (typeof value) {
    case 'string':
      return 'string'
    case 'bigint':
      return 'int'
    case 'number':
      return 'double'
    case 'boolean':
      return 'bool'
    case 'object':
      return value === null ? 'null' : objectKind(value)
    default:
      return 'unknown'
  }
}

function objectKind(value: object): Kind {
  if (Array.isArray(value) || value instanceof Set) return 'list'
  if (value instanceof Map) return 'map'
  if (value instanceof Uint8Array) return 'bytes'
  if (value instanceof Date) return 'timestamp'
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype === null || prototype === Object.prototype) return 'map'
  if ('value' in value && typeof value.value === 'bigint') return 'uint'
  if ('seconds' in value && typeof value.seconds === 'bigint' && 'nanos' in value) return 'duration'
  if ('name' in value && typeof value.name === 'string' && String(value) === `Type<${value.name}>`) return 'type'
  return 'unknown'
}

/** The number of an `int` or `uint`, whose kind is known. */
export function integerOf(value: unknown): bigint {
  return typeof value === 'bigint' ? value : (value as Uint).value
}

/** Length of a `duration` in nanoseconds. */
export function nanosOf(value: unknown): bigint {
  const duration = value as Duration
  return duration.seconds * 1_000_000_000n + BigInt(duration.nanos)
}

/** Name of a `type`, as CEL writes it. */
export function typeNameOf(value: unknown): string {
  const { name } = value as Type
  return name === 'null' ? 'null_type' : name
}

/** Items of a `list`. */
export function itemsOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [...(value as Set<unknown>)]
}

/** Keys and values of a `map`. */
export function entriesOf(value: unknown): readonly (readonly [unknown, unknown])[] {
  return value instanceof Map ? [...value] : Object.entries(value as Record<string, unknown>)
}

/** A map key as text, or undefined when the value cannot be a key. */
export function keyText(key: unknown): string | undefined {
  switch (kindOf(key)) {
    case 'string':
      return key as string
    case 'bool':
    case 'double':
      return String(key)
    case 'int':
    case 'uint':
      return String(integerOf(key))
    default:
      return undefined
  }
}

/** `2009-02-13T23:31:30Z`, with as many digits of the fraction as are not zero (RFC 3339). */
export function timestampText(value: Date): string {
  return value.toISOString().replace(/\.?0*Z$/, 'Z')
}

/** Seconds with a fraction of up to nine digits and `s`: `-1.5s`. */
export function durationText(value: unknown): string {
  const nanos = nanosOf(value)
  const size = nanos < 0n ? -nanos : nanos
  const fraction = String(size % 1_000_000_000n)
    .padStart(9, '0')
    .replace(/0+$/, '')
  return `${nanos < 0n ? '-' : ''}${size / 1_000_000_000n}${fraction === '' ? '' : `.${fraction}`}s`
}
