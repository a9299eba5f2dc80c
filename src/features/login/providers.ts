/** User profile from the provider. */
export interface Profile {
  /** Permanent and never reused for another user. */
  readonly id: string
  readonly name: string
  /** Address as written by the provider; '' without a verified one, because rules use it. */
  readonly email: string
  /** All verified addresses in lower case, for the access lists. */
  readonly emails: readonly string[]
}

/** Lower-case memberships: `<organization>/<team>` or team numbers, and organization slugs. */
export interface Memberships {
  readonly teams: readonly string[]
  readonly organizations: readonly string[]
}

/** Object in a provider's response. */
export type Json = Readonly<Record<string, unknown>>

/** API of a provider with the access token of one user. Rejects with a ProviderFailure. */
export interface ProviderApi {
  object(path: string): Promise<Json>
  /** Returns the objects of a list from all of its pages. */
  list(path: string): Promise<readonly Json[]>
}

export function textOf(value: unknown): string {
  if (typeof value === 'string') return value
  return typeof value === 'number' || typeof value === 'bigint' ? String(value) : ''
}

/** Returns a profile with its verified address, or without one. */
function profileOf(id: unknown, name: unknown, email: unknown, vouched: boolean): Profile {
  const address = vouched && isAddress(textOf(email)) ? textOf(email) : ''
  return { id: textOf(id), name: textOf(name), email: address, emails: address === '' ? [] : [address.toLowerCase()] }
}

function isAddress(text: string): boolean {
  const at = text.lastIndexOf('@')
  return at > 0 && at < text.length - 1
}

/**
 * Returns the profile from OpenID Connect claims (Core 5.1): those of the userinfo endpoint override those of the identity token. A
 * verification applies only to the address in the same source. `vouches`: accepts an address without the claim `email_verified`.
 */
export function profileOfClaims(token: Json, userinfo: Json, vouches: boolean): Profile {
  const { sub, name, preferred_username } = { ...token, ...userinfo }
  const { email } = userinfo.email === undefined ? token : userinfo
  const claimed = [userinfo, token]
    .filter((claims) => claims.email === email)
    .map(({ email_verified }) => email_verified)
  const verified = claimed.find((claim) => claim !== undefined && claim !== null) ?? vouches
  // Some providers write it as text.
  const vouched = verified === true || verified === 'true'
  return profileOf(sub, textOf(name) === '' ? preferred_username : name, email, vouched)
}

/** Returns the user with the addresses that GitHub has verified; the primary one is shown. */
async function githubProfile(api: ProviderApi): Promise<Profile> {
  const [user, addresses] = await Promise.all([api.object('/user'), api.list('/user/emails')])
  const checked = addresses.filter(({ verified }) => verified === true)
  const primary = checked.find((address) => address.primary === true) ?? checked[0]
  const name = textOf(user.name)
  return {
    id: textOf(user.id),
    name: name === '' ? textOf(user.login) : name,
    email: textOf(primary?.email),
    emails: checked.map(({ email }) => textOf(email).toLowerCase())
  }
}

/** Returns teams by slug and number, and organizations that the token may read. */
async function githubMemberships(api: ProviderApi): Promise<Memberships> {
  const [teams, organizations] = await Promise.all([api.list('/user/teams'), api.list('/user/orgs')])
  return {
    teams: teams.flatMap((team) => [teamOf(team), textOf(team.id)]),
    organizations: organizations.map(({ login }) => textOf(login).toLowerCase())
  }
}

function teamOf({ organization, slug }: Json): string {
  const { login } = (organization ?? {}) as Json
  return `${textOf(login)}/${textOf(slug)}`.toLowerCase()
}

interface Common {
  /** Default scopes, also added to a given list without them. */
  readonly scopes: readonly string[]
  /** Scopes that the provider no longer accepts; removed from a given list. */
  readonly retired?: readonly string[]
  /**
   * Accepts an address without a statement about its verification, by the provider's documentation; the operator's file may override it.
   * Ignored for a provider that states it for each address.
   */
  readonly vouches: boolean
  /** False: the provider does not support RFC 7636 for applications with a secret. State and nonce remain. */
  readonly proofKey: boolean
}

