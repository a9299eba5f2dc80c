import type { LoginGate } from '../../policy/login-gate.js'
import { integer, UINT32 } from '../../schema/fields.js'
import type { CompiledModule } from '../contract.js'
import { USUAL_MAXIMUM } from './service.js'

/** Returns the steps of a login module. */
export function loginSteps(gate: LoginGate): Omit<CompiledModule, 'name'> {
  const logins = [gate]
  return {
    unjudged: 'it asks an identity provider',
    logins: () => logins,
    request(flow) {
      const { reservedPath: own } = flow
      if (own === undefined) return gate.run(flow)
      return own.by === gate ? own.answer(flow) : undefined
    }
  }
}

/** Milliseconds. */
export const SECOND = 1_000

/** Returns a field with a duration. */
export const seconds = (description: string) =>
  integer({
    description: `${description} (seconds; 0: no such limit)`,
    min: 0,
    max: UINT32,
    default: 0,
    unit: 'seconds'
  })

/** Field of login modules: seconds after which a visitor logs in again. */
export const longestSession = integer({
  description: 'Longest session (seconds; 0: 14 days).',
  min: 0,
  max: UINT32,
  default: 0,
  unit: 'seconds'
})

/** Common session settings of the modules. */
interface SessionConfig {
  readonly cookie_prefix: string
  readonly inactivity_timeout: number
  readonly maximum_duration: number
  readonly options_passthrough: boolean
}

/** Returns the session settings of a gate. */
export function sessionOf(config: SessionConfig) {
  const { cookie_prefix: cookiePrefix, inactivity_timeout: inactivity, maximum_duration: maximum } = config
  return {
    authId: '',
    parameters: {},
    cookiePrefix,
    cookieDomain: undefined,
    inactivity: inactivity * SECOND,
    maximum: maximum === 0 ? USUAL_MAXIMUM : maximum * SECOND,
    lasting: maximum > 0,
    preflight: config.options_passthrough ? 'options' : 'none'
  } as const
}
