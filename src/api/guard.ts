import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Entrance } from '../control/access.js'
import type { Principal } from '../control/calls.js'
import { controlErrors, refusedForNow } from '../control/errors.js'
import { BYTES_OF_REQUEST } from '../lib/caller-limits.js'
import type { Clock } from '../lib/clock.js'
import type { ErrorRow } from '../lib/errors.js'
import { parseAuthority } from '../lib/host.js'
import { canonicalAddress } from '../lib/ip.js'
import type { WorkBudget } from '../lib/work-budget.js'
import { type Account, addressOf } from './calls.js'
import { ApiError, apiErrors, bodyTooLarge, nothingThere } from './errors.js'
import { BODY_LIMIT, contentRefusal, hasBody } from './listener.js'
import { OpenAnswers } from './open-answers.js'
import type { Routes } from './routes.js'
import type { SessionCookies } from './session-routes.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** The caller; undefined on open paths. */
    principal: Principal | undefined
    /** Milliseconds until the session of the caller ends; undefined where an API key was sent. */
    sessionRemaining: number | undefined
    /** Charges work to the caller's budget, in bytes; undefined without a budget. */
    spend: ((bytes: number) => void) | undefined
  }
}

/** Authenticates callers and checks their addresses. */
export type CallerCheck = Account['access']

interface GuardParts {
  readonly trusted: TrustedHosts
  readonly cors: Cors | undefined
  readonly routes: Routes
  readonly callers: CallerCheck
  /** Session cookies; undefined if they are not accepted. */
  readonly sessions: SessionCookies | undefined
  readonly rates: RequestRates | undefined
  /** Work that members may still ask for. */
  readonly work: WorkBudget
}

/**
 * Installs the checks before a body is read, in this order: name, size, path and method, address, key, rate, version, form
 * of the body. A foreign page learns nothing, not even which paths exist; a rejected address learns nothing about keys.
 */
export function guard(server: FastifyInstance, parts: GuardParts): void {
  server.decorateRequest('principal', undefined)
  server.decorateRequest('sessionRemaining', undefined)
  server.decorateRequest('spend', undefined)
  const answers = new OpenAnswers((request) => callerNow(parts, request))
  answers.watch(server)
  server.addHook('onRequest', async (request, reply) => {
    reply.header('service-operation-id', request.id).header('x-content-type-options', 'nosniff')
    checkName(parts, request)
    parts.cors?.allow(request, reply)
    checkSize(request)
    if (request.found === undefined) {
      const methods = parts.routes.methodsOf(request.url)
      if (parts.cors?.isPreflight(request) !== true || methods.length === 0) throw unknownRefusal(methods, request)
      return parts.cors.answerPreflight(methods, request, reply)
    }
    const { open, unversioned, body, entrance, stream } = request.found.config
    if (entrance !== undefined) checkAddress(parts, request, entrance)
    if (open === true) {
      // A body brings a key, which is as good as one in its field.
      if (body === undefined) return
      checkAddress(parts, request, 'api')
      checkSameOrigin(request)
      checkVersion(request)
      return checkForm(request, body)
    }
    const principal = await checkCaller(parts, request, reply)
    if (stream === true) answers.mustHaveRoom(principal)
    if (principal.role === 'member' && !READING.includes(request.method)) checkWork(parts.work, principal, request)
    if (unversioned !== true) checkVersion(request)
    checkForm(request, body)
  })
  server.setNotFoundHandler((request) => {
    throw unknownRefusal(parts.routes.methodsOf(request.url), request)
  })
}

function checkName({ trusted, cors }: GuardParts, { headers, socket }: FastifyRequest): void {
  const { host, origin } = headers
  const known = cors?.knows(origin) === true
  const refusal = trusted.refusal({ host, origin: known ? undefined : origin, localAddress: socket.localAddress })
  if (refusal !== undefined) throw refusal
}