/** Provider with discovery and signed identity tokens. */
interface OpenidProvider extends Common {
  readonly kind: 'openid'
  readonly issuer: string
  /** False: its identity tokens have no nonce. State remains. */
  readonly nonce: boolean
  /** Place of the secret if the discovery document does not state it. @default the header, by OpenID Connect Discovery 3 */
  readonly secretIn?: 'body'
}

/** Provider with an access token (RFC 6749) for its own API, which identifies the user. */
export interface ApiProvider extends Common {
  readonly kind: 'api'
  /** Issuer in responses by RFC 9207, if any. */
  readonly issuer: string
  readonly authorization: string
  readonly token: string
  readonly api: string
  /** Field of API requests with the application id. */
  readonly clientField?: string
  readonly profile: (api: ProviderApi, vouches: boolean) => Promise<Profile>
  readonly memberships?: (api: ProviderApi) => Promise<Memberships>
}

/** Identity provider of SAML 2.0, described by its metadata. */
export interface SamlProvider {
  readonly kind: 'saml'
  /** Entity id in the metadata, or the URL of the metadata. */
  readonly issuer: string
  readonly metadata:
    | { readonly url: string; readonly xml?: undefined }
    | { readonly url?: undefined; readonly xml: string }
  /** The identity provider must ask for a password even if the user is logged in there. */
  readonly forceAuthn: boolean
  /** Accepts logins that the identity provider begins. */
  readonly unsolicited: boolean
  readonly nameIdFormat: string
  /** Signs the query of a request; undefined without a key. */
  readonly sign: ((query: URLSearchParams) => string) | undefined
  /** Certificate of that key, PEM; '' without a key. */
  readonly certificate: string
}

/** Provider with tokens. */
export type Provider = OpenidProvider | ApiProvider

export const PROVIDER_NAMES = [
  'amazon',
  'facebook',
  'github',
  'gitlab',
  'google',
  'linkedin',
  'microsoft',
  'twitch'
] as const
export type ProviderName = (typeof PROVIDER_NAMES)[number]

