import type { Attempt } from '../attempt-state.js'
import type { Identity, IdentitySource } from '../identities.js'
import { ProviderFailure } from '../provider-fetch.js'
import type { Application, SamlProvider } from '../providers.js'
import type { SessionKeeper } from '../session-keeper.js'
import { profileOfUser } from './claims.js'
import type { ServiceProvider } from './service-provider.js'

interface Parts {
  readonly saml: ServiceProvider
  readonly keeper: Pick<SessionKeeper, 'spend'>
}

/** Users of one identity provider of SAML. The application's id is the entity id of the service provider. */
export class SamlIdentities implements IdentitySource {
  readonly #parts: Parts
  readonly #provider: SamlProvider

  constructor(parts: Parts, provider: SamlProvider) {
    this.#parts = parts
    this.#provider = provider
  }

  begin({ id: entityId }: Application, attempt: Attempt): Promise<string> {
    const { state: relayState } = attempt
    return this.#parts.saml.authorizationUrl(this.#provider, { entityId, id: requestId(attempt), relayState })
  }

  /** Returns the user of a posted response. Rejects with a ProviderFailure, also for an assertion that was used before. */
  async login({ id: entityId }: Application, attempt: Attempt | undefined, response: string): Promise<Identity> {
    const { saml, keeper } = this.#parts
    const request = attempt === undefined ? undefined : requestId(attempt)
    const user = await saml.user(this.#provider, { entityId, request, response })
    if (!(await keeper.spend(user.once, user.expires)))
      throw new ProviderFailure('garbage', 'the assertion was used before')
    return {
      profile: profileOfUser(user),
      tokens: { accessToken: '', refreshToken: '', expiresAt: 0, identityToken: '', sid: user.sessionIndex },
      teams: [],
      organizations: [],
      listed: '',
      current: true,
      attributes: user.attributes,
      ...(user.sessionEnds === 0 ? {} : { ends: user.sessionEnds })
    }
  }

  /** Rejects: an assertion has no tokens by which the identity provider could be contacted again. */
  async recheck(): Promise<undefined> {
    throw new ProviderFailure('refused', 'the user has to log in again')
  }

  async refresh(): Promise<never> {
    throw new ProviderFailure('refused', 'the user has to log in again')
  }

  async renewed(): Promise<never> {
    throw new ProviderFailure('refused', 'the user has to log in again')
  }
}

/** Returns the id of a request, an XML name; only the browser that began the login has the attempt. */
function requestId({ nonce }: Attempt): string {
  return `_${nonce}`
}
