import type { Absence, Condition } from '../../expression/expression.js'
import type { Phase } from '../../flow/flow.js'
import type { Coded } from '../../lib/errors.js'
import type { Span } from '../../lib/positions.js'
import type { ReadyAction } from '../action.js'
import type { ActionNode, ExpressionNode, RuleNode } from '../document.js'
import { formatPath } from '../problems.js'
import { type DocumentScope, reportExpression } from '../scope.js'

/** One kind of warning. Warnings never prevent a document from being accepted. */
export interface WarningKind {
  /** Its row of `policyWarnings`. */
  readonly warning: Coded
  /** Starts a document; the returned function judges each rule in execution order. */
  judge(document: DocumentScope): (facts: RuleFacts) => void
}

/** A rule of a document without errors, prepared for the warnings. */
export interface RuleFacts {
  readonly phase: Phase
  readonly rule: RuleNode
  /** `strict_expressions` of the document: an absent value in an expression fails the request. */
  readonly strict: boolean
  readonly expressions: readonly ExpressionFacts[]
  readonly actions: readonly ActionFacts[]
}

/** An expression of a rule with facts about its text. */
export interface ExpressionFacts {
  readonly node: ExpressionNode
  readonly absence: Absence | undefined
  readonly conditions: readonly Condition[]
}

/** An action of a rule with its parsed config. */
export interface ActionFacts {
  readonly node: ActionNode
  readonly action: ReadyAction
  /** Value of the action's schema. */
  readonly config: object
}

/** Reports a warning at a part of an expression; offsets are UTF-16 units of its source. */
export function warnInside(
  document: DocumentScope,
  { code }: Coded,
  { node }: ExpressionFacts,
  { start, end }: { readonly start: number; readonly end: number },
  message: string
): void {
  const warning = { severity: 'warning', code, message, start, end } as const
  reportExpression(document, { ok: false, problems: [warning] }, node, node.source)
}

/** Returns the conditions for the rule to run, without those that are always true; undefined if unknown. */
export function conditionsOf({ expressions }: RuleFacts): readonly Condition[] | undefined {
  if (expressions.some(({ conditions }) => conditions.length === 0)) return undefined
  return expressions.flatMap(({ conditions }) => conditions).filter(({ always }) => always !== true)
}

/** Returns whether the action denies something, so that a rule that does not match allows it. */
export function denies({ action, config }: ActionFacts): boolean {
  return typeof action.denies === 'function' ? action.denies(config) : action.denies === true
}

/** Returns whether the action ends the phase whenever it runs. */
export function alwaysEnds({ action, config }: ActionFacts): boolean {
  return action.terminates === 'always' || action.alwaysEnds?.(config) === true
}

/** Warns of a whole rule, at its first expression or action. */
export function warnOfRule({ report }: DocumentScope, warning: Coded, rule: RuleNode, message: string): void {
  report.warning(rule.path, warning, message, placeOf(rule))
}

/** Returns a rule's name, or its path if it has none, with the line where it begins. */
export function ruleAt({ source }: DocumentScope, rule: RuleNode): string {
  const { name, path, span } = rule
  const { line } = source.place(span.start)
  return `the rule ${name.startsWith('#') ? formatPath(path) : JSON.stringify(name)} in line ${line}`
}

function placeOf({ expressions, actions }: RuleNode): Span {
  return expressions[0]?.node.span ?? actions[0]?.typeNode.span ?? { start: 0, end: 1 }
}
