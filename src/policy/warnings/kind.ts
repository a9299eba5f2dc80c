import type { Absence, Condition } from '../../expression/expression.js'
import type { Phase } from '../../flow/flow.js'
import type { Coded } from '../../lib/errors.js'
import type { Span } from '../../lib/positions.js'
import type { ReadyAction } from '../action.js'
import type { ActionNode, ExpressionNode, RuleNode } from '../document.js'
import { formatPath } from '../problems.js'
import { type DocumentScope, reportExpression } from '../scope.js'

/** One kind of warning. It never keeps a document from being accepted. */
export interface WarningKind {
  /** The row of `policyWarnings` that it reports. */
  readonly warning: Coded
  /** Begins with a document; what is answered looks at each rule, in the order of their runs. */
  judge(document: DocumentScope): (facts: RuleFacts) => void
}

/** A rule of a document without errors, as those see it who judge what it means. */
export interface RuleFacts {
  readonly phase: Phase
  readonly rule: RuleNode
  /** What is absent in an expression fails the request: `strict_expressions` of the document. */
  readonly strict: boolean
  readonly expressions: readonly ExpressionFacts[]
  readonly actions: readonly ActionFacts[]
}

/** An expression of a rule with what its text says. */
export interface ExpressionFacts {
  readonly node: ExpressionNode
  readonly absence: Absence | undefined
  readonly conditions: readonly Condition[]
}

/** An action of a rule with its config, which has been read. */
export interface ActionFacts {
  readonly node: ActionNode
  readonly action: ReadyAction
  /** What its schema describes. */
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

/** What must be true for the rule to run; undefined when that is not known. What is always true is left out. */
export function conditionsOf({ expressions }: RuleFacts): readonly Condition[] | undefined {
  if (expressions.some(({ conditions }) => conditions.length === 0)) return undefined
  return expressions.flatMap(({ conditions }) => conditions).filter(({ always }) => always !== true)
}

/** Returns true if the action keeps something out, so that a rule that does not match lets it in. */
export function denies({ action, config }: ActionFacts): boolean {
  return typeof action.denies === 'function' ? action.denies(config) : action.denies === true
}

/** Does the action end the phase whenever it runs? */
export function alwaysEnds({ action, config }: ActionFacts): boolean {
  return action.terminates === 'always' || action.alwaysEnds?.(config) === true
}

/** Warns of a whole rule, at its first expression or action. */
export function warnOfRule({ report }: DocumentScope, warning: Coded, rule: RuleNode, message: string): void {
  report.warning(rule.path, warning, message, placeOf(rule))
}

/** A rule by its name, or by its place in the document where it has none, with the line where it begins. */
export function ruleAt({ source }: DocumentScope, rule: RuleNode): string {
  const { name, path, span } = rule
  const { line } = source.place(span.start)
  return `the rule ${name.startsWith('#') ? formatPath(path) : JSON.stringify(name)} in line ${line}`
}

function placeOf({ expressions, actions }: RuleNode): Span {
  return expressions[0]?.node.span ?? actions[0]?.typeNode.span ?? { start: 0, end: 1 }
}
