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
  if (typeof value === 'string') return value
  return typeof value === 'number' || typeof value === 'bigint' ? String(value) : ''
}

/** A profile with the one address that the provider vouches for, or with none. */
function profileOf(id: unknown, name: unknown, email: unknown, vouched: boolean): Profile {
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
  const claimed = [userinfo, token]
    .filter((claims) => claims.email === email)
    .map(({ email_verified }) => email_verified)
  const verified = claimed.find((claim) => claim !== undefined && claim !== null) ?? vouches
  // Some write it as a text.
  const vouched = verified === true || verified === 'true'
  return profileOf(sub, textOf(name) === '' ? preferred_username : name, email, vouched)
}

/** The user and the addresses that GitHub has checked; the primary one is shown. */
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

/** Teams by slug and by number, and organizations; what the token may not see is not there. */
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
  /** Asked for when none are given, and added when a given list lacks them. */
  readonly scopes: readonly string[]
  /** Scopes that the provider knew once and refuses now; taken out of a given list. */
  readonly retired?: readonly string[]
  /**
   * Does an address count that the provider says nothing about? As its documentation has it; the operator's file may say otherwise.
   * Has no meaning for a provider whose answers tell of each address.
   */
  readonly vouches: boolean
  /** false: the provider does not take the proof key of RFC 7636 from applications with a secret. State and nonce remain. */
  readonly proofKey: boolean
}

/** A provider that says by discovery where its endpoints are, and who the user is by a signed token. */
interface OpenidProvider extends Common {
  readonly kind: 'openid'
  readonly issuer: string
  /** false: its identity tokens repeat no nonce. State remains. */
  readonly nonce: boolean
  /** Where the secret goes when its discovery document does not say; the header by OpenID Connect Discovery 3. */
  readonly secretIn?: 'body'
}

/** A provider with an access token (RFC 6749) for an API of its own that says who the user is. */
export interface ApiProvider extends Common {
  readonly kind: 'api'
  /** As it names itself in the answers of RFC 9207, if it does. */
  readonly issuer: string
  readonly authorization: string
  readonly token: string
  readonly api: string
  /** Field of API requests that holds the id of the application. */
  readonly clientField?: string
  readonly profile: (api: ProviderApi, vouches: boolean) => Promise<Profile>
  readonly memberships?: (api: ProviderApi) => Promise<Memberships>
}

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

/** The well-known providers. Addresses, scopes and members are those of the documentation that each line names. */
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
    // The address that is registered with Amazon, which an account gets by a code that was sent there.
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
    // Its dialog forgets a challenge that comes without the scope openid, and its token endpoint then refuses the verifier.
    proofKey: false,
    // Only a valid address is given: one that the user has confirmed.
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
    // read:user alone does not show which addresses are checked.
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
    // Its identity token and its userinfo hold email_verified.
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
    // The claim comes with every address.
    vouches: false,
    nonce: true
  },
  // learn.microsoft.com/linkedin/consumer/integrations/self-serve/sign-in-with-linkedin-v2
  linkedin: {
    kind: 'openid',
    issuer: 'https://www.linkedin.com/oauth',
    scopes: ['openid', 'email', 'profile'],
    retired: ['r_emailaddress', 'r_liteprofile'],
    // Its proof keys belong to native applications, which have no secret and other endpoints.
    proofKey: false,
    // The claim is optional, and its absence promises nothing.
    vouches: false,
    nonce: false,
    secretIn: 'body'
  },
  // learn.microsoft.com/entra/identity-platform/v2-oauth2-auth-code-flow, graph/api/user-get. `common` takes the users of
  // every organization and personal accounts; the operator's file names the endpoints of one organization instead.
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
    // Get Users shows the verified address alone.
    vouches: true,
    profile: async (api, vouches) => {
      const { data } = await api.object('/users')
      const { id, display_name, email } = (Array.isArray(data) ? (data[0] ?? {}) : {}) as Json
      return profileOf(id, display_name, email, vouches)
    }
  }
}

/**
 * `mail` is whatever an administrator of any organization wrote there; only the name under which the user logs in lies
 * in a domain that the organization has proved to own. The name of a guest (`#EXT#`) is no address.
 */
function microsoftProfile({ id, displayName, mail, userPrincipalName }: Json): Profile {
  const login = textOf(userPrincipalName)
  const own = login.includes('@') && !login.includes('#')
  return profileOf(id, displayName, own ? login : mail, own)
}

/** What is asked for when a configuration names `given`. */
export function scopesOf({ scopes, retired = [] }: Provider, given: readonly string[]): string {
  return [...new Set([...given.filter((scope) => !retired.includes(scope)), ...scopes])].join(' ')
}

/**
 * A provider of OpenID Connect that is named by its issuer. `vouches`: its configuration says that an address without the claim
 * `email_verified` counts; else it does not, because some providers let users, or administrators of others, write any address.
 */
export function openidProvider(issuer: string, vouches: boolean): OpenidProvider {
  return { kind: 'openid', issuer, scopes: ['openid'], proofKey: true, nonce: true, vouches }
}

/** What a provider knows as a client: the application that sends users to it. */
export interface Application {
  readonly id: string
  readonly secret: string
}
