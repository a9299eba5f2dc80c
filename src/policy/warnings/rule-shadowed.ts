import { implies } from '../../expression/conditions.js'
import type { Condition } from '../../expression/expression.js'
import type { Phase } from '../../flow/flow.js'
import { policyWarnings } from './codes.js'
import {
  type ActionFacts,
  alwaysEnds,
  conditionsOf,
  type RuleFacts,
  ruleAt,
  type WarningKind,
  warnOfRule
} from './kind.js'
import { neverMatches } from './rule-never-matches.js'
import { endsForAll } from './rule-unreachable.js'

/** Rules of one phase that later ones are compared with. */
const MOST = 500

interface Ending {
  readonly facts: RuleFacts
  readonly conditions: readonly Condition[]
}

/**
 * Warns of rules that an earlier one always comes before: it ends the phase, and each of its conditions, such as a literal
 * host or a prefix of the path, follows from one of theirs. What is between them must not change what they ask for.
 */
export const ruleShadowed: WarningKind = {
  warning: policyWarnings.RULE_SHADOWED,
  judge(document) {
    const endings = new Map<Phase, Ending[]>()
    const closed = new Set<Phase>()
    return (facts) => {
      const { phase, rule } = facts
      const conditions = conditionsOf(facts)
      // What comes behind a rule for every request has a warning of its own.
      if (closed.has(phase) || conditions === undefined || neverMatches(facts)) return
      if (endsForAll(facts)) closed.add(phase)
      const before = endings.get(phase) ?? []
      const shadow = before.find((earlier) => covers(earlier.conditions, conditions))
      if (shadow !== undefined) {
        const type = shadow.facts.actions.find(alwaysEnds)?.node.type
        const message = `this rule never runs: ${ruleAt(document, shadow.facts.rule)} matches every request that this one matches, and its ${type} ends ${phase}`
        warnOfRule(document, policyWarnings.RULE_SHADOWED, rule, message)
      }
      const isEnding = facts.actions.some(alwaysEnds)
      if (isEnding && before.length < MOST && conditions.every(({ isSteady }) => isSteady)) {
        endings.set(phase, [...before, { facts, conditions }])
      } else if (!isEnding) {
        endings.set(
          phase,
          before.filter((earlier) => !facts.actions.some((one) => touches(one, earlier.conditions)))
        )
      }
    }
  }
}

/** True when what meets all of `narrow` meets all of `wide`. */
function covers(wide: readonly Condition[], narrow: readonly Condition[]): boolean {
  return wide.every((one) => narrow.some((other) => other.source === one.source || followsFrom(one, other)))
}

function followsFrom({ text: wide }: Condition, { text: narrow }: Condition): boolean {
  return wide !== undefined && narrow !== undefined && implies(narrow, wide)
}

/** Does the action give other values to what the conditions ask for? A header field named host is `req.host` too. */
function touches({ action, config }: ActionFacts, conditions: readonly Condition[]): boolean {
  const { add = {}, remove = [] } = action.edits?.(config) ?? {}
  const edited = [...Object.keys(add), ...remove].map((name) => `req.${name.toLowerCase()}`)
  const changed = [...(action.changes ?? []), ...edited]
  return conditions.some(({ variables }) =>
    [...variables].some((name) => changed.some((path) => name === path || name.startsWith(`${path}.`)))
  )
}
