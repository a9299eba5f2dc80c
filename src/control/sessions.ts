import { createHash } from 'node:crypto'
import type { Clock } from '../lib/clock.js'
import { CodedError } from '../lib/errors.js'
import { type Json, timestampText } from '../lib/json.js'
import type { Sealer } from '../lib/seal.js'
import type { Resource } from '../resources/resource.js'
import type { Principals } from './access.js'
import type { Principal } from './calls.js'
import { ControlError, controlErrors, orUnavailable } from './errors.js'
import { membersOf, textOf } from './request-body.js'
import { rightsOf } from './rights.js'

/** How long sessions of the dashboard last. Milliseconds. */
export interface SessionLifetimes {
  /** Without a call. */
  readonly idle: number
  /** In all. */
  readonly longest: number
}

/** Lifetimes where none are given. */
export const SESSION_LIFETIMES: SessionLifetimes = { idle: 30 * 60_000, longest: 12 * 60 * 60_000 }

/** The body that opens a session, for the description of the API. */
export const SESSION_SCHEMA = {
  type: 'object',
  title: 'SessionRequest',
  properties: { key: { type: 'string', description: 'An API key. It is not kept.', minLength: 1, maxLength: 256 } },
  required: ['key'],
  additionalProperties: false
} as const

/** A session: what the cookie holds, and who it stands for. */
export interface Session {
  readonly principal: Principal
  /** What the cookie is to hold from now on; undefined: it stays as it is. */
  readonly cookie: string | undefined
  /** Milliseconds from now until it ends without another call. */
  readonly remaining: number
}

/** What the cookie holds, sealed: who reads it without the sealing key learns neither the API key nor when it was used. */
interface Held {
  readonly key: string
  /** Wall clock, milliseconds since the Unix epoch: processes of a cluster have one meaning of it, but for their skew. */
  readonly begun: number
  readonly used: number
}

interface SessionParts {
  readonly seal: Sealer
  readonly principals: Pick<Principals, 'authenticate'>
  readonly clock: Clock
  readonly lifetimes: SessionLifetimes
  readonly resources: readonly Resource[]
}

const OWNER = 'dashboard session'
/** A cookie is written anew when so much of its idle time has passed. */
const RENEWED_AFTER = 0.1
const MOST_COOKIE = 2_048

/**
 * Sessions of people who have signed in with an API key. The cookie carries all of it, sealed, so that every process of a
 * cluster knows it and a restart ends none. The key is asked for its owner again with each call: a key that is deleted or
 * an owner who is switched off ends the session at once.
 */
export class Sessions {
  readonly #parts: SessionParts
  /** Of the cookie, without the prefix of cookies that only TLS carries. Login cookies have this form: no upstream sees them. */
  readonly name: string

  constructor(parts: SessionParts) {
    this.#parts = parts
    // Browsers send cookies to all ports of a host: each installation has a name of its own.
    const tag = createHash('sha256').update(parts.seal.keyId).digest('hex').slice(0, 12)
    this.name = `sluice.dashboard.session.sl${tag}`
  }

  /** Signs in. Fails with `SESSION_KEY_INVALID` when the key opens nothing, and with `FORBIDDEN` when its owner is not active. */
  async open(body: unknown): Promise<Session & { readonly cookie: string }> {
    const { key } = membersOf(body, '', ['key'])
    const text = textOf(key, 'key')
    const principal = /^[\x21-\x7e]{1,256}$/.test(text) ? await this.#authenticate(text) : undefined
    if (principal === undefined) {
      throw new ControlError(controlErrors.SESSION_KEY_INVALID, 'the API key is not valid', { field: 'key' })
    }
    const now = this.#parts.clock.wall()
    return {
      principal: signedIn(principal),
      cookie: this.#sealed({ key: text, begun: now, used: now }),
      remaining: this.#remaining(now, now)
    }
  }

  /** The session of a cookie; undefined when it has ended or never was one. Fails with `FORBIDDEN` as `open` does. */
  async resume(cookie: string): Promise<Session | undefined> {
    const held = this.#opened(cookie)
    if (held === undefined) return undefined
    const { clock, lifetimes } = this.#parts
    const now = clock.wall()
    const unused = now - held.used
    if (unused >= lifetimes.idle || now - held.begun >= lifetimes.longest) return undefined
    const principal = await this.#authenticate(held.key)
    if (principal === undefined) return undefined
    const renewed = unused >= lifetimes.idle * RENEWED_AFTER
    return {
      principal: signedIn(principal),
      cookie: renewed ? this.#sealed({ ...held, used: now }) : undefined,
      remaining: this.#remaining(held.begun, renewed ? now : held.used)
    }
  }

  /** A caller as the API shows it, with what it may do. `remaining`: of the session; undefined: there is none. */
  shown(principal: Principal, remaining: number | undefined): Json {
    const { id, role, subject } = principal
    return {
      principal: { id, role, subject },
      rights: rightsOf(principal, this.#parts.resources),
      expires_at: remaining === undefined ? null : timestampText(this.#parts.clock.wall() + remaining)
    }
  }

  #authenticate(key: string): Promise<Principal | undefined> {
    return orUnavailable(this.#parts.principals.authenticate(key))
  }

  #remaining(begun: number, used: number): number {
    const { idle, longest } = this.#parts.lifetimes
    return Math.min(used + idle, begun + longest) - this.#parts.clock.wall()
  }

  #sealed(held: Held): string {
    return Buffer.from(this.#parts.seal.seal(Buffer.from(JSON.stringify(held)), OWNER)).toString('base64url')
  }

  #opened(cookie: string): Held | undefined {
    if (cookie.length > MOST_COOKIE) return undefined
    try {
      return JSON.parse(Buffer.from(this.#parts.seal.open(Buffer.from(cookie, 'base64url'), OWNER)).toString()) as Held
    } catch (error) {
      // Another installation's, one of a key that is gone, or one that was changed.
      if (error instanceof CodedError) return undefined
      throw error
    }
  }
}

function signedIn(principal: Principal): Principal {
  return { ...principal, source: 'Dashboard' }
}
