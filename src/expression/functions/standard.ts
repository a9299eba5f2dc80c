import type { Duration, UnsignedInt } from '../cel-parser.js'
import { EvaluationError } from '../expression.js'
import { int64, uint64 } from '../operators.js'
import type { FunctionDefinition } from '../signatures.js'
import { doubleText, durationText, timestampText } from '../text.js'
import { durationOf, type TypeName, timestampOf, typeOf } from '../values.js'
import { failed as failedCall } from './bounds.js'

function failed(name: string): EvaluationError {
  return failedCall(`${name}() cannot convert this value`)
}

function identity(value: unknown): unknown {
  return value
}

/** In code points. */
function textSize(text: string): number {
  let size = text.length
  for (let i = 0; i < text.length - 1; i++) {
    const unit = text.charCodeAt(i)
    if (unit >= 0xd800 && unit <= 0xdbff && (text.charCodeAt(i + 1) & 0xfc00) === 0xdc00) {
      size--
      i++
    }
  }
  return size
}

/** Returns the result of `size`; undefined for a value without a size. */
export function sizeOf(value: unknown): number | undefined {
  if (Array.isArray(value) || value instanceof Uint8Array) return value.length
  if (typeof value === 'string') return textSize(value)
  return value instanceof Map ? value.size : undefined
}

function doubleToInteger(value: number, name: string): bigint {
  if (!Number.isFinite(value)) throw failed(name)
  return BigInt(Math.trunc(value))
}

/** CEL leaves the two ends of the range out: a double beyond ±2^63 may have been rounded to them. */
function doubleToInt(value: number): bigint {
  const integer = doubleToInteger(value, 'int')
  if (integer >= 9_223_372_036_854_775_807n || integer <= -9_223_372_036_854_775_808n) throw failed('int')
  return integer
}

const ZERO = 0x30
const MINUS = 0x2d
/** Digits of which a number holds every value. */
const SHORT = 15

function textToInt(text: string): bigint {
  if (text.length <= SHORT && text !== '' && text !== '-') {
    let value = 0
    const start = text.charCodeAt(0) === MINUS ? 1 : 0
    for (let i = start; i < text.length; i++) {
      const digit = text.charCodeAt(i) - ZERO
      if (digit < 0 || digit > 9) throw failed('int')
      value = value * 10 + digit
    }
    return BigInt(start === 1 ? -value : value)
  }
  if (!/^-?\d{1,19}$/.test(text)) throw failed('int')
  return int64(BigInt(text))
}

function textToUint(text: string): UnsignedInt {
  if (!/^\d{1,20}$/.test(text)) throw failed('uint')
  return uint64(BigInt(text))
}

const DOUBLE = /^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$/

function textToDouble(text: string): number {
  if (DOUBLE.test(text)) return Number(text)
  const special = /^([+-]?)(inf|infinity|nan)$/i.exec(text)
  if (special === null) throw failed('double')
  if (special[2]?.toLowerCase() === 'nan') return Number.NaN
  return special[1] === '-' ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY
}

function textToBool(text: string): boolean {
  if (['1', 't', 'true', 'TRUE', 'True'].includes(text)) return true
  if (['0', 'f', 'false', 'FALSE', 'False'].includes(text)) return false
  throw failed('bool')
}

function bytesToText(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw failed('string')
  }
}

const RFC3339 = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?(Z|[+-]\d{2}:\d{2})$/i

function textToTimestamp(text: string): Date {
  if (!RFC3339.test(text)) throw failed('timestamp')
  const milliseconds = Date.parse(text.toUpperCase())
  if (Number.isNaN(milliseconds)) throw failed('timestamp')
  // Date.parse takes the 30th of February for a day in March.
  const day = Number(text.slice(8, 10))
  if (day > new Date(Date.UTC(Number(text.slice(0, 4)), Number(text.slice(5, 7)), 0)).getUTCDate()) {
    throw failed('timestamp')
  }
  return timestampOf(milliseconds)
}

const UNITS = {
  h: 3_600_000_000_000n,
  m: 60_000_000_000n,
  s: 1_000_000_000n,
  ms: 1_000_000n,
  us: 1_000n,
  µs: 1_000n,
  ns: 1n
} as const
const DURATION = /^[+-]?((\d+(\.\d*)?|\.\d+)(h|ms|m|s|us|µs|ns))+$/
const DURATION_PART = /(\d*)(?:\.(\d*))?(h|ms|m|s|us|µs|ns)/g

function textToDuration(text: string): Duration {
  if (text === '0') return durationOf(0n)
  if (text.length > 100 || !DURATION.test(text)) throw failed('duration')
  let nanos = 0n
  for (const [, whole, fraction, unit] of text.matchAll(DURATION_PART)) {
    const size = UNITS[unit as keyof typeof UNITS]
    nanos += BigInt(whole || '0') * size
    const digits = (fraction ?? '').slice(0, 18)
    if (digits !== '') nanos += (BigInt(digits) * size) / 10n ** BigInt(digits.length)
  }
  return durationOf(text.startsWith('-') ? -nanos : nanos)
}

