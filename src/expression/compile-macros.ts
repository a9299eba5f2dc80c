import { type MacroShape, type Node, weightOf } from './cel-parser.js'
import type { Compilation, Scope } from './compile-calls.js'
import { EvaluationError } from './expression.js'
import { absorbed, charge, NO_VALUE, noValue, type Run, reasonOf, type State, weightier } from './state.js'
import { compare, MAX_LIST, mapKey } from './values.js'

/** Macros unknown to the engine's checker. */
export const MACROS: readonly MacroShape[] = [
  { signature: 'list.sortBy(ast, ast): list<dyn>', variables: 1, result: 'receiver' },
  { signature: 'list.all(ast, ast, ast): bool', variables: 2, result: 'bool' },
  { signature: 'list.exists(ast, ast, ast): bool', variables: 2, result: 'bool' },
  { signature: 'list.existsOne(ast, ast, ast): bool', variables: 2, result: 'bool' },
  { signature: 'list.exists_one(ast, ast, ast): bool', variables: 2, result: 'bool' },
  { signature: 'list.existsOne(ast, ast): bool', variables: 1, result: 'bool' },
  { signature: 'list.transformList(ast, ast, ast): list<dyn>', variables: 2, result: 'list' },
  { signature: 'list.transformList(ast, ast, ast, ast): list<dyn>', variables: 2, result: 'list' },
  { signature: 'list.transformMap(ast, ast, ast): map<dyn, dyn>', variables: 2, result: 'map' },
  { signature: 'list.transformMap(ast, ast, ast, ast): map<dyn, dyn>', variables: 2, result: 'map' }
]

/** Number of arguments that a macro binds, by name and number of arguments. */
const VARIABLES: Readonly<Record<string, number>> = {
  'all 2': 1,
  'exists 2': 1,
  'exists_one 2': 1,
  'existsOne 2': 1,
  'map 2': 1,
  'map 3': 1,
  'filter 2': 1,
  'sortBy 2': 1,
  'all 3': 2,
  'exists 3': 2,
  'exists_one 3': 2,
  'existsOne 3': 2,
  'transformList 3': 2,
  'transformList 4': 2,
  'transformMap 3': 2,
  'transformMap 4': 2
}

/** Names of macros, for suggestions. */
export const MACRO_NAMES: readonly string[] = [
  ...new Set(Object.keys(VARIABLES).map((key) => key.slice(0, key.indexOf(' '))))
]

/** Returns the number of identifiers that a call binds; 0 if it is not a macro. */
export function boundBy(node: Node): number {
  if (node.op !== 'rcall') return 0
  const [name, receiver, args] = node.args as [string, Node, readonly Node[]]
  if (isBind(name, receiver, args)) return 1
  return VARIABLES[`${name} ${args.length}`] ?? 0
}

/** Returns whether the call is `cel.bind(name, value, expression)`, whose name is bound in the third argument only. */
export function isBind(name: string, receiver: Node, args: readonly Node[]): boolean {
  return name === 'bind' && receiver.op === 'id' && receiver.args === 'cel' && args.length === 3
}

/** A comprehension's range, the slots of its variables, and the cost of one iteration. */
interface Loop {
  readonly range: Run
  readonly slot: number
  readonly two: boolean
  readonly cost: number
}

/** Compiles a comprehension or `cel.bind`; returns undefined if the call is not a macro. */
export function compileMacro(node: Node, scope: Scope, compilation: Compilation): Run | undefined {
  const variables = boundBy(node)
  if (variables === 0) return undefined
  const [name, receiver, args] = node.args as [string, Node, readonly Node[]]
  const slot = scope.size
  const inner = new Map(scope)
  for (const [i, variable] of args.slice(0, variables).entries()) inner.set(variable.args as string, slot + i)
  compilation.binds(slot + variables)
  // A shadowed name keeps its slot reserved: slots are counted, not names.
  for (let i = inner.size; i < slot + variables; i++) inner.set(`\u0000${i}`, i)
  compilation.binds(slot + variables)
  if (isBind(name, receiver, args)) return compileBind(args, slot, scope, inner, compilation)
  const bodies = args.slice(variables).map((body) => compilation.compile(body, inner))
  const loop: Loop = {
    range: compilation.compileRange(receiver, scope),
    slot,
    two: variables === 2,
    cost: 2 + args.slice(variables).reduce((sum, body) => sum + weightOf(body), 0)
  }
  return buildLoop(name, loop, bodies)
}

