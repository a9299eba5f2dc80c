import type { Flow } from '../../flow/flow.js'
import type { VariableDefinition } from './definition.js'

/** What `retry_condition` of http-request sees of the attempts so far, in the representation of the expression layer. */
export interface HttpAttempts {
  readonly count: bigint
  /** `req`, and `res` or `error`. */
  readonly last: ReadonlyMap<string, unknown>
}

const SLOT = 'expression.http_attempts'

/** Makes the attempts readable for the next evaluation. */
export function showAttempts(flow: Flow, attempts: HttpAttempts): void {
  flow.derived[SLOT] = attempts
}

function shown(flow: Flow): HttpAttempts | undefined {
  return flow.derived[SLOT] as HttpAttempts | undefined
}

/** `attempts` and `last_attempt`, which only `retry_condition` knows. */
export const httpAttemptVariables: readonly VariableDefinition[] = [
  { path: 'attempts', type: 'int', read: (flow) => shown(flow)?.count ?? 0n },
  { path: 'last_attempt', type: 'map<string, dyn>', optional: true, read: (flow) => shown(flow)?.last }
]
