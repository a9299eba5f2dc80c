import { githubMemberships, githubProfile } from './github.js'
import { type Json, type Memberships, type Profile, type ProviderApi, profileOf, textOf } from './profile.js'

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
export interface OpenidProvider extends Common {
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
