import { type MacroShape, type Node, weightOf } from './cel-parser.js'
import type { Compilation, Scope } from './compile-calls.js'
import { EvaluationError } from './expression.js'
import { charge, isAbsorbable, type Run, type State, weightier } from './state.js'
import { compare, MAX_LIST, mapKey } from './values.js'

/** Macros that the checker of the engine does not know. */
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

/** How many of its arguments a macro binds, by name and number of arguments. */
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

/** How many identifiers the call binds: 0 when it is no macro. */
export function boundBy(node: Node): number {
  if (node.op !== 'rcall') return 0
  const [name, receiver, args] = node.args as [string, Node, readonly Node[]]
  if (isBind(name, receiver, args)) return 1
  return VARIABLES[`${name} ${args.length}`] ?? 0
}

/** True for `cel.bind(name, value, expression)`, whose name is bound in the third argument only. */
export function isBind(name: string, receiver: Node, args: readonly Node[]): boolean {
  return name === 'bind' && receiver.op === 'id' && receiver.args === 'cel' && args.length === 3
}

/** What is walked, where the elements are bound, and what one round costs. */
interface Loop {
  readonly range: Run
  readonly slot: number
  readonly two: boolean
  readonly cost: number
}

/** The closure of a comprehension or `cel.bind`; undefined when the call is no macro. */
export function compileMacro(node: Node, scope: Scope, compilation: Compilation): Run | undefined {
  const variables = boundBy(node)
  if (variables === 0) return undefined
  const [name, receiver, args] = node.args as [string, Node, readonly Node[]]
  const slot = scope.size
  const inner = new Map(scope)
  for (const [i, variable] of args.slice(0, variables).entries()) inner.set(variable.args as string, slot + i)
  // A shadowed name keeps its slot free: slots are counted, not names.
  for (let i = inner.size; i < slot + variables; i++) inner.set(`\u0000${i}`, i)
  if (isBind(name, receiver, args)) return compileBind(args, slot, scope, inner, compilation)
  const bodies = args.slice(variables).map((body) => compilation.compile(body, inner))
  const loop: Loop = {
    range: compilation.compile(receiver, scope),
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
    state.locals[slot] = value(state)
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

/** Binds each element in turn, at its cost, and stops when `visit` answers true. Maps give keys, or keys and values. */
function walk(loop: Loop, state: State, visit: (element: unknown) => boolean): void {
  const { slot, cost, two } = loop
  const range = loop.range(state)
  if (Array.isArray(range)) {
    for (let i = 0; i < range.length; i++) {
      charge(state, cost)
      state.locals[slot] = two ? BigInt(i) : range[i]
      if (two) state.locals[slot + 1] = range[i]
      if (visit(range[i])) return
    }
  } else if (range instanceof Map) {
    for (const [key, value] of range) {
      charge(state, cost)
      state.locals[slot] = key
      if (two) state.locals[slot + 1] = value
      if (visit(key)) return
    }
  } else throw NO_RANGE
}

function condition(body: Run, state: State): boolean {
  const held = body(state)
  if (typeof held === 'boolean') return held
  throw NOT_BOOL
}

/** `exists` (decided by true) and `all` (decided by false): an element that decides makes up for errors of others. */
function quantifier(loop: Loop, body: Run, decisive: boolean): Run {
  return (state) => {
    let decided = false
    let error: EvaluationError | undefined
    walk(loop, state, () => {
      try {
        decided = condition(body, state) === decisive
      } catch (thrown) {
        if (!isAbsorbable(thrown)) throw thrown
        error = weightier(error, thrown)
      }
      return decided
    })
    if (decided) return decisive
    if (error !== undefined) throw error
    return !decisive
  }
}

function exactlyOne(loop: Loop, body: Run): Run {
  return (state) => {
    let count = 0
    walk(loop, state, () => {
      if (condition(body, state)) count++
      return false
    })
    return count === 1
  }
}

function filter(loop: Loop, body: Run): Run {
  return (state) => {
    const kept: unknown[] = []
    walk(loop, state, (element) => {
      if (condition(body, state)) kept.push(element)
      return false
    })
    return kept
  }
}

function transform(loop: Loop, wanted: Run | undefined, body: Run): Run {
  return (state) => {
    const made: unknown[] = []
    walk(loop, state, () => {
      if (wanted === undefined || condition(wanted, state)) made.push(body(state))
      if (made.length > MAX_LIST) throw TOO_MANY
      return false
    })
    return made
  }
}

function transformMap(loop: Loop, wanted: Run | undefined, body: Run): Run {
  return (state) => {
    const made = new Map<unknown, unknown>()
    walk(loop, state, () => {
      const key = mapKey(state.locals[loop.slot])
      if (wanted === undefined || condition(wanted, state)) made.set(key, body(state))
      return false
    })
    return made
  }
}

/** Stable, by keys that have an order among each other. */
function sortBy(loop: Loop, body: Run): Run {
  return (state) => {
    const keyed: { readonly key: unknown; readonly element: unknown }[] = []
    walk(loop, state, (element) => {
      keyed.push({ key: body(state), element })
      return false
    })
    charge(state, keyed.length * 16)
    keyed.sort((a, b) => {
      const order = compare(a.key, b.key)
      if (order === undefined) throw NO_ORDER
      return order || 0
    })
    return keyed.map(({ element }) => element)
  }
}