const conversions: readonly FunctionDefinition[] = [
  { signature: 'dyn(dyn): dyn', run: identity },
  { signature: 'bool(bool): bool', run: identity },
  { signature: 'bool(string): bool', run: textToBool },
  { signature: 'int(int): int', run: identity },
  { signature: 'int(uint): int', run: (value: UnsignedInt) => int64(value.value) },
  { signature: 'int(double): int', run: doubleToInt },
  { signature: 'int(string): int', run: textToInt },
  { signature: 'int(timestamp): int', run: (value: Date) => BigInt(Math.floor(value.getTime() / 1000)) },
  { signature: 'int(duration): int', run: (value: Duration) => value.seconds },
  { signature: 'uint(uint): uint', run: identity },
  { signature: 'uint(int): uint', run: uint64 },
  { signature: 'uint(double): uint', run: (value: number) => uint64(doubleToInteger(value, 'uint')) },
  { signature: 'uint(string): uint', run: textToUint },
  { signature: 'double(double): double', run: identity },
  { signature: 'double(int): double', run: Number },
  { signature: 'double(uint): double', run: (value: UnsignedInt) => Number(value.value) },
  { signature: 'double(string): double', run: textToDouble },
  { signature: 'string(string): string', run: identity },
  { signature: 'string(bool): string', run: String },
  { signature: 'string(int): string', run: String },
  { signature: 'string(uint): string', run: String },
  { signature: 'string(double): string', run: doubleText },
  { signature: 'string(bytes): string', run: bytesToText },
  { signature: 'string(timestamp): string', run: timestampText },
  { signature: 'string(duration): string', run: durationText },
  { signature: 'bytes(bytes): bytes', run: identity },
  { signature: 'bytes(string): bytes', run: (text: string) => new Uint8Array(Buffer.from(text, 'utf8')) },
  { signature: 'timestamp(timestamp): timestamp', run: identity },
  { signature: 'timestamp(string): timestamp', run: textToTimestamp },
  { signature: 'timestamp(int): timestamp', run: (seconds: bigint) => timestampOf(Number(seconds) * 1000) },
  { signature: 'duration(duration): duration', run: identity },
  { signature: 'duration(string): duration', run: textToDuration },
  { signature: 'duration(int): duration', run: (seconds: bigint) => durationOf(seconds * 1_000_000_000n) }
]

const sizes: readonly FunctionDefinition[] = ['string', 'bytes', 'list', 'map'].flatMap((type) =>
  [`size(${type}): int`, `${type}.size(): int`].map((signature) => ({
    signature,
    run: (value: unknown) => BigInt(sizeOf(value) as number)
  }))
)

/** The functions of the CEL standard library, but `matches` and `type`. */
export const standardFunctions: readonly FunctionDefinition[] = [
  ...conversions,
  ...sizes,
  { signature: 'string.startsWith(string): bool', run: (text: string, part: string) => text.startsWith(part) },
  { signature: 'string.endsWith(string): bool', run: (text: string, part: string) => text.endsWith(part) },
  { signature: 'string.contains(string): bool', run: (text: string, part: string) => text.includes(part) }
]

const LONG_NAMES: Readonly<Record<string, string>> = {
  timestamp: 'google.protobuf.Timestamp',
  duration: 'google.protobuf.Duration'
}

/** `type(value)`: the same value that the name of the type stands for. `typeValue` gives it by name. */
export function typeFunctions(typeValue: (name: string) => unknown): readonly FunctionDefinition[] {
  const known = new Map<TypeName, unknown>()
  return [
    {
      signature: 'type(dyn): type',
      run: (value: unknown) => {
        const name = typeOf(value)
        const type = known.get(name) ?? typeValue(LONG_NAMES[name] ?? name)
        known.set(name, type)
        return type
      }
    }
  ]
}

/** `matches`, whose calls `compile-calls.ts` compiles itself: their cost depends on the pattern. */
export const regexFunctions: readonly FunctionDefinition[] = [
  'string.matches(string): bool',
  'matches(string, string): bool'
].map((signature) => ({
  signature,
  run: () => {
    throw new Error('matches() is compiled apart')
  }
}))

const BAD_RANGE = new EvaluationError('failed', 'rand.int(min, max) takes 0 <= min <= max up to 2^53 - 1')

/** `rand.*` over `random`, which gives numbers in [0, 1). The ends of `rand.int` are both possible. */
export function randomFunctions(random: () => number): readonly FunctionDefinition[] {
  return [
    { signature: 'rand.double(): double', varies: true, run: () => random() },
    { signature: 'rand.int(): int', varies: true, run: () => (random() < 0.5 ? 0n : 1n) },
    {
      signature: 'rand.int(int, int): int',
      varies: true,
      run: (min: bigint, max: bigint) => {
        if (min < 0n || max < min || max > BigInt(Number.MAX_SAFE_INTEGER)) throw BAD_RANGE
        return min + BigInt(Math.floor(random() * Number(max - min + 1n)))
      },
      refuses: (min = 0n, max = BigInt(Number.MAX_SAFE_INTEGER)) =>
        min < 0n || max < min || max > BigInt(Number.MAX_SAFE_INTEGER) ? BAD_RANGE.message : undefined
    }
  ]
}
