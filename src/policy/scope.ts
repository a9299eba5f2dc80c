import { type Compiled, EvaluationError, type Expression, type Template } from '../expression/expression.js'
import type { Phase } from '../flow/flow.js'
import type { Coded } from '../lib/errors.js'
import type { SourceText, Span } from '../lib/positions.js'
import { compileRegex, type Regex } from '../lib/regex.js'
import type { HostLead, Scope, UnitName } from './action.js'
import type { LiveLimit } from './live-limit.js'
import type { LoginGate } from './login-gate.js'
import { type NodePath, type Problem, policyErrors, type Reporter } from './problems.js'
import { scalarOffsets } from './scalar-offsets.js'
import type { KeptStateDraft, PolicyServices, ServiceKey } from './services.js'
import type { MapNode, ScalarNode, TreeNode } from './tree.js'
import { policyWarnings } from './warnings/codes.js'

export interface NamedUnit {
  readonly unit: UnitName
  /** Warning if the unit does not exist. */
  readonly missing: Problem
}

/** State shared by the actions of one document during compilation. */
export interface DocumentScope {
  readonly owner: string
  readonly services: PolicyServices
  readonly keep: KeptStateDraft['keep']
  readonly source: SourceText
  readonly report: Reporter
  /** Result names of rejected actions in this document; the reason is reported at the action. */
  readonly refusedResults: ReadonlySet<string>
  /** Configuration units that the document names, each with the warning for a missing one. */
  readonly named: NamedUnit[]
  /** Hosts that the document leads to. */
  readonly leads: HostLead[]
  /** Reports a valid construct that cannot run yet; the policy is then not runnable. */
  unavailable(path: NodePath, error: Coded, message: string, span: Span): void
}

/** A position in a document: a path and its node. */
export interface Anchor {
  readonly path: NodePath
  readonly node: TreeNode
}

/** The scope of one action. `anchor` is its config, or its type without a config. */
export class ActionScope implements Scope {
  readonly phase: Phase
  readonly rule: string
  /** Login registered by the action. */
  gate: LoginGate | undefined = undefined
  /** Limits registered by the action. */
  readonly limits: LiveLimit[] = []
  readonly #document: DocumentScope
  readonly #anchor: Anchor

  constructor(document: DocumentScope, phase: Phase, rule: string, anchor: Anchor) {
    this.#document = document
    this.phase = phase
    this.rule = rule
    this.#anchor = anchor
  }

  get owner(): string {
    return this.#document.owner
  }

  get services(): PolicyServices {
    return this.#document.services
  }

  service<T>(key: ServiceKey<T>): T {
    return this.services.service(key)
  }

  expression(source: string, at: NodePath): Expression {
    const compiled = this.services.expressions.expression(source, this.phase)
    return this.#reported(compiled, source, at) ?? withoutValue(source)
  }

  template(source: string, at: NodePath): Template {
    const compiled = this.services.expressions.template(source, this.phase)
    return this.#reported(compiled, source, at) ?? withoutText(source)
  }

  regex(pattern: string, at: NodePath): Regex {
    const compiled = compileRegex(pattern)
    if (compiled.ok) return compiled.regex
    this.problem(
      at,
      policyErrors.REGEX_INVALID,
      `\`${at.join('.')}\` is not a regular expression of RE2 syntax: ${compiled.message}`
    )
    return withoutMatch(pattern)
  }

  problem(at: NodePath, error: Coded, message: string): void {
    const { span } = this.#find(at, false)
    this.#document.report.error([...this.#anchor.path, ...at], error, message, span)
  }

  warn(at: NodePath, error: Coded, message: string): void {
    const { span } = this.#find(at, false)
    this.#document.report.warning([...this.#anchor.path, ...at], error, message, span)
  }

  unavailable(at: NodePath, message: string, error: Coded = policyErrors.ACTION_UNAVAILABLE): void {
    this.#document.unavailable([...this.#anchor.path, ...at], error, message, this.#find(at, false).span)
  }

  /** Like `problem`; with `onKey`, points to the key of the last step. */
  field(at: NodePath, message: string, onKey: boolean): void {
    this.#document.report.error(
      [...this.#anchor.path, ...at],
      policyErrors.CONFIG_INVALID,
      message,
      this.#find(at, onKey).span
    )
  }

