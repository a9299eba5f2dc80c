import { createHash, randomBytes } from 'node:crypto'
import { FAILURES } from '../../flow/error-codes.js'
import type { Framing } from '../../flow/exchange.js'
import type { HeaderList } from '../../flow/headers.js'
import { ownText, PeerNames } from '../../lib/peer-names.js'
import type { ListenLimits } from '../contract.js'
import { allowedTrailers, encodedTarget, isEngineField, isRefusedMethod } from '../fields.js'
import { MALFORMED, type MalformedMessage, TOKEN } from '../message-scanner.js'
import type { HpackDecoder } from './hpack-decoder.js'
import type { HpackEncoder } from './hpack-encoder.js'

/** Request head in the form of HTTP/1.1, which the layers above use for both protocols. */
export interface Http2Head {
  readonly method: string
  readonly target: string
  readonly authority: string
  /** Fields with Host and with cookies joined (RFC 9113 8.2.3), without pseudo-header fields. */
  readonly headers: HeaderList
  readonly framing: Framing
  readonly expectsContinue: boolean
  readonly upgrade: 'websocket' | undefined
  /** Generated `Sec-WebSocket-Key` for the upstream, because an extended CONNECT has none (RFC 8441 5). */
  readonly websocketKey: string
  /** Size of the fields as HTTP/1.1 text (bytes). */
  readonly bytes: number
}

const DIGITS = /^\d{1,15}$/
const TOO_LARGE: MalformedMessage = { status: 431, why: 'too-large' }
const TOO_LONG: MalformedMessage = { status: 414, why: 'too-large' }
const REFUSED_METHOD: MalformedMessage = { status: 400, why: 'client-malformed' }
const UNKNOWN_PROTOCOL: MalformedMessage = { status: 501, why: 'client-malformed' }
const UNMET: MalformedMessage = { status: 417, why: 'client-malformed' }
/** Bytes of a colon, a space and CR LF. */
const FIELD_EXTRA = 4
/** ASCII code of the colon. */
const COLON = 0x3a

/** Characters of an authority without userinfo (RFC 3986 3.2). */
const AUTHORITY = new Uint8Array(256)
for (const character of "-._~!$&'()*+,;=:[]%0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
  AUTHORITY[character.charCodeAt(0)] = 1
}

/** Returns true for a connection-specific field, which makes a message malformed (RFC 9113 8.2.2). */
export function isOfConnection(name: string, value: string): boolean {
  switch (name) {
    case 'connection':
    case 'keep-alive':
    case 'proxy-connection':
    case 'transfer-encoding':
    case 'upgrade':
      return true
    case 'te':
      return value.toLowerCase() !== 'trailers'
    default:
      return false
  }
}

/** Pseudo-header fields of a request; undefined if missing. */
interface Pseudo {
  method: string | undefined
  scheme: string | undefined
  authority: string | undefined
  path: string | undefined
  protocol: string | undefined
}

/** Reads the pseudo-header fields (RFC 9113 8.3). Returns the index behind them, or -1 if one is unknown or repeated. */
function readPseudo(fields: readonly string[], pseudo: Pseudo): number {
  let i = 0
  for (; i < fields.length; i += 2) {
    const name = fields[i] as string
    if (name.charCodeAt(0) !== COLON) break
    const key = name.slice(1) as keyof Pseudo
    if (!(key in pseudo) || pseudo[key] !== undefined) return -1
    pseudo[key] = fields[i + 1] as string
  }
  return i
}

/** Checks and translates the header block of a request (RFC 9113 8.1.1, 8.2, 8.3, 8.5; RFC 8441 4). `ended`: no body follows. */
export function readHead(block: HpackDecoder, ended: boolean, limits: ListenLimits): Http2Head | MalformedMessage {
  if (block.malformed) return MALFORMED
  const { fields } = block
  const pseudo: Pseudo = {
    method: undefined,
    scheme: undefined,
    authority: undefined,
    path: undefined,
    protocol: undefined
  }
  const first = readPseudo(fields, pseudo)
  if (first < 0) return MALFORMED
  let host: string | undefined
  let cookie = -1
  let length: string | undefined
  let expectation = ''
  let bytes = 0
  const headers: string[] = ['host', '']
  for (let i = first; i < fields.length; i += 2) {
    const name = fields[i] as string
    const value = fields[i + 1] as string
    if (name.charCodeAt(0) === COLON || isOfConnection(name, value)) return MALFORMED
    bytes += name.length + value.length + FIELD_EXTRA
    switch (name) {
      case 'host':
        if (host !== undefined) return MALFORMED
        host = value
        continue
      case 'cookie':
        if (cookie !== -1) {
          headers[cookie] += `; ${value}`
          continue
        }
        cookie = headers.length + 1
        break
      case 'content-length':
        if (length !== undefined) return MALFORMED
        length = value
        break
      case 'expect':
        expectation = expectation === '' ? value.toLowerCase() || 'empty' : 'several'
        break
      case 'sec-websocket-key':
        if (pseudo.protocol !== undefined) continue
    }
    headers.push(name, value)
  }
  if (block.tooLarge || (fields.length - first) / 2 > limits.headers || bytes > limits.headerBytes) return TOO_LARGE
  const { method = '', scheme, path, protocol } = pseudo
  let { authority = '' } = pseudo
  if ((path?.length ?? 0) > limits.targetBytes || authority.length > limits.targetBytes) return TOO_LONG
  // A request with two different hosts could be routed by one and authorized by the other (RFC 9113 8.3.1).
  if (authority === '') authority = host ?? ''
  else if (host !== undefined && host.toLowerCase() !== authority.toLowerCase()) return MALFORMED
  if (!consistsOf(AUTHORITY, authority) || !consistsOf(TOKEN, method)) return MALFORMED
  if (protocol !== undefined && method !== 'CONNECT') return MALFORMED
  const connect = method === 'CONNECT' && protocol === undefined
  const isPlain = isPath(path)
  const target = isPlain || path === undefined ? path : encodedTarget(path)
  const takesPath = (isPlain || isPath(target)) && isScheme(scheme)
  if (connect ? path !== undefined || scheme !== undefined : !takesPath) return MALFORMED
  if (length !== undefined && (!DIGITS.test(length) || (ended && Number(length) !== 0))) return MALFORMED
  if (isRefusedMethod(method)) return REFUSED_METHOD
  const websocket = protocol !== undefined
  if (websocket && protocol !== 'websocket') return UNKNOWN_PROTOCOL
  const bodiless = ended || method === 'CONNECT'
  if (expectation !== '' && expectation !== '100-continue') return UNMET
  const websocketKey = websocket ? randomBytes(16).toString('base64') : ''
  headers[1] = authority
  if (websocket) headers.push('connection', 'Upgrade', 'upgrade', 'websocket', 'sec-websocket-key', websocketKey)
  return {
    method: websocket ? 'GET' : method,
    target: connect ? authority : (target as string),
    authority,
    headers,
    framing: framingOf(length, bodiless),
    expectsContinue: expectation !== '' && !bodiless && length !== '0',
    upgrade: websocket ? 'websocket' : undefined,
    websocketKey,
    bytes
  }
}

