import { createHash, randomBytes } from 'node:crypto'
import type { Clock } from '../lib/clock.js'
import { CodedError } from '../lib/errors.js'
import { timestampText } from '../lib/json.js'
import type { Sealer } from '../lib/seal.js'
import type { Resource } from '../resources/resource.js'
import type { Access } from './access.js'
import type { Principal } from './calls.js'
import { ControlError, controlErrors, orUnavailable } from './errors.js'
import { membersOf, textOf } from './request-body.js'
import { rightsOf } from './rights.js'
import type { SessionView } from './session-answers.js'

/** Lifetimes of dashboard sessions (ms). */
export interface SessionLifetimes {
  /** Maximum time without a call. */
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

/** A session: its cookie, and its principal. */
export interface Session {
  readonly principal: Principal
  /** New contents of the cookie; undefined if unchanged. */
  readonly cookie: string | undefined
  /** Milliseconds from now until it ends without another call. */
  readonly remaining: number
}

/** Contents of the cookie, encrypted: without the sealing key neither the API key nor the time of its use can be read. */
interface Held {
  /** Random id; a sign-out with any cookie of the session ends it. */
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
  /** Ends a session immediately in this process. `ends`: its regular end. */
  end(session: { readonly id: string; readonly begun: number; readonly ends: number }): void
  /**
   * Writes the ended sessions to the store for other processes. Fails with the store's error; the write is repeated once the store is available.
   */
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
/** Share of the idle time after which a cookie is renewed. */
const RENEWED_AFTER = 0.1
/** Maximum length of a cookie (characters). */
const MOST_COOKIE = 2_048

/**
 * Sessions of users who signed in with an API key. The cookie has all their state, encrypted, so that every process of a
 * cluster accepts it, and restarts end no session. The key's owner is checked on each call: deleting the key or deactivating
 * its owner ends the session immediately. A signed-out session is remembered until its regular end.
 */
export class Sessions {
  readonly #parts: SessionParts
  /** Name of the cookie, without the prefix of TLS-only cookies. It has the form of login cookies, which are not forwarded to upstreams. */
  readonly name: string

  constructor(parts: SessionParts) {
    this.#parts = parts
    // Browsers send cookies to all ports of a host: each installation has its own name.
    const tag = createHash('sha256').update(parts.seal.keyId).digest('hex').slice(0, 12)
    this.name = `sluice.dashboard.session.sl${tag}`
  }

  /**
   * Signs in. Fails with `SESSION_KEY_INVALID` if the key is invalid, with `FORBIDDEN` if its owner is inactive, and with
   * `KEYS_THROTTLED` after too many invalid keys from `address`.
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

  /** Returns the caller of a streaming response, which counts as use; undefined if the session has ended. Fails as `resume` does. */
  async watching(cookie: string, address: string | undefined): Promise<Principal | undefined> {
    const held = this.#opened(cookie)
    const principal = held === undefined ? undefined : await this.#ownerOf(held, address)
    return principal === undefined ? undefined : signedIn(principal)
  }

  /**
   * Signs out: invalidates every cookie of the session, here immediately and in other processes within a second. Resolves with false for an
   * invalid cookie. Fails with `UNAVAILABLE` if the store is unavailable; until it is back, only this process rejects the session.
   */
  async end(cookie: string): Promise<boolean> {
    const held = this.#opened(cookie)
    if (held === undefined) return false
    const { ended, lifetimes } = this.#parts
    ended.end({ id: held.id, begun: held.begun, ends: held.begun + lifetimes.longest })
    await orUnavailable(ended.keep())
    return true
  }

  /** Returns the public form of a caller, with its rights. `remaining`: remaining time of the session; undefined without one. */
  shown(principal: Principal, remaining: number | undefined): SessionView {
    const { id, role, subject } = principal
    return {
      principal: { id, role, subject },
      rights: rightsOf(principal, this.#parts.resources),
      expires_at: remaining === undefined ? null : timestampText(this.#parts.clock.wall() + remaining)
    }
  }

  /** Returns the owner; undefined if the session is signed out or too old, or its key is no longer valid. */
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
      // The cookie of another installation or a replaced key, or a modified one.
      if (error instanceof CodedError) return undefined
      throw error
    }
  }
}

function signedIn(principal: Principal): Principal {
  return { ...principal, source: 'Dashboard' }
}
