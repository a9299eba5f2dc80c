import type { Phase } from '../../flow/flow.js'
import { policyWarnings } from './codes.js'
import { alwaysEnds, conditionsOf, type RuleFacts, ruleAt, type WarningKind, warnOfRule } from './kind.js'

/** Warns of the first rule after one that ends its phase for every request. */
export const ruleUnreachable: WarningKind = {
  warning: policyWarnings.RULE_UNREACHABLE,
  judge(document) {
    const endings = new Map<Phase, RuleFacts>()
    const said = new Set<Phase>()
    return (facts) => {
      const { phase, rule } = facts
      const ending = endings.get(phase)
      if (ending === undefined) {
        if (endsForAll(facts)) endings.set(phase, facts)
        return
      }
      if (said.has(phase)) return
      said.add(phase)
      const type = ending.actions.find(alwaysEnds)?.node.type
      const message = `this rule and those after it never run: ${ruleAt(document, ending.rule)} has no condition, and its ${type} ends ${phase} for every request`
      warnOfRule(document, policyWarnings.RULE_UNREACHABLE, rule, message)
    }
  }
}

/** Returns whether the rule runs for every request and ends the phase. */
export function endsForAll(facts: RuleFacts): boolean {
  return conditionsOf(facts)?.length === 0 && facts.actions.some(alwaysEnds)
}
