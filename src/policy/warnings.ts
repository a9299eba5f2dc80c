import { isAskedFor } from '../expression/absence.js'
import type { Absence, MaybeAbsent, OpenComparison } from '../expression/expression.js'
import type { Phase } from '../flow/flow.js'
import { spellingOf } from '../flow/headers.js'
import type { ReadyAction } from './action.js'
import type { ActionNode, ExpressionNode, RuleNode } from './document.js'
import { policyErrors } from './problems.js'
import { type DocumentScope, reportExpression } from './scope.js'
import { child } from './tree.js'

/** A rule without errors as those see it who judge what it means. */
interface RuleFacts {
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
function hasRunBefore(earlier: RuleNode, rule: RuleNode): boolean {
  const asked = new Set(rule.expressions.map(({ source }) => source.trim()))
  return earlier.expressions.every(({ source }) => asked.has(source.trim()))
}

/**
 * Warns of rules that let pass what they are there to refuse: an action that denies, and a comparison that is meant to be
 * true of a value that is absent, such as `req.headers['x-token'][0] != 's3cret'`. Without the value the rule does not match.
 *
 * No warning where the rule asks whether the value is there, or where an earlier action has left it whenever the rule runs.
 */
export class FailOpenJudge {
  readonly #document: DocumentScope
  readonly #earlier: RuleFacts[] = []

  constructor(document: DocumentScope) {
    this.#document = document
  }

  /** Rules in the order of their runs. */
  judge(facts: RuleFacts): void {
    const denying = facts.actions.filter(denies)
    if (denying.length > 0) this.#warn(facts, denying)
    this.#earlier.push(facts)
  }

  #warn(facts: RuleFacts, denying: readonly ActionFacts[]): void {
    const asked = new Set(facts.expressions.flatMap(({ absence }) => [...(absence?.asked ?? [])]))
    const left = new Set(this.#earlier.flatMap((earlier) => leftBy(earlier, facts)))
    const isKnown = (value: MaybeAbsent) => isAskedFor(value, asked) || isLeft(value, left)
    for (const { node, absence } of facts.expressions) {
      for (const comparison of absence?.open ?? []) {
        const values = comparison.values.filter((value) => !isKnown(value))
        if (values.length === 0) continue
        const message = messageOf(comparison, values, node.source, denying)
        const { start, end } = comparison
        const warning = { severity: 'warning', code: 'RULE_FAILS_OPEN', message, start, end } as const
        reportExpression(this.#document, { ok: false, problems: [warning] }, node, node.source)
      }
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

function denies({ action, config }: ActionFacts): boolean {
  return typeof action.denies === 'function' ? action.denies(config) : action.denies === true
}

/** Keys of the values that an earlier rule has left when this one runs. */
function leftBy(earlier: RuleFacts, facts: RuleFacts): readonly string[] {
  if (!hasRunBefore(earlier.rule, facts.rule)) return []
  // Variables live as long as their phase; an answer may come of a phase that ended early.
  if (earlier.phase !== facts.phase && earlier.phase !== 'on_tcp_connect') return []
  return earlier.actions.flatMap(({ action, config }) => {
    const left =
      action.leaves?.(config) ?? (action.results === undefined ? [] : [`actions.service.${action.results.name}`])
    return earlier.phase === facts.phase ? left : left.filter((key) => !key.startsWith('vars.'))
  })
}

/** Of what a variable of the language is called every member is left with it; what is deeper is data. */
function isLeft({ key }: MaybeAbsent, left: ReadonlySet<string>): boolean {
  if (left.has(key)) return true
  const names = key.split('.')
  return !/[[:]/.test(key) && names.some((_, i) => left.has(names.slice(0, i).join('.')))
}

/** Variables whose values an upstream trusts because only this side can know them: results of actions, the client's certificate. */
const VOUCHED = /^(?:actions\.|conn\.tls\.client\.)/

/**
 * Warns of request headers that say what an action found out, such as who the user is, and that a client could send too:
 * `add-headers` appends, and most upstreams read the first field. Another action must have removed the field before, in a
 * rule that runs whenever this one does.
 */
export class ForgeableHeaderJudge {
  readonly #document: DocumentScope
  readonly #earlier: RuleFacts[] = []
  /** Names of `vars` that hold something vouched for. */
  readonly #vouched = new Set<string>()

  constructor(document: DocumentScope) {
    this.#document = document
  }

  /** Rules in the order of their runs. */
  judge(facts: RuleFacts): void {
    if (facts.phase !== 'on_http_request') return
    const always = this.#earlier.filter(({ rule }) => hasRunBefore(rule, facts.rule))
    const removed = new Set(always.flatMap(({ actions }) => actions.flatMap(removedBy)))
    for (const one of facts.actions) {
      this.#follow(one)
      for (const [name, value] of Object.entries(one.action.edits?.(one.config).add ?? {})) {
        const forgeable = name.toLowerCase() !== 'host' && !removed.has(spellingOf(name))
        if (forgeable && this.#isVouched(value)) this.#warn(one, name)
      }
      for (const name of removedBy(one)) removed.add(name)
    }
    this.#earlier.push(facts)
  }

  #follow({ action, config }: ActionFacts): void {
    for (const [name, value] of action.assigns?.(config) ?? []) {
      if (this.#isVouched(value)) this.#vouched.add(`vars.${name}`)
    }
  }

  /** Does a text in the value, at any depth, hold something vouched for? */
  #isVouched(value: unknown): boolean {
    if (typeof value === 'object' && value !== null) return Object.values(value).some((part) => this.#isVouched(part))
    if (typeof value !== 'string' || !value.includes('${')) return false
    const compiled = this.#document.services.expressions.template(value, 'on_http_request')
    return compiled.ok && [...compiled.value.variables].some((name) => VOUCHED.test(name) || this.#vouched.has(name))
  }

  #warn({ node }: ActionFacts, name: string): void {
    const headers = node.config === undefined ? undefined : child(node.config, 'headers')
    const entry = headers?.kind === 'map' ? headers.entries.find(({ key }) => key === name) : undefined
    const message = `a client can send "${name}" itself, and an upstream may believe the first of two; remove it before, by an action remove-headers with headers: [${name}] in this rule or in one that always runs before it`
    this.#document.report.warning(
      [...node.path, 'config', 'headers', name],
      policyErrors.HEADER_FORGEABLE,
      message,
      entry?.keySpan ?? node.typeNode.span
    )
  }
}

function removedBy({ action, config }: ActionFacts): readonly string[] {
  return (action.edits?.(config).remove ?? []).map(spellingOf)
}
