import type { Compiled, Expression, Expressions } from '../expression/expression.js'
import { expressionErrors } from '../expression/problems.js'
import { greaterReading, type ResponseReading } from '../flow/content-coding.js'
import { PHASES, type Phase } from '../flow/flow.js'
import type { DocumentLimits } from '../lib/caller-limits.js'
import type { Span } from '../lib/positions.js'
import { atOnce, Passes, type Steps } from '../lib/slices.js'
import { didYouMean } from '../lib/suggest.js'
import { type Action, type Connections, type HostLead, type ReadyAction, refusalOn } from './action.js'
import { readConfig } from './config-reader.js'
import type { ActionNode, Carrier, ExpressionNode, PolicyDocument, RuleNode } from './document.js'
import type { PolicyLimit } from './live-limit.js'
import type { LoginGate } from './login-gate.js'
import { type Problem, policyErrors, Reporter } from './problems.js'
import { type CompiledAction, CompiledPhase, type CompiledRule } from './run.js'
import { ActionScope, type DocumentScope, type NamedUnit, reportExpression } from './scope.js'
import type { Counter, KeptStateDraft, PolicyServices } from './services.js'
import { policyWarnings } from './warnings/codes.js'
import { type ActionFacts, denies, type ExpressionFacts, type RuleFacts } from './warnings/kind.js'
import { warningKinds } from './warnings/registry.js'

/** A compiled policy: closures by phase. Holds no text or nodes of its document. */
export interface CompiledPolicy {
  readonly owner: string
  /** null without rules. */
  readonly phases: Readonly<Record<Phase, CompiledPhase | null>>
  /** Response content that the policy reads, if any. */
  readonly reads: ResponseReading | undefined
  /** Configuration units named in the document. */
  readonly named: readonly NamedUnit[]
  /** Problems that prevent the policy from serving strict paths. */
  readonly strictErrors: readonly Problem[]
  /** Names of the vaults whose secrets the policy reads; undefined for a vault that is known only at run time. */
  readonly vaults: ReadonlySet<string | undefined>
  /** Hosts that the actions lead to. */
  readonly leads: readonly HostLead[]
  /** Logins of the actions, in document order. */
  readonly logins: readonly PolicyLogin[]
  /** Limits of the actions, in document order. */
  readonly limits: readonly PolicyLimit[]
}

/** A login of an action, with the log record for responses on the login's own paths. */
interface PolicyLogin {
  readonly gate: LoginGate
  readonly decidedBy: CompiledAction['decidedBy']
  readonly decided: Counter
}

export interface CompileOptions {
  /** Route, edge, or default entry; part of the identity of counters. */
  readonly owner: string
  readonly services: PolicyServices
  readonly keep: KeptStateDraft
  readonly actions: readonly Action[]
  /** Actions that this version checks but cannot run: `refuse` them before a policy goes live, `warn` if a text is only checked. */
  readonly unavailable: 'warn' | 'refuse'
  /**
   * Carrier of the document.
   * @default `http`
   */
  readonly carrier?: Carrier
  /**
   * Connections that `on_tcp_connect` runs on.
   * @default `edge`
   */
  readonly connections?: Connections | undefined
  /**
   * Limits of the document's author.
   * @default only the bounds of every document
   */
  readonly limits?: DocumentLimits | undefined
}

/** A policy that can run, with the errors and warnings about its text. */
interface PolicyCompilation {
  policy?: CompiledPolicy
  problems: Problem[]
}

/**
 * Compiles a policy document. Finds every problem in one pass and never throws for its content. `policy` is undefined after an error, and
 * after a warning about an unavailable action.
 */
export function compilePolicy(text: string, options: CompileOptions): PolicyCompilation {
  return atOnce(compilingPolicy(text, options))
}

