import type { FunctionDefinition } from '../function-definition.js'
import { textOf } from '../text.js'
import { compareText, MAX_LIST, MAX_TEXT, typeOf } from '../values.js'
import { BoundedText, checkLength, failed } from './bounds.js'
import { formDecode, percentEncode } from './percent.js'

/**
 * Names and values of a query in their order, or undefined when it is malformed: an escape that is none, bytes that are
 * not UTF-8, or a `;`, which some servers take for a separator and others do not.
 */
export function queryPairs(text: string): [string, string][] | undefined {
  const pairs: [string, string][] = []
  if (text.length > MAX_TEXT) return undefined
  for (const part of text.split('&')) {
    if (part === '') continue
    const equals = part.indexOf('=')
    const name = formDecode(equals < 0 ? part : part.slice(0, equals))
    const value = formDecode(equals < 0 ? '' : part.slice(equals + 1))
    if (name === undefined || value === undefined || part.includes(';') || pairs.length >= MAX_LIST) return undefined
    pairs.push([name, value])
  }
  return pairs
}

function decode(text: string): Map<string, string> {
  const pairs = queryPairs(text)
  if (pairs === undefined) throw failed('the text is not a query string')
  const first = new Map<string, string>()
  for (const [name, value] of pairs) if (!first.has(name)) first.set(name, value)
  return first
}

function isQueryString(text: string): boolean {
  return queryPairs(text) !== undefined
}

function encode(map: ReadonlyMap<unknown, unknown>): string {
  const parameters = [...map].map(([key, value]) => [textOf(key), value] as const)
  parameters.sort(([left], [right]) => compareText(left, right))
  const out = new BoundedText()
  let separator = ''
  for (const [name, value] of parameters) {
    for (const item of Array.isArray(value) ? value : [value]) {
      out.add(`${separator}${formEncode(name)}=${formEncode(valueText(item))}`)
      separator = '&'
    }
  }
  return out.toString()
}

function formEncode(text: string): string {
  checkLength(text.length)
  return percentEncode(text).replaceAll('%20', '+')
}

function valueText(value: unknown): string {
  switch (typeOf(value)) {
    case 'string':
    case 'int':
    case 'uint':
    case 'bool':
    case 'double':
      return textOf(value)
    default:
      throw failed('a query parameter is a string, a number, a bool or a list of them')
  }
}

/**
 * Query strings as HTML forms write them (WHATWG URL section 5). Decoding keeps the first value of each name; encoding
 * sorts by name and repeats the name for each item of a list. There is no leading `?`.
 */
export const queryStringFunctions: readonly FunctionDefinition[] = [
  { signature: 'queryString.decode(string): map<string, string>', run: decode },
  { signature: 'queryString.encode(map): string', run: encode },
  { signature: 'string.decodeQueryString(): map<string, string>', run: decode },
  { signature: 'map.encodeQueryString(): string', run: encode },
  { signature: 'string.isQueryString(): bool', run: isQueryString },
  { signature: 'isQueryString(string): bool', run: isQueryString }
]
