import type { Grant } from '../tunnel/authority.js'
import type { BindRules } from '../tunnel/bind-rules.js'

/** What a credential allows. The rules follow their record while the session lives. */
export interface CredentialGrant extends Grant {
  readonly account: string
  /** Id of the user or bot who owns the credential. */
  readonly owner: string
  /** Hash of the token that opened the session. */
  readonly tokenHash: string
  rules: BindRules
}
