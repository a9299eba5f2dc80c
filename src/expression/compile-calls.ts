import type { Flow } from '../flow/flow.js'
import { compileRegex, type Regex, type RegexCache } from '../lib/regex.js'
import { Duration, literal, type Node } from './cel-parser.js'
import { EvaluationError, type SecretName } from './expression.js'
import type { ExpressionCode } from './problems.js'
import { accepts, acceptsType, type FunctionTable, type Overload } from './signatures.js'
import { charge, chargeFor, chargeForAll, chargeForResult, NO_VALUE, noValue, type Run, State } from './state.js'
import { MAX_LIST, MAX_TEXT } from './values.js'
import type { VariableDefinition } from './variables/definition.js'

/** Variables of comprehensions with their indexes in `State.locals`. */
export type Scope = ReadonlyMap<string, number>

/** Context for compiling a node: tables, the compiler for child nodes, and the report. */
export interface Compilation {
  readonly functions: FunctionTable
  /** Cache of the patterns that `matches` compiles at run time. */
  readonly regexes: RegexCache
  readonly compile: (node: Node, scope: Scope) => Run
  /** Compiles a node that is only iterated or measured. */
  readonly compileRange: (node: Node, scope: Scope) => Run
  /** Reserves `State.locals` up to this number of slots. */
  readonly binds: (slots: number) => void
  /** Every part of the source gets its own closure, even if a shortcut could read several at once. */
  readonly everyPart?: boolean
  /** Reports a problem found by compilation; the returned closure is then never run. */
  readonly report: (node: Node, code: ExpressionCode, message: string) => void
}

const CONSTANTS = new WeakMap<Run, { readonly value: unknown }>()

export function constant(value: unknown): Run {
  const run = () => value
  CONSTANTS.set(run, { value })
  return run
}

/** Returns the value of a closure created by `constant`. */
export function constantOf(run: Run | undefined): { readonly value: unknown } | undefined {
  return run === undefined ? undefined : CONSTANTS.get(run)
}

/** Compiles a function or method call. */
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
  if (name === 'matches' && first !== undefined) return compileMatches(args as [Node, Node], scope, compilation)
  const overloads = candidates.filter(({ signature }) =>
    signature.parameters.every((spec, i) => acceptsType(spec, args[i]?.checkedType) !== 'no')
  )
  const [only] = overloads
  if (only?.signature.parameters.every((spec, i) => acceptsType(spec, args[i]?.checkedType) === 'yes')) {
    return compileDirect(only, args, scope, compilation)
  }
  const operands = args.map((arg) => compilation.compile(arg, scope))
  return dispatched(overloads, operands, name)
}

/** Compiles a call with a known overload. Constants of the source are prepared once, here. */
function compileDirect(overload: Overload, args: readonly Node[], scope: Scope, compilation: Compilation): Run {
  const [first, second] = args
  if (overload.signature.name === 'timestamp' && first?.op === 'variable') {
    const { instant } = first.args as VariableDefinition
    if (instant !== undefined) return ({ flow }) => instant(flow)
  }
  const operands = args.map((arg) => compilation.compile(arg, scope))
  const last = constantOf(operands.at(-1))
  if (overload.readsFlow) {
    const { prepareWith } = overload
    if (prepareWith === undefined || last === undefined || args.length !== 1) return readingFlow(overload, operands)
    const read = prepareWith(last.value)
    return (state) => settled(state, read(state.flow))
  }
  if (second !== undefined && args.length === 2 && last !== undefined && overload.work === undefined) {
    const run = overload.prepare?.(last.value) ?? ((value: unknown) => overload.run(value, last.value))
    return folded(overload, operands, unary(operands[0] as Run, run, costOf(overload, last.value), overload.deep))
  }
  return folded(overload, operands, direct(overload, operands))
}

/** Compiles a secret with constant names: a missing one is then known by name, and may be logged. */
function compileSecret(args: readonly Node[]): Run | undefined {
  const { vault, name } = secretNamed(args)
  if (vault === undefined || name === undefined) return undefined
  const missing = new EvaluationError('failed', `there is no secret "${name}" in a vault "${vault}"`)
  return (state) => state.flow.secret(vault, name) ?? noValue(state, missing)
}

/** Returns the secret that a call of `secrets.get` reads, from its literal arguments. */
export function secretNamed(args: readonly Node[]): SecretName {
  const [vault, name] = args.map((arg) => {
    const value = literal(arg)?.value
    return typeof value === 'string' ? value : undefined
  })
  return { vault, name }
}

/** Replaces a call by its result if known at compile time: a short value computed from constants only. */
function folded({ varies }: Overload, operands: readonly Run[], call: Run): Run {
  if (varies || operands.some((operand) => constantOf(operand) === undefined)) return call
  const state = new State(NO_FLOW, 0)
  try {
    const value = call(state)
    return isShort(value) ? constant(value) : call
  } catch (error) {
    // The call fails on every run, also by exceeding the steps.
    if (error instanceof EvaluationError) return call
    throw error
  }
}

const NO_FLOW = undefined as unknown as Flow

function isShort(value: unknown): boolean {
  if (typeof value === 'string') return value.length <= 1_024
  if (typeof value === 'object') return value instanceof Date || value instanceof Duration
  return value !== NO_VALUE
}

function readingFlow({ run }: Overload, operands: readonly Run[]): Run {
  return (state) => {
    const values = evaluate(operands, state)
    return values === undefined ? NO_VALUE : settled(state, run(state.flow, ...values))
  }
}

/** Steps for an argument. */
function costOf({ deep }: Overload, value: unknown): number {
  const state = new State(NO_FLOW, 0)
  state.budget = Number.MAX_SAFE_INTEGER
  chargeArgument(state, value, deep)
  return Number.MAX_SAFE_INTEGER - state.budget
}