/** Well-known providers. URLs, scopes and members are from the documentation cited in each entry. */
export const PROVIDERS: Readonly<Record<ProviderName, Provider>> = {
  // developer.amazon.com/docs/login-with-amazon: authorization-code-grant, obtain-customer-profile
  amazon: {
    kind: 'api',
    issuer: 'https://www.amazon.com',
    authorization: 'https://www.amazon.com/ap/oa',
    token: 'https://api.amazon.com/auth/o2/token',
    api: 'https://api.amazon.com',
    scopes: ['profile'],
    proofKey: true,
    // Registered address, which Amazon verifies by a code.
    vouches: true,
    profile: async (api, vouches) => {
      const { user_id, name, email } = await api.object('/user/profile')
      return profileOf(user_id, name, email, vouches)
    }
  },
  // developers.facebook.com/docs/facebook-login/guides/advanced/manual-flow, docs/graph-api/reference/user
  facebook: {
    kind: 'api',
    issuer: 'https://www.facebook.com',
    authorization: 'https://www.facebook.com/v26.0/dialog/oauth',
    token: 'https://graph.facebook.com/v26.0/oauth/access_token',
    api: 'https://graph.facebook.com/v26.0',
    scopes: ['email'],
    // Its dialog ignores a challenge without the scope openid, and its token endpoint then rejects the verifier.
    proofKey: false,
    // Only valid addresses are returned, which the user has confirmed.
    vouches: true,
    profile: async (api, vouches) => {
      const { id, name, email } = await api.object('/me?fields=id,name,email')
      return profileOf(id, name, email, vouches)
    }
  },
  // docs.github.com: authorizing-oauth-apps; rest/users/users, rest/users/emails, rest/teams/teams, rest/orgs/orgs
  github: {
    kind: 'api',
    issuer: 'https://github.com/login/oauth',
    authorization: 'https://github.com/login/oauth/authorize',
    token: 'https://github.com/login/oauth/access_token',
    api: 'https://api.github.com',
    // read:user alone does not show which addresses are verified.
    scopes: ['read:org', 'read:user', 'user:email'],
    proofKey: true,
    vouches: false,
    profile: githubProfile,
    memberships: githubMemberships
  },
  // docs.gitlab.com/integration/openid_connect_provider
  gitlab: {
    kind: 'openid',
    issuer: 'https://gitlab.com',
    scopes: ['openid', 'email', 'profile'],
    proofKey: true,
    // Its identity token and userinfo contain email_verified.
    vouches: false,
    nonce: true
  },
  // developers.google.com/identity/openid-connect/openid-connect
  google: {
    kind: 'openid',
    issuer: 'https://accounts.google.com',
    scopes: [
      'openid',
      'https://www.googleapis.com/auth/userinfo.email',
      'https://www.googleapis.com/auth/userinfo.profile'
    ],
    proofKey: true,
    // The claim is present for every address.
    vouches: false,
    nonce: true
  },
  // learn.microsoft.com/linkedin/consumer/integrations/self-serve/sign-in-with-linkedin-v2
  linkedin: {
    kind: 'openid',
    issuer: 'https://www.linkedin.com/oauth',
    scopes: ['openid', 'email', 'profile'],
    retired: ['r_emailaddress', 'r_liteprofile'],
    // Its proof keys are for native applications without a secret, at other endpoints.
    proofKey: false,
    // The claim is optional, and its absence means unverified.
    vouches: false,
    nonce: false,
    secretIn: 'body'
  },
  // learn.microsoft.com/entra/identity-platform/v2-oauth2-auth-code-flow, graph/api/user-get. `common` accepts users of all organizations
  // and personal accounts; the operator's file can set the endpoints of one organization.
  microsoft: {
    kind: 'api',
    issuer: 'https://login.microsoftonline.com/common/v2.0',
    authorization: 'https://login.microsoftonline.com/common/oauth2/v2.0/authorize',
    token: 'https://login.microsoftonline.com/common/oauth2/v2.0/token',
    api: 'https://graph.microsoft.com/v1.0',
    scopes: ['User.Read'],
    proofKey: true,
    vouches: false,
    profile: async (api) => microsoftProfile(await api.object('/me'))
  },
  // dev.twitch.tv/docs/authentication/getting-tokens-oauth, docs/api/reference (Get Users)
  twitch: {
    kind: 'api',
    issuer: 'https://id.twitch.tv/oauth2',
    authorization: 'https://id.twitch.tv/oauth2/authorize',
    token: 'https://id.twitch.tv/oauth2/token',
    api: 'https://api.twitch.tv/helix',
    clientField: 'client-id',
    scopes: ['user:read:email'],
    proofKey: false,
    // Get Users returns only the verified address.
    vouches: true,
    profile: async (api, vouches) => {
      const { data } = await api.object('/users')
      const { id, display_name, email } = (Array.isArray(data) ? (data[0] ?? {}) : {}) as Json
      return profileOf(id, display_name, email, vouches)
    }
  }
}

/** Returns the name of a well-known provider; undefined for others. */
export function wellKnownName(issuer: string): ProviderName | undefined {
  return PROVIDER_NAMES.find((name) => PROVIDERS[name].issuer === issuer)
}

/**
 * Returns the profile. An administrator of any organization can write any `mail`; only the login name is in a domain that the organization
 * has verified. The name of a guest (`#EXT#`) is not an address.
 */
function microsoftProfile({ id, displayName, mail, userPrincipalName }: Json): Profile {
  const login = textOf(userPrincipalName)
  const own = login.includes('@') && !login.includes('#')
  return profileOf(id, displayName, own ? login : mail, own)
}

/** Returns the scopes to request for the configured list `given`. */
export function scopesOf({ scopes, retired = [] }: Provider, given: readonly string[]): string {
  return [...new Set([...given.filter((scope) => !retired.includes(scope)), ...scopes])].join(' ')
}

/**
 * Returns an OpenID Connect provider for an issuer. `vouches`: accepts addresses without the claim `email_verified`; otherwise they are
 * rejected, because some providers let users or administrators write any address.
 */
export function openidProvider(issuer: string, vouches: boolean): OpenidProvider {
  return { kind: 'openid', issuer, scopes: ['openid'], proofKey: true, nonce: true, vouches }
}

/** Application registered at a provider. */
export interface Application {
  readonly id: string
  readonly secret: string
}
