import { compileRegex, type RegexCache } from '../lib/regex.js'
import { literal, type Node } from './cel-parser.js'
import { EvaluationError, type SecretName } from './expression.js'
import type { ExpressionCode } from './problems.js'
import { accepts, acceptsType, type FunctionTable, type Overload } from './signatures.js'
import { charge, chargeFor, chargeForResult, type Run, type State } from './state.js'
import { MAX_LIST, MAX_TEXT } from './values.js'

/** Names that comprehensions bind, and where their values stand in `State.locals`. */
export type Scope = ReadonlyMap<string, number>

/** What compiling a node needs to know, how it compiles others, and where it reports. */
export interface Compilation {
  readonly functions: FunctionTable
  /** The patterns that `matches` compiles while traffic passes. */
  readonly regexes: RegexCache
  readonly compile: (node: Node, scope: Scope) => Run
  /** Reports what only compiling finds; the closure that is returned anyway is never run. */
  readonly report: (node: Node, code: ExpressionCode, message: string) => void
}

export function constant(value: unknown): Run {
  return () => value
}

/** The closure of a function or method call. */
export function compileCall(node: Node, scope: Scope, compilation: Compilation): Run {
  const isMethod = node.op === 'rcall'
  const name = (node.args as readonly [string])[0]
  const args = isMethod
    ? [(node.args as [string, Node])[1], ...(node.args as [string, Node, readonly Node[]])[2]]
    : (node.args as [string, readonly Node[]])[1]
  const candidates = compilation.functions.find(isMethod ? 'method' : 'function', name, args.length)
  const [first] = candidates
  if (name === 'secrets__get') {
    const secret = compileSecret(args)
    if (secret !== undefined) return secret
  }
  if (name === 'matches' && first !== undefined) return compileMatches(args as [Node, Node], first, scope, compilation)
  const overloads = candidates.filter(({ signature }) =>
    signature.parameters.every((spec, i) => acceptsType(spec, args[i]?.checkedType) !== 'no')
  )
  const operands = args.map((arg) => compilation.compile(arg, scope))
  const [only] = overloads
  if (only?.signature.parameters.every((spec, i) => acceptsType(spec, args[i]?.checkedType) === 'yes')) {
    return direct(only, operands)
  }
  return dispatched(overloads, operands, name)
}

/** A secret by names that stand in the source: what is missing is then known by name, and may be told to the log. */
function compileSecret(args: readonly Node[]): Run | undefined {
  const named = secretNamed(args)
  if (named === undefined) return undefined
  const { vault, name } = named
  const missing = new EvaluationError('failed', `there is no secret "${name}" in a vault "${vault}"`)
  return ({ flow }) => {
    const value = flow.units.secret(vault, name)
    if (value === undefined) throw missing
    return value
  }
}

/** The arguments of `secrets.get` where they are literals. */
export function secretNamed(args: readonly Node[]): SecretName | undefined {
  const [vault, name] = args.map((arg) => literal(arg)?.value)
  return typeof vault === 'string' && typeof name === 'string' ? { vault, name } : undefined
}

/** A call whose overload is certain. */
function direct({ run, readsFlow }: Overload, operands: readonly Run[]): Run {
  if (readsFlow) {
    return (state) => bounded(state, run(state.flow, ...evaluate(operands, state)))
  }
  const [a, b] = operands
  if (operands.length === 1) {
    const first = a as Run
    return (state) => {
      const value = first(state)
      chargeFor(state, value)
      return bounded(state, run(value))
    }
  }
  if (operands.length === 2) {
    const first = a as Run
    const second = b as Run
    return (state) => {
      const value = first(state)
      const other = second(state)
      chargeFor(state, value)
      chargeFor(state, other)
      return bounded(state, run(value, other))
    }
  }
  return (state) => bounded(state, run(...evaluate(operands, state)))
}

/** A call whose overload depends on the values. */
function dispatched(overloads: readonly Overload[], operands: readonly Run[], name: string): Run {
  const none = new EvaluationError('failed', `${name.replaceAll('__', '.')}() does not take these values`)
  return (state) => {
    const values = evaluate(operands, state)
    for (const { signature, readsFlow, run } of overloads) {
      if (signature.parameters.every((spec, i) => accepts(spec, values[i]))) {
        return bounded(state, readsFlow ? run(state.flow, ...values) : run(...values))
      }
    }
    throw none
  }
}

function evaluate(operands: readonly Run[], state: State): unknown[] {
  const values = new Array<unknown>(operands.length)
  for (let i = 0; i < operands.length; i++) {
    const value = (operands[i] as Run)(state)
    chargeFor(state, value)
    values[i] = value
  }
  return values
}

const TOO_LONG = new EvaluationError('failed', `a text would be longer than ${MAX_TEXT} characters`)
const TOO_MANY = new EvaluationError('failed', `a list would have more than ${MAX_LIST} items`)

/** A result of a bearable size, its size taken from the budget. */
function bounded(state: State, result: unknown): unknown {
  if (typeof result === 'string') {
    if (result.length > MAX_TEXT) throw TOO_LONG
    chargeForResult(state, result)
  } else if (Array.isArray(result)) {
    if (result.length > MAX_LIST) throw TOO_MANY
    chargeForResult(state, result)
  }
  return result
}

const NOT_TEXT = new EvaluationError('failed', 'matches() takes a text and a pattern')

/** Steps for a pattern that must be compiled. */
const COMPILE_COST = 30_000

/** `matches` takes its cost from the budget by the length of the text; a constant pattern is compiled here, once. */
function compileMatches(
  [textNode, patternNode]: [Node, Node],
  matches: Overload,
  scope: Scope,
  compilation: Compilation
): Run {
  const text = compilation.compile(textNode, scope)
  const known = literal(patternNode)
  if (typeof known?.value === 'string') {
    const compiled = compileRegex(known.value)
    if (!compiled.ok) {
      compilation.report(patternNode, 'EXPRESSION_REGEX', compiled.message)
      return constant(false)
    }
    const { regex } = compiled
    return (state) => regex.test(subject(state, text(state)))
  }
  const pattern = compilation.compile(patternNode, scope)
  return (state) => {
    const value = subject(state, text(state))
    const source = pattern(state)
    if (typeof source !== 'string') throw NOT_TEXT
    if (!compilation.regexes.knows(source)) charge(state, COMPILE_COST)
    return matches.run(value, source)
  }
}

function subject(state: State, value: unknown): string {
  if (typeof value !== 'string') throw NOT_TEXT
  charge(state, value.length >> 2)
  return value
}
