import type { Memberships, Profile } from './profile.js'

/** Somebody who has logged in. Times are of the wall clock, in milliseconds. */
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
}

/** 3: the end is said, and addresses are those that the provider vouches for, and no others. */
const VERSION = 3

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
    session.identityToken
  ])
}

/** Undefined for the form of another version. The text has been sealed by us. */
export function decodeSession(text: string): Session | undefined {
  const fields = JSON.parse(text) as readonly unknown[]
  if (fields[0] !== VERSION) return undefined
  const [, id, client, begun, ends, checked, [user, name, email, emails], teams, organizations, listed, ...tokens] =
    fields as Encoded
  const [accessToken, refreshToken, expiresAt, identityToken] = tokens
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
    identityToken
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
  identityToken: string
]
