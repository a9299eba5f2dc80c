import { createHash } from 'node:crypto'
import type { Flow } from '../../flow/flow.js'
import type { PolicyServices } from '../services.js'
import type { AccessLists } from './access.js'
import type { Login } from './login.js'
import type { Application } from './operator-providers.js'
import type { Provider } from './providers.js'
import type { LoginResult } from './published.js'
import type { Preflight } from './visit.js'

/** What one module or action asks for. Durations in milliseconds; 0: no such limit, where not said otherwise. */
export interface GateSettings {
  /** Name under which it publishes, and label of its counters. */
  readonly result: LoginResult
  /** Route, edge or default entry. */
  readonly owner: string
  /** Keeps several gates of one owner apart; '' when there is no need. */
  readonly authId: string
  readonly provider: Provider
  /** How the configuration writes the id of the application; '': that of the operator. */
  readonly client: string
  /** Undefined: there is none. Throws `EvaluationError` where an expression of the configuration has no value. */
  readonly application: (flow: Flow) => Application | undefined
  readonly scopes: readonly string[]
  /** Added to the authorization URL. */
  readonly parameters: Readonly<Record<string, string>>
  readonly cookiePrefix: string
  /** Undefined: cookies of the very host. */
  readonly cookieDomain: string | undefined
  readonly inactivity: number
  /** There always is one. */
  readonly maximum: number
  /** Do cookies outlive the browser's run? They do when a maximum was asked for. */
  readonly lasting: boolean
  readonly check: number
  readonly preflight: Preflight
  readonly access: AccessLists
}

/** Longest session where none is said: two weeks. Milliseconds. */
export const USUAL_MAXIMUM = 14 * 24 * 3_600_000

/** The services with what logins need. Absent where no policy will run. */
export type LoginServices = PolicyServices & { readonly login?: Login }

/**
 * Whose sessions a gate accepts: those of its own owner; with a domain of its own for cookies, those of every gate that
 * shares the domain. Provider, application and id are part of it, so that gates whose sessions differ never share a cookie.
 */
export function realmOf({ result, owner, authId, provider, client, cookieDomain }: GateSettings): string {
  const place = cookieDomain === undefined ? owner : `.${cookieDomain}`
  // Sessions hold the addresses that counted when they were made.
  const vouching = provider.kind === 'openid' && provider.vouches ? ['vouches'] : []
  return JSON.stringify([result, place, authId, provider.issuer, client, ...vouching])
}

/** Tells gates of one realm apart: 8 hexadecimal digits of everything that a configuration says, its secrets left out. */
export function markOf({ provider, ...settings }: GateSettings): string {
  const text = JSON.stringify([provider.issuer, settings])
  return createHash('sha256').update(text).digest('hex').slice(0, 8)
}