function compileBind(args: readonly Node[], slot: number, scope: Scope, inner: Scope, compilation: Compilation): Run {
  const value = compilation.compile(args[1] as Node, scope)
  const body = compilation.compile(args[2] as Node, inner)
  return (state) => {
    const bound = value(state)
    if (bound === NO_VALUE) return NO_VALUE
    state.locals[slot] = bound
    return body(state)
  }
}

function buildLoop(name: string, loop: Loop, bodies: readonly Run[]): Run {
  const [first, second] = bodies as [Run, Run | undefined]
  switch (name) {
    case 'all':
      return quantifier(loop, first, false)
    case 'exists':
      return quantifier(loop, first, true)
    case 'exists_one':
    case 'existsOne':
      return exactlyOne(loop, first)
    case 'filter':
      return filter(loop, first)
    case 'sortBy':
      return sortBy(loop, first)
    case 'transformMap':
      return transformMap(loop, second === undefined ? undefined : first, second ?? first)
    default:
      return transform(loop, second === undefined ? undefined : first, second ?? first)
  }
}

const NOT_BOOL = new EvaluationError('failed', 'the condition of a comprehension is not a bool')
const NO_RANGE = new EvaluationError('failed', 'only lists and maps can be walked')
const TOO_MANY = new EvaluationError('failed', `a list would have more than ${MAX_LIST} items`)
const NO_ORDER = new EvaluationError('failed', 'the sort keys have no common order')

/**
 * Binds and charges each element in turn, and stops when `visit` returns true. Maps yield keys, or keys and values. Returns `NO_VALUE` if
 * the range has no value.
 */
function walk(loop: Loop, state: State, visit: (element: unknown) => boolean): typeof NO_VALUE | undefined {
  const { slot, cost, two } = loop
  const range = loop.range(state)
  const { locals } = state
  if (Array.isArray(range)) {
    for (let i = 0; i < range.length; i++) {
      charge(state, cost)
      locals[slot] = two ? BigInt(i) : range[i]
      if (two) locals[slot + 1] = range[i]
      if (visit(range[i])) return undefined
    }
  } else if (range instanceof Map) {
    if (!two) {
      for (const key of range.keys()) {
        charge(state, cost)
        locals[slot] = key
        if (visit(key)) return undefined
      }
      return undefined
    }
    for (const [key, value] of range) {
      charge(state, cost)
      locals[slot] = key
      locals[slot + 1] = value
      if (visit(key)) return undefined
    }
  } else return range === NO_VALUE ? NO_VALUE : noValue(state, NO_RANGE)
  return undefined
}

/** Evaluates the condition of an iteration: true, false or `NO_VALUE`. */
function condition(body: Run, state: State): boolean | typeof NO_VALUE {
  const held = body(state)
  return typeof held === 'boolean' || held === NO_VALUE ? held : noValue(state, NOT_BOOL)
}

/** `exists` (decided by true) and `all` (decided by false): a deciding element overrides errors of others. */
function quantifier(loop: Loop, body: Run, decisive: boolean): Run {
  const { slot, cost, two, range } = loop
  if (two) return widely(loop, body, decisive)
  const other = !decisive
  return (state) => {
    const walked = range(state)
    const elements = walked instanceof Map ? walked.keys() : walked
    if (!Array.isArray(elements) && !(walked instanceof Map)) {
      return walked === NO_VALUE ? NO_VALUE : noValue(state, NO_RANGE)
    }
    const { locals } = state
    let error: EvaluationError | undefined
    for (const element of elements as Iterable<unknown>) {
      charge(state, cost)
      locals[slot] = element
      const held = round(body, state)
      if (held === decisive) return decisive
      if (held !== other) error = weightier(error, held === NO_VALUE ? reasonOf(state) : NOT_BOOL)
    }
    return error === undefined ? other : noValue(state, error)
  }
}

