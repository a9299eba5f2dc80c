import { createHash } from 'node:crypto'
import type { Framing, RequestHead, ResponseHead } from '../../flow/exchange.js'
import type { HeaderList } from '../../flow/headers.js'
import { encodeFields, isOfConnection, isPath, WEBSOCKET_GUID } from './heads.js'
import type { HpackDecoder } from './hpack-decoder.js'
import type { HpackEncoder } from './hpack-encoder.js'

const COLON = 0x3a
/** A status. Undefined classes above 5 are forwarded unchanged (RFC 9110 15). */
const STATUS = /^[1-9]\d\d$/
/** Value of a content-length. */
const DIGITS = /^\d{1,15}$/
/** A token (RFC 9110 5.6.2). */
const METHOD = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
/** Visible ASCII. */
const AUTHORITY = /^[\x21-\x7e]*$/
/** Fields of the HTTP/1.1 handshake that an extended CONNECT does not have (RFC 8441 5). */
const HANDSHAKE: ReadonlySet<string> = new Set(['sec-websocket-key', 'upgrade', 'connection'])

/** Form in which a request is written; see `writeRequest`. */
export interface RequestForm {
  /** 'https' if the connection uses TLS (RFC 9113 8.3.1). */
  readonly scheme: 'http' | 'https'
  /** Length of the body (bytes); -1 if unknown or without a body. */
  readonly length: number
  /** True if the client waits for 100. */
  readonly expects: boolean
  /** True for a WebSocket, opened by an extended CONNECT (RFC 8441 4). */
  readonly websocket: boolean
}

/** Returns true if HTTP/2 can represent the method, target and authority. */
export function isWritable({ method, target, headers, authority }: RequestHead): boolean {
  return (
    method !== 'CONNECT' &&
    METHOD.test(method) &&
    isPath(target) &&
    AUTHORITY.test(fieldOf(headers, 'host') ?? authority)
  )
}

/** Writes the head of a request (RFC 9113 8.3.1), with `te: trailers`, which gRPC servers require. */
export function writeRequest(encoder: HpackEncoder, head: RequestHead, form: RequestForm): void {
  const { headers } = head
  encoder.field(':method', form.websocket ? 'CONNECT' : head.method)
  encoder.field(':scheme', form.scheme)
  encoder.field(':authority', fieldOf(headers, 'host') ?? head.authority)
  encoder.field(':path', head.target)
  if (form.websocket) encoder.field(':protocol', 'websocket')
  const list = form.websocket ? without(headers, HANDSHAKE) : headers
  encodeFields(encoder, list, 'host')
  if (form.length >= 0) encoder.field('content-length', String(form.length))
  if (form.expects) encoder.field('expect', '100-continue')
  if (!form.websocket) encoder.field('te', 'trailers')
}

/** Response head of a server, and the framing of its body. */
export interface AnswerHead extends ResponseHead {
  readonly framing: Framing
}

/**
 * Checks and translates the response head of a server (RFC 9113 8.1, 8.2, 8.3.2). Returns undefined if malformed. `ended`: no content
 * follows. `method`: of the request.
 */
export function readAnswer(block: HpackDecoder, ended: boolean, method: string): AnswerHead | undefined {
  const { fields } = block
  if (block.malformed || block.tooLarge || fields[0] !== ':status' || !STATUS.test(fields[1] as string))
    return undefined
  const status = Number(fields[1])
  // HTTP/2 has no 101, and an interim response does not end the stream.
  if (status === 101 || (status < 200 && ended)) return undefined
  const headers: string[] = []
  let length: string | undefined
  for (let i = 2; i < fields.length; i += 2) {
    const name = fields[i] as string
    const value = fields[i + 1] as string
    if (name.charCodeAt(0) === COLON || isOfConnection(name, value)) return undefined
    if (name === 'content-length') {
      if (!DIGITS.test(value) || (length !== undefined && length !== value)) return undefined
      if (length !== undefined) continue
      length = value
    }
    headers.push(name, value)
  }
  const empty = isBodiless(status, method)
  if (ended && !empty && length !== undefined && Number(length) !== 0) return undefined
  return { status, headers, framing: framingOf(length, status, ended && !empty) }
}

/** Returns true for a response without content, whatever length it announces (RFC 9110 6.4.1). */
export function isBodiless(status: number, method: string): boolean {
  return method === 'HEAD' || status === 204 || status === 304
}

/** Returns true if a block can be trailers (RFC 9113 8.1). */
export function areTrailers({ fields, malformed, tooLarge }: HpackDecoder): boolean {
  if (malformed || tooLarge) return false
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] as string
    if (name.charCodeAt(0) === COLON || isOfConnection(name, fields[i + 1] as string)) return false
  }
  return true
}

/** Returns the 101 response head of HTTP/1.1 for a WebSocket opened by an extended CONNECT. */
export function switchedHead(headers: HeaderList, asked: HeaderList): ResponseHead {
  const accept = createHash('sha1')
    .update((fieldOf(asked, 'sec-websocket-key') ?? '').trim() + WEBSOCKET_GUID)
    .digest('base64')
  const switched = ['connection', 'Upgrade', 'upgrade', 'websocket', 'sec-websocket-accept', accept]
  return { status: 101, reason: 'Switching Protocols', headers: [...headers, ...switched] }
}

function framingOf(length: string | undefined, status: number, ended: boolean): Framing {
  if (length !== undefined) {
    const bytes = Number(length)
    return ended ? { kind: 'length', bytes } : { kind: 'length', bytes, trailers: true }
  }
  return { kind: ended || status === 204 || status === 304 ? 'none' : 'open' }
}

function fieldOf(list: HeaderList, name: string): string | undefined {
  for (let i = 0; i < list.length; i += 2) {
    const candidate = list[i] as string
    if (candidate.length === name.length && candidate.toLowerCase() === name) return list[i + 1]
  }
  return undefined
}

function without(list: HeaderList, names: ReadonlySet<string>): string[] {
  const kept: string[] = []
  for (let i = 0; i < list.length; i += 2) {
    if (!names.has((list[i] as string).toLowerCase())) kept.push(list[i] as string, list[i + 1] as string)
  }
  return kept
}
