import type { Clock } from '../../lib/clock.js'
import { newId } from '../../lib/id.js'

/** User of a login, as the API lists it. */
export interface Visitor {
  /** Id for a user that is not known yet. */
  readonly id: string
  /** `github`, `oidc`, `saml`, … */
  readonly provider: string
  readonly issuer: string
  /** Id that the provider gives to the user. */
  readonly user: string
  readonly name: string
  readonly email: string
}

/** Session that a login has created. Times: wall clock, milliseconds. */
export interface Visit {
  readonly id: string
  /** Id in the sealed cookies. */
  readonly session: string
  /** Names by which all sessions of the user, and of the provider's session, are ended; see `endNames`. */
  readonly names: readonly [user: string, session: string]
  /** Route, endpoint, or other owner of the login. */
  readonly owner: string
  readonly url: string
  readonly address: string
  readonly agent: string
  readonly begun: number
  readonly ends: number
}

/** News for the store: created sessions, and when others were last used. */
export interface VisitorNews {
  readonly begun: readonly { readonly visitor: Visitor; readonly visit: Visit }[]
  readonly active: readonly { readonly session: string; readonly at: number }[]
}

/** Maximum number of sessions that wait for the store, created or used; further ones are not listed, or with an older time. */
const MOST_WAITING = 10_000
/** Maximum length of a name, address or User-Agent (characters). */
const LONGEST = 512
/** Minimum interval between reports of a session's use (ms). */
export const REPORT_EVERY = 60_000

/** Prefix of ids of users in the API. */
const VISITOR_ID = 'au'
/** Prefix of ids of sessions. */
const VISIT_ID = 'as'

/** Reports users and their sessions to the store, from which the API lists them. Logins do not depend on it. */
export class Visitors {
  readonly #clock: Clock
  readonly #send: (news: VisitorNews) => Promise<unknown>
  #begun: VisitorNews['begun'][number][] = []
  #active = new Map<string, number>()
  #sending: Promise<void> | undefined

  constructor(clock: Clock, send: (news: VisitorNews) => Promise<unknown>) {
    this.#clock = clock
    this.#send = send
  }

  /** Reports a new session, soon. */
  begun(visitor: Omit<Visitor, 'id'>, visit: Omit<Visit, 'id'>): void {
    if (this.#begun.length >= MOST_WAITING) return
    const now = this.#clock.wall()
    const { name, email, user } = visitor
    this.#begun.push({
      visitor: { ...visitor, id: newId(VISITOR_ID, now), name: short(name), email: short(email), user: short(user) },
      visit: { ...visit, id: newId(VISIT_ID, now), agent: short(visit.agent), url: short(visit.url) }
    })
    void this.flush()
  }

  /** Reports the use of a session, with the next flush. */
  active(session: string, at: number): void {
    if (this.#active.size < MOST_WAITING || this.#active.has(session)) this.#active.set(session, at)
  }

  /** Sends what waits. Does not reject: what could not be sent waits for the next flush. */
  flush(): Promise<void> {
    this.#sending ??= this.#flush().finally(() => {
      this.#sending = undefined
    })
    return this.#sending
  }

  async #flush(): Promise<void> {
    while (this.#begun.length > 0 || this.#active.size > 0) {
      const [begun, active] = [this.#begun, this.#active]
      this.#begun = []
      this.#active = new Map()
      try {
        await this.#send({ begun, active: [...active].map(([session, at]) => ({ session, at })) })
      } catch {
        this.#begun = [...begun, ...this.#begun].slice(0, MOST_WAITING)
        for (const [session, at] of active) if (!this.#active.has(session)) this.active(session, at)
        return
      }
    }
  }
}

/** Returns the beginning of a text in a form that every store keeps: no NUL, no half of a pair. */
function short(text: string): string {
  return Buffer.from(text.slice(0, LONGEST).replaceAll('\0', '\u{fffd}')).toString()
}