/** Compiles a policy document in steps, one rule per step; see `compilePolicy`. */
export function* compilingPolicy(text: string, options: CompileOptions): Steps<PolicyCompilation> {
  const tooLong = beyondBytes(text, options.limits)
  if (tooLong !== undefined) return { problems: [tooLong] }
  const { document, problems } = yield* options.services.documents.reading(text, options.carrier)
  const tooMany = beyondRules(document, options.limits)
  if (tooMany !== undefined) return { problems: [tooMany] }
  const report = new Reporter(document.source, problems)
  let runnable = true
  const named: NamedUnit[] = []
  const leads: HostLead[] = []
  const vaults = new Set<string | undefined>()
  const compiler = new PolicyCompiler(options, {
    owner: options.owner,
    services: { ...options.services, expressions: notingVaults(options.services.expressions, vaults) },
    keep: withOrdinals(options),
    source: document.source,
    report,
    refusedResults: refusedResults(document, options.actions),
    named,
    leads,
    unavailable(path, error, message, span) {
      runnable = false
      report[options.unavailable === 'refuse' ? 'error' : 'warning'](path, error, message, span)
    }
  })
  const phases = {} as Record<Phase, CompiledPhase | null>
  for (const phase of PHASES) phases[phase] = yield* compiler.phase(phase, document)
  // Warnings about erroneous rules could be wrong after the correction.
  if (!report.failed) yield* compiler.judge()
  const found = report.sorted()
  if (report.failed || !runnable) return { problems: found }
  const reads = readingOf(phases, options.actions)
  const { logins, limits } = compiler
  const strictErrors = found.filter(({ underStrict }) => underStrict === 'error')
  const policy = { owner: options.owner, phases, named, strictErrors, vaults, leads, reads, logins, limits }
  return { policy, problems: found }
}

/** Adds the vaults that compiled expressions read to `vaults`, whichever part of an action compiles them. */
function notingVaults(expressions: Expressions, vaults: Set<string | undefined>): Expressions {
  const noted = <T>(compiled: Compiled<T>) => {
    if (compiled.ok) for (const { vault } of compiled.secrets ?? []) vaults.add(vault)
    return compiled
  }
  return {
    expression: (...source) => noted(expressions.expression(...source)),
    template: (...source) => noted(expressions.template(...source)),
    textOf: (value) => expressions.textOf(value),
    dataOf: (value) => expressions.dataOf(value)
  }
}

/** A document beyond its author's size limit is not read. */
function beyondBytes(text: string, limits: DocumentLimits | undefined): Problem | undefined {
  if (limits === undefined || Buffer.byteLength(text) <= limits.bytes) return undefined
  return limitProblem(`a policy document of this author is limited to ${limits.bytes} bytes`)
}

function beyondRules({ phases }: PolicyDocument, limits: DocumentLimits | undefined): Problem | undefined {
  const rules = PHASES.reduce((sum, phase) => sum + phases[phase].length, 0)
  if (limits === undefined || rules <= limits.rules) return undefined
  return limitProblem(`a policy document of this author is limited to ${limits.rules} rules; this one has ${rules}`)
}

function limitProblem(message: string): Problem {
  const { code } = policyErrors.DOCUMENT_LIMIT
  return { severity: 'error', code, message, path: '', line: 1, column: 1, length: 1 }
}

function readingOf(phases: CompiledPolicy['phases'], actions: readonly Action[]): ResponseReading | undefined {
  let reading: ResponseReading | undefined = phases.on_event_stream_message === null ? undefined : 'stream'
  const used = new Set(phases.on_http_response?.rules.flatMap((rule) => rule.actions.map(({ type }) => type)))
  for (const action of actions) {
    if (action.availability !== 'ready' || action.readsResponse === undefined || !used.has(action.type)) continue
    reading = greaterReading(reading, action.readsResponse)
  }
  return reading
}

function refusedResults({ phases }: PolicyDocument, actions: readonly Action[]): ReadonlySet<string> {
  const refused = new Set(actions.filter(({ availability }) => availability === 'unsupported').map(({ type }) => type))
  const used = PHASES.flatMap((phase) => phases[phase].flatMap((rule) => rule.actions.map(({ type }) => type)))
  return new Set(used.filter((type) => refused.has(type)).map((type) => type.replaceAll('-', '_')))
}

/** Distinguishes equal keys within a document: repeated ones get an ordinal in document order. */
function withOrdinals({ owner, keep }: CompileOptions): KeptStateDraft['keep'] {
  const uses = new Map<string, number>()
  return (key, make) => {
    const identity = JSON.stringify(key)
    const use = (uses.get(identity) ?? 0) + 1
    uses.set(identity, use)
    return keep.keep(use === 1 ? ['policy', owner, key] : ['policy', owner, key, use], make)
  }
}

