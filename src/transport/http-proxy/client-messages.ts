import type { ClientRequest, IncomingMessage, ServerResponse } from 'node:http'
import httpProxy from 'http-proxy'
import type { Framing, RequestHead } from '../../flow/exchange.js'
import type { HeaderList } from '../../flow/headers.js'
import { announcesNoContent, isEngineField, writableFields } from '../fields.js'

/** Options of http-proxy that a request uses. */
interface RequestParts {
  readonly method: string
  /** node:http requests a connection from it. */
  readonly agent: { readonly protocol: string; addRequest(request: object): void }
  /** http-proxy lets it write the body. */
  readonly buffer: { pipe(sink: object): void }
}

const TARGET = { protocol: 'http:', host: 'upstream', port: 80 }

/**
 * http-proxy never accesses a client: it gets the request from its options, and these two shared façades provide the other properties.
 * `finished` keeps it from listening to the response.
 */
const REQUEST = {
  method: 'GET',
  url: '/',
  headers: {},
  socket: { destroyed: false },
  on(): void {
    // Aborts and errors of the client reach the client transport through the exchange's signal.
  }
}
const RESPONSE = { finished: true, headersSent: true }

/** Starts a request and reports its errors; the response is read from the request itself. */
export type Requester = (parts: RequestParts, failed: (error: NodeJS.ErrnoException) => void) => void

export function requester(): Requester {
  const proxy = httpProxy.createProxyServer({})
  // Only the pass `stream` sends; `deleteLength` breaks the framing of a chunked DELETE, the others change timeouts and forwarding fields
  // that are written elsewhere.
  const passes = proxy as unknown as { webPasses: { name: string }[] }
  passes.webPasses = passes.webPasses.filter((pass) => pass.name === 'stream')
  return (parts, failed) => {
    proxy.web(
      REQUEST as unknown as IncomingMessage,
      RESPONSE as unknown as ServerResponse,
      {
        target: TARGET,
        // The path is set on the request: http-proxy would join its slashes.
        toProxy: true,
        selfHandleResponse: true,
        method: parts.method,
        agent: parts.agent,
        buffer: parts.buffer as unknown as NonNullable<httpProxy.ServerOptions['buffer']>
      },
      failed
    )
  }
}

const PATH = /^[\x21-\x7e]+$/

/** Sets path, fields and framing of an upstream request. Returns false if the target is invalid in a request line. */
export function writeRequestHead(
  request: ClientRequest,
  head: RequestHead,
  framing: Framing,
  upgrade: boolean,
  expects: boolean
): boolean {
  if (!PATH.test(head.target)) return false
  request.path = head.target
  // node:http has converted it to upper case.
  request.method = head.method
  let list = head.headers
  try {
    setFields(request, list, framing)
  } catch {
    // An invalid name or value; all fields are checked only in this rare case.
    for (const name of request.getHeaderNames()) request.removeHeader(name)
    list = writableFields(list)
    setFields(request, list, framing)
  }
  if (!request.hasHeader('host')) request.setHeader('Host', head.authority)
  if (framing.kind === 'open') request.setHeader('Transfer-Encoding', 'chunked')
  else if (framing.kind === 'length') request.setHeader('Content-Length', framing.bytes)
  else if (announcesNoContent(head.method)) request.setHeader('Content-Length', 0)
  if (upgrade) request.setHeader('Connection', 'Upgrade')
  if (expects) request.setHeader('Expect', '100-continue')
  return true
}

/** Combines repeated names into one entry with several values, which node:http writes as several fields. */
function setFields(request: ClientRequest, list: HeaderList, framing: Framing): void {
  request.removeHeader('host')
  for (let i = 0; i < list.length; i += 2) {
    const name = list[i] as string
    if (isEngineField(name)) continue
    if (name.length === 7 && framing.kind !== 'open' && name.toLowerCase() === 'trailer') continue
    if (request.hasHeader(name)) request.appendHeader(name, list[i + 1] as string)
    else request.setHeader(name, list[i + 1] as string)
  }
}

/** Framing of the bytes after a response head. */
interface ResponseFraming {
  readonly framing: Framing
  /** Number of bytes. Undefined: chunks; Infinity: all until the connection is closed. */
  readonly follows: number | undefined
}

const NONE: ResponseFraming = { framing: { kind: 'none' }, follows: 0 }
const CHUNKED: ResponseFraming = { framing: { kind: 'open' }, follows: undefined }
const UNTIL_CLOSE: ResponseFraming = { framing: { kind: 'open' }, follows: Number.POSITIVE_INFINITY }
const DIGITS = /^\d{1,15}$/

/**
 * Returns the framing of a response (RFC 9112 6.3), except to HEAD; undefined for an invalid final response: a 1xx status, several lengths,
 * a length beside an encoding, an encoding other than `chunked`.
 */
export function responseFraming(status: number, headers: HeaderList): ResponseFraming | undefined {
  let length: string | undefined
  let encoding: string | undefined
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] as string
    if (name.length === 14 && name.toLowerCase() === 'content-length') {
      if (length !== undefined) return undefined
      length = headers[i + 1] as string
    } else if (name.length === 17 && name.toLowerCase() === 'transfer-encoding') {
      if (encoding !== undefined) return undefined
      encoding = (headers[i + 1] as string).toLowerCase()
    }
  }
  if (status < 200 || (length !== undefined && (encoding !== undefined || !DIGITS.test(length)))) return undefined
  if (encoding !== undefined && encoding !== 'chunked') return undefined
  if (status === 204) return NONE
  if (length !== undefined) {
    const bytes = Number(length)
    return { framing: { kind: 'length', bytes }, follows: status === 304 ? 0 : bytes }
  }
  if (status === 304) return NONE
  return encoding === undefined ? UNTIL_CLOSE : CHUNKED
}
