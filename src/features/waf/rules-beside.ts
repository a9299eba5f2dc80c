import { CodedError } from '../../lib/errors.js'
import { threadBeside } from '../../lib/files.js'
import type { WafOptions } from './build-rules.js'
import type { BuiltRules } from './engine/rule-set.js'
import { wafStartErrors } from './errors.js'

/** Work of the thread that builds rules. */
export interface RulesJob {
  readonly folder: string
  readonly skipUnknown: boolean
}

/** Result of the thread that builds rules. */
export type RulesOutcome = { readonly rules: BuiltRules } | { readonly problem: string }

/** Maximum time of building rules (ms). */
const LONGEST = 120_000
/** Heap of the thread (MiB). Most of what it makes lives until the end, and a larger young generation copies it less often. */
const HEAP = { maxOldGenerationSizeMb: 1_024, maxYoungGenerationSizeMb: 96 }

/** Builds the rules of a folder in a thread, which ends afterwards. Rejects with `WAF_RULES_INVALID`. */
export async function buildRulesBeside(folder: string, options: Pick<WafOptions, 'skip_unknown'>): Promise<BuiltRules> {
  const job: RulesJob = { folder, skipUnknown: options.skip_unknown }
  const worker = threadBeside(import.meta.url, 'rules-thread', job, HEAP)
  let deadline: NodeJS.Timeout | undefined
  try {
    const outcome = await new Promise<RulesOutcome>((resolve, reject) => {
      const seconds = LONGEST / 1_000
      deadline = setTimeout(() => resolve({ problem: `waf.rules: ${folder}: not read in ${seconds} s` }), LONGEST)
      worker.on('message', resolve)
      worker.on('error', reject)
      worker.on('exit', (code) => reject(new Error(`the thread that builds rules ended with ${code}`)))
    })
    if ('problem' in outcome) throw new CodedError(wafStartErrors.WAF_RULES_INVALID, outcome.problem)
    return outcome.rules
  } finally {
    clearTimeout(deadline)
    void worker.terminate()
  }
}
