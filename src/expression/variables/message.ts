import { type Flow, type FlowRequest, type FlowResponse, type FlowSlot, flowSlot } from '../../flow/flow.js'
import { HeaderFields, type HeaderList } from '../../flow/headers.js'
import { appendTo } from '../../lib/lists.js'
import { Duration } from '../cel-parser.js'
import { EvaluationError } from '../expression.js'

const NO_REQUEST = new EvaluationError('failed', 'there is no request')
const NO_RESPONSE = new EvaluationError('failed', 'there is no response')

/** The request of the flow. Throws `EvaluationError` on a connection without one. */
export function requestOf(flow: Flow): FlowRequest {
  if (flow.request === undefined) throw NO_REQUEST
  return flow.request
}

/** The response of the flow. Throws `EvaluationError` before there is one. */
export function responseOf(flow: Flow): FlowResponse {
  if (flow.response === undefined) throw NO_RESPONSE
  return flow.response
}

/** Header fields as a map that is looked up without regard to case. Its keys are lower-case. */
class HeaderMap extends Map<unknown, readonly string[]> {
  override get(name: unknown): readonly string[] | undefined {
    return super.get(typeof name === 'string' ? name.toLowerCase() : name)
  }

  override has(name: unknown): boolean {
    return super.has(typeof name === 'string' ? name.toLowerCase() : name)
  }
}

/** A derived value with its source, to detect a changed source. */
export interface Derived<S, T> {
  readonly source: S
  readonly value: T
}

/** `make(source)`, worked out once per flow and slot for as long as the source is the same object or text. */
export function derive<S, T>(flow: Flow, slot: FlowSlot<Derived<S, T>>, source: S, make: (source: S) => T): T {
  const known = flow.get(slot)
  if (known !== undefined && known.source === source) return known.value
  const value = make(source)
  flow.set(slot, { source, value })
  return value
}

type FieldsByName = HeaderFields['byName']
type HeaderSlot = FlowSlot<Derived<FieldsByName, HeaderMap>>
type CookieSlot = FlowSlot<Derived<FieldsByName, Cookies>>

export const requestFields: HeaderSlot = flowSlot('req.headers')
export const responseFields: HeaderSlot = flowSlot('res.headers')

/** The fields of a message as a map. */
export function headerMap(flow: Flow, slot: HeaderSlot, headers: HeaderFields): HeaderMap {
  return derive(flow, slot, headers.byName, (byName) => new HeaderMap(byName))
}

/** Trailers as a map; empty before they have come. */
export function trailerMap(trailers: HeaderList | undefined): HeaderMap {
  return trailers === undefined ? new HeaderMap() : new HeaderMap(new HeaderFields(trailers).byName)
}

/** The elements of a comma-separated header (RFC 9110 5.6.1), without empty ones. */
export function listHeader(headers: HeaderFields, name: string): string[] {
  return headers
    .values(name)
    .flatMap((value) => value.split(','))
    .map((element) => element.trim())
    .filter((element) => element !== '')
}

/** A Content-Type header in parts (RFC 9110 8.3). */
export interface ContentType {
  readonly raw: string
  /** Lower-case, without parameters. */
  readonly mediaType: string
  readonly parameters: ReadonlyMap<string, string>
}

const PARAMETER = /;\s*([^\s=;"]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*))/g

/** Media type and parameters of a Content-Type (RFC 9110 8.3); their names are lower-case. */
export function contentType(raw: string): ContentType {
  const semicolon = raw.indexOf(';')
  const parameters = new Map<string, string>()
  if (semicolon !== -1) {
    for (const [, name, quoted, plain] of raw.slice(semicolon).matchAll(PARAMETER)) {
      const key = (name as string).toLowerCase()
      if (!parameters.has(key)) parameters.set(key, quoted?.replace(/\\(.)/g, '$1') ?? plain ?? '')
    }
  }
  return { raw, mediaType: (semicolon === -1 ? raw : raw.slice(0, semicolon)).trim().toLowerCase(), parameters }
}

/** A cookie as a map with the keys `name`, `value` and, for a response, its attributes. */
export type Cookie = ReadonlyMap<string, unknown>
type Cookies = ReadonlyMap<string, readonly Cookie[]>

const cookiesSent: CookieSlot = flowSlot('req.cookies')
const cookiesSet: CookieSlot = flowSlot('res.cookies')

/** Cookies of the request (RFC 6265 4.2.1) by name, in the order of the header. */
export function requestCookies(flow: Flow): Cookies {
  return derive(flow, cookiesSent, requestOf(flow).headers.byName, (byName) => {
    const cookies = new Map<string, Cookie[]>()
    for (const header of byName.get('cookie') ?? []) {
      for (const pair of header.split(';')) {
        const [name, value] = splitPair(pair)
        if (name !== '') appendTo(cookies, name, new Map([...entry('name', name), ...entry('value', unquoted(value))]))
      }
    }
    return cookies
  })
}

/** Cookies that the response sets (RFC 6265 4.1) by name; of one name the one with the longest path first. */
export function responseCookies(flow: Flow): Cookies {
  return derive(flow, cookiesSet, responseOf(flow).headers.byName, (byName) => {
    const cookies = new Map<string, Cookie[]>()
    for (const header of byName.get('set-cookie') ?? []) {
      const cookie = parseSetCookie(header)
      if (cookie !== undefined) appendTo(cookies, cookie.get('name') as string, cookie)
    }
    for (const list of cookies.values()) list.sort((a, b) => pathLength(b) - pathLength(a))
    return cookies
  })
}

function pathLength(cookie: Cookie): number {
  return (cookie.get('path') as string).length
}

function entry(key: string, value: unknown): [string, unknown][] {
  return [[key, value]]
}

function splitPair(pair: string): [string, string] {
  const equals = pair.indexOf('=')
  return equals === -1 ? [pair.trim(), ''] : [pair.slice(0, equals).trim(), pair.slice(equals + 1).trim()]
}

function unquoted(value: string): string {
  return value.length > 1 && value.startsWith('"') && value.endsWith('"') ? value.slice(1, -1) : value
}

function parseSetCookie(header: string): Cookie | undefined {
  const [first, ...attributes] = header.split(';') as [string, ...string[]]
  const [name, value] = splitPair(first)
  if (name === '' || !first.includes('=')) return undefined
  const unparsed = new Map<string, string>()
  const cookie = new Map<string, unknown>([
    ['name', name],
    ['value', unquoted(value)],
    ['domain', ''],
    ['path', ''],
    ['http_only', false],
    ['secure', false],
    ['same_site', ''],
    ['unparsed_attributes', unparsed]
  ])
  for (const attribute of attributes) {
    const [key, text] = splitPair(attribute)
    if (key !== '' && !readAttribute(cookie, key.toLowerCase(), text)) unparsed.set(key, text)
  }
  return cookie
}

/** Puts a known attribute into the cookie; false when it is unknown or says nothing. */
function readAttribute(cookie: Map<string, unknown>, key: string, text: string): boolean {
  switch (key) {
    case 'domain':
    case 'path':
      cookie.set(key, text)
      return true
    case 'httponly':
      cookie.set('http_only', true)
      return true
    case 'secure':
      cookie.set('secure', true)
      return true
    case 'samesite':
      cookie.set('same_site', text)
      return true
    case 'expires': {
      const expires = Date.parse(text)
      if (Number.isNaN(expires)) return false
      cookie.set('expires', new Date(expires))
      return true
    }
    case 'max-age':
      if (!/^-?\d{1,15}$/.test(text)) return false
      cookie.set('max_age', new Duration(BigInt(text)))
      return true
    default:
      return false
  }
}