class PolicyCompiler {
  readonly logins: PolicyLogin[] = []
  readonly limits: PolicyLimit[] = []
  readonly #rules: RuleFacts[] = []
  readonly #document: DocumentScope
  readonly #actions: ReadonlyMap<string, Action>
  readonly #connections: Connections
  /** Line of an action that has ended TLS whenever the rule in work runs. */
  #tlsEndedAt: number | undefined

  constructor({ actions, connections = 'edge' }: CompileOptions, document: DocumentScope) {
    this.#document = document
    this.#connections = connections
    this.#actions = new Map(actions.map((action) => [action.type, action]))
  }

  /** Warns of rules whose effect may differ from the author's intent. */
  *judge(): Steps<void> {
    const passes = new Passes()
    for (const kind of warningKinds) {
      const judge = kind.judge(this.#document)
      for (const facts of this.#rules) {
        judge(facts)
        if (passes.due()) yield
      }
    }
  }

  *phase(phase: Phase, { phases, strict }: PolicyDocument): Steps<CompiledPhase | null> {
    const rules = phases[phase]
    if (rules.length === 0) return null
    const { owner, services } = this.#document
    const compiled: CompiledRule[] = []
    for (const rule of rules) {
      if (this.#document.report.full) break
      const before = this.#tlsEndedAt
      compiled.push(this.#rule(phase, rule, strict))
      if (rule.expressions.length > 0) this.#tlsEndedAt = before
      yield
    }
    return new CompiledPhase({ phase, owner, rules: compiled, strict, log: services.log })
  }

  #rule(phase: Phase, rule: RuleNode, strict: boolean): CompiledRule {
    const { name } = rule
    const { owner, services } = this.#document
    const facts: ActionFacts[] = []
    const actions = rule.actions.flatMap((action) =>
      this.#document.report.full ? [] : (this.#action(phase, rule, action, facts) ?? [])
    )
    const denying = facts.some(denies)
    const found = rule.expressions.flatMap((expression) => this.#expression(phase, expression, denying) ?? [])
    const expressions = found.map(({ expression }) => expression)
    this.#rules.push({ phase, rule, strict, expressions: found, actions: facts })
    const place = ({ start }: Span) => this.#document.source.place(start)
    return {
      name,
      place: place(rule.span),
      expressions,
      places: found.map(({ node }) => place(node.node.span)),
      actions,
      matched: services.meter.matched(owner, phase, name),
      absent: services.meter.failed(owner, phase, name, 'absent'),
      failed: services.meter.failed(owner, phase, name, 'failed'),
      failedBy: { phase, rule: name, action: 'expression' }
    }
  }

  #expression(
    phase: Phase,
    from: ExpressionNode,
    denying: boolean
  ): (ExpressionFacts & { readonly expression: Expression }) | undefined {
    const { source, path, node } = from
    const compiled = this.#document.services.expressions.expression(source, phase)
    reportExpression(this.#document, compiled, { path, node }, source, denying)
    if (!compiled.ok) return undefined
    const { type } = compiled.value
    const { absence, conditions = [] } = compiled
    if (type === 'bool' || type === 'dyn') return { expression: compiled.value, node: from, absence, conditions }
    const message = `an expression of a rule must be true or false; this one is of type ${type}`
    this.#document.report.error(path, expressionErrors.EXPRESSION_TYPE, message, node.span, 0)
    return undefined
  }

  /** Appends what the action says to `facts`. */
  #action(phase: Phase, rule: RuleNode, node: ActionNode, facts: ActionFacts[]): CompiledAction | undefined {
    const action = this.#known(node)
    if (action === undefined || !this.#allowed(action, phase, node)) return undefined
    const { type, path, typeNode } = node
    const anchor = { path: [...path, 'config'], node: node.config ?? typeNode }
    const scope = new ActionScope(this.#document, phase, rule.name, anchor)
    const config = this.#config(action, node, scope)
    if (config === undefined) return undefined
    const decided = this.#document.services.meter.decided(scope.owner, phase, rule.name, type)
    const decidedBy = { phase, rule: rule.name, action: type }
    const run = action.compile(config, scope)
    facts.push({ node, action, config })
    if (scope.gate !== undefined) this.#login({ gate: scope.gate, decidedBy, decided }, scope)
    const place = this.#document.source.place(typeNode.span.start)
    for (const limit of scope.limits)
      this.limits.push({ limit, phase, rule: rule.name, ruleIndex: Number(rule.path.at(-1)), place })
    return { type, run, decidedBy, decided, place }
  }

  #login(login: PolicyLogin, scope: ActionScope): void {
    const { tag, authId } = login.gate
    if (this.logins.some(({ gate }) => gate.authId === authId && gate.tag !== tag)) {
      const message =
        'another login of this document has the same auth_id, so /.sluice/login cannot tell them apart; give each its own'
      scope.warn(authId === '' ? [] : ['auth_id'], policyWarnings.LOGIN_AMBIGUOUS, message)
    }
    this.logins.push(login)
  }

  /** Returns the action that is often called by this wrong name. */
  #misnamed(name: string): string | undefined {
    for (const action of this.#actions.values()) {
      if (action.availability === 'ready' && action.misnamed?.includes(name) === true) return action.type
    }
    return undefined
  }

  #known({ type, path, typeNode }: ActionNode): ReadyAction | undefined {
    const action = this.#actions.get(type)
    const { report } = this.#document
    if (action === undefined) {
      const meant = this.#misnamed(type)
      const hint = meant === undefined ? didYouMean(type, this.#actions.keys()) : `; did you mean "${meant}"?`
      const message = `there is no action "${type}"${hint}`
      report.error([...path, 'type'], policyErrors.ACTION_UNKNOWN, message, typeNode.span)
      return undefined
    }
    if (action.availability !== 'unsupported') return action
    report.error(
      [...path, 'type'],
      policyErrors.ACTION_UNSUPPORTED,
      `${type} is not supported: ${action.reason}`,
      typeNode.span
    )
    return undefined
  }

  #allowed(action: ReadyAction, phase: Phase, { type, path, typeNode }: ActionNode): boolean {
    const message = action.phases.includes(phase)
      ? this.#refusalOnConnection(action, phase, typeNode)
      : `${type} cannot stand in ${phase}; it is allowed in ${action.phases.join(', ')}`
    if (message === undefined) return true
    this.#document.report.error([...path, 'type'], policyErrors.ACTION_PHASE, message, typeNode.span)
    return false
  }

  /** Returns why an action can never work on the connection, as earlier actions leave it; undefined if it can. */
  #refusalOnConnection(action: ReadyAction, phase: Phase, { span }: ActionNode['typeNode']): string | undefined {
    if (phase !== 'on_tcp_connect') return undefined
    const refusal = refusalOn(action, this.#connections)
    if (refusal !== undefined || action.needs !== 'tls') return refusal
    const { line } = this.#document.source.place(span.start)
    if (this.#tlsEndedAt !== undefined)
      return `${action.type} cannot run, because the action in line ${this.#tlsEndedAt} has ended TLS before; remove one of them`
    this.#tlsEndedAt = line
    return undefined
  }

  /** Returns the config as data; undefined if a problem in it was reported. */
  #config(action: ReadyAction, node: ActionNode, scope: ActionScope): object | undefined {
    const { report } = this.#document
    if (node.config === undefined && !action.configOptional) {
      const fields = Object.keys((action.config as { properties?: object }).properties ?? {})
      const message = `${node.type} needs a \`config\`${fields.length > 0 ? ` with ${fields.join(', ')}` : ''}`
      report.error(node.path, policyErrors.CONFIG_INVALID, message, node.typeNode.span)
      return undefined
    }
    const before = report.problems.length
    const map = node.config ?? { kind: 'map', span: node.typeNode.span, entries: [] }
    const data = readConfig(action.config, map, (at, message, onKey) => scope.field(at, message, onKey))
    return report.problems.slice(before).some(({ severity }) => severity === 'error') ? undefined : (data as object)
  }
}
