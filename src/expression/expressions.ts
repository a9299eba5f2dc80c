import type { ExpressionExplainer, ValueOrigin } from '../flow/explainer.js'
import type { Flow, Phase } from '../flow/flow.js'
import type { Clock } from '../lib/clock.js'
import { type Geo, noGeo } from '../lib/geo.js'
import { RegexCache } from '../lib/regex.js'
import { UserAgents } from '../lib/user-agent.js'
import { absenceIn } from './absence.js'
import { documentedFunctions, documentedVariables } from './catalogue.js'
import { CelEngine, forEachChild, isFault, literal, type Node, type Parsed } from './cel-parser.js'
import { compile, compileRange } from './compile.js'
import { type Compilation, constantOf } from './compile-calls.js'
import { MACROS } from './compile-macros.js'
import { conditionsIn } from './conditions.js'
import { failingParts } from './constants.js'
import { Environment } from './environment.js'
import { type ExplainedState, explaining, originOf, shownData } from './explained.js'
import {
  type Compiled,
  EvaluationError,
  type Expression,
  type ExpressionProblem,
  type Expressions,
  type Template
} from './expression.js'
import { regexFunctions, typeFunctions } from './functions/standard.js'
import { misreadLiterals } from './literals.js'
import { problem, syntaxProblem, typeProblem } from './problems.js'
import { resolve } from './resolve.js'
import type { FlowFunctionDefinition } from './signatures.js'
import { type FunctionDefinition, FunctionTable, typeLabel } from './signatures.js'
import { spanOf } from './source-span.js'
import { BUDGET, NO_VALUE, type Run, reasonOf, State } from './state.js'
import { compileTemplate } from './template.js'
import { dataOf, textOf } from './text.js'
import type { ActionResults } from './variables/actions.js'
import type { VariableDefinition } from './variables/definition.js'

/** Sources of values outside the flow and the expression. */
export interface ExpressionSources {
  /** Result fields of each action by its snake-case name: dotted field path → CEL type. */
  readonly results: ActionResults
  readonly clock: Clock
  /** Returns numbers in [0, 1) that clients cannot predict. */
  readonly random: () => number
  /** Without it, all geographic variables are empty. */
  readonly geo?: Geo
  readonly userAgent?: UserAgents
}

/** Maximum length of an expression in UTF-16 units. */
const MAX_SOURCE = 8_192

/** Creates the documented language with the given sources. `vaults`: whether the functions that read vaults exist. */
export function createExpressions(sources: ExpressionSources, { vaults = true } = {}): Expressions {
  const { geo = noGeo, userAgent = new UserAgents() } = sources
  const functions = [...documentedFunctions(sources)]
  return new Language(
    documentedVariables({ ...sources, geo, userAgent }),
    vaults ? functions : functions.filter(({ signature }) => !signature.startsWith('secrets.'))
  )
}

/**
 * Engines by their declared signatures. Declaring takes longer than compiling a policy, engines never change afterwards, and all languages
 * of a process have one of few sets of functions.
 */
const engines = new Map<string, CelEngine>()

function engineOf(functions: readonly { readonly signature: string }[], table: FunctionTable): CelEngine {
  const key = functions.map(({ signature }) => signature).join('\n')
  let engine = engines.get(key)
  if (engine === undefined) {
    engine = new CelEngine()
    for (const macro of MACROS) engine.declareMacro(macro)
    table.declareTo(engine)
    engines.set(key, engine)
  }
  return engine
}

/** A language of given variables and functions. */
export class Language implements Expressions {
  readonly #engine: CelEngine
  readonly #environment: Environment
  readonly #regexes = new RegexCache()