/** A length that is announced is refused before anything is read; the rest is counted while it arrives. */
function checkSize({ found, headers }: FastifyRequest): void {
  const length = headers['content-length']
  const limit = found?.config.limit ?? BODY_LIMIT
  if (length !== undefined && Number(length) > limit) throw bodyTooLarge()
}

/** A path that is not there, or a method that it lacks. */
function unknownRefusal(methods: readonly string[], { method }: FastifyRequest): ApiError {
  if (methods.length === 0 || methods.includes(method)) return nothingThere()
  const allow = { allow: methods.join(', ') }
  return new ApiError(apiErrors.METHOD_NOT_ALLOWED, 'The path does not have this method.', {}, allow)
}

async function checkCaller(parts: GuardParts, request: FastifyRequest, reply: FastifyReply): Promise<Principal> {
  reply.header('cache-control', 'no-store')
  checkAddress(parts, request, 'api')
  const principal = await callerOf(parts, request, reply)
  const wait = parts.rates?.take(principal.id)
  if (wait !== undefined) {
    const message = `Too many requests; the next one may come in ${wait} seconds.`
    throw new ApiError(apiErrors.RATE_LIMITED, message, {}, { 'retry-after': String(wait) })
  }
  request.principal = principal
  return principal
}

const READING: readonly string[] = ['GET', 'HEAD']

/** Charges a request before its body is read; the bytes of the body are charged later. Fails with `WORK_LIMITED`. */
function checkWork(work: WorkBudget, { id }: Principal, request: FastifyRequest): void {
  const wait = work.wait(id)
  if (wait > 0) {
    const message = (seconds: number) => `too much work in documents and tests; ask again in ${seconds} s`
    throw refusedForNow(controlErrors.WORK_LIMITED, message, wait)
  }
  work.spend(id, BYTES_OF_REQUEST)
  request.spend = (bytes) => work.spend(id, bytes)
}

/** Returns the current caller for the credentials of a request; undefined or an error if access is no longer allowed. */
async function callerNow({ callers, sessions }: GuardParts, request: FastifyRequest): Promise<Principal | undefined> {
  const address = addressOf(request)
  if (callers.keepsOut(address, 'api')) return undefined
  const { authorization } = request.headers
  if (authorization !== undefined) return await callers.authenticate(keyIn(authorization) ?? '', address)
  return callers.keepsOut(address, 'dashboard') ? undefined : await sessions?.watching(request)
}

/** The owner of the key; where none is sent, of the session. */
async function callerOf(parts: GuardParts, request: FastifyRequest, reply: FastifyReply): Promise<Principal> {
  const { authorization } = request.headers
  const session = authorization === undefined ? await parts.sessions?.resume(request, reply) : undefined
  if (session === undefined) return await authenticate(parts.callers, authorization, addressOf(request))
  checkAddress(parts, request, 'dashboard')
  checkSameOrigin(request)
  request.sessionRemaining = session.remaining
  return session.principal
}

/**
 * Accepts a session only for pages of this origin: pages of other ports of the host also send the cookie. Browsers report
 * the origin of a request (Fetch Metadata, `Sec-Fetch-Site`), older ones by `Origin`; a request without both comes from no
 * browser that a foreign page could use, because such a page cannot set the version header that each call needs.
 */
function checkSameOrigin({ headers }: FastifyRequest): void {
  const site = headers['sec-fetch-site']
  const { origin, host } = headers
  const foreign =
    site === undefined
      ? origin !== undefined && !(URL.canParse(origin) && new URL(origin).host === host?.toLowerCase())
      : site !== 'same-origin'
  if (foreign)
    throw new ApiError(apiErrors.SESSION_FOREIGN, 'A session of the dashboard counts for its own pages only.')
}

function checkAddress({ callers }: GuardParts, request: FastifyRequest, entrance: Entrance): void {
  if (callers.admits(addressOf(request), entrance)) return
  const what = entrance === 'api' ? 'this API' : 'these pages'
  throw new ApiError(apiErrors.IP_NOT_ALLOWED, `The IP restriction of ${what} refuses the address of the client.`)
}