/** Evaluates the body of an iteration; an error that it throws is no value. */
function round(body: Run, state: State): unknown {
  try {
    return body(state)
  } catch (thrown) {
    return noValue(state, absorbed(thrown))
  }
}

/** Compiles a quantifier that binds index and value, or key and value. */
function widely(loop: Loop, body: Run, decisive: boolean): Run {
  return (state) => {
    let decided = false
    let error: EvaluationError | undefined
    const walked = walk(loop, state, () => {
      const held = round(body, state)
      if (held === decisive) decided = true
      else if (held !== !decisive) error = weightier(error, held === NO_VALUE ? reasonOf(state) : NOT_BOOL)
      return decided
    })
    if (walked === NO_VALUE) return NO_VALUE
    if (decided) return decisive
    return error === undefined ? !decisive : noValue(state, error)
  }
}

function exactlyOne(loop: Loop, body: Run): Run {
  return (state) => {
    let count = 0
    let held: boolean | typeof NO_VALUE = false
    const walked = walk(loop, state, () => {
      held = condition(body, state)
      if (held === true) count++
      return held === NO_VALUE
    })
    return walked === NO_VALUE || (held as unknown) === NO_VALUE ? NO_VALUE : count === 1
  }
}

function filter(loop: Loop, body: Run): Run {
  return (state) => {
    const kept: unknown[] = []
    let held: boolean | typeof NO_VALUE = false
    const walked = walk(loop, state, (element) => {
      held = condition(body, state)
      if (held === true) kept.push(element)
      return held === NO_VALUE
    })
    return walked === NO_VALUE || (held as unknown) === NO_VALUE ? NO_VALUE : kept
  }
}

function transform(loop: Loop, wanted: Run | undefined, body: Run): Run {
  return (state) => {
    const made: unknown[] = []
    const walked = transformed(loop, wanted, body, state, (value) => {
      made.push(value)
      if (made.length > MAX_LIST) throw TOO_MANY
    })
    return walked === NO_VALUE ? NO_VALUE : made
  }
}

function transformMap(loop: Loop, wanted: Run | undefined, body: Run): Run {
  return (state) => {
    const made = new Map<unknown, unknown>()
    const walked = transformed(loop, wanted, body, state, (value, key) => made.set(mapKey(key), value))
    return walked === NO_VALUE ? NO_VALUE : made
  }
}

/** Passes the body's value for each selected element to `take`, with the value of the first variable. */
function transformed(
  loop: Loop,
  wanted: Run | undefined,
  body: Run,
  state: State,
  take: (value: unknown, key: unknown) => void
): typeof NO_VALUE | undefined {
  let missing = false
  const walked = walk(loop, state, () => {
    const key = state.locals[loop.slot]
    const held = wanted === undefined ? true : condition(wanted, state)
    if (held === false) return false
    const value = held === NO_VALUE ? NO_VALUE : body(state)
    missing = value === NO_VALUE
    if (!missing) take(value, key)
    return missing
  })
  return missing ? NO_VALUE : walked
}

/** Stable sort by keys that are comparable with each other. */
function sortBy(loop: Loop, body: Run): Run {
  return (state) => {
    const keyed: { readonly key: unknown; readonly element: unknown }[] = []
    let missing = false
    const walked = walk(loop, state, (element) => {
      const key = body(state)
      missing = key === NO_VALUE
      keyed.push({ key, element })
      return missing
    })
    if (missing || walked === NO_VALUE) return NO_VALUE
    charge(state, keyed.length * 16)
    keyed.sort((a, b) => {
      const order = compare(a.key, b.key, state)
      if (order === undefined) throw NO_ORDER
      return order || 0
    })
    return keyed.map(({ element }) => element)
  }
}
