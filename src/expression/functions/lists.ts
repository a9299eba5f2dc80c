import type { Duration } from '../cel-parser.js'
import type { EvaluationError } from '../expression.js'
import type { FunctionDefinition } from '../signatures.js'
import { textOf } from '../text.js'
import { compare, nanosOf, numeric, type TypeName, typeOf } from '../values.js'
import { absent, BoundedText, checkCount, checkDepth, checkWork, failed } from './bounds.js'

function join(list: readonly unknown[], separator = ''): string {
  const out = new BoundedText()
  for (const [index, item] of list.entries()) {
    if (typeof item !== 'string') throw failed('join takes a list of strings')
    if (index > 0) out.add(separator)
    out.add(item)
  }
  return out.toString()
}

function slice(items: readonly unknown[], from: bigint, to: bigint): unknown[] | EvaluationError {
  if (from < 0n || to < 0n || from > to) throw failed('a slice runs from a position to a later one, none negative')
  if (to > BigInt(items.length)) return absent('a slice ends after the list')
  return items.slice(Number(from), Number(to))
}

function flatten(list: readonly unknown[], depth = 1n): unknown[] {
  if (depth < 0n) throw failed('the depth of flatten is not negative')
  const flat: unknown[] = []
  flattenInto(flat, list, depth, 1)
  return flat
}

function flattenInto(flat: unknown[], list: readonly unknown[], depth: bigint, level: number): void {
  checkDepth(level)
  for (const item of list) {
    if (depth > 0n && Array.isArray(item)) flattenInto(flat, item, depth - 1n, level + 1)
    else flat.push(item)
  }
  checkCount(flat.length)
}

function range(count: bigint): bigint[] {
  if (count < 0n) throw failed('the length of a range is not negative')
  checkCount(count > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(count))
  return Array.from({ length: Number(count) }, (_, index) => BigInt(index))
}

/** Types that CEL can order. */
const ORDERED: ReadonlySet<TypeName> = new Set<TypeName>([
  'int',
  'uint',
  'double',
  'bool',
  'string',
  'bytes',
  'timestamp',
  'duration'
])

/** NaN is not ordered; placing it first keeps the others sorted. */
function order(left: unknown, right: unknown): number {
  if (Number.isNaN(left)) return Number.isNaN(right) ? 0 : -1
  return Number.isNaN(right) ? 1 : (compare(left, right) ?? 0)
}

/**
 * Items in the order of their keys, equal ones as they came. Keys are all of one type that has an order, one for each
 * item; anything else fails.
 */
export function sortedByKeys(items: readonly unknown[], keys: readonly unknown[]): unknown[] {
  if (items.length !== keys.length) throw failed('a list is sorted by one key for each item')
  checkCount(items.length)
  if (items.length === 0) return []
  const type = typeOf(keys[0])
  if (!ORDERED.has(type) || keys.some((key) => typeOf(key) !== type)) {
    throw failed('a list is sorted by values of one type that has an order')
  }
  // Each is compared with many others.
  checkWork(keys.reduce((sum: number, key) => sum + sizeOf(key), 0) * 8)
  const positions = items.map((_, index) => index)
  positions.sort((left, right) => order(keys[left], keys[right]))
  return positions.map((index) => items[index])
}

function sizeOf(key: unknown): number {
  return typeof key === 'string' || key instanceof Uint8Array ? key.length : 1
}

function sort(items: readonly unknown[]): unknown[] {
  return sortedByKeys(items, items)
}

/**
 * Text that two values share exactly when CEL calls them equal: numbers by value whatever their type, lists by their
 * items, maps by their entries. Undefined for what equals nothing, as NaN.
 */
function identity(value: unknown, depth: number): string | undefined {
  checkDepth(depth)
  const type = typeOf(value)
  switch (type) {
    case 'list':
      return listIdentity(value as readonly unknown[], depth)
    case 'map':
      return mapIdentity(value as ReadonlyMap<unknown, unknown>, depth)
    case 'int':
    case 'uint':
    case 'double':
      return numberIdentity(numeric(value))
    case 'string':
      return JSON.stringify(value)
    case 'bytes':
      return `b${Buffer.from(value as Uint8Array).toString('hex')}`
    case 'timestamp':
      return `t${(value as Date).getTime()}`
    case 'duration':
      return `d${nanosOf(value as Duration)}`
    default:
      return `${type} ${textOf(value)}`
  }
}

function numberIdentity(value: bigint | number): string | undefined {
  if (Number.isNaN(value)) return undefined
  return `n${Number.isInteger(value) ? BigInt(value) : value}`
}

function listIdentity(items: readonly unknown[], depth: number): string | undefined {
  const out = new BoundedText()
  out.add('[')
  for (const item of items) {
    const text = identity(item, depth + 1)
    if (text === undefined) return undefined
    out.add(`${text},`)
  }
  return `${out}]`
}

function mapIdentity(map: ReadonlyMap<unknown, unknown>, depth: number): string | undefined {
  const parts: string[] = []
  for (const [key, item] of map) {
    const name = identity(key, depth + 1)
    const text = identity(item, depth + 1)
    if (name === undefined || text === undefined) return undefined
    parts.push(`${name}:${text},`)
  }
  const out = new BoundedText()
  for (const part of parts.sort()) out.add(part)
  return `{${out}}`
}

/** The first of all equal items, in their order. */
function distinct(list: readonly unknown[]): unknown[] {
  const seen = new Set<string>()
  let work = 0
  return list.filter((item) => {
    const text = identity(item, 1)
    if (text === undefined) return true
    work += text.length
    checkWork(work)
    if (seen.has(text)) return false
    seen.add(text)
    return true
  })
}

/**
 * The lists extension of CEL, and `join` of the strings extension. `flatten()` opens one level; `sort()` wants items of
 * one type; a slice beyond the end is absent, everything else that goes wrong fails.
 */
export const listFunctions: readonly FunctionDefinition[] = [
  { signature: 'list<string>.join(): string', run: join, deep: true },
  { signature: 'list<string>.join(string): string', run: join, deep: true },
  { signature: 'list<T>.slice(int, int): list<T>', run: slice },
  { signature: 'list.flatten(): list', run: flatten, deep: true },
  { signature: 'list.flatten(int): list', run: flatten, deep: true },
  { signature: 'list<T>.sort(): list<T>', run: sort, deep: true },
  { signature: 'list<T>.distinct(): list<T>', run: distinct, deep: true },
  { signature: 'lists.range(int): list<int>', run: range }
]
