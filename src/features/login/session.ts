import type { Memberships, Profile } from './providers.js'

/** A user who has logged in. Times are of the wall clock, in milliseconds. */
export interface Session extends Memberships {
  /** Random; the same as long as the session lasts. */
  readonly id: string
  /** Id of the application through which the user came. */
  readonly client: string
  /** Of the login. */
  readonly begun: number
  /** When it ends at the latest, as was said at the login: what a configuration says later only shortens it. */
  readonly ends: number
  /** When the provider was last asked about the user. */
  readonly checked: number
  readonly profile: Profile
  /** Of the lists that the memberships were looked up for; '' when there were none. */
  readonly listed: string
  readonly accessToken: string
  /** '' when there is none. */
  readonly refreshToken: string
  /** Of the access token; 0: not said. */
  readonly expiresAt: number
  /** '' when there is none. */
  readonly identityToken: string
  /** Of the session at the provider; '' when it does not say. */
  readonly sid: string
  /** Generation of its tokens: each refresh makes the next one. */
  readonly number: number
}

/** What cookies hold of a session that does not fit into them: the store has the rest. */
export type SessionReference = Pick<Session, 'id' | 'client' | 'begun' | 'ends' | 'number'> & {
  readonly profile?: never
}

/** 3: the end is said, and addresses are those that the provider vouches for, and no others. */
const VERSION = 3
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
    session.sid
  ])
}

export function encodeReference({ id, client, begun, ends, number }: Omit<SessionReference, 'profile'>): string {
  return JSON.stringify([REFERENCE, id, client, begun, ends, number])
}

/** Undefined for the form of another version. The text has been sealed by us. */
export function decodeSession(text: string): Session | SessionReference | undefined {
  const fields = JSON.parse(text) as readonly unknown[]
  if (fields[0] === REFERENCE) {
    const [, id, client, begun, ends, number] = fields as EncodedReference
    return { id, client, begun, ends, number }
  }
  if (fields[0] !== VERSION) return undefined
  const [, id, client, begun, ends, checked, [user, name, email, emails], teams, organizations, listed, ...tokens] =
    fields as Encoded
  // Sessions of before have no number, and no session at the provider.
  const [accessToken, refreshToken, expiresAt, identityToken, number = 0, sid = ''] = tokens
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
    sid
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
  sid?: string
]

type EncodedReference = readonly [
  version: number,
  id: string,
  client: string,
  begun: number,
  ends: number,
  number: number
]

/** A session that is in use, with what this process knows about it beside its cookies. Times: wall clock, milliseconds. */
export interface Held {
  /** Of its realm. */
  readonly tag: string
  readonly session: Session
  /** As browsers keep it. */
  readonly sealed: string
  /** Under which its provider ends it. */
  readonly endNames: readonly string[]
  /** Last request, as far as this process knows. */
  seen: number
  /** When the cookie with its activity was last renewed. */
  stamped: number
  /** It is over, whatever its cookies say. */
  ended: boolean
  /** The session that has taken its place. */
  successor: Held | undefined
  /** The provider is being asked. */
  checking: Promise<Held | 'ended' | 'unknown'> | undefined
  /** The provider is not asked before. Monotonic milliseconds. */
  restUntil: number
  /** What is published on each request. */
  results: Readonly<Record<string, unknown>> | undefined
}

/** Entries of one generation and their characters; two of them are kept. */
const SIZE = 4_096
const CHARACTERS = 64 * 1024 * 1024
const KEY_LENGTH = 24

/**
 * Sessions by the sealed text that browsers send, so that opening and reading it is done once. Two generations: what was not
 * used while the younger one filled up is forgotten, and opened again when it comes back.
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

/** The end of a sealed text is its tag, as good as random: hashing it costs less than hashing kilobytes. */
function keyOf(sealed: string): string {
  return sealed.slice(-KEY_LENGTH)
}

/** A session as it was sealed or opened. */
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
    stamped,
    ended: false,
    successor: undefined,
    checking: undefined,
    restUntil: 0,
    results: undefined
  }
}
