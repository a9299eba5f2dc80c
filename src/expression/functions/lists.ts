import type { FunctionDefinition } from '../function-definition.js'
import { absent, BoundedText, checkCount, checkDepth, failed } from './bounds.js'
import { compareText } from './code-points.js'
import { entriesOf, integerOf, itemsOf, type Kind, kindOf, nanosOf, typeNameOf } from './values.js'

function join(list: unknown, separator = ''): string {
  const out = new BoundedText()
  for (const [index, item] of itemsOf(list).entries()) {
    if (typeof item !== 'string') throw failed('join takes a list of strings')
    if (index > 0) out.add(separator)
    out.add(item)
  }
  return out.toString()
}

function slice(list: unknown, from: bigint, to: bigint): unknown[] {
  if (from < 0n || to < 0n || from > to) throw failed('a slice runs from a position to a later one, none negative')
  const items = itemsOf(list)
  if (to > BigInt(items.length)) throw absent('a slice ends after the list')
  return items.slice(Number(from), Number(to))
}

function flatten(list: unknown, depth = 1n): unknown[] {
  if (depth < 0n) throw failed('the depth of flatten is not negative')
  const flat: unknown[] = []
  flattenInto(flat, list, depth, 1)
  return flat
}

function flattenInto(flat: unknown[], list: unknown, depth: bigint, level: number): void {
  checkDepth(level)
  for (const item of itemsOf(list)) {
    if (depth > 0n && kindOf(item) === 'list') flattenInto(flat, item, depth - 1n, level + 1)
    else flat.push(item)
  }
  checkCount(flat.length)
}

function range(count: bigint): bigint[] {
  if (count < 0n) throw failed('the length of a range is not negative')
  checkCount(count > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(count))
  return Array.from({ length: Number(count) }, (_, index) => BigInt(index))
}

type Compare = (left: unknown, right: unknown) => number

const numeric: Compare = (left, right) => ((left as number) < (right as number) ? -1 : left === right ? 0 : 1)

/** Orders of the kinds that CEL can compare. */
const ORDERS: Readonly<Partial<Record<Kind, Compare>>> = {
  int: numeric,
  bool: (left, right) => Number(left) - Number(right),
  string: (left, right) => compareText(left as string, right as string),
  uint: (left, right) => numeric(integerOf(left), integerOf(right)),
  timestamp: (left, right) => (left as Date).getTime() - (right as Date).getTime(),
  duration: (left, right) => numeric(nanosOf(left), nanosOf(right)),
  bytes: (left, right) => Buffer.compare(left as Uint8Array, right as Uint8Array),
  double: (left, right) => {
    // Not a number has no order of its own; the front keeps the others sorted.
    if (Number.isNaN(left)) return Number.isNaN(right) ? 0 : -1
    return Number.isNaN(right) ? 1 : numeric(left, right)
  }
}

/**
 * Items in the order of their keys, equal ones as they came. Keys are all of one type that has an order, one for each
 * item; anything else fails.
 */
export function sortedByKeys(items: readonly unknown[], keys: readonly unknown[]): unknown[] {
  if (items.length !== keys.length) throw failed('a list is sorted by one key for each item')
  checkCount(items.length)
  if (items.length === 0) return []
  const kind = kindOf(keys[0])
  const order = ORDERS[kind]
  if (order === undefined || keys.some((key) => kindOf(key) !== kind)) {
    throw failed('a list is sorted by values of one type that has an order')
  }
  const positions = items.map((_, index) => index)
  positions.sort((left, right) => order(keys[left], keys[right]))
  return positions.map((index) => items[index])
}

function sort(list: unknown): unknown[] {
  const items = itemsOf(list)
  return sortedByKeys(items, items)
}

/**
 * Text that two values share exactly when CEL calls them equal: numbers by value whatever their type, lists by their
 * items, maps by their entries. Undefined for what equals nothing, as NaN.
 */
function identity(value: unknown, depth: number): string | undefined {
  checkDepth(depth)
  const kind = kindOf(value)
  switch (kind) {
    case 'list':
      return listIdentity(itemsOf(value), depth)
    case 'map':
      return mapIdentity(value, depth)
    case 'int':
    case 'uint':
      return `n${integerOf(value)}`
    case 'double':
      if (Number.isNaN(value)) return undefined
      return Number.isInteger(value) ? `n${BigInt(value as number)}` : `n${value}`
    case 'string':
      return JSON.stringify(value)
    case 'bytes':
      return `b${Buffer.from(value as Uint8Array).toString('hex')}`
    case 'timestamp':
      return `t${(value as Date).getTime()}`
    case 'duration':
      return `d${nanosOf(value)}`
    case 'type':
      return `y${JSON.stringify(typeNameOf(value))}`
    case 'unknown':
      return undefined
    default:
      return `${kind}${value}`
  }
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

function mapIdentity(map: unknown, depth: number): string | undefined {
  const parts: string[] = []
  for (const [key, item] of entriesOf(map)) {
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
function distinct(list: unknown): unknown[] {
  const seen = new Set<string>()
  return itemsOf(list).filter((item) => {
    const text = identity(item, 1)
    if (text === undefined) return true
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
  { signature: 'list<string>.join(): string', run: join },
  { signature: 'list<string>.join(string): string', run: join },
  { signature: 'list<T>.slice(int, int): list<T>', run: slice },
  { signature: 'list.flatten(): list', run: flatten },
  { signature: 'list.flatten(int): list', run: flatten },
  { signature: 'list<T>.sort(): list<T>', run: sort },
  { signature: 'list<T>.distinct(): list<T>', run: distinct },
  { signature: 'lists.range(int): list<int>', run: range }
]
