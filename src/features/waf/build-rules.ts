import { CodedError, codeOf } from '../../lib/errors.js'
import { atOnce } from '../../lib/slices.js'
import { fileReason } from '../../lib/system-errors.js'
import { type BuiltRules, RuleSet } from './engine/rule-set.js'
import { wafStartErrors } from './errors.js'
import { readRuleFolder } from './folder.js'
import { readRuleSet } from './seclang/reader.js'
import { RuleSetError } from './seclang/rule.js'

/** Option values of the firewall. */
export interface WafOptions {
  readonly rules?: string | undefined
  readonly skip_unknown: boolean
}

/** Reads the rules of a folder and builds their tables, which takes a second. Rejects with `WAF_RULES_INVALID`. */
export async function buildRules(
  folder: string,
  { skip_unknown: skipUnknown }: Pick<WafOptions, 'skip_unknown'>
): Promise<BuiltRules> {
  try {
    const { files, data, digest } = await readRuleFolder(folder)
    const source = readRuleSet(files, skipUnknown)
    return atOnce(RuleSet.compile(source, { digest, data: (name) => data.get(name), skipUnknown })).build()
  } catch (cause) {
    const code = codeOf(cause)
    if (!(cause instanceof RuleSetError) && code === undefined) throw cause
    const why = cause instanceof RuleSetError ? cause.message : `${folder}: ${fileReason(code as string)}`
    throw new CodedError(wafStartErrors.WAF_RULES_INVALID, `waf.rules: ${why}`, { cause })
  }
}
