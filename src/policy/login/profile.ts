/** Who a user is, as the provider says. */
export interface Profile {
  /** Never changes and never becomes another user's. */
  readonly id: string
  readonly name: string
  /** For people to read; '' when there is none. */
  readonly email: string
  /** Addresses in lower case that the provider vouches for: these decide who may pass. */
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

/** A profile with the one address that the provider has checked, or with none. */
export function profileOf(id: unknown, name: unknown, email: unknown, vouched = true): Profile {
  const address = textOf(email)
  return {
    id: textOf(id),
    name: textOf(name),
    email: address,
    emails: vouched && isAddress(address) ? [address.toLowerCase()] : []
  }
}

function isAddress(text: string): boolean {
  const at = text.lastIndexOf('@')
  return at > 0 && at < text.length - 1
}

/** From the claims of OpenID Connect (Core 5.1). An address that the provider has not checked vouches for nobody. */
export function profileOfClaims(claims: Json): Profile {
  const { sub, name, preferred_username, email, email_verified } = claims
  const vouched = email_verified !== false && email_verified !== 'false'
  return profileOf(sub, textOf(name) === '' ? preferred_username : name, email, vouched)
}
