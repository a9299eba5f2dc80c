import { CodedError } from '../../lib/coded-error.js'

/**
 * Why a provider gave no identity. `unavailable`: no answer, or one of its own trouble. `garbage`: an answer that cannot be
 * used. `refused`: it does not know the grant or the user any more. `denied`: the user or the provider said no.
 * `keys-changed`: it has signed with a key that was not known; the next attempt asks for its keys anew.
 */
export type ProviderTrouble = 'unavailable' | 'garbage' | 'refused' | 'denied' | 'keys-changed'

/** The message names what happened and holds nothing that the provider or the client sent. */
export class ProviderFailure extends CodedError {
  readonly trouble: ProviderTrouble

  constructor(trouble: ProviderTrouble, message: string, options?: ErrorOptions) {
    super('LOGIN_PROVIDER', message, options)
    this.trouble = trouble
  }
}
