import { appendTo } from '../../lib/lists.js'
import type { FunctionDefinition } from '../signatures.js'
import { textOf } from '../text.js'
import { compareText, MAX_LIST, MAX_TEXT, typeOf } from '../values.js'
import { BoundedText, bounded, checkLength, failed, weighing } from './bounds.js'
import { formDecode, percentDecode, percentEncode } from './strings.js'

/**
 * Names and values of a query in their order, or undefined when it is malformed: an escape that is none, bytes that are
 * not UTF-8, or a `;`, which some servers take for a separator and others do not.
 */
function queryPairs(text: string): [string, string][] | undefined {
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
  { signature: 'queryString.decode(string): map<string, string>', run: decode, work: weighing(8) },
  { signature: 'queryString.encode(map): string', run: encode, deep: true },
  { signature: 'string.decodeQueryString(): map<string, string>', run: decode, work: weighing(8) },
  { signature: 'map.encodeQueryString(): string', run: encode, deep: true },
  { signature: 'string.isQueryString(): bool', run: isQueryString, work: weighing(8) },
  { signature: 'isQueryString(string): bool', run: isQueryString, work: weighing(8) }
]

/** Scheme, authority, path, query and fragment (RFC 3986 appendix B). */
const REFERENCE = /^(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?:\/\/([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?$/s
/** Host and port of an authority. */
const HOST = /^(\[[0-9A-Fa-f:.]+(?:%25[A-Za-z0-9._~-]+)?\]|[^[\]:<>"\\^`{|}]*)(?::([0-9]*))?$/
/** Characters of userinfo. */
const USER = /^[A-Za-z0-9\-._:~!$&'()*+,;=%@]*$/

/** Whether there is a control character, which no part of a reference may hold. */
function hasControls(text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    if (unit < 0x20 || unit === 0x7f) return true
  }
  return false
}

interface Authority {
  readonly user: string
  readonly password: string
  readonly host: string
  readonly hostname: string
  readonly port: string
}

const NO_AUTHORITY: Authority = { user: '', password: '', host: '', hostname: '', port: '' }

function parseAuthority(text: string): Authority | undefined {
  const at = text.lastIndexOf('@')
  const info = at < 0 ? '' : text.slice(0, at)
  const colon = info.indexOf(':')
  const user = percentDecode(colon < 0 ? info : info.slice(0, colon))
  const password = percentDecode(colon < 0 ? '' : info.slice(colon + 1))
  const match = HOST.exec(text.slice(at + 1))
  if (match === null || user === undefined || password === undefined || !USER.test(info)) return undefined
  const [, raw = '', port = ''] = match
  const name = percentDecode(raw)
  if (name === undefined || name.includes(' ')) return undefined
  const hostname = name.startsWith('[') ? name.slice(1, -1) : name
  return { user, password, host: port === '' ? name : `${name}:${port}`, hostname, port }
}

/** The parts of a reference by name, or undefined when it is malformed. */
function parseReference(text: string): Map<string, unknown> | undefined {
  const match = text.length > MAX_TEXT || hasControls(text) ? null : REFERENCE.exec(text)
  if (match === null) return undefined
  const [, scheme = '', authorityText, rawPath = '', query = '', rawFragment = ''] = match
  const authority = authorityText === undefined ? NO_AUTHORITY : parseAuthority(authorityText)
  const opaque = scheme !== '' && authorityText === undefined && rawPath !== '' && !rawPath.startsWith('/')
  const path = opaque ? '' : percentDecode(rawPath)
  const fragment = percentDecode(rawFragment)
  if (authority === undefined || path === undefined || fragment === undefined) return undefined
  // Without a scheme, what stands before a colon in the first segment would be read as one (RFC 3986 section 4.2).
  if (scheme === '' && authorityText === undefined && /^[^/]*:/.test(rawPath)) return undefined
  return new Map<string, unknown>([
    ['scheme', scheme.toLowerCase()],
    ['opaque', opaque ? rawPath : ''],
    ['user', authority.user],
    ['password', authority.password],
    ['host', authority.host],
    ['hostname', authority.hostname],
    ['port', authority.port],
    ['path', path],
    ['raw_path', opaque ? '' : rawPath],
    ['query', query],
    ['raw_query', query],
    ['query_params', parametersOf(query)],
    ['fragment', fragment]
  ])
}

/** Values by name; empty when the query does not follow the form syntax, which a URL need not. */
function parametersOf(query: string): Map<string, string[]> {
  const parameters = new Map<string, string[]>()
  for (const [name, value] of queryPairs(query) ?? []) appendTo(parameters, name, value)
  return parameters
}

function parse(text: string): Map<string, unknown> {
  const parts = parseReference(text)
  if (parts === undefined) throw failed('the text is not a URL')
  return parts
}

function isUrl(text: string): boolean {
  const parts = parseReference(text)
  return parts !== undefined && parts.get('scheme') !== '' && parts.get('hostname') !== ''
}

function escapeUrl(text: string): string {
  return bounded(percentEncode(text))
}

function unescapeUrl(text: string): string {
  const decoded = formDecode(text)
  if (decoded === undefined) throw failed('the text holds a % that begins no escape of UTF-8')
  return decoded
}

/**
 * URLs (RFC 3986). `url.escape` encodes all but unreserved characters; `url.unescape` also reads `+` as a space.
 * `url.parse` takes any reference apart: scheme, opaque, user, password, host (with port), hostname, port, path
 * (decoded), raw_path, query and raw_query (as written), query_params (name to list), fragment; what is not there is
 * empty. `isURL` asks for a scheme and a host.
 */
export const urlFunctions: readonly FunctionDefinition[] = [
  { signature: 'url.escape(string): string', run: escapeUrl, work: weighing(4) },
  { signature: 'url.unescape(string): string', run: unescapeUrl, work: weighing(4) },
  { signature: 'url.parse(string): map<string, dyn>', run: parse, work: weighing(5) },
  { signature: 'string.escapeUrl(): string', run: escapeUrl, work: weighing(4) },
  { signature: 'string.unescapeUrl(): string', run: unescapeUrl, work: weighing(4) },
  { signature: 'string.parseUrl(): map<string, dyn>', run: parse, work: weighing(5) },
  { signature: 'string.isURL(): bool', run: isUrl, work: weighing(5) },
  { signature: 'string.isUrl(): bool', run: isUrl, work: weighing(5) },
  { signature: 'isUrl(string): bool', run: isUrl, work: weighing(5) },
  { signature: 'isURL(string): bool', run: isUrl, work: weighing(5) }
]
