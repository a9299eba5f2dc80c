import { isUtf8 } from 'node:buffer'
import { textOf } from '../text.js'
import { compareText, numeric, typeOf } from '../values.js'
import { absent, BoundedText, checkDepth, failed } from './bounds.js'
import { type Exact, exactDouble, exactInteger, fixedText, plainText, scientificText } from './decimal.js'

/** Digits after the point when a clause names none. */
const DEFAULT_PRECISION = 6

/** More digits than any double needs to be told apart; keeps the arithmetic of one call small. */
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
