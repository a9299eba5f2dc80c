import { parentPort, workerData } from 'node:worker_threads'
import { CodedError } from '../../lib/errors.js'
import { buildRules } from './build-rules.js'
import type { RulesJob, RulesOutcome } from './rules-beside.js'

const post = (outcome: RulesOutcome) => parentPort?.postMessage(outcome)

/** Thread that builds the rules of one folder, so that reading them delays no request. It ends with the outcome. */
if (parentPort !== null) {
  const { folder, skipUnknown } = workerData as RulesJob
  void buildRules(folder, { skip_unknown: skipUnknown }).then(
    (rules) => post({ rules }),
    (error: unknown) => {
      // Another error ends the thread, and reaches its owner as such.
      if (!(error instanceof CodedError)) throw error
      post({ problem: error.message })
    }
  )
}