  constructor(
    variables: Iterable<VariableDefinition>,
    functions: Iterable<FunctionDefinition | FlowFunctionDefinition>
  ) {
    const own = [...functions, ...regexFunctions, ...typeFunctions((name) => this.#engine.typeValue(name))]
    const table = new FunctionTable(own)
    this.#engine = engineOf(own, table)
    this.#environment = new Environment(variables, table)
  }

  readonly textOf = textOf
  readonly dataOf = dataOf

  template(source: string, phase: Phase): Compiled<Template> {
    return compileTemplate(source, (part) => this.expression(part, phase))
  }

  expression(source: string, phase: Phase, more: readonly VariableDefinition[] = []): Compiled<Expression> {
    if (source.length > MAX_SOURCE) {
      const message = `the expression is longer than ${MAX_SOURCE} characters`
      return refused([problem('EXPRESSION_LIMIT', message, { start: 0, end: source.length })])
    }
    const parsed = this.#engine.parse(source)
    if (isFault(parsed)) return refused([syntaxProblem(parsed, source)])
    try {
      return this.#compile(source, parsed, phase, this.#environment.with(more))
    } catch (error) {
      // A chain of operators within the limits can still be too deep for a small stack.
      if (!(error instanceof RangeError)) throw error
      return refused([problem('EXPRESSION_LIMIT', 'the expression is too deep', { start: 0, end: source.length })])
    }
  }

  #compile(source: string, parsed: Parsed, phase: Phase, environment: Environment): Compiled<Expression> {
    const { problems, variables, secrets } = resolve(parsed.root, source, phase, environment, this.#engine)
    if (problems.some(({ severity }) => severity === 'error')) return refused(problems)
    const type = parsed.check()
    if (isFault(type)) problems.push(typeProblem(type, this.#environment.functions))
    if (isFault(type) || problems.some(({ severity }) => severity === 'error')) return refused(problems)
    const { run, slots, outcome } = this.#closure(parsed.root, undefined, problems)
    const { functions } = this.#environment
    for (const { node, message } of failingParts(parsed.root, { functions, outcome })) {
      problems.push(problem('EXPRESSION_FAILS', message, spanOf(node, source)))
    }
    if (problems.some(({ severity }) => severity === 'error')) return refused(problems)
    const label = typeLabel(type)
    const known = (value: unknown) => (value instanceof EvaluationError ? undefined : value)
    const whole = () =>
      constantOf(run) ?? (isArithmetic(parsed.root) ? { value: known(outcome(parsed.root)) } : undefined)
    const conditions = () => conditionsIn(parsed.root, source, { functions, constant: (node) => known(outcome(node)) })
    return {
      ok: true,
      value: new CompiledExpression({
        ...{ source, type: label, variables, run, slots, constant: whole() },
        explain: () => this.#explained(source, phase, environment)
      }),
      warnings: problems,
      ...(secrets.length > 0 ? { secrets } : {}),
      literals: misreadLiterals(parsed.root, source),
      absence: absenceIn(parsed.root, source),
      ...(label === 'bool' || label === 'dyn' ? { conditions: conditions() } : {})
    }
  }

  /** `around`: wraps the compiled closure of each node. */
  #closure(
    root: Node,
    around: ((node: Node, run: Run) => Run) | undefined,
    problems: ExpressionProblem[]
  ): CompiledTree {
    let slots = 0
    const compilation: Compilation = {
      functions: this.#environment.functions,
      regexes: this.#regexes,
      compile: (node, scope) => {
        const run = compile(node, scope, compilation)
        return around === undefined ? run : around(node, run)
      },
      everyPart: around !== undefined,
      compileRange: (node, scope) => compileRange(node, scope, compilation),
      binds: (bound) => {
        slots = Math.max(slots, bound)
      },
      report: (node, code, message) => problems.push(problem(code, message, node))
    }
    const run = compilation.compile(root, new Map())
    const outcome = (node: Node) => {
      const compiled = compile(node, new Map(), compilation)
      return evaluated(compiled, new State(NO_FLOW, slots))
    }
    return { run, slots, outcome }
  }

  /** Compiles the expression again with recording of each part's value. It has been compiled before and so is valid. */
  #explained(source: string, phase: Phase, environment: Environment): Explained {
    const parsed = this.#engine.parse(source) as Parsed
    resolve(parsed.root, source, phase, environment, this.#engine)
    parsed.check()
    const { run, slots } = this.#closure(parsed.root, explaining, [])
    return { run, slots, from: originOf(parsed.root) }
  }
}

/** A compiled tree. `slots`: number of variables that its comprehensions bind. */
interface Closure {
  readonly run: Run
  readonly slots: number
}

interface CompiledTree extends Closure {
  /** Returns the value of a part that reads no flow, or its `EvaluationError`. */
  readonly outcome: (node: Node) => unknown
}

interface Explained extends Closure {
  readonly from: ValueOrigin
}

function refused(problems: readonly ExpressionProblem[]): {
  readonly ok: false
  readonly problems: readonly ExpressionProblem[]
} {
  return { ok: false, problems }
}

/** Returns whether the node contains only literals and operators. */
function isArithmetic(node: Node): boolean {
  if (literal(node) !== undefined) return true
  if (!OPERATORS.has(node.op)) return false
  let whole = true
  forEachChild(node, (child) => {
    whole &&= isArithmetic(child)
  })
  return whole
}

const OPERATORS: ReadonlySet<string> = new Set(['+', '-', '*', '/', '%', '-_', '?:', '==', '!=', '<', '<=', '>', '>='])

interface CompiledParts extends Pick<Expression, 'source' | 'type' | 'variables' | 'constant'> {
  readonly run: Run
  readonly slots: number
  readonly explain: () => Explained
}

class CompiledExpression implements Expression {
  readonly source: string
  readonly type: string
  readonly variables: ReadonlySet<string>
  readonly constant: Expression['constant']
  readonly #run: Run
  readonly #slots: number
  readonly #explain: () => Explained
  #idle: State | undefined
  #explained: Explained | undefined

  constructor({ source, type, variables, run, slots, constant, explain }: CompiledParts) {
    this.source = source
    this.type = type
    this.variables = variables
    this.constant = constant
    this.#run = run
    this.#slots = slots
    this.#explain = explain
  }

  evaluate(flow: Flow): unknown {
    const outcome = this.outcome(flow)
    if (outcome instanceof EvaluationError) throw outcome
    return outcome
  }

  outcome(flow: Flow): unknown {
    const record = flow.explainer === undefined ? undefined : flow.explainer.expression(this.source)
    if (record !== undefined) return this.#outcomeExplained(flow, record)
    const state = this.#idle ?? new State(flow, this.#slots)
    this.#idle = undefined
    state.flow = flow
    state.budget = BUDGET
    const value = evaluated(this.#run, state)
    // The expression lives longer than the exchange and must not retain it.
    state.flow = NO_FLOW
    if (this.#slots > 0) state.locals.fill(undefined)
    this.#idle = state
    return value
  }

  #outcomeExplained(flow: Flow, record: ExpressionExplainer): unknown {
    this.#explained ??= this.#explain()
    const { run, slots, from } = this.#explained
    const state: ExplainedState = new State(flow, slots)
    state.explainer = record
    const value = evaluated(run, state)
    if (value instanceof EvaluationError) record.failed(value.kind, value.message)
    else record.ended(shownData(value), from)
    return value
  }
}

/** Returns the value, or the EvaluationError. */
function evaluated(run: Run, state: State): unknown {
  try {
    const value = run(state)
    return value === NO_VALUE ? reasonOf(state) : value
  } catch (error) {
    return error instanceof EvaluationError ? error : error instanceof RangeError ? TOO_DEEP : BROKEN
  }
}

const NO_FLOW = undefined as unknown as Flow
const TOO_DEEP = new EvaluationError('failed', 'a value is nested too deeply')
const BROKEN = new EvaluationError('failed', 'a function of the expression could not be evaluated')
