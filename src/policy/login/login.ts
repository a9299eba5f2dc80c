import type { Clock } from '../../lib/clock.js'
import type { Outbound } from '../../lib/outbound/outbound.js'
import { EndedSessions } from './ended-sessions.js'
import { OpenidProtocol } from './openid.js'
import type { OperatorProviders } from './operator-providers.js'
import { SessionCache } from './session-cache.js'
import { Vault } from './vault.js'

export interface LoginParts {
  /** 32 bytes each, derived from the process's sealing keys: the first one seals, all of them open. */
  readonly keys: readonly Uint8Array[]
  readonly providers: OperatorProviders
  readonly outbound: Outbound
  readonly clock: Clock
}

/** What all gates of a process share: keys, providers, and what is known about sessions and issuers. */
export class Login {
  readonly providers: OperatorProviders
  readonly outbound: Outbound
  readonly clock: Clock
  readonly sessions = new SessionCache()
  readonly ended: EndedSessions
  readonly protocol: OpenidProtocol
  readonly #keys: readonly Uint8Array[]

  constructor({ keys, providers, outbound, clock }: LoginParts) {
    this.#keys = keys
    this.providers = providers
    this.outbound = outbound
    this.clock = clock
    this.ended = new EndedSessions(clock)
    this.protocol = new OpenidProtocol(outbound, clock)
  }

  vault(realm: string): Vault {
    return new Vault(this.#keys, realm)
  }
}
