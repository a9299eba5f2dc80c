import { lookup as systemLookup } from 'node:dns/promises'
import { readFileSync } from 'node:fs'
import http, { type ClientRequest, type IncomingMessage } from 'node:http'
import https from 'node:https'
import { isIP, type LookupFunction, type Socket } from 'node:net'
import { createSecureContext, rootCertificates } from 'node:tls'
import { ByteQueue } from '../byte-queue.js'
import type { Clock } from '../clock.js'
import { codeOf } from '../errors.js'
import { isPublicAddress } from './addresses.js'
import {
  OutboundCut,
  type OutboundError,
  type OutboundFailure,
  type OutboundRequest,
  type OutboundResponse,
  outboundError
} from './answer.js'

/** Result of an attempt; `stale`: the server had closed the reused idle connection. */
export type AttemptOutcome = Omit<OutboundResponse, 'ok' | 'timeMs'> | OutboundFailure | 'stale'

/** One request on one connection. `settle` is called once. */
export class OutboundAttempt {
  readonly #sending: ClientRequest
  readonly #settle: (outcome: AttemptOutcome) => void
  readonly #secure: boolean
  readonly #limit: number
  #connected = false
  #answered = false
  #ended = false

  constructor(
    sending: ClientRequest,
    secure: boolean,
    limit: number,
    allowPrivate: boolean,
    settle: (outcome: AttemptOutcome) => void
  ) {
    this.#sending = sending
    this.#secure = secure
    this.#limit = limit
    this.#settle = settle
    sending.on('socket', (socket) => this.#guard(socket, allowPrivate))
    sending.on('response', (response) => this.#read(response))
    sending.on('error', (error) => this.end(this.#failureOf(error)))
    sending.on('close', () => this.end('BROKEN'))
  }

  end(outcome: AttemptOutcome): void {
    if (this.#ended) return
    this.#ended = true
    if (typeof outcome === 'string') this.#sending.destroy()
    this.#settle(outcome)
  }

  #guard(socket: Socket, allowPrivate: boolean): void {
    const ready = (): void => {
      this.#connected = true
    }
    const connected = (): void => {
      if (!allowPrivate && !isPublicAddress(socket.remoteAddress ?? '')) {
        this.end('ADDRESS_REFUSED')
        return
      }
      if (!this.#secure) ready()
    }
    if (!socket.connecting) {
      connected()
      ready()
      return
    }
    // Runs before queued writes.
    socket.prependOnceListener('connect', connected)
    if (this.#secure) socket.once('secureConnect', ready)
  }

  #read(response: IncomingMessage): void {
    this.#answered = true
    const waiting = new ByteQueue()
    const address = response.socket.remoteAddress ?? ''
    response.on('data', (chunk: Buffer) => {
      waiting.push(chunk)
      if (waiting.length > this.#limit) this.end('RESPONSE_TOO_LARGE')
    })
    response.on('end', () => {
      if (!response.complete) return
      const { statusCode = 0, rawHeaders } = response
      this.end({ status: statusCode, headers: rawHeaders, body: waiting.takeAll(), address })
    })
    response.on('error', (error) => this.end(this.#failureOf(error)))
    response.on('close', () => this.end('BROKEN'))
  }

  #failureOf(error: Error): OutboundFailure | 'stale' {
    const code = codeOf(error) ?? ''
    if (code.startsWith('HPE_')) return 'RESPONSE_MALFORMED'
    if (this.#connected) {
      const stale = this.#sending.reusedSocket && !this.#answered && (code === 'ECONNRESET' || code === 'EPIPE')
      return stale ? 'stale' : 'BROKEN'
    }
    const { socket } = this.#sending
    return this.#secure && socket !== null && !socket.connecting && socket.remoteAddress !== undefined
      ? 'TLS_FAILED'
      : connectFailure(code, this.#secure)
  }
}

/** System errors are connection failures; other errors of a secure connection are TLS failures. */
function connectFailure(code: string, secure: boolean): OutboundFailure {
  return secure && !/^E(?!PROTO|RR_)[A-Z]+$/.test(code) ? 'TLS_FAILED' : 'CONNECT_FAILED'
}

/** Locations of the system's trusted authorities. */
const BUNDLES = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/ca-bundle.pem',
  '/etc/ssl/cert.pem'
]

/**
 * Returns the system's trusted certificate authorities in PEM: the file in `SSL_CERT_FILE`, or the system's bundle, or those of Node.
 * Throws the system's error if the named file cannot be read.
 */
export function systemRoots(named = process.env.SSL_CERT_FILE): readonly string[] {
  if (named !== undefined && named !== '') return [readFileSync(named, 'utf8')]
  for (const bundle of BUNDLES) {
    try {
      return [readFileSync(bundle, 'utf8')]
    } catch {
      // Another system: tries the next location.
    }
  }
  return rootCertificates
}

/** Sends outbound requests of the proxy itself. Does not follow redirects. Never rejects. */
export interface Outbound {
  request(request: OutboundRequest): Promise<OutboundResponse | OutboundError>
  /** Closes idle connections. */
  close(): void
}

/** Dependencies and limits of an outbound HTTP client. */
export interface OutboundParts {
  readonly clock: Clock
  /** Allows addresses that are not public. */
  readonly allowPrivate: boolean
  /**
   * Returns all addresses of a name; rejects or returns none if there are none.
   * @default the system's resolver
   */
  readonly lookup?: (host: string) => Promise<readonly string[]>
  /**
   * Authorities in PEM.
   * @default those of the system
   */
  readonly authorities?: readonly string[]
}

/** Maximum connections per destination; further requests wait for one, within their deadline. */
const MAX_SOCKETS = 256
/** Maximum number of idle connections per destination. */
const MAX_IDLE = 16
/** Lifetime of an idle connection, shorter than common server timeouts (ms). */
const IDLE = 4_000
/** Maximum size of a response head (bytes). */
const MAX_HEADER_BYTES = 65_536
/** Idempotent methods (RFC 9110 9.2.2). Other requests get a new connection, which the server cannot have closed. */
const IDEMPOTENT = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE'])

/**
 * Creates a guarded client. It checks addresses, not names: it resolves names itself, passes on only public addresses, and checks the
 * connection's address again before writing. Names are resolved only once.
 */
export function createOutbound(parts: OutboundParts): Outbound {
  return new GuardedClient(parts)
}

class GuardedClient implements Outbound {
  readonly #parts: OutboundParts
  readonly #plain = agentsOf((options) => new http.Agent(options))
  #secure: Agents<https.Agent> | undefined

  constructor(parts: OutboundParts) {
    this.#parts = parts
  }

  async request(request: OutboundRequest): Promise<OutboundResponse | OutboundError> {
    const { clock } = this.#parts
    const begun = clock.monotonic()
    const failed = (code: OutboundFailure) => outboundError(code, clock.monotonic() - begun)
    const url = parseUrl(request.url)
    if (url === undefined) return failed('URL_INVALID')
    const cut = new OutboundCut(request.deadline, request.signal)
    try {
      const addresses = await Promise.race([this.#addresses(hostOf(url)), cut.happened])
      if (typeof addresses === 'string') return failed(addresses)
      for (let attempt = 1; ; attempt++) {
        const answer = await this.#attempt(request, url, addresses, cut)
        if (typeof answer !== 'string') return { ok: true, ...answer, timeMs: clock.monotonic() - begun }
        // The server closed the idle connection during its reuse.
        if (answer !== 'stale') return failed(answer)
        if (attempt === 2 + MAX_IDLE) return failed('BROKEN')
      }
    } finally {
      cut.over()
    }
  }

  close(): void {
    for (const { kept, once } of [this.#plain, this.#secure ?? this.#plain]) {
      kept.destroy()
      once.destroy()
    }
  }

  /** Returns the allowed addresses in the resolver's order. */
  async #addresses(host: string): Promise<readonly string[] | OutboundFailure> {
    const { allowPrivate, lookup = resolve } = this.#parts
    let found: readonly string[]
    try {
      found = isIP(host) === 0 ? await lookup(host) : [host]
    } catch {
      return 'NAME_UNRESOLVED'
    }
    if (found.length === 0) return 'NAME_UNRESOLVED'
    const allowed = allowPrivate ? found : found.filter(isPublicAddress)
    return allowed.length === 0 ? 'ADDRESS_REFUSED' : allowed
  }

  #attempt(
    request: OutboundRequest,
    url: URL,
    addresses: readonly string[],
    cut: OutboundCut
  ): Promise<AttemptOutcome> {
    const secure = url.protocol === 'https:'
    const host = hostOf(url)
    const options: https.RequestOptions = {
      method: request.method,
      host,
      port: url.port === '' ? (secure ? 443 : 80) : Number(url.port),
      path: `${url.pathname}${url.search}`,
      headers: headersOf(request, url),
      agent: this.#agent(secure, request.repeatable ?? IDEMPOTENT.has(request.method)),
      lookup: answering(addresses),
      maxHeaderSize: MAX_HEADER_BYTES,
      ...(secure && isIP(host) === 0 ? { servername: host } : {})
    }
    return new Promise((resolve) => {
      const sending = secure ? https.request(options) : http.request(options)
      const attempt = new OutboundAttempt(sending, secure, request.maxResponseBytes, this.#parts.allowPrivate, resolve)
      cut.onCut((why) => attempt.end(why))
      sending.end(request.body)
    })
  }

  #agent(secure: boolean, repeatable: boolean): http.Agent {
    if (secure && this.#secure === undefined) {
      const { authorities = systemRoots() } = this.#parts
      const secureContext = createSecureContext({
        ca: [...authorities],
        allowPartialTrustChain: true,
        minVersion: 'TLSv1.2'
      })
      this.#secure = agentsOf((options) => new https.Agent({ ...options, secureContext }))
    }
    const agents = secure ? (this.#secure ?? this.#plain) : this.#plain
    return repeatable ? agents.kept : agents.once
  }
}

interface Agents<A extends http.Agent> {
  readonly kept: A
  readonly once: A
}

function agentsOf<A extends http.Agent>(make: (options: http.AgentOptions) => A): Agents<A> {
  return {
    kept: make({ keepAlive: true, maxSockets: MAX_SOCKETS, maxFreeSockets: MAX_IDLE, timeout: IDLE }),
    once: make({ keepAlive: false, maxSockets: MAX_SOCKETS })
  }
}

function parseUrl(text: string): URL | undefined {
  if (!URL.canParse(text)) return undefined
  const url = new URL(text)
  const web = url.protocol === 'http:' || url.protocol === 'https:'
  return web && url.username === '' && url.password === '' && url.hostname !== '' ? url : undefined
}

/** Returns the host without the brackets of an IPv6 literal. */
function hostOf(url: URL): string {
  return url.hostname.startsWith('[') ? url.hostname.slice(1, -1) : url.hostname
}

function headersOf({ method, headers = [], body }: OutboundRequest, url: URL): string[] {
  const list: string[] = []
  let host: string | undefined
  for (let i = 0; i < headers.length; i += 2) {
    const name = (headers[i] as string).toLowerCase()
    if (name === 'host') host = headers[i + 1]
    else if (name !== 'content-length' && name !== 'transfer-encoding' && name !== 'connection') {
      list.push(headers[i] as string, headers[i + 1] as string)
    }
  }
  // RFC 9110 8.6: without content, a length is expected of methods that usually have some.
  const framed = body !== undefined || method === 'POST' || method === 'PUT' || method === 'PATCH'
  return ['host', host ?? url.host, ...list, ...(framed ? ['content-length', String(body?.length ?? 0)] : [])]
}

async function resolve(host: string): Promise<readonly string[]> {
  return (await systemLookup(host, { all: true })).map(({ address }) => address)
}

/** Returns a resolver with fixed addresses. */
function answering(addresses: readonly string[]): LookupFunction {
  const all = addresses.map((address) => ({ address, family: isIP(address) }))
  return (_host, { all: every }, done) => {
    const [first] = all
    if (every === true) done(null, all)
    else done(null, first?.address ?? '', first?.family ?? 4)
  }
}
