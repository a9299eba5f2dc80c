import { createHash, randomBytes } from 'node:crypto'
import type { Clock } from '../lib/clock.js'
import { CodedError } from '../lib/errors.js'
import { type Json, timestampText } from '../lib/json.js'
import type { Sealer } from '../lib/seal.js'
import type { Resource } from '../resources/resource.js'
import type { Access } from './access.js'
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
  /** Random; what a sign-out ends, whichever of the session's cookies it came with. */
  readonly id: string
  readonly key: string
  /** Wall clock, milliseconds since the Unix epoch: processes of a cluster have one meaning of it, but for their skew. */
  readonly begun: number
  readonly used: number
}

/** Sessions that were ended before their time, by their ids, in all processes on one store and after a restart. */
export interface EndedSessions {
  /** `begun`: wall clock, milliseconds. */
  has(session: { readonly id: string; readonly begun: number }): boolean
  /** Ends a session here at once. `ends`: when it would have ended by itself. */
  end(session: { readonly id: string; readonly begun: number; readonly ends: number }): void
  /** Writes it into the store for the other processes. Fails with the store's error; then it is written once the store answers again. */
  keep(): Promise<void>
}

interface SessionParts {
  readonly seal: Sealer
  readonly access: Pick<Access, 'authenticate'>
  readonly ended: EndedSessions
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
 * an owner who is switched off ends the session at once. A session that is signed out is remembered until it would have ended.
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

  /**
   * Signs in. Fails with `SESSION_KEY_INVALID` when the key opens nothing, with `FORBIDDEN` when its owner is not active, and with
   * `KEYS_THROTTLED` when too many keys from `address` have opened nothing.
   */
  async open(body: unknown, address: string | undefined): Promise<Session & { readonly cookie: string }> {
    const { key } = membersOf(body, '', ['key'])
    const text = textOf(key, 'key')
    const principal = /^[\x21-\x7e]{1,256}$/.test(text)
      ? await this.#parts.access.authenticate(text, address)
      : undefined
    if (principal === undefined) {
      throw new ControlError(controlErrors.SESSION_KEY_INVALID, 'the API key is not valid', { field: 'key' })
    }
    const now = this.#parts.clock.wall()
    return {
      principal: signedIn(principal),
      cookie: this.#sealed({ id: randomBytes(16).toString('base64url'), key: text, begun: now, used: now }),
      remaining: this.#remaining(now, now)
    }
  }

  /** The session of a cookie; undefined when it has ended or never was one. Fails with `FORBIDDEN` as `open` does. */
  async resume(cookie: string, address: string | undefined): Promise<Session | undefined> {
    const held = this.#opened(cookie)
    if (held === undefined) return undefined
    const { clock, lifetimes } = this.#parts
    const now = clock.wall()
    const unused = now - held.used
    if (unused >= lifetimes.idle) return undefined
    const principal = await this.#ownerOf(held, address)
    if (principal === undefined) return undefined
    const renewed = unused >= lifetimes.idle * RENEWED_AFTER
    return {
      principal: signedIn(principal),
      cookie: renewed ? this.#sealed({ ...held, used: now }) : undefined,
      remaining: this.#remaining(held.begun, renewed ? now : held.used)
    }
  }

  /** The caller of an answer that is still being sent, which counts as use; undefined when the session has ended. Fails as `resume` does. */
  async watching(cookie: string, address: string | undefined): Promise<Principal | undefined> {
    const held = this.#opened(cookie)
    const principal = held === undefined ? undefined : await this.#ownerOf(held, address)
    return principal === undefined ? undefined : signedIn(principal)
  }

  /**
   * Signs out: every cookie of the session is dead, here at once and in the other processes within a second. Resolves with false for a
   * cookie that opens nothing. Fails with `UNAVAILABLE` when the store cannot keep it yet; then it holds in this process alone until it can.
   */
  async end(cookie: string): Promise<boolean> {
    const held = this.#opened(cookie)
    if (held === undefined) return false
    const { ended, lifetimes } = this.#parts
    ended.end({ id: held.id, begun: held.begun, ends: held.begun + lifetimes.longest })
    await orUnavailable(ended.keep())
    return true
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

  /** Undefined when the session is signed out or too old, or its key opens nothing any more. */
  async #ownerOf({ id, key, begun }: Held, address: string | undefined): Promise<Principal | undefined> {
    const { access, clock, ended, lifetimes } = this.#parts
    if (clock.wall() - begun >= lifetimes.longest || ended.has({ id, begun })) return undefined
    return await access.authenticate(key, address)
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
      const text = Buffer.from(this.#parts.seal.open(Buffer.from(cookie, 'base64url'), OWNER)).toString()
      const held = JSON.parse(text) as Partial<Held>
      // Version 0.2.0 made sessions without an id, which no sign-out could end.
      return held.id === undefined ? undefined : (held as Held)
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
