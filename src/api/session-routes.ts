import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Session } from '../control/sessions.js'
import { type Account, callOf, queryOf } from './calls.js'
import { ApiError, apiErrors } from './errors.js'
import { type Router, route } from './routes.js'

/** The session of the caller. */
export const SESSION_PATH = '/session'

/** Sessions by the cookies of requests. */
export interface SessionCookies {
  /**
   * The session of a request, and its cookie anew where that is due; undefined: it carries none. Fails with `SESSION_ENDED`, and
   * with `FORBIDDEN` when the owner of its key is not active.
   */
  resume(request: FastifyRequest, reply: FastifyReply): Promise<Session | undefined>
}

/** Reads and renews the cookies of sessions. */
export function sessionCookies({ sessions }: Pick<Account, 'sessions'>): SessionCookies {
  return {
    async resume(request, reply) {
      const cookie = cookieOf(request, sessions.name)
      if (cookie === undefined) return undefined
      const session = await sessions.resume(cookie.value)
      if (session === undefined) {
        reply.header('set-cookie', cookieText(cookie.name, '', 0))
        throw new ApiError(apiErrors.SESSION_ENDED, 'The session has ended: sign in again, or send an API key.')
      }
      if (session.cookie !== undefined) {
        reply.header('set-cookie', cookieText(cookie.name, session.cookie, session.remaining))
      }
      return session
    }
  }
}

/** Signing in and out, and who is signed in. */
export function addSessions(router: Router, { sessions }: Pick<Account, 'sessions'>): void {
  route(
    router,
    'POST',
    SESSION_PATH,
    { open: true, entrance: 'dashboard', body: 'json', limit: 4_096 },
    async (request, reply) => {
      queryOf(request, [])
      const { principal, cookie, remaining } = await sessions.open(request.body)
      reply.header('cache-control', 'no-store')
      reply.header('set-cookie', cookieText(`${prefix(request)}${sessions.name}`, cookie, remaining))
      return reply.code(201).send(sessions.shown(principal, remaining))
    }
  )
  route(router, 'GET', SESSION_PATH, { entrance: 'dashboard' }, async (request, reply) => {
    queryOf(request, [])
    return reply.send(sessions.shown(callOf(request).principal, request.sessionRemaining))
  })
  route(router, 'DELETE', SESSION_PATH, { entrance: 'dashboard' }, async (request, reply) => {
    queryOf(request, [])
    const cookie = cookieOf(request, sessions.name)
    if (cookie !== undefined) reply.header('set-cookie', cookieText(cookie.name, '', 0))
    return reply.code(204).send()
  })
}

const OVER_TLS = '__Host-'

/** A browser names its page's scheme when it sends a body (RFC 6454 7): over TLS the cookie is one for TLS alone (RFC 6265bis 4.1.3.2). */
function prefix({ headers: { origin } }: FastifyRequest): string {
  return origin?.startsWith('https://') === true ? OVER_TLS : ''
}

function cookieOf({ headers }: FastifyRequest, name: string): { name: string; value: string } | undefined {
  for (const pair of (headers.cookie ?? '').split(';')) {
    const equals = pair.indexOf('=')
    const given = pair.slice(0, Math.max(equals, 0)).trim()
    if (given === name || given === `${OVER_TLS}${name}`) return { name: given, value: pair.slice(equals + 1).trim() }
  }
  return undefined
}

/** `lasting`: milliseconds; 0: it is over. */
function cookieText(name: string, value: string, lasting: number): string {
  const secure = name.startsWith(OVER_TLS) ? '; Secure' : ''
  return `${name}=${value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${Math.floor(lasting / 1000)}${secure}`
}