  names(unit: UnitName, at: NodePath): void {
    noteName(this.#document, unit, { path: [...this.#anchor.path, ...at], node: this.#find(at, false).node })
  }

  leadsTo(lead: HostLead): void {
    const { leads } = this.#document
    if (!leads.some(({ by, layer, host }) => by === lead.by && layer === lead.layer && host === lead.host))
      leads.push(lead)
  }

  limit(limit: LiveLimit): void {
    this.limits.push(limit)
  }

  login(gate: LoginGate): void {
    this.gate = gate
  }

  keep<T>(key: readonly unknown[], make: (identity: string) => T): T {
    return this.#document.keep(key, make)
  }

  #reported<T>(compiled: Compiled<T>, source: string, at: NodePath): T | undefined {
    const { node } = this.#find(at, false)
    const path = [...this.#anchor.path, ...at]
    reportExpression(this.#document, compiled, { path, node }, source)
    return compiled.ok ? compiled.value : undefined
  }

  /** Returns the node at `at`, or its nearest ancestor. */
  #find(at: NodePath, onKey: boolean): { node: TreeNode; span: Span } {
    let node = this.#anchor.node
    let span = node.span
    if (this.#document.report.full) return { node, span }
    for (const step of at) {
      const entry = node.kind === 'map' ? entryOf(node, String(step)) : undefined
      const next = node.kind === 'list' && typeof step === 'number' ? node.items[step] : entry?.value
      if (next === undefined) break
      node = next
      span = onKey && entry !== undefined ? entry.keySpan : next.span
    }
    return { node, span }
  }
}

function entryOf(map: MapNode, key: string) {
  return map.entries.find((entry) => entry.key === key)
}

/**
 * Reports problems of the expression compiler, at the exact characters if they can be mapped to the document. `denying`: a condition of a
 * denying rule, where a literal that never matches opens what the rule is to close.
 */
export function reportExpression<T>(
  document: DocumentScope,
  compiled: Compiled<T>,
  at: Anchor,
  source: string,
  denying = false
): void {
  for (const { vault, name } of (compiled.ok ? compiled.secrets : undefined) ?? []) {
    if (vault !== undefined && name !== undefined) noteName(document, { kind: 'secret', vault, name }, at)
  }
  const found = compiled.ok ? compiled.warnings : compiled.problems
  const literals = compiled.ok ? (compiled.literals ?? []) : []
  if (found.length === 0 && literals.length === 0) return
  const { node } = at
  // Group references are compiled in another spelling of the same length.
  const offsets =
    node.kind === 'scalar' && node.text.length === source.length ? scalarOffsets(document.source.text, node) : undefined
  const spanOf = (start: number, end: number) =>
    offsets === undefined ? node.span : spanInside(offsets, start, end, node as ScalarNode)
  for (const { severity, code, message, start, end, isNeverMet } of found) {
    if (document.refusedResults.has(resultNamed(source.slice(start, end)))) continue
    document.report[denying && isNeverMet === true ? 'error' : severity](
      at.path,
      { code },
      message,
      spanOf(start, end),
      start
    )
  }
  for (const { text, message, start, end, isCertain } of literals) {
    const span = spanOf(start, end)
    const severity = denying ? 'error' : 'warning'
    const { LITERAL_NEVER_EQUAL } = policyWarnings
    if (!isCertain) {
      const finding = { path: at.path, error: LITERAL_NEVER_EQUAL, message, span, offset: start }
      const warning = document.report.problem('warning', finding)
      document.report.take([{ ...warning, underStrict: severity }])
    } else if (denying && PLACEHOLDER.test(text)) document.unavailable(at.path, policyErrors.PLACEHOLDER, message, span)
    else document.report[severity](at.path, LITERAL_NEVER_EQUAL, message, span, start)
  }
}

/** A placeholder of an example that the author has not replaced. */
const PLACEHOLDER = /^<[^<>]+>$|^\$[A-Z_]\w*$|\bYOUR_\w+/

/** Returns `rate_limit` for `actions.service.rate_limit.limited`, and an empty string for other variables. */
function resultNamed(expression: string): string {
  return /^actions\s*\.\s*\w+\s*\.\s*(\w+)/.exec(expression)?.[1] ?? ''
}

function noteName({ named, report }: DocumentScope, unit: UnitName, { path, node }: Anchor): void {
  const finding = { path, error: warningOfMissing(unit), message: messageOfMissing(unit), span: node.span }
  named.push({ unit, missing: report.problem('warning', finding) })
}

function warningOfMissing({ kind }: UnitName): Coded {
  return kind === 'one-address' ? policyWarnings.LIMIT_KEY_IPV6 : policyWarnings.UNIT_MISSING
}

function messageOfMissing(unit: UnitName): string {
  switch (unit.kind) {
    case 'one-address':
      return `listeners take IPv6, where one client has as many addresses as it likes and a bucket for each; use ipPrefix(${unit.key}, 32, 64)`
    case 'secret':
      return `there is no secret "${unit.name}" in a vault "${unit.vault}" yet; until there is, what needs it fails`
    case 'ip-policy':
      return `there is no IP policy ${unit.id} yet; until there is, it allows nobody`
    case 'authority':
      return `there is no certificate authority ${unit.id} yet; until there is, it verifies no client`
    case 'internal':
      return `there is no internal edge ${unit.host}${unit.port === undefined ? '' : `:${unit.port}`} yet; until there is, nothing gets there`
  }
}

function spanInside(offsets: readonly number[], start: number, end: number, node: ScalarNode): Span {
  const from = offsets[start] ?? node.span.start
  return { start: from, end: Math.max(from + 1, offsets[end] ?? from + 1) }
}

/** Stand-in for an expression that failed to compile: the check continues, the policy never runs. */
function withoutValue(source: string): Expression {
  return { source, type: 'dyn', variables: new Set(), constant: undefined, evaluate: neverRuns, outcome: neverRuns }
}

function withoutText(source: string): Template {
  return { source, constant: undefined, type: 'dyn', variables: new Set(), text: neverRuns, value: neverRuns }
}

function withoutMatch(pattern: string): Regex {
  return {
    pattern,
    size: 0,
    test: neverRuns,
    testWithin: neverRuns,
    exec: neverRuns,
    replaceAll: neverRuns,
    replaceFirst: neverRuns
  }
}

function neverRuns(): never {
  throw new EvaluationError('failed', 'this policy was refused when it was written')
}
