import { excludes } from '../../expression/conditions.js'
import type { Condition } from '../../expression/expression.js'
import { shorten } from '../../lib/printable.js'
import type { DocumentScope } from '../scope.js'
import { policyWarnings } from './codes.js'
import { type ExpressionFacts, type RuleFacts, type WarningKind, warnInside } from './kind.js'

/** Maximum number of a rule's conditions that are compared with each other. */
const MOST = 200

/** Warns of rules that match no request: a condition is always false, or two conditions contradict each other. */
export const ruleNeverMatches: WarningKind = {
  warning: policyWarnings.RULE_NEVER_MATCHES,
  judge: (document) => (facts) => warn(document, facts)
}

/** Returns whether the text of the rule shows that it matches no request. */
export function neverMatches({ expressions }: RuleFacts): boolean {
  const all = expressions.flatMap(({ conditions }) => conditions)
  return all.some(({ always }) => always === false) || contradictionIn(all) !== undefined
}

function warn(document: DocumentScope, { expressions }: RuleFacts): void {
  const all = expressions.flatMap((expression) => expression.conditions.map((condition) => ({ expression, condition })))
  const wrong = all.find(({ condition }) => condition.always === false)
  if (wrong !== undefined) {
    const message = `this rule never runs, because ${shown(wrong.condition)} is true for no request`
    say(document, wrong.expression, wrong.condition, message)
    return
  }
  const found = contradictionIn(all.map(({ condition }) => condition))
  const second = all.find(({ condition }) => condition === found?.second)
  if (found === undefined || second === undefined) return
  const message = `no request has both ${shown(found.first)} and ${shown(found.second)}, and a rule runs when all of its expressions are true; for either of them write one expression with ||`
  say(document, second.expression, found.second, message)
}

function say(document: DocumentScope, expression: ExpressionFacts, at: Condition, message: string): void {
  warnInside(document, policyWarnings.RULE_NEVER_MATCHES, expression, at, message)
}

function contradictionIn(all: readonly Condition[]): { first: Condition; second: Condition } | undefined {
  const compared = all.filter(({ text }) => text !== undefined).slice(0, MOST)
  for (const [i, second] of compared.entries()) {
    const first = compared.slice(0, i).find(({ text }) => text && second.text && excludes(text, second.text))
    if (first !== undefined) return { first, second }
  }
  return undefined
}

function shown({ source }: Condition): string {
  return source === 'false' ? 'its expression' : shorten(source, 200)
}
