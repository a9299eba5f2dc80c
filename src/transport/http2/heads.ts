import { createHash, randomBytes } from 'node:crypto'
import { METHODS } from 'node:http'
import type { OutgoingHttpHeaders, ServerHttp2Stream } from 'node:http2'
import type { Framing } from '../../flow/exchange.js'
import type { HeaderList } from '../../flow/headers.js'
import type { ListenLimits } from '../contract.js'
import { isEngineField, writableFields } from '../fields.js'
import { MALFORMED, type Refusal } from '../message-scanner.js'

/** A request head in the form that HTTP/1.1 gives it, so that nothing above must know the difference. */
export interface Http2Head {
  readonly method: string
  readonly target: string
  readonly authority: string
  /** Without pseudo-header fields, with Host, cookies in one field (RFC 9113 8.2.3). */
  readonly headers: HeaderList
  readonly framing: Framing
  readonly expectsContinue: boolean
  readonly upgrade: 'websocket' | undefined
  /** Sent on in place of the one that an extended CONNECT does without (RFC 8441 5). */
  readonly websocketKey: string
  /** What the fields would take as HTTP/1.1 text. */
  readonly bytes: number
}

const KNOWN_METHODS: ReadonlySet<string> = new Set(METHODS)
const DIGITS = /^\d{1,15}$/
const TOO_LARGE: Refusal = { status: 431, why: 'too-large' }
const TOO_LONG: Refusal = { status: 414, why: 'too-large' }
const UNKNOWN_METHOD: Refusal = { status: 400, why: 'client-malformed' }
const UNKNOWN_PROTOCOL: Refusal = { status: 501, why: 'client-malformed' }
const UNMET: Refusal = { status: 417, why: 'client-malformed' }
/** A colon, a space, CR LF. */
const FIELD_EXTRA = 4

/**
 * Checks and translates what came in one header block (RFC 9113 8.2, 8.3; RFC 8441 4). nghttp2 has refused names and values
 * outside the grammar, missing and repeated pseudo-header fields, fields of a connection, and lengths that do not fit. `ended`: the
 * block also ends the request.
 */
export function readHead(block: HeaderList, ended: boolean, limits: ListenLimits): Http2Head | Refusal {
  let [method, target, scheme, authority, protocol] = ['', '', '', '', '']
  let host: string | undefined
  let cookie = -1
  let length: string | undefined
  let expectation = ''
  let bytes = 0
  let count = 0
  const headers: string[] = ['host', '']
  for (let i = 0; i < block.length; i += 2) {
    const name = block[i] as string
    const value = block[i + 1] as string
    if (name.charCodeAt(0) === 0x3a) {
      if (name === ':method') method = value
      else if (name === ':path') target = value
      else if (name === ':scheme') scheme = value
      else if (name === ':authority') authority = value
      else if (name === ':protocol') protocol = value
      else return MALFORMED
      continue
    }
    if (isPadded(value)) return MALFORMED
    bytes += name.length + value.length + FIELD_EXTRA
    count++
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
        length = value
        break
      case 'expect':
        expectation = expectation === '' ? value.toLowerCase() || 'empty' : 'several'
        break
      case 'sec-websocket-key':
        if (protocol !== '') continue
    }
    headers.push(name, value)
  }
  if (count > limits.headers || bytes > limits.headerBytes) return TOO_LARGE
  if (target.length > limits.targetBytes || authority.length > limits.targetBytes) return TOO_LONG
  // Two readers of one request must not see two hosts (RFC 9113 8.3.1).
  if (authority === '') authority = host ?? ''
  else if (host !== undefined && host.toLowerCase() !== authority.toLowerCase()) return MALFORMED
  if (authority === '' || authority.includes('@')) return MALFORMED
  if (!KNOWN_METHODS.has(method)) return UNKNOWN_METHOD
  headers[1] = authority
  const websocket = method === 'CONNECT' && protocol !== ''
  if (websocket && protocol !== 'websocket') return UNKNOWN_PROTOCOL
  if (method === 'CONNECT' && !websocket) target = authority
  else if (!isPath(target) || (scheme !== 'https' && scheme !== 'http')) return MALFORMED
  if (length !== undefined && !DIGITS.test(length)) return MALFORMED
  const bodiless = ended || method === 'CONNECT'
  if (expectation !== '' && expectation !== '100-continue') return UNMET
  const websocketKey = websocket ? randomBytes(16).toString('base64') : ''
  if (websocket) headers.push('connection', 'Upgrade', 'upgrade', 'websocket', 'sec-websocket-key', websocketKey)
  return {
    method: websocket ? 'GET' : method,
    target,
    authority,
    headers,
    framing: framingOf(length, bodiless),
    expectsContinue: expectation !== '' && !bodiless && length !== '0',
    upgrade: websocket ? 'websocket' : undefined,
    websocketKey,
    bytes
  }
}

