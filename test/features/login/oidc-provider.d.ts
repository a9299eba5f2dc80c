/** The little of it that the tests use; the package brings no types. */
declare module 'oidc-provider' {
  import type { RequestListener } from 'node:http'

  interface Account {
    readonly accountId: string
    claims(): Readonly<Record<string, unknown>>
  }

  interface Context {
    readonly oidc: { readonly params?: Readonly<Record<string, unknown>> }
  }

  export interface Configuration {
    readonly clients: readonly Readonly<Record<string, unknown>>[]
    readonly claims: Readonly<Record<string, readonly string[]>>
    readonly scopes: readonly string[]
    readonly fetch: (url: string, options: RequestInit & { readonly dispatcher?: unknown }) => Promise<Response>
    readonly features: { readonly backchannelLogout: { readonly enabled: boolean } }
    readonly cookies: { readonly keys: readonly string[] }
    readonly issueRefreshToken: () => Promise<boolean>
    readonly rotateRefreshToken: boolean
    readonly ttl: { readonly AccessToken: () => number }
    readonly findAccount: (context: unknown, id: string) => Account | undefined
  }

  export default class Provider {
    constructor(issuer: string, configuration: Configuration)
    callback(): RequestListener
    on(event: 'grant.success' | 'grant.revoked', listener: (context: Context) => void): this
  }
}