async function authenticate(
  callers: CallerCheck,
  authorization: string | undefined,
  address: string | undefined
): Promise<Principal> {
  const refuse = (error: ErrorRow, message: string) =>
    new ApiError(error, message, {}, { 'www-authenticate': 'Bearer' })
  if (authorization === undefined) {
    throw refuse(apiErrors.AUTH_MISSING, 'The request needs an API key: Authorization: Bearer <key>.')
  }
  const key = keyIn(authorization)
  if (key === undefined) throw refuse(apiErrors.AUTH_MALFORMED, 'Authorization must be: Bearer <key>.')
  const principal = await callers.authenticate(key, address)
  if (principal !== undefined) return principal
  const other = await callers.otherThanKey(key)
  if (other === undefined) throw refuse(apiErrors.AUTH_INVALID, 'The API key is not valid.')
  throw refuse(apiErrors.AUTH_WRONG_KIND, `What was given as API key is ${other}.`)
}

/** The key of a field Authorization; undefined when it has another form. */
function keyIn(authorization: string): string | undefined {
  return /^Bearer +([\x21-\x7e]+) *$/i.exec(authorization)?.[1]
}

const VERSION = '2'

/** Checks the version header. Existing clients of this API send `ngrok-version`. */
function checkVersion({ headers }: FastifyRequest): void {
  const given = [headers['service-version'], headers['ngrok-version']].filter((version) => version !== undefined)
  if (given.length === 0) {
    throw new ApiError(apiErrors.VERSION_MISSING, `The request needs the header Service-Version: ${VERSION}.`)
  }
  if (given.some((version) => version !== VERSION)) {
    throw new ApiError(apiErrors.VERSION_UNSUPPORTED, `This API has one version: Service-Version: ${VERSION}.`)
  }
}

function checkForm({ headers, method }: FastifyRequest, body: 'json' | 'optional' | undefined): void {
  if (body === 'json' || (body === 'optional' && hasBody(headers))) {
    const refusal = contentRefusal(headers)
    if (refusal !== undefined) throw refusal
  } else if (body === undefined && hasBody(headers)) {
    const message =
      method === 'DELETE'
        ? 'A DELETE must not have a body: its path names what goes. Nothing was deleted.'
        : 'The request must not have a body.'
    throw new ApiError(apiErrors.BODY_UNEXPECTED, message)
  }
}

const LOOPBACK = ['localhost', '127.0.0.1', '::1']

/** The parts of a request that say under which name a browser believes to be here. */
interface NamedRequest {
  readonly host: string | undefined
  readonly origin: string | undefined
  /** Address of our end of the connection; a client that wrote it used no name at all. */
  readonly localAddress: string | undefined
}

/**
 * Protection against DNS rebinding: a page of a foreign site can make its own name lead here, but it cannot make a
 * browser write another name into `Host` and `Origin`. Loopback names, our own address and the names given are accepted.
 */
export class TrustedHosts {
  readonly #names: ReadonlySet<string>

  /** Hosts without ports. */
  constructor(names: Iterable<string>) {
    this.#names = new Set([...LOOPBACK, ...[...names].map((name) => bare(name.toLowerCase()))])
  }

  /** The reason to refuse, or undefined. */
  refusal({ host, origin, localAddress }: NamedRequest): ApiError | undefined {
    const named = host === undefined ? undefined : parseAuthority(host)?.host
    if (named === undefined || !this.#trusted(named, localAddress)) {
      const message =
        'The Host of the request is not a name of this API; the options api.public_url and api.allowed_hosts add names.'
      return new ApiError(apiErrors.HOST_NOT_ALLOWED, message)
    }
    if (origin === undefined) return undefined
    const page = URL.canParse(origin) ? bare(new URL(origin).hostname) : ''
    if (this.#trusted(page, localAddress)) return undefined
    return new ApiError(apiErrors.ORIGIN_NOT_ALLOWED, 'The Origin of the request is not a name of this API.')
  }

  #trusted(name: string, localAddress: string | undefined): boolean {
    return this.#names.has(name) || (localAddress !== undefined && name === canonicalAddress(localAddress))
  }
}

