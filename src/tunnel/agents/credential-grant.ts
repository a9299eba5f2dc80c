import type { Grant } from '../server/authority.js'
import type { BindRules } from '../server/bind-rules.js'

/** What a credential allows. The rules follow their record while the session lives. */
export interface CredentialGrant extends Grant {
  readonly account: string
  /** Id of the user or bot who owns the credential. */
  readonly owner: string
  /** Hash of the token that opened the session. */
  readonly tokenHash: string
  rules: BindRules
}
