import type { LoginGate } from '../policy/login/desk.js'
import type { CompiledModule } from './contract.js'

/** The steps of a module that is a login. */
export function loginSteps(gate: LoginGate): Omit<CompiledModule, 'name'> {
  const logins = [gate]
  return {
    logins: () => logins,
    request(flow) {
      const { own } = flow
      if (own === undefined) return gate.run(flow)
      return own.by === gate ? own.answer(flow) : undefined
    }
  }
}
