/** The little of it that the tests use; the package brings no types. */
declare module 'oidc-provider' {
  import type { RequestListener } from 'node:http'

  interface Account {
    readonly accountId: string
    claims(): Readonly<Record<string, unknown>>
  }

  export interface Configuration {
    readonly clients: readonly Readonly<Record<string, unknown>>[]
    readonly claims: Readonly<Record<string, readonly string[]>>
    readonly scopes: readonly string[]
    readonly cookies: { readonly keys: readonly string[] }
    readonly issueRefreshToken: () => Promise<boolean>
    readonly findAccount: (context: unknown, id: string) => Account | undefined
  }

  export default class Provider {
    constructor(issuer: string, configuration: Configuration)
    callback(): RequestListener
  }
}
