import { EvaluationError } from '../expression.js'
import type { FunctionDefinition } from '../function-definition.js'

/** Where expressions find the values of secrets. */
export interface Secrets {
  get(vault: string, name: string): string | undefined
}

const MISSING = new EvaluationError('failed', 'there is no such secret')

/** `secrets.get(vault, name)`: looked up at each evaluation, so a new value counts at once. */
export function secretFunctions(secrets: Secrets): readonly FunctionDefinition[] {
  return [
    {
      signature: 'secrets.get(string, string): string',
      run: (vault: string, name: string) => {
        const value = secrets.get(vault, name)
        if (value === undefined) throw MISSING
        return value
      }
    }
  ]
}
