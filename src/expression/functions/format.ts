import { isUtf8 } from 'node:buffer'
import { textOf } from '../text.js'
import { compareText, numeric, typeOf } from '../values.js'
import { absent, BoundedText, checkDepth, failed } from './bounds.js'

/** A number as a fraction, so that rounding sees its exact value; the denominator is positive. */
interface Exact {
  readonly negative: boolean
  readonly numerator: bigint
  readonly denominator: bigint
}

/** The exact value of a finite double (IEEE 754 binary64). */
function exactDouble(value: number): Exact {
  const view = new DataView(new ArrayBuffer(8))
  view.setFloat64(0, value)
  const bits = view.getBigUint64(0)
  const field = Number((bits >> 52n) & 0x7ffn)
  const fraction = bits & 0xf_ffff_ffff_ffffn
  const mantissa = field === 0 ? fraction : fraction | 0x10_0000_0000_0000n
  const exponent = (field === 0 ? 1 : field) - 1075
  const negative = bits >> 63n === 1n
  if (exponent >= 0) return { negative, numerator: mantissa << BigInt(exponent), denominator: 1n }
  return { negative, numerator: mantissa, denominator: 1n << BigInt(-exponent) }
}

/** An integer as a fraction. */
function exactInteger(value: bigint): Exact {
  return { negative: value < 0n, numerator: value < 0n ? -value : value, denominator: 1n }
}

/** `value` with `precision` digits after the point; halves go to the even digit. */
function fixedText(value: Exact, precision: number): string {
  const digits = String(scaled(value, precision)).padStart(precision + 1, '0')
  return signed(value, withPoint(digits, digits.length - precision))
}

/** `value` as `d.ddde±dd` with `precision` digits after the point; halves go to the even digit. */
function scientificText(value: Exact, precision: number): string {
  let exponent = value.numerator === 0n ? 0 : decimalExponent(value)
  let digits = String(scaled(value, precision - exponent)).padStart(precision + 1, '0')
  // Rounding may carry into one more digit, which is then a one followed by zeros.
  if (digits.length > precision + 1) {
    exponent++
    digits = digits.slice(0, -1)
  }
  const power = `${exponent < 0 ? '-' : '+'}${String(Math.abs(exponent)).padStart(2, '0')}`
  return signed(value, `${withPoint(digits, 1)}e${power}`)
}

/** The shortest decimal text that reads back as `value`, without an exponent; `NaN`, `Infinity`, `-Infinity`. */
function plainText(value: number): string {
  const text = Object.is(value, -0) ? '-0' : String(value)
  const match = /^(-?)(\d)(?:\.(\d+))?e([+-]\d+)$/.exec(text)
  if (match === null) return text
  const [, sign = '', whole = '', fraction = '', power] = match
  const digits = whole + fraction
  const point = 1 + Number(power)
  if (point <= 0) return `${sign}0.${'0'.repeat(-point)}${digits}`
  return sign + digits.padEnd(point, '0')
}

/** Power of ten of the first digit of a value that is not zero. */
function decimalExponent({ numerator, denominator }: Exact): number {
  // The difference of the lengths is the exponent or one more.
  const guess = String(numerator).length - String(denominator).length
  const size = 10n ** BigInt(Math.abs(guess))
  const below = guess >= 0 ? numerator < denominator * size : numerator * size < denominator
  return below ? guess - 1 : guess
}

/** The integer nearest to the value times ten to the power of `power`. */
function scaled({ numerator, denominator }: Exact, power: number): bigint {
  const top = power > 0 ? numerator * 10n ** BigInt(power) : numerator
  const bottom = power < 0 ? denominator * 10n ** BigInt(-power) : denominator
  const quotient = top / bottom
  const twice = (top % bottom) * 2n
  const up = twice > bottom || (twice === bottom && quotient % 2n === 1n)
  return up ? quotient + 1n : quotient
}

function withPoint(digits: string, point: number): string {
  return point === digits.length ? digits : `${digits.slice(0, point)}.${digits.slice(point)}`
}

function signed(value: Exact, text: string): string {
  return value.negative ? `-${text}` : text
}

/** Digits after the point when a clause names none. */
const DEFAULT_PRECISION = 6

/** More digits than any double needs to be distinct; keeps the arithmetic of one call small. */
const MAX_PRECISION = 100

const CLAUSE = /%(?:(%)|(?:\.(\d{1,4}))?([a-zA-Z]))?/g

