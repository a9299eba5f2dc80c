import { parseExactJson } from '../../lib/exact-json.js'
import type { FunctionDefinition } from '../signatures.js'
import { textOf } from '../text.js'
import { compareText, MAX_TEXT, type TypeName, typeOf } from '../values.js'
import { BoundedText, checkCount, checkDepth, failed, MAX_DEPTH } from './bounds.js'
import { wellFormed } from './strings.js'

/** Returns the parsed value, or undefined if the text is too long, too deep or not JSON. */
function parse(text: string): unknown {
  if (text.length > MAX_TEXT || measure(text).depth > MAX_DEPTH) return undefined
  try {
    return parseExactJson(text)
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

/** Steps for a list or map and for a map member, by the time for parsing and conversion. */
const COST = { nested: 3, member: 2 } as const

/** Returns the steps for reading JSON text beyond those for its length. */
function work(text: string): number {
  return text.length > 256 ? measure(text).steps : 0
}

/** Measures the nesting of JSON text, because the parser has no limit of its own, and the steps for reading it. */
function measure(text: string): { readonly depth: number; readonly steps: number } {
  let depth = 0
  let deepest = 0
  let steps = 0
  let quoted = false
  for (let at = 0; at < text.length; at++) {
    const unit = text[at]
    if (unit === '"') quoted = !quoted
    else if (quoted) at += unit === '\\' ? 1 : 0
    else if (unit === '[' || unit === '{') {
      deepest = Math.max(deepest, ++depth)
      steps += COST.nested
    } else if (unit === ']' || unit === '}') depth--
    else if (unit === ':') steps += COST.member
  }
  return { depth: deepest, steps }
}

function decode(text: string): unknown {
  const value = parse(text)
  if (value === undefined) throw failed('the text is not JSON, too long or nested too deep')
  return decoded(value, SURROGATES.test(text) ? wellFormed : same)
}

/** Text that may contain half of a surrogate pair, literally or as an escape. */
const SURROGATES = /[\ud800-\udfff]|\\u[dD]/

function same(text: string): string {
  return text
}

/** Own property names become keys of a `Map`, so a name such as `__proto__` is data like any other. */
function decoded(value: unknown, text: (raw: string) => string): unknown {
  if (typeof value === 'string') return text(value)
  if (typeof value === 'number' && !Number.isFinite(value)) throw failed('a JSON number is out of range')
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) {
    checkCount(value.length)
    return value.map((item) => decoded(item, text))
  }
  const keys = Object.keys(value)
  checkCount(keys.length)
  const map = new Map<string, unknown>()
  for (const key of keys) map.set(text(key), decoded((value as Record<string, unknown>)[key], text))
  return map
}

function isJson(text: string): boolean {
  return parse(text) !== undefined
}

/**
 * Formats an engine value as JSON text. Integers keep all their digits, bytes become base64, timestamps and durations their string form.
 * Map members are sorted by key, so that equal maps have equal text. Fails on types, numbers that are not finite and on keys with the same
 * text.
 */
function jsonText(value: unknown): string {
  const out = new BoundedText()
  write(value, out, 1)
  return out.toString()
}

function write(value: unknown, out: BoundedText, depth: number): void {
  const type = typeOf(value)
  if (type === 'list') writeList(value as readonly unknown[], out, depth)
  else if (type === 'map') writeMap(value as ReadonlyMap<unknown, unknown>, out, depth)
  else out.add(scalarText(value, type))
}

function scalarText(value: unknown, type: TypeName): string {
  switch (type) {
    case 'int':
    case 'uint':
    case 'null_type':
    case 'bool':
      return String(value)
    case 'double':
      if (!Number.isFinite(value)) throw failed('JSON has no number that is not finite')
      return JSON.stringify(value)
    case 'string':
      return JSON.stringify(wellFormed(value as string))
    case 'bytes':
      return `"${Buffer.from(value as Uint8Array).toString('base64')}"`
    case 'timestamp':
    case 'duration':
      return `"${textOf(value)}"`
    default:
      throw failed('a value has no JSON form')
  }
}

function writeList(items: readonly unknown[], out: BoundedText, depth: number): void {
  checkDepth(depth)
  out.add('[')
  for (const [index, item] of items.entries()) {
    if (index > 0) out.add(',')
    write(item, out, depth + 1)
  }
  out.add(']')
}

function writeMap(map: ReadonlyMap<unknown, unknown>, out: BoundedText, depth: number): void {
  checkDepth(depth)
  const members = new Map<string, unknown>()
  for (const [key, item] of map) {
    const name = textOf(key)
    if (members.has(name)) throw failed('two keys of a map have one name in JSON')
    members.set(name, item)
  }
  const names = [...members.keys()].sort(compareText)
  out.add('{')
  for (const [index, name] of names.entries()) {
    out.add(`${index > 0 ? ',' : ''}${JSON.stringify(wellFormed(name))}:`)
    write(members.get(name), out, depth + 1)
  }
  out.add('}')
}

/**
 * JSON (RFC 8259). Decoded objects are maps, numbers doubles; integers beyond 2^53 are 64-bit ints, and beyond those their text. Decoding
 * fails on text that is not JSON, longer than 1 MiB, too deep or with a number beyond the range of doubles.
 */
export const jsonFunctions: readonly FunctionDefinition[] = [
  { signature: 'json.decode(string): dyn', run: decode, work },
  { signature: 'json.encode(dyn): string', run: jsonText, deep: true },
  { signature: 'string.decodeJson(): dyn', run: decode, work },
  { signature: 'list.encodeJson(): string', run: jsonText, deep: true },
  { signature: 'map.encodeJson(): string', run: jsonText, deep: true },
  { signature: 'string.isJson(): bool', run: isJson, work },
  { signature: 'isJson(string): bool', run: isJson, work }
]
