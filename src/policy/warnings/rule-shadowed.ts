import { implies } from '../../expression/conditions.js'
import type { Condition, TextCondition } from '../../expression/expression.js'
import type { Phase } from '../../flow/flow.js'
import { policyWarnings } from './codes.js'
import { alwaysEnds, conditionsOf, type RuleFacts, ruleAt, type WarningKind, warnOfRule } from './kind.js'
import { neverMatches } from './rule-never-matches.js'
import { endsForAll } from './rule-unreachable.js'

/** Maximum number of rules of a phase that later rules are compared with. */
const MOST = 500

interface Ending {
  readonly facts: RuleFacts
  readonly conditions: readonly Condition[]
}

/**
 * Warns of rules shadowed by an earlier one that ends the phase and whose conditions, such as a literal host or a path prefix, all follow
 * from theirs. Rules in between must not change the values in the conditions.
 */
export const ruleShadowed: WarningKind = {
  warning: policyWarnings.RULE_SHADOWED,
  judge(document) {
    const phases = new Map<Phase, Endings>()
    const closed = new Set<Phase>()
    return (facts) => {
      const { phase, rule } = facts
      const endings = phases.get(phase) ?? new Endings()
      phases.set(phase, endings)
      endings.changedBy(facts)
      const conditions = conditionsOf(facts)
      // Rules behind one that matches every request have a warning of their own.
      if (closed.has(phase) || conditions === undefined || neverMatches(facts)) return
      if (endsForAll(facts)) closed.add(phase)
      const shadow = endings.before(conditions)
      if (shadow !== undefined) {
        const type = shadow.actions.find(alwaysEnds)?.node.type
        const message = `this rule never runs: ${ruleAt(document, shadow.rule)} matches every request that this one matches, and its ${type} ends ${phase}`
        warnOfRule(document, policyWarnings.RULE_SHADOWED, rule, message)
      } else if (facts.actions.some(alwaysEnds) && conditions.every(({ isSteady }) => isSteady)) {
        endings.add({ facts, conditions })
      }
    }
  }
}

/** Rules that end one phase, indexed by condition, so that a long document is not compared pairwise. */
class Endings {
  #count = 0
  readonly #found = new Map<string, Ending[]>()
  readonly #variables = new Set<string>()

  add(ending: Ending): void {
    const [first] = ending.conditions
    if (first === undefined || ++this.#count > MOST) return
    for (const key of keysOf(first)) {
      const alike = this.#found.get(key)
      if (alike === undefined) this.#found.set(key, [ending])
      else alike.push(ending)
    }
    for (const { variables } of ending.conditions) for (const name of variables) this.#variables.add(name)
  }

  /** Returns a rule that matches whenever all conditions are true, or undefined if none is known. */
  before(conditions: readonly Condition[]): RuleFacts | undefined {
    for (const condition of conditions) {
      for (const key of wantedBy(condition)) {
        const found = this.#found.get(key)?.find((earlier) => covers(earlier.conditions, conditions))
        if (found !== undefined) return found.facts
      }
    }
    return undefined
  }

  /** Drops rules whose conditions use a value that the given rule changes, unless it ends the phase when it does. */
  changedBy({ actions }: RuleFacts): void {
    if (this.#variables.size === 0 || actions.some(alwaysEnds)) return
    const changed = actions.flatMap(({ action, config }) => {
      const { add = {}, remove = [] } = action.edits?.(config) ?? {}
      // The field Host is `req.host`.
      return [...(action.changes ?? []), ...[...Object.keys(add), ...remove].map((name) => `req.${name.toLowerCase()}`)]
    })
    const isChanged = (name: string) => changed.some((path) => name === path || name.startsWith(`${path}.`))
    if (![...this.#variables].some(isChanged)) return
    const stays = ({ conditions }: Ending) => !conditions.some(({ variables }) => [...variables].some(isChanged))
    for (const [key, found] of this.#found) this.#found.set(key, found.filter(stays))
  }
}

/** Returns the index keys of a condition: its source, or the text that it compares, one of a few or one of many. */
function keysOf({ source, text, anyOf = [] }: Condition): readonly string[] {
  return text === undefined ? [`is ${source}`, ...anyOf.flatMap(keysOfText)] : keysOfText(text)
}

function keysOfText({ of, among, set }: TextCondition): readonly string[] {
  if (among === 'none') return [`many ${of}`]
  return [...(set.patterns.length > 0 ? [`many ${of}`] : []), ...[...set.exact].map((one) => `one ${of} ${one}`)]
}

/** Returns the index keys of conditions that may follow from this one. */
function wantedBy({ source, text }: Condition): readonly string[] {
  if (text === undefined) return [`is ${source}`]
  const [one] = text.among === 'some' ? text.set.exact : []
  return [...(one === undefined ? [] : [`one ${text.of} ${one}`]), `many ${text.of}`]
}

/** Returns whether every request that satisfies all of `narrow` satisfies all of `wide`. */
function covers(wide: readonly Condition[], narrow: readonly Condition[]): boolean {
  return wide.every((one) => narrow.some((other) => other.source === one.source || followsFrom(one, other)))
}

function followsFrom({ text: wide, anyOf = [] }: Condition, { text: narrow }: Condition): boolean {
  if (narrow === undefined) return false
  return wide === undefined ? anyOf.some((one) => implies(narrow, one)) : implies(narrow, wide)
}
