import { refuse } from '../../flow/verdict.js'
import type { LoginGate } from '../../policy/login-gate.js'
import { loginErrors } from './answers.js'
import { tagOf } from './attempt-state.js'
import { type GateSettings, markOf, realmOf } from './service.js'

const UNAVAILABLE = refuse(loginErrors.LOGIN_UNAVAILABLE)

/** Returns a gate for a process without policies, where no user logs in. */
export function closedGate(settings: GateSettings): LoginGate {
  return {
    tag: tagOf(realmOf(settings)),
    mark: markOf(settings),
    authId: settings.authId,
    serviceProvider: settings.serviceProvider,
    run: () => UNAVAILABLE,
    answer: () => UNAVAILABLE,
    revoke: async () => 'the login cannot be used now',
    leave: () => []
  }
}
