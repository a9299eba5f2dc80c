import type { Memberships, Profile } from './providers.js'

/** Session of a logged-in user. Times: wall clock, milliseconds. */
export interface Session extends Memberships {
  /** Random and permanent. */
  readonly id: string
  /** Id of the application used for the login. */
  readonly client: string
  /** Time of the login. */
  readonly begun: number
  /** Latest end as set at the login; a later configuration can only shorten it. */
  readonly ends: number
  /** Last check with the provider. */
  readonly checked: number
  readonly profile: Profile
  /** Lists for which memberships were looked up; '' for none. */
  readonly listed: string
  readonly accessToken: string
  /** '' if missing. */
  readonly refreshToken: string
  /** Expiry of the access token; 0: unknown. */
  readonly expiresAt: number
  /** '' if missing. */
  readonly identityToken: string
  /** Session id at the provider; '' if unknown. */
  readonly sid: string
  /** Values of a SAML assertion's attributes by their names; empty for other logins. */
  readonly attributes: Readonly<Record<string, readonly string[]>>
  /** Generation of its tokens, incremented by each refresh. */
  readonly number: number
}

/** Reference in cookies to a session that does not fit; the store has the rest. */
export type SessionReference = Pick<Session, 'id' | 'client' | 'begun' | 'ends' | 'number'> & {
  readonly profile?: never
}

/** Format 3: with an end time, and verified addresses only. */
const VERSION = 3
/** Format of a reference. */
const REFERENCE = 4

export function encodeSession(session: Session): string {
  const { profile, teams, organizations } = session
  return JSON.stringify([
    VERSION,
    session.id,
    session.client,
    session.begun,
    session.ends,
    session.checked,
    [profile.id, profile.name, profile.email, profile.emails],
    teams,
    organizations,
    session.listed,
    session.accessToken,
    session.refreshToken,
    session.expiresAt,
    session.identityToken,
    session.number,
    session.sid,
    ...(Object.keys(session.attributes).length === 0 ? [] : [session.attributes])
  ])
}

export function encodeReference({ id, client, begun, ends, number }: Omit<SessionReference, 'profile'>): string {
  return JSON.stringify([REFERENCE, id, client, begun, ends, number])
}

/** Decodes a sealed text of ours; undefined for another format. */
export function decodeSession(text: string): Session | SessionReference | undefined {
  const fields = JSON.parse(text) as readonly unknown[]
  if (fields[0] === REFERENCE) {
    const [, id, client, begun, ends, number] = fields as EncodedReference
    return { id, client, begun, ends, number }
  }
  if (fields[0] !== VERSION) return undefined
  const [, id, client, begun, ends, checked, [user, name, email, emails], teams, organizations, listed, ...tokens] =
    fields as Encoded
  // Older sessions have no number and no session id of the provider.
  const [accessToken, refreshToken, expiresAt, identityToken, number = 0, sid = '', attributes = {}] = tokens
  return {
    id,
    client,
    begun,
    ends,
    checked,
    profile: { id: user, name, email, emails },
    teams,
    organizations,
    listed,
    accessToken,
    refreshToken,
    expiresAt,
    identityToken,
    number,
    sid,
    attributes
  }
}

type Encoded = readonly [
  version: number,
  id: string,
  client: string,
  begun: number,
  ends: number,
  checked: number,
  profile: readonly [id: string, name: string, email: string, emails: readonly string[]],
  teams: readonly string[],
  organizations: readonly string[],
  listed: string,
  accessToken: string,
  refreshToken: string,
  expiresAt: number,
  identityToken: string,
  number?: number,
  sid?: string,
  attributes?: Session['attributes']
]

type EncodedReference = readonly [
  version: number,
  id: string,
  client: string,
  begun: number,
  ends: number,
  number: number
]

/** Session in use, with state beside its cookies. Times: wall clock, milliseconds. */
export interface Held {
  /** Tag of its realm. */
  readonly tag: string
  readonly session: Session
  /** Sealed text in the browser's cookies. */
  readonly sealed: string
  /** Names by which its provider ends it. */
  readonly endNames: readonly [user: string, session: string]
  /** Last request known to this process. */
  seen: number
  /** Last report of its use for the API. */
  reported: number
  /** Last renewal of the activity cookie. */
  stamped: number
  /** True for an ended session, whatever its cookies. */
  ended: boolean
  /** Session that has replaced it. */
  successor: Held | undefined
  /** Running check with the provider. */
  checking: Promise<Held | 'ended' | 'unknown'> | undefined
  /** Earliest next check with the provider. Monotonic milliseconds. */
  restUntil: number
  /** Results published for each request. */
  results: Readonly<Record<string, unknown>> | undefined
}

/** Maximum entries of one generation; two are kept. */
const SIZE = 4_096
/** Maximum characters of one generation. */
const CHARACTERS = 64 * 1024 * 1024
/** Length of a cache key (characters). */
const KEY_LENGTH = 24

/**
 * Cache of sessions by their sealed text, so that each is opened and parsed once. Of two generations, the older is dropped when the younger
 * is full; its sessions are opened again when needed.
 */
export class SessionCache {
  #young = new Map<string, Held>()
  #old = new Map<string, Held>()
  #characters = 0

  get(sealed: string): Held | undefined {
    const key = keyOf(sealed)
    let held = this.#young.get(key)
    if (held === undefined) {
      held = this.#old.get(key)
      if (held !== undefined) this.set(held)
    }
    return held?.sealed === sealed ? held : undefined
  }

  set(held: Held): void {
    if (this.#young.size >= SIZE || this.#characters >= CHARACTERS) {
      this.#characters = 0
      this.#old = this.#young
      this.#young = new Map()
    }
    const { accessToken, refreshToken, identityToken } = held.session
    this.#characters += held.sealed.length + accessToken.length + refreshToken.length + identityToken.length
    this.#young.set(keyOf(held.sealed), held)
  }
}

/** Returns the end of a sealed text, its authentication tag: as good as random, and cheaper to hash than kilobytes. */
function keyOf(sealed: string): string {
  return sealed.slice(-KEY_LENGTH)
}

/** Returns the session state for a sealed or opened session. */
export function hold(
  { tag, endNames }: Pick<Held, 'tag' | 'endNames'>,
  session: Session,
  sealed: string,
  stamped: number
): Held {
  return {
    tag,
    session,
    sealed,
    endNames,
    seen: session.checked,
    reported: session.checked,
    stamped,
    ended: false,
    successor: undefined,
    checking: undefined,
    restUntil: 0,
    results: undefined
  }
}
