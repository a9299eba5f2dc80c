import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Principal } from '../control/calls.js'
import { SESSION } from '../control/session-answers.js'
import { SESSION_SCHEMA, type Session } from '../control/sessions.js'
import { type Account, addressOf } from './calls.js'
import { defineRoute, type RouteGroup } from './define-route.js'
import { ApiError, apiErrors } from './errors.js'

/** Sessions by the cookies of requests. */
export interface SessionCookies {
  /**
   * Returns the session of a request, and renews its cookie if due; undefined without a session. Fails with `SESSION_ENDED`,
   * and with `FORBIDDEN` if the owner of its key is inactive.
   */
  resume(request: FastifyRequest, reply: FastifyReply): Promise<Session | undefined>
  /** Returns the caller of a streaming response by its session; undefined if the session has ended. Rejects if the store is unavailable. */
  watching(request: FastifyRequest): Promise<Principal | undefined>
}

/** Reads and renews the cookies of sessions. */
export function sessionCookies({ sessions }: Pick<Account, 'sessions'>): SessionCookies {
  return {
    async resume(request, reply) {
      const cookies = cookiesOf(request, sessions.name)
      if (cookies.length === 0) return undefined
      const found = await firstOf(cookies, ({ value }) => sessions.resume(value, addressOf(request)))
      takeBack(reply, cookies, found?.cookie)
      if (found === undefined) {
        throw new ApiError(apiErrors.SESSION_ENDED, 'The session has ended: sign in again, or send an API key.')
      }
      const { cookie, of: session } = found
      if (session.cookie !== undefined) {
        reply.header('set-cookie', cookieText(cookie.name, session.cookie, session.remaining))
      }
      return session
    },
    async watching(request) {
      const cookies = cookiesOf(request, sessions.name)
      return (await firstOf(cookies, ({ value }) => sessions.watching(value, addressOf(request))))?.of
    }
  }
}

/**
 * Returns the result of the first cookie that `read` accepts: a browser may send an old one first, of another path or from
 * before TLS was used. Fails with the first failure if none is accepted.
 */
async function firstOf<T>(
  cookies: readonly SessionCookie[],
  read: (cookie: SessionCookie) => Promise<T | undefined>
): Promise<{ readonly cookie: SessionCookie; readonly of: T } | undefined> {
  let failure: unknown
  for (const cookie of cookies) {
    try {
      const of = await read(cookie)
      if (of !== undefined) return { cookie, of }
    } catch (error) {
      failure ??= error
    }
  }
  if (failure !== undefined) throw failure
  return undefined
}

/** Makes the browser forget cookies, but not the one that is good. */
function takeBack(reply: FastifyReply, cookies: readonly SessionCookie[], good?: SessionCookie): void {
  const names = new Set(cookies.map(({ name }) => name))
  if (good !== undefined) names.delete(good.name)
  for (const name of names) reply.header('set-cookie', cookieText(name, '', 0))
}

interface SessionService {
  readonly account: Pick<Account, 'sessions'>
}

const signIn = defineRoute({
  method: 'POST',
  path: '/session',
  id: 'session_create',
  summary:
    'Signs in with an API key, for pages in a browser: the answer sets a cookie that ends after api.session_idle without a call, and that counts for calls of pages of this origin alone.',
  access: 'open',
  entrance: 'dashboard',
  body: { schema: SESSION_SCHEMA, limit: 4_096 },
  status: 201,
  answers: 'Signed in; the cookie is in set-cookie.',
  answer: SESSION,
  async run({ body, address }, { account: { sessions } }: SessionService) {
    const { principal, cookie, remaining } = await sessions.open(body, address)
    return { name: sessions.name, cookie, remaining, shown: sessions.shown(principal, remaining) }
  },
  send(reply, { name, cookie, remaining, shown }, _asked, request) {
    reply.header('cache-control', 'no-store')
    reply.header('set-cookie', cookieText(`${prefix(request)}${name}`, cookie, remaining))
    return reply.code(201).send(shown)
  }
})

const readSession = defineRoute({
  method: 'GET',
  path: '/session',
  id: 'session_get',
  summary: 'Who the caller is and what it may do.',
  entrance: 'dashboard',
  answers: 'The caller.',
  answer: SESSION,
  run: (_asked, { account }: SessionService) => account.sessions,
  send: (reply, sessions, { call }, request) => reply.send(sessions.shown(call.principal, request.sessionRemaining))
})

const signOut = defineRoute({
  method: 'DELETE',
  path: '/session',
  id: 'session_delete',
  summary: 'Signs out: the cookie is taken back.',
  entrance: 'dashboard',
  status: 204,
  answers: 'Signed out.',
  run: (_asked, { account }: SessionService) => account.sessions,
  async send(reply, sessions, _asked, request) {
    const cookies = cookiesOf(request, sessions.name)
    takeBack(reply, cookies)
    for (const { value } of cookies) await sessions.end(value)
    return reply.code(204).send()
  }
})

/** Routes of signing in and out, and of the current session. */
export const sessionRoutes: RouteGroup<SessionService> = {
  tag: 'Session',
  description: 'Who calls.',
  revision: false,
  routes: [signIn, readSession, signOut]
}

const OVER_TLS = '__Host-'

/** A browser names its page's scheme when it sends a body (RFC 6454 7): over TLS the cookie is one for TLS alone (RFC 6265bis 4.1.3.2). */
function prefix({ headers: { origin } }: FastifyRequest): string {
  return origin?.startsWith('https://') === true ? OVER_TLS : ''
}

interface SessionCookie {
  readonly name: string
  readonly value: string
}

/** Maximum number of checked session cookies; a browser has one, or two after a change of scheme. */
const MOST_COOKIES = 4

function cookiesOf({ headers }: FastifyRequest, name: string): readonly SessionCookie[] {
  const cookies: SessionCookie[] = []
  for (const pair of (headers.cookie ?? '').split(';')) {
    const equals = pair.indexOf('=')
    const given = pair.slice(0, Math.max(equals, 0)).trim()
    if (given !== name && given !== `${OVER_TLS}${name}`) continue
    cookies.push({ name: given, value: pair.slice(equals + 1).trim() })
    if (cookies.length === MOST_COOKIES) break
  }
  return cookies
}

/** Builds a cookie. `lasting`: milliseconds; 0 deletes it. */
function cookieText(name: string, value: string, lasting: number): string {
  const secure = name.startsWith(OVER_TLS) ? '; Secure' : ''
  return `${name}=${value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${Math.floor(lasting / 1000)}${secure}`
}
