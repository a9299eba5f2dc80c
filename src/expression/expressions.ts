import type { Flow, Phase } from '../flow/flow.js'
import type { Clock } from '../lib/clock.js'
import { type Geo, noGeo } from '../lib/geo.js'
import { RegexCache } from '../lib/regex.js'
import { UserAgents } from '../lib/user-agent.js'
import { absenceIn } from './absence.js'
import { documentedFunctions, documentedVariables } from './catalogue.js'
import { CelEngine, isFault, type Node, type Parsed } from './cel-parser.js'
import { compile, compileRange } from './compile.js'
import type { Compilation } from './compile-calls.js'
import { MACROS } from './compile-macros.js'
import { conditionsIn } from './conditions.js'
import { Environment } from './environment.js'
import {
  type Compiled,
  EvaluationError,
  type Expression,
  type ExpressionProblem,
  type Expressions,
  type Template
} from './expression.js'
import { regexFunctions, typeFunctions } from './functions/standard.js'
import { problem, syntaxProblem, typeProblem } from './problems.js'
import { resolve } from './resolve.js'
import type { FlowFunctionDefinition } from './signatures.js'
import { type FunctionDefinition, FunctionTable, typeLabel } from './signatures.js'
import { BUDGET, NO_VALUE, type Run, reasonOf, State } from './state.js'
import { compileTemplate } from './template.js'
import { dataOf, textOf } from './text.js'
import type { ActionResults } from './variables/actions.js'
import type { VariableDefinition } from './variables/definition.js'

/** Where values come from that are neither in the flow nor in the expression. */
export interface ExpressionSources {
  /** Result fields of each action by its snake-case name: dotted field path → CEL type. */
  readonly results: ActionResults
  readonly clock: Clock
  /** Numbers in [0, 1), unpredictable to clients. */
  readonly random: () => number
  /** Without it all geographic variables are empty. */
  readonly geo?: Geo
  readonly userAgent?: UserAgents
}

/** Longest source of an expression, in UTF-16 units. */
const MAX_SOURCE = 8_192

/** The documented language over the given sources. `vaults`: whether its functions that read vaults exist. */
export function createExpressions(sources: ExpressionSources, { vaults = true } = {}): Expressions {
  const { geo = noGeo, userAgent = new UserAgents() } = sources
  const functions = [...documentedFunctions(sources)]
  return new Language(
    documentedVariables({ ...sources, geo, userAgent }),
    vaults ? functions : functions.filter(({ signature }) => !signature.startsWith('secrets.'))
  )
}

/** A language of given variables and functions. */
export class Language implements Expressions {
  readonly #engine = new CelEngine()
  readonly #environment: Environment
  readonly #regexes = new RegexCache()

  constructor(
    variables: Iterable<VariableDefinition>,
    functions: Iterable<FunctionDefinition | FlowFunctionDefinition>
  ) {
    for (const macro of MACROS) this.#engine.declareMacro(macro)
    const own = [...functions, ...regexFunctions, ...typeFunctions((name) => this.#engine.typeValue(name))]
    const table = new FunctionTable(own)
    table.declareTo(this.#engine)
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
      // A chain of operators as long as the limits allow can still be deeper than a small stack.
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
    let slots = 0
    const compilation: Compilation = {
      functions: this.#environment.functions,
      regexes: this.#regexes,
      compile: (node, scope) => compile(node, scope, compilation),
      compileRange: (node, scope) => compileRange(node, scope, compilation),
      binds: (bound) => {
        slots = Math.max(slots, bound)
      },
      report: (node, code, message) => problems.push(problem(code, message, node))
    }
    const run = compile(parsed.root, new Map(), compilation)
    if (problems.some(({ severity }) => severity === 'error')) return refused(problems)
    const label = typeLabel(type)
    const constant = (node: Node) => constantValue(compile(node, new Map(), compilation), slots)
    const conditions = () => conditionsIn(parsed.root, source, { functions: this.#environment.functions, constant })
    return {
      ok: true,
      value: new CompiledExpression(source, label, variables, run, slots),
      warnings: problems,
      ...(secrets.length > 0 ? { secrets } : {}),
      ...(label === 'bool' || label === 'dyn'
        ? { absence: absenceIn(parsed.root, source), conditions: conditions() }
        : {})
    }
  }
}

function refused(problems: readonly ExpressionProblem[]): {
  readonly ok: false
  readonly problems: readonly ExpressionProblem[]
} {
  return { ok: false, problems }
}

/** The value of a closure that reads no flow, or undefined when it has none. */
function constantValue(run: Run, slots: number): unknown {
  try {
    return run(new State(NO_FLOW, slots))
  } catch (error) {
    if (error instanceof EvaluationError || error instanceof RangeError) return undefined
    throw error
  }
}

class CompiledExpression implements Expression {
  readonly source: string
  readonly type: string
  readonly variables: ReadonlySet<string>
  readonly #run: Run
  readonly #slots: number
  #idle: State | undefined

  constructor(source: string, type: string, variables: ReadonlySet<string>, run: Run, slots: number) {
    this.source = source
    this.type = type
    this.variables = variables
    this.#run = run
    this.#slots = slots
  }

  evaluate(flow: Flow): unknown {
    const outcome = this.outcome(flow)
    if (outcome instanceof EvaluationError) throw outcome
    return outcome
  }

  outcome(flow: Flow): unknown {
    const state = this.#idle ?? new State(flow, this.#slots)
    this.#idle = undefined
    state.flow = flow
    state.budget = BUDGET
    let value: unknown
    try {
      value = this.#run(state)
      if (value === NO_VALUE) value = reasonOf(state)
    } catch (error) {
      value = error instanceof EvaluationError ? error : error instanceof RangeError ? TOO_DEEP : BROKEN
    }
    // Nothing of this exchange stays reachable from the expression, which lives much longer.
    state.flow = NO_FLOW
    if (this.#slots > 0) state.locals.fill(undefined)
    this.#idle = state
    return value
  }
}

const NO_FLOW = undefined as unknown as Flow
const TOO_DEEP = new EvaluationError('failed', 'a value is nested too deeply')
const BROKEN = new EvaluationError('failed', 'a function of the expression could not be evaluated')