/** An IPv6 address without the brackets that it has in a URL. */
function bare(name: string): string {
  return name.replace(/^\[|\]$/g, '')
}

/** Time for which a browser caches the response to a preflight (seconds). */
const MAX_AGE = 600

/** Response headers that a page may read. */
const EXPOSED = 'etag, retry-after, service-operation-id, service-revision'

/**
 * Cross-origin access for the pages of named origins (Fetch standard, 3.2). There are no credentials in its sense: a key
 * is a header that the page itself sets.
 */
export class Cors {
  readonly #origins: ReadonlySet<string>

  /** Origins as browsers write them: `https://console.example.com`. */
  constructor(origins: Iterable<string>) {
    this.#origins = new Set(origins)
  }

  knows(origin: string | undefined): boolean {
    return origin !== undefined && this.#origins.has(origin)
  }

  /** Allows the page to read the response. */
  allow(request: FastifyRequest, reply: FastifyReply): void {
    reply.header('vary', 'origin')
    const { origin } = request.headers
    if (origin === undefined || !this.knows(origin)) return
    reply.header('access-control-allow-origin', origin).header('access-control-expose-headers', EXPOSED)
  }

  isPreflight({ method, headers }: FastifyRequest): boolean {
    return method === 'OPTIONS' && this.knows(headers.origin) && headers['access-control-request-method'] !== undefined
  }

  /** `methods` are those of the path. */
  answerPreflight(methods: readonly string[], request: FastifyRequest, reply: FastifyReply): FastifyReply {
    const wanted = request.headers['access-control-request-headers']
    if (wanted !== undefined) reply.header('access-control-allow-headers', wanted)
    return reply
      .code(204)
      .header('access-control-allow-methods', methods.join(', '))
      .header('access-control-max-age', String(MAX_AGE))
      .send()
  }
}

/** Maximum number of requests of one principal in a rolling window. */
export interface RequestRate {
  readonly requests: number
  /** Milliseconds. */
  readonly window: number
}

/**
 * Limits requests exactly: no window of this length exceeds the limit, and rejected requests do not count. Each principal
 * has its own limit.
 */
export class RequestRates {
  readonly #rate: RequestRate
  readonly #clock: Clock
  readonly #rings = new Map<string, Ring>()

  constructor(rate: RequestRate, clock: Clock) {
    this.#rate = rate
    this.#clock = clock
  }

  /** Counts a request. Returns undefined if it is allowed, otherwise the whole seconds until the next one is. */
  take(principal: string): number | undefined {
    const now = this.#clock.monotonic()
    this.#forget(now)
    let ring = this.#rings.get(principal)
    if (ring === undefined) {
      ring = { times: new Float64Array(this.#rate.requests).fill(Number.NEGATIVE_INFINITY), next: 0 }
      this.#rings.set(principal, ring)
    }
    const free = (ring.times[ring.next] as number) + this.#rate.window
    if (now < free) return Math.max(1, Math.ceil((free - now) / 1000))
    ring.times[ring.next] = now
    ring.next = (ring.next + 1) % ring.times.length
    return undefined
  }

  /** Forgets principals without requests in the last window, who have their full rate again. */
  #forget(now: number): void {
    if (this.#rings.size < MANY) return
    for (const [principal, { times, next }] of this.#rings) {
      const latest = times[(next + times.length - 1) % times.length] as number
      if (latest + this.#rate.window <= now) this.#rings.delete(principal)
    }
  }
}

const MANY = 1000

/** The times of the last requests; `next` is the place of the oldest. */
interface Ring {
  readonly times: Float64Array
  next: number
}