/**
 * `pattern` with each clause replaced by the next argument (CEL strings extension, `format`): `%s` any value, `%d`
 * numbers, `%f` and `%e` numbers with `%.3f` digits after the point, `%b` integers and bools, `%x`, `%X` integers,
 * strings and bytes, `%o` integers; `%%` is a percent sign. Fails on another clause or on a value that does not fit
 * it; a missing argument is absent.
 */
export function formatText(pattern: string, values: readonly unknown[]): string {
  const out = new BoundedText()
  let next = 0
  let from = 0
  for (const match of pattern.matchAll(CLAUSE)) {
    out.add(pattern.slice(from, match.index))
    from = match.index + match[0].length
    const [, percent, digits, verb] = match
    if (percent !== undefined) {
      out.add('%')
      continue
    }
    if (verb === undefined) throw failed('a % of the format begins no clause')
    if (next >= values.length) throw absent('the format has more clauses than there are values')
    out.add(clauseText(verb, digits, values[next]))
    next++
  }
  out.add(pattern.slice(from))
  return out.toString()
}

function clauseText(verb: string, digits: string | undefined, value: unknown): string {
  switch (verb) {
    case 's':
      return valueText(value)
    case 'd':
      return decimalText(value)
    case 'f':
      return numberText(value, digits, fixedText)
    case 'e':
      return numberText(value, digits, scientificText)
    case 'b':
      return typeof value === 'boolean' ? String(Number(value)) : radixText(value, 2)
    case 'o':
      return radixText(value, 8)
    case 'x':
      return hexText(value)
    case 'X':
      return hexText(value).toUpperCase()
    default:
      throw failed('a clause of the format is none of %s %d %f %e %b %o %x %X')
  }
}

function decimalText(value: unknown): string {
  if (typeof value === 'number') return plainText(value)
  return radixText(value, 10)
}

function radixText(value: unknown, radix: number): string {
  const type = typeOf(value)
  if (type !== 'int' && type !== 'uint') throw failed('a clause of the format takes an integer')
  return numeric(value).toString(radix)
}

function hexText(value: unknown): string {
  if (typeof value === 'string') return Buffer.from(value).toString('hex')
  if (value instanceof Uint8Array) return Buffer.from(value).toString('hex')
  return radixText(value, 16)
}

function numberText(
  value: unknown,
  digits: string | undefined,
  write: (value: Exact, precision: number) => string
): string {
  const precision = digits === undefined ? DEFAULT_PRECISION : Number(digits)
  if (precision > MAX_PRECISION) throw failed(`a precision of the format is over ${MAX_PRECISION}`)
  if (typeof value === 'number') return Number.isFinite(value) ? write(exactDouble(value), precision) : String(value)
  const type = typeOf(value)
  if (type !== 'int' && type !== 'uint') throw failed('a clause of the format takes a number')
  return write(exactInteger(BigInt(numeric(value))), precision)
}

/** A value as `%s` writes it: lists as `[a, b]`, maps as `{k: v}` in the order of their keys, nothing quoted. */
function valueText(value: unknown): string {
  const out = new BoundedText()
  writeValue(value, out, 1)
  return out.toString()
}

function writeValue(value: unknown, out: BoundedText, depth: number): void {
  switch (typeOf(value)) {
    case 'list':
      writeList(value as readonly unknown[], out, depth)
      break
    case 'map':
      writeMap(value as ReadonlyMap<unknown, unknown>, out, depth)
      break
    case 'double':
      out.add(plainText(value as number))
      break
    case 'bytes':
      out.add(bytesText(value as Uint8Array))
      break
    default:
      out.add(textOf(value))
  }
}

function bytesText(bytes: Uint8Array): string {
  if (!isUtf8(bytes)) throw failed('bytes for %s are not UTF-8 text')
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8')
}

function writeList(items: readonly unknown[], out: BoundedText, depth: number): void {
  checkDepth(depth)
  out.add('[')
  for (const [index, item] of items.entries()) {
    if (index > 0) out.add(', ')
    writeValue(item, out, depth + 1)
  }
  out.add(']')
}

function writeMap(map: ReadonlyMap<unknown, unknown>, out: BoundedText, depth: number): void {
  checkDepth(depth)
  const entries = [...map].map(([key, item]) => [textOf(key), item] as const)
  entries.sort(([left], [right]) => compareText(left, right))
  out.add('{')
  for (const [index, [key, item]] of entries.entries()) {
    out.add(`${index > 0 ? ', ' : ''}${key}: `)
    writeValue(item, out, depth + 1)
  }
  out.add('}')
}
