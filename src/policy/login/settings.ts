import type { Flow } from '../../exchange/flow.js'
import type { PolicyServices } from '../services.js'
import type { Access } from './access.js'
import type { Login } from './login.js'
import type { Application } from './operator-providers.js'
import type { Provider } from './providers.js'
import type { LoginResult } from './published.js'
import type { Preflight } from './visit.js'

/** What one module or action asks for. Durations in milliseconds; 0: no such limit. */
export interface GateSettings {
  /** Name under which it publishes, and label of its counters. */
  readonly result: LoginResult
  /** Route, edge or default entry. */
  readonly owner: string
  /** Keeps several gates of one owner apart; '' when there is no need. */
  readonly authId: string
  readonly provider: Provider
  /** Undefined: there is none. Throws `EvaluationError` where an expression of the configuration has no value. */
  readonly application: (flow: Flow) => Application | undefined
  readonly scopes: readonly string[]
  /** Added to the authorization URL. */
  readonly parameters: Readonly<Record<string, string>>
  readonly cookiePrefix: string
  /** Undefined: cookies of the very host. */
  readonly cookieDomain: string | undefined
  readonly inactivity: number
  readonly maximum: number
  readonly check: number
  readonly preflight: Preflight
  readonly access: Access
}

/** The services with what logins need. Absent where no policy will run. */
export type LoginServices = PolicyServices & { readonly login?: Login }

/**
 * Whose sessions a gate accepts: those of its own owner; with a domain of its own for cookies, those of every gate that
 * shares the domain, the provider and the id.
 */
export function realmOf({ result, owner, authId, provider, cookieDomain }: GateSettings): string {
  return JSON.stringify([result, cookieDomain === undefined ? owner : `.${cookieDomain}`, authId, provider.issuer])
}