/** Writes the head of a response by the engine itself. */
export function writeRefusal(encoder: HpackEncoder, { status, why }: MalformedMessage): void {
  encoder.field(':status', String(status))
  encoder.field('sluice-error-code', FAILURES[why].code)
}

function framingOf(length: string | undefined, bodiless: boolean): Framing {
  if (length !== undefined) return { kind: 'length', bytes: Number(length) }
  return { kind: bodiless ? 'none' : 'open' }
}

function isScheme(scheme: string | undefined): boolean {
  return scheme === 'https' || scheme === 'http'
}

/** Returns true for a target in origin form or `*`, in visible ASCII, as a request line can hold it. */
export function isPath(target: string | undefined): boolean {
  if (target === undefined || (target.charCodeAt(0) !== 0x2f && target !== '*')) return false
  for (let i = 0; i < target.length; i++) {
    const code = target.charCodeAt(i)
    if (code <= 0x20 || code >= 0x7f) return false
  }
  return true
}

/** Returns true if a non-empty text has only characters of the table. */
function consistsOf(table: Uint8Array, text: string): boolean {
  for (let i = 0; i < text.length; i++) if (table[text.charCodeAt(i)] !== 1) return false
  return text.length > 0
}

/** Connection-specific fields that HTTP/2 forbids (RFC 9113 8.2.2), besides those that every engine removes. */
const OF_A_CONNECTION: ReadonlySet<string> = new Set(['proxy-connection', 'upgrade', 'te', 'http2-settings'])
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/
/** White space around a value, which makes a message malformed (RFC 9113 8.2.1). */
const PADDED = /^[\t ]|[\t ]$/
/** Constant for `Sec-WebSocket-Accept` (RFC 6455 1.3). */
export const WEBSOCKET_GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'

/** Cache of names in lower case by their original form; '' if the field is not sent. */
const NAMES = new PeerNames<string>()

function nameOf(name: string): string {
  const known = NAMES.get(name)
  if (known !== undefined) return known
  const lower = name.toLowerCase()
  let sendable = name.length > 0 && !isEngineField(lower) && !OF_A_CONNECTION.has(lower)
  for (let i = 0; i < name.length && sendable; i++) sendable = TOKEN[name.charCodeAt(i)] === 1
  // `ownText`: the lower-case name may be a slice of the whole head, which the cache would keep in memory.
  const result = sendable ? ownText(lower) : ''
  NAMES.remember(name, result)
  return result
}

/** Encodes the fields, except `without` and those that HTTP/2 cannot carry. Returns their size as HTTP/1.1 text for the log (bytes). */
export function encodeFields(encoder: HpackEncoder, list: HeaderList, without = ''): number {
  let bytes = 0
  for (let i = 0; i < list.length; i += 2) {
    const name = nameOf(list[i] as string)
    let value = list[i + 1] as string
    if (name === '' || name === without || !VALUE.test(value)) continue
    if (PADDED.test(value)) value = value.trim()
    encoder.field(name, value)
    bytes += name.length + value.length + 4
  }
  return bytes
}

/** Returns a function that writes the allowed trailers; undefined if there are none. */
export function trailerFields(list: HeaderList): ((encoder: HpackEncoder) => void) | undefined {
  const fields = allowedTrailers(list)
  const allowed: string[] = []
  for (let i = 0; i < fields.length; i += 2) {
    const [name, value] = [fields[i] as string, fields[i + 1] as string]
    if (nameOf(name) !== '' && VALUE.test(value)) allowed.push(name, value)
  }
  return allowed.length === 0 ? undefined : (encoder) => void encodeFields(encoder, allowed)
}

/** Returns true if the upgrade was accepted for `key` (RFC 6455 4.1). An HTTP/2 client cannot check that itself. */
export function acceptsKey(list: HeaderList, key: string): boolean {
  const accept = createHash('sha1')
    .update(key + WEBSOCKET_GUID)
    .digest('base64')
  return list.some((value, i) => i % 2 === 1 && value.trim() === accept && isAccept(list[i - 1] as string))
}

export const ACCEPT_FIELD = 'sec-websocket-accept'

function isAccept(name: string): boolean {
  return name.toLowerCase() === ACCEPT_FIELD
}
