import { codeOf } from '../lib/coded-error.js'
import type { UnitProblems } from '../policy/problems.js'
import type { PortProblem } from '../runtime/ports.js'
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

export function refusedPort({ host, port, reason }: PortProblem): ControlError {
  const message = `${host}:${port} cannot be opened: ${reason === 'EADDRINUSE' ? 'the port is in use' : reason}`
  return new ControlError('PORT_IN_USE', message, { field: 'hostports', details: { port: String(port), reason } })
}

/** What `run` resolves with; failures that pass become `UNAVAILABLE`, `BUSY`, `OUTCOME_UNKNOWN`, `SEAL_KEY_LOST` or `SEAL_BROKEN`. */
export async function orUnavailable<T>(run: Promise<T>): Promise<T> {
  try {
    return await run
  } catch (error) {
    if (error instanceof StoreError) throw inOurWords(error)
    throw unopened(error)
  }
}

function unopened(error: unknown): unknown {
  const code = codeOf(error)
  if (code === 'SEAL_KEY_UNKNOWN') return sealKeyLost(error)
  if (code !== 'SEAL_BROKEN') return error
  const message = 'the secrets of the record are damaged: give them anew, or delete the record'
  return new ControlError('SEAL_BROKEN', message, { cause: error })
}

/** What is sealed can be read again as soon as the key is back, so this passes as an unreachable store does. */
function sealKeyLost(cause: unknown): ControlError {
  const message =
    'a secret of the record is sealed by a key that this process does not have; start it with that key: ' +
    'SLUICE_SEAL_KEY, or the key file of the data folder from a backup; or give the secret anew'
  return new ControlError('SEAL_KEY_LOST', message, { cause })
}

function why({ trouble }: StoreError): string {
  if (trouble === 'full') return 'the disk of the store is full'
  if (trouble === 'failing') return 'the disk of the store fails'
  if (trouble === 'read_only') return 'the store is read-only'
  return trouble === 'unreachable' ? 'the store is out of reach' : 'the store is too busy or out of reach'
}

function inOurWords(error: StoreError): Error {
  switch (error.code) {
    case 'STORE_DEGRADED':
      return new ControlError('UNAVAILABLE', `${error.message}; nothing was changed`, { cause: error })
    case 'STORE_UNAVAILABLE':
    case 'STORE_REFUSED':
    case 'STORE_CLOSED':
      return new ControlError('UNAVAILABLE', `${why(error)}; nothing was changed`, { cause: error })
    case 'STORE_SEAL_KEY': {
      const message =
        'the sealing key of the store was changed, and this process has the old one: start it again with the new key'
      return new ControlError('SEAL_KEY_CHANGED', message, { cause: error })
    }
    case 'STORE_BUSY': {
      const message = 'another process is writing, such as an import; nothing was changed, try again when it is done'
      return new ControlError('BUSY', message, { cause: error })
    }
    case 'STORE_OUTCOME_UNKNOWN': {
      const message = 'the store went away during the commit; whether the change was made is not known'
      return new ControlError('OUTCOME_UNKNOWN', message, { cause: error })
    }
    default:
      return error
  }
}
