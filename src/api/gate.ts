import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Principal } from '../control/calls.js'
import type { Entrance } from '../control/open.js'
import type { Account } from './account.js'
import { addressOf } from './calls.js'
import type { Cors } from './cors.js'
import { ApiError, bodyTooLarge, nothingThere } from './errors.js'
import { contentRefusal, hasBody } from './json-body.js'
import type { KnownPaths } from './known-paths.js'
import { BODY_LIMIT } from './listener.js'
import type { RequestRates } from './request-rate.js'
import type { TrustedHosts } from './trusted-hosts.js'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Answered without a key. */
    open?: boolean
    /** Answered without a version header. */
    unversioned?: boolean
    /** What the request must or may bring; unless named it must bring no body. */
    body?: 'json' | 'optional'
    /** Which IP restriction guards it although it is open: that of pages for people. */
    entrance?: 'dashboard'
  }
  interface FastifyRequest {
    /** Who asks; undefined on open paths. */
    principal: Principal | undefined
  }
}

/** Who knows who may come in. */
export type Doorkeeper = Pick<Account, 'authenticate' | 'otherThanKey' | 'admits'>

export interface Gate {
  readonly trusted: TrustedHosts
  readonly cors: Cors | undefined
  readonly paths: KnownPaths
  readonly doorkeeper: Doorkeeper
  readonly rates: RequestRates | undefined
}

/**
 * What is checked before a body is read, in this order: name, size, path and method, address, key, rate, version, form
 * of the body. A foreign page learns nothing, not even which paths exist; an address that is refused learns nothing of keys.
 */
export function guard(server: FastifyInstance, gate: Gate): void {
  server.decorateRequest('principal', undefined)
  server.addHook('onRequest', async (request, reply) => {
    reply.header('service-operation-id', request.id).header('x-content-type-options', 'nosniff')
    checkName(gate, request)
    gate.cors?.allow(request, reply)
    checkSize(request)
    if (request.is404) {
      const methods = methodsOf(gate, request)
      if (gate.cors?.isPreflight(request) !== true || methods.length === 0) throw unknownRefusal(methods, request)
      return gate.cors.answerPreflight(methods, request, reply)
    }
    const { open, unversioned, body, entrance } = request.routeOptions.config
    if (entrance !== undefined) checkAddress(gate, request, entrance)
    if (open === true) return
    await checkCaller(gate, request, reply)
    if (unversioned !== true) checkVersion(request)
    checkForm(request, body)
  })
  server.setNotFoundHandler((request) => {
    throw unknownRefusal(methodsOf(gate, request), request)
  })
}

function checkName({ trusted, cors }: Gate, { headers, socket }: FastifyRequest): void {
  const { host, origin } = headers
  const known = cors?.knows(origin) === true
  const refusal = trusted.refusal({ host, origin: known ? undefined : origin, localAddress: socket.localAddress })
  if (refusal !== undefined) throw refusal
}

/** A length that is announced is refused before anything is read; the rest is counted while it arrives. */
function checkSize({ headers }: FastifyRequest): void {
  const length = headers['content-length']
  if (length !== undefined && Number(length) > BODY_LIMIT) throw bodyTooLarge()
}

function methodsOf({ paths }: Gate, request: FastifyRequest): readonly string[] {
  return paths.methodsOf(request.url.split('?', 1)[0] ?? '')
}

/** A path that is not there, or a method that it lacks. */
function unknownRefusal(methods: readonly string[], { method }: FastifyRequest): ApiError {
  if (methods.length === 0 || methods.includes(method)) return nothingThere()
  const allow = { allow: methods.join(', ') }
  return new ApiError(405, 'METHOD_NOT_ALLOWED', 'The path does not have this method.', {}, allow)
}

async function checkCaller(gate: Gate, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  reply.header('cache-control', 'no-store')
  checkAddress(gate, request, 'api')
  const principal = await authenticate(gate.doorkeeper, request.headers.authorization)
  const wait = gate.rates?.take(principal.id)
  if (wait !== undefined) {
    const message = `Too many requests; the next one may come in ${wait} seconds.`
    throw new ApiError(429, 'RATE_LIMITED', message, {}, { 'retry-after': String(wait) })
  }
  request.principal = principal
}

function checkAddress({ doorkeeper }: Gate, request: FastifyRequest, entrance: Entrance): void {
  if (doorkeeper.admits(addressOf(request), entrance)) return
  const what = entrance === 'api' ? 'this API' : 'these pages'
  throw new ApiError(403, 'IP_NOT_ALLOWED', `The IP restriction of ${what} refuses the address of the client.`)
}

async function authenticate(doorkeeper: Doorkeeper, authorization: string | undefined): Promise<Principal> {
  const refuse = (word: string, message: string) =>
    new ApiError(401, word, message, {}, { 'www-authenticate': 'Bearer' })
  if (authorization === undefined) {
    throw refuse('AUTH_MISSING', 'The request needs an API key: Authorization: Bearer <key>.')
  }
  const key = /^Bearer +([\x21-\x7e]+) *$/i.exec(authorization)?.[1]
  if (key === undefined) throw refuse('AUTH_MALFORMED', 'Authorization must be: Bearer <key>.')
  const principal = await doorkeeper.authenticate(key)
  if (principal !== undefined) return principal
  const other = await doorkeeper.otherThanKey(key)
  if (other === undefined) throw refuse('AUTH_INVALID', 'The API key is not valid.')
  throw refuse('AUTH_WRONG_KIND', `What was given as API key is ${other}.`)
}

const VERSION = '2'

/** `ngrok-version` is what existing clients of this API send. */
function checkVersion({ headers }: FastifyRequest): void {
  const given = [headers['service-version'], headers['ngrok-version']].filter((version) => version !== undefined)
  if (given.length === 0) {
    throw new ApiError(400, 'VERSION_MISSING', `The request needs the header Service-Version: ${VERSION}.`)
  }
  if (given.some((version) => version !== VERSION)) {
    throw new ApiError(400, 'VERSION_UNSUPPORTED', `This API has one version: Service-Version: ${VERSION}.`)
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
    throw new ApiError(400, 'BODY_UNEXPECTED', message)
  }
}