/** White space around a value makes a message malformed (RFC 9113 8.2.1). */
function isPadded(value: string): boolean {
  const [first, last] = [value.charCodeAt(0), value.charCodeAt(value.length - 1)]
  return first === 0x20 || first === 0x09 || last === 0x20 || last === 0x09
}

function framingOf(length: string | undefined, bodiless: boolean): Framing {
  if (length !== undefined) return { kind: 'length', bytes: Number(length) }
  return { kind: bodiless ? 'none' : 'open' }
}

/** Origin form or `*` in visible ASCII: what a request line can hold. */
function isPath(target: string): boolean {
  const first = target.charCodeAt(0)
  if (first !== 0x2f && target !== '*') return false
  for (let i = 0; i < target.length; i++) {
    const code = target.charCodeAt(i)
    if (code <= 0x20 || code >= 0x7f) return false
  }
  return true
}

/** Fields of a connection that HTTP/2 does not have (RFC 9113 8.2.2), beside those of the engine. */
const OF_A_CONNECTION = new Set(['proxy-connection', 'upgrade', 'te', 'http2-settings'])
/** RFC 6455 1.3. */
const WEBSOCKET_GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'

/** The fields that may go out, as node:http2 takes them: lower-case names, values of one name in their order. */
export function answerFields(list: HeaderList): OutgoingHttpHeaders {
  const fields: OutgoingHttpHeaders = Object.create(null) as OutgoingHttpHeaders
  const writable = writableFields(list)
  for (let i = 0; i < writable.length; i += 2) {
    const name = (writable[i] as string).toLowerCase()
    if (isEngineField(name) || OF_A_CONNECTION.has(name)) continue
    // White space around a value makes the whole message malformed here (RFC 9113 8.2.1).
    const value = (writable[i + 1] as string).trim()
    const before = fields[name]
    if (before === undefined) fields[name] = value
    else if (Array.isArray(before)) before.push(value)
    else fields[name] = [String(before), value]
  }
  return fields
}

/** What `fields` take as HTTP/1.1 text, for the log. */
export function textLength(fields: OutgoingHttpHeaders): number {
  let length = 0
  for (const name in fields) {
    const value = fields[name]
    for (const one of Array.isArray(value) ? value : [value]) length += name.length + String(one).length + 4
  }
  return length
}

/** Sends a final head. A field that node:http2 takes only once is sent with its values in a list (RFC 9110 5.3). */
export function sendHead(
  stream: ServerHttp2Stream,
  fields: OutgoingHttpHeaders,
  options: { endStream: boolean; waitForTrailers: boolean }
): void {
  try {
    stream.respond(fields, options)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_HTTP2_HEADER_SINGLE_VALUE') throw error
    for (const name in fields) {
      const value = fields[name]
      if (Array.isArray(value) && name !== 'set-cookie') fields[name] = value.join(', ')
    }
    stream.respond(fields, options)
  }
}

/** The head of an upgrade that was accepted for us, without what only HTTP/1.1 says; undefined: it was not accepted (RFC 6455 4.1). */
export function websocketFields(list: HeaderList, key: string): OutgoingHttpHeaders | undefined {
  const fields = answerFields(list)
  const accept = createHash('sha1')
    .update(key + WEBSOCKET_GUID)
    .digest('base64')
  if (fields['sec-websocket-accept'] !== accept) return undefined
  delete fields['sec-websocket-accept']
  return fields
}
