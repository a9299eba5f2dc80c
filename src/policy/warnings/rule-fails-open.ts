import { isAskedFor } from '../../expression/absence.js'
import type { MaybeAbsent, OpenComparison } from '../../expression/expression.js'
import type { DocumentScope } from '../scope.js'
import { policyWarnings } from './codes.js'
import { EarlierRules, isLeft, leftBy } from './earlier-rules.js'
import { type ActionFacts, denies, type RuleFacts, type WarningKind, warnInside } from './kind.js'

/**
 * Warns of rules that allow what they should deny: a denying action with a comparison that should be true for an absent value, such as
 * `req.headers['x-token'][0] != 's3cret'`. Without the value the rule does not match. No warning if the rule checks that the value is
 * present, or if an earlier action has set it whenever the rule runs.
 */
export const ruleFailsOpen: WarningKind = {
  warning: policyWarnings.RULE_FAILS_OPEN,
  judge(document) {
    const before = new EarlierRules()
    return (facts) => {
      const denying = facts.actions.filter(denies)
      if (denying.length > 0 && !facts.strict) warn(document, facts, { denying, before })
      before.add(facts)
    }
  }
}

function warn(
  document: DocumentScope,
  facts: RuleFacts,
  { denying, before }: { readonly denying: readonly ActionFacts[]; readonly before: EarlierRules }
): void {
  if (!facts.expressions.some(({ absence }) => absence !== undefined && absence.open.length > 0)) return
  const asked = new Set(facts.expressions.flatMap(({ absence }) => [...(absence?.asked ?? [])]))
  let left: ReadonlySet<string> | undefined
  for (const expression of facts.expressions) {
    for (const comparison of expression.absence?.open ?? []) {
      const unasked = comparison.values.filter((value) => !isAskedFor(value, asked))
      if (unasked.length === 0) continue
      left ??= new Set(before.runBefore(facts).flatMap((earlier) => leftBy(earlier, facts)))
      const known = left
      const values = unasked.filter((value) => !isLeft(value, known))
      if (values.length === 0) continue
      const message = messageOf(comparison, values, expression.node.source, denying)
      warnInside(document, policyWarnings.RULE_FAILS_OPEN, expression, comparison, message)
    }
  }
}

function messageOf(
  { source }: OpenComparison,
  values: readonly MaybeAbsent[],
  expression: string,
  denying: readonly ActionFacts[]
): string {
  const [type] = [...new Set(denying.map(({ node }) => node.type))]
  const closed = [...values.map(({ missing }) => missing), source].join(' || ')
  const safe = source === expression.trim() ? closed : `(${closed})`
  return `when ${values.at(-1)?.shown} is absent, this rule does not match and ${type} lets the exchange pass; to refuse then, write ${safe}, or put strict_expressions: true at the root of the document`
}
