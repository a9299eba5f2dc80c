import type { UnitProblems } from '../snapshot/compile.js'
import { StoreError } from '../store/store-error.js'
import { ControlError } from './control-error.js'

/** The refusal of a write whose policy does not compile, with the place in the document. */
export function refusedPolicy(refused: readonly UnitProblems[]): ControlError {
  const [unit] = refused
  const error = unit?.problems.find(({ severity }) => severity === 'error')
  if (unit === undefined || error === undefined) throw new RangeError('a policy was refused without a problem')
  const { code, message, line, column, path } = error
  const details = { line: String(line), column: String(column), path, source: unit.source }
  return new ControlError(`POLICY_${code}`, message, { field: 'traffic_policy.value', details })
}

/** What `run` resolves with; failures of the store that pass become `UNAVAILABLE` or `OUTCOME_UNKNOWN`. */
export async function orUnavailable<T>(run: Promise<T>): Promise<T> {
  try {
    return await run
  } catch (error) {
    throw error instanceof StoreError ? inOurWords(error) : error
  }
}

function inOurWords(error: StoreError): Error {
  switch (error.code) {
    case 'STORE_UNAVAILABLE':
    case 'STORE_CLOSED':
      return new ControlError('UNAVAILABLE', 'the store cannot be reached; nothing was changed', { cause: error })
    case 'STORE_OUTCOME_UNKNOWN': {
      const message = 'the store went away during the commit; whether the change was made is not known'
      return new ControlError('OUTCOME_UNKNOWN', message, { cause: error })
    }
    default:
      return error
  }
}
