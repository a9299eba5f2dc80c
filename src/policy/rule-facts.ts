import type { Absence } from '../expression/absence.js'
import type { Phase } from '../flow/flow.js'
import type { ReadyAction } from './action.js'
import type { ActionNode, ExpressionNode, RuleNode } from './document.js'

/** A rule without errors as those see it who judge what it means. */
export interface RuleFacts {
  readonly phase: Phase
  readonly rule: RuleNode
  readonly expressions: readonly { readonly node: ExpressionNode; readonly absence: Absence | undefined }[]
  readonly actions: readonly ActionFacts[]
}

export interface ActionFacts {
  readonly node: ActionNode
  readonly action: ReadyAction
  /** What its schema describes. */
  readonly config: object
}

/** True when an earlier rule has run whenever this one does: it asks for nothing that this one does not ask for. */
export function hasRunBefore(earlier: RuleNode, rule: RuleNode): boolean {
  const asked = new Set(rule.expressions.map(({ source }) => source.trim()))
  return earlier.expressions.every(({ source }) => asked.has(source.trim()))
}
