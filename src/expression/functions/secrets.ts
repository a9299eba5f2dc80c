import { EvaluationError } from '../expression.js'
import type { FlowFunctionDefinition } from './flow-function.js'

const MISSING = new EvaluationError('failed', 'there is no such secret')

/** `secrets.get(vault, name)`: from the configuration that serves the flow, so a new value counts from the next one on. */
export const secretFunctions: readonly FlowFunctionDefinition[] = [
  {
    signature: 'secrets.get(string, string): string',
    runWith: (flow, vault: string, name: string) => {
      const value = flow.units.secret(vault, name)
      if (value === undefined) throw MISSING
      return value
    }
  }
]
