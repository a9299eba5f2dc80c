/** Who a user is, as the provider says. */
export interface Profile {
  /** Never changes and never becomes another user's. */
  readonly id: string
  readonly name: string
  /** As the provider writes it; '' when there is none that the provider vouches for: rules judge by it. */
  readonly email: string
  /** All addresses that the provider vouches for, in lower case: these decide who may pass. */
  readonly emails: readonly string[]
}

/** Memberships in lower case: `<organization>/<team>` or the number of a team, and slugs of organizations. */
export interface Memberships {
  readonly teams: readonly string[]
  readonly organizations: readonly string[]
}

/** What a provider's API answers. */
export type Json = Readonly<Record<string, unknown>>

/** The API of a provider, with the access token of one user. Rejects with a ProviderFailure. */
export interface ProviderApi {
  object(path: string): Promise<Json>
  /** The objects of a list, over all of its pages. */
  list(path: string): Promise<readonly Json[]>
}

export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : typeof value === 'number' ? String(value) : ''
}

/** A profile with the one address that the provider vouches for, or with none. */
export function profileOf(id: unknown, name: unknown, email: unknown, vouched: boolean): Profile {
  const address = vouched && isAddress(textOf(email)) ? textOf(email) : ''
  return { id: textOf(id), name: textOf(name), email: address, emails: address === '' ? [] : [address.toLowerCase()] }
}

function isAddress(text: string): boolean {
  const at = text.lastIndexOf('@')
  return at > 0 && at < text.length - 1
}

/**
 * From the claims of OpenID Connect (Core 5.1): those of the identity token, and those of the userinfo endpoint, which win. What
 * one of them says about its address says nothing about another address. `vouches`: an address counts without the claim
 * `email_verified` too.
 */
export function profileOfClaims(token: Json, userinfo: Json, vouches: boolean): Profile {
  const { sub, name, preferred_username } = { ...token, ...userinfo }
  const { email } = userinfo.email === undefined ? token : userinfo
  const said = [userinfo, token].filter((claims) => claims.email === email).map(({ email_verified }) => email_verified)
  const verified = said.find((claim) => claim !== undefined && claim !== null) ?? vouches
  // Some write it as a text.
  const vouched = verified === true || verified === 'true'
  return profileOf(sub, textOf(name) === '' ? preferred_username : name, email, vouched)
}