function chargeArgument(state: State, value: unknown, deep: boolean): void {
  if (deep) chargeForAll(state, value)
  else chargeFor(state, value)
}

/** Compiles a call with one unknown argument; `cost` is the number of steps for the known ones. */
function unary(operand: Run, run: (value: unknown) => unknown, cost: number, deep: boolean): Run {
  if (deep || cost > 0) {
    return (state) => {
      const value = operand(state)
      if (value === NO_VALUE) return NO_VALUE
      charge(state, cost)
      chargeArgument(state, value, deep)
      return settled(state, run(value))
    }
  }
  return (state) => {
    const value = operand(state)
    if (value === NO_VALUE) return NO_VALUE
    chargeFor(state, value)
    return settled(state, run(value))
  }
}

function direct({ run, deep, work }: Overload, operands: readonly Run[]): Run {
  const [first, second] = operands
  if (work !== undefined) {
    return (state) => {
      const values = evaluate(operands, state, deep)
      if (values === undefined) return NO_VALUE
      charge(state, work(...values))
      return settled(state, run(...values))
    }
  }
  if (operands.length === 1) return unary(first as Run, run, 0, deep)
  if (operands.length === 2 && !deep) return binary(first as Run, second as Run, run)
  return (state) => {
    const values = evaluate(operands, state, deep)
    return values === undefined ? NO_VALUE : settled(state, run(...values))
  }
}

function binary(first: Run, second: Run, run: (value: unknown, other: unknown) => unknown): Run {
  return (state) => {
    const value = first(state)
    if (value === NO_VALUE) return NO_VALUE
    const other = second(state)
    if (other === NO_VALUE) return NO_VALUE
    chargeFor(state, value)
    chargeFor(state, other)
    return settled(state, run(value, other))
  }
}

/** Compiles a call whose overload depends on the values. */
function dispatched(overloads: readonly Overload[], operands: readonly Run[], name: string): Run {
  const none = new EvaluationError('failed', `${name.replaceAll('__', '.')}() does not take these values`)
  const deep = overloads.some((overload) => overload.deep)
  return (state) => {
    const values = evaluate(operands, state, deep)
    if (values === undefined) return NO_VALUE
    for (const { signature, readsFlow, run, work } of overloads) {
      if (signature.parameters.every((spec, i) => accepts(spec, values[i]))) {
        if (work !== undefined) charge(state, work(...values))
        return settled(state, readsFlow ? run(state.flow, ...values) : run(...values))
      }
    }
    return noValue(state, none)
  }
}

/** Returns the values of all operands, or undefined if one has none. */
function evaluate(operands: readonly Run[], state: State, deep = false): unknown[] | undefined {
  const values = new Array<unknown>(operands.length)
  for (let i = 0; i < operands.length; i++) {
    const value = (operands[i] as Run)(state)
    if (value === NO_VALUE) return undefined
    chargeArgument(state, value, deep)
    values[i] = value
  }
  return values
}

const TOO_LONG = new EvaluationError('failed', `a text would be longer than ${MAX_TEXT} characters`)
const TOO_MANY = new EvaluationError('failed', `a list would have more than ${MAX_LIST} items`)

/** Checks the size of a result and charges it to the budget. Errors returned by functions are not values. */
function settled(state: State, result: unknown): unknown {
  if (typeof result === 'string') {
    if (result.length > MAX_TEXT) return noValue(state, TOO_LONG)
    chargeForResult(state, result)
  } else if (typeof result === 'object') {
    if (Array.isArray(result)) {
      if (result.length > MAX_LIST) return noValue(state, TOO_MANY)
      chargeForResult(state, result)
    } else if (result instanceof EvaluationError) return noValue(state, result)
  }
  return result
}

const BAD_PATTERN = new EvaluationError('failed', 'matches(): the pattern is not valid RE2 syntax')
const NOT_TEXT = new EvaluationError('failed', 'matches() takes a text and a pattern')

/** Steps for compiling a pattern. */
const COMPILE_COST = 30_000

/** `matches` charges its cost by the length of the text; a constant pattern is compiled once, here. */
function compileMatches([textNode, patternNode]: [Node, Node], scope: Scope, compilation: Compilation): Run {
  const text = compilation.compile(textNode, scope)
  const known = literal(patternNode)
  if (typeof known?.value === 'string') {
    const compiled = compileRegex(known.value)
    if (!compiled.ok) {
      compilation.report(patternNode, 'EXPRESSION_REGEX', compiled.message)
      return constant(false)
    }
    const { regex } = compiled
    return (state) => {
      const value = text(state)
      if (value === NO_VALUE) return NO_VALUE
      if (typeof value !== 'string') return noValue(state, NOT_TEXT)
      return matched(state, regex, value)
    }
  }
  const pattern = compilation.compile(patternNode, scope)
  return (state) => {
    const value = text(state)
    if (value === NO_VALUE) return NO_VALUE
    if (typeof value !== 'string') return noValue(state, NOT_TEXT)
    const source = pattern(state)
    if (source === NO_VALUE) return NO_VALUE
    if (typeof source !== 'string') return noValue(state, NOT_TEXT)
    if (!compilation.regexes.knows(source)) charge(state, COMPILE_COST)
    const compiled = compilation.regexes.get(source)
    return compiled.ok ? matched(state, compiled.regex, value) : noValue(state, BAD_PATTERN)
  }
}

/** Charges the work of a match to the budget: the length of the text, and the visited instructions of the pattern. */
function matched(state: State, regex: Regex, text: string): boolean | undefined {
  charge(state, text.length >> 2)
  const found = regex.testWithin(text, state)
  if (found === undefined) charge(state, 0)
  return found
}
