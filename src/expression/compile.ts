import { literal, type Node } from './cel-parser.js'
import { type Compilation, compileCall, constant, type Scope } from './compile-calls.js'
import { compileComparison } from './compile-comparisons.js'
import { compileMacro } from './compile-macros.js'
import { EvaluationError } from './expression.js'
import { BINARY, concatText, negate, not } from './operators.js'
import { absorbed, NO_VALUE, noValue, type Run, reasonOf, type State, weightier } from './state.js'
import { engineValue, keyOf, mapKey } from './values.js'
import type { VariableDefinition } from './variables/definition.js'

const NOT_BOOL = new EvaluationError('failed', 'a condition is not a bool')

/** `condition ? a : b`. */
function compileTernary(node: Node, scope: Scope, compilation: Compilation): Run {
  const [condition, yes, no] = (node.args as readonly Node[]).map((part) => compilation.compile(part, scope)) as [
    Run,
    Run,
    Run
  ]
  return (state) => {
    const chosen = condition(state)
    if (chosen === true) return yes(state)
    if (chosen === false) return no(state)
    return chosen === NO_VALUE ? NO_VALUE : noValue(state, NOT_BOOL)
  }
}

/** `||` (decided by true) and `&&` (decided by false): a deciding operand overrides an error of the other. */
function compileLogical(node: Node, decisive: boolean, scope: Scope, compilation: Compilation): Run {
  const [left, right] = (node.args as readonly Node[]).map((part) => compilation.compile(part, scope)) as [Run, Run]
  const other = !decisive
  return (state) => {
    let first: unknown
    try {
      first = left(state)
    } catch (error) {
      first = noValue(state, absorbed(error))
    }
    if (first === decisive) return decisive
    if (first !== other) return decideAfter(first === NO_VALUE ? reasonOf(state) : NOT_BOOL, right, decisive, state)
    const second = right(state)
    return typeof second === 'boolean' || second === NO_VALUE ? second : noValue(state, NOT_BOOL)
  }
}

/** Evaluates the right operand after the left one failed. */
function decideAfter(error: EvaluationError, right: Run, decisive: boolean, state: State): unknown {
  let second: unknown
  try {
    second = right(state)
  } catch (thrown) {
    second = noValue(state, absorbed(thrown))
  }
  if (second === decisive) return decisive
  if (typeof second === 'boolean') return noValue(state, error)
  return noValue(state, weightier(error, second === NO_VALUE ? reasonOf(state) : NOT_BOOL))
}

/** Compiles a node that a comprehension iterates or `size` measures: a map of headers then needs no case-insensitive form. */
export function compileRange(node: Node, scope: Scope, compilation: Compilation): Run {
  const walked = node.op === 'variable' ? (node.args as VariableDefinition).walked : undefined
  return walked === undefined ? compilation.compile(node, scope) : (state) => walked(state.flow)
}

/** Compiles a checked tree to a closure. */
export function compile(node: Node, scope: Scope, compilation: Compilation): Run {
  switch (node.op) {
    case 'value':
      return constant(node.args)
    case 'variable':
      return compileVariable(node.args as VariableDefinition)
    case 'id':
      return compileName(node, scope)
    case '.':
    case '[]':
      return compileAccess(node, scope, compilation)
    case 'has':
      return compilePresence(node, scope, compilation)
    case 'call':
      return compileCall(node, scope, compilation)
    case 'rcall':
      return compileMacro(node, scope, compilation) ?? compileCall(node, scope, compilation)
    case 'list':
      return compileList(node, scope, compilation)
    case 'map':
      return compileMap(node, scope, compilation)
    case '?:':
      return compileTernary(node, scope, compilation)
    case '||':
      return compileLogical(node, true, scope, compilation)
    case '&&':
      return compileLogical(node, false, scope, compilation)
    case '!_':
    case '-_':
      return compileUnary(node, scope, compilation)
    default:
      return compileBinary(node, scope, compilation)
  }
}

function compileVariable(definition: VariableDefinition): Run {
  const { read, path } = definition
  if (definition.optional !== true) return (state) => read(state.flow)
  const missing = new EvaluationError('absent', `${path} is not there`)
  return (state) => {
    const value = read(state.flow)
    return value === undefined ? noValue(state, missing) : value
  }
}

function compileName(node: Node, scope: Scope): Run {
  const slot = scope.get(node.args as string)
  if (slot !== undefined) return (state) => state.locals[slot]
  // A type name, whose value the checker has stored here.
  return constant(engineValue(node.meta.alternate?.args))
}

const NO_KEY = new EvaluationError('absent', 'no such key')
const NO_INDEX = new EvaluationError('absent', 'index out of range')
const NO_MEMBERS = new EvaluationError('failed', 'this value has no members')

/** Returns the member of a container; undefined if absent, an error if the value cannot have such members. */
function member(container: unknown, key: unknown): unknown {
  if (container instanceof Map) return container.get(typeof key === 'string' ? key : keyOf(key))
  if (Array.isArray(container)) {
    const index = keyOf(key)
    if (typeof index === 'bigint') return container[Number(index)]
  }
  return NO_MEMBERS
}

function compileAccess(node: Node, scope: Scope, compilation: Compilation): Run {
  const [left, right] = node.args as [Node, Node | string]
  const key = typeof right === 'string' ? { value: right } : literal(right)
  if (typeof key?.value === 'string') return compileField(left, key.value, scope, compilation)
  const container = compilation.compile(left, scope)
  if (typeof key?.value === 'bigint') return compileElement(container, key.value)
  const index = key === undefined ? compilation.compile(right as Node, scope) : constant(key.value)
  return (state) => {
    const from = container(state)
    if (from === NO_VALUE) return NO_VALUE
    const at = index(state)
    if (at === NO_VALUE) return NO_VALUE
    const value = member(from, at)
    if (value === NO_MEMBERS) return noValue(state, NO_MEMBERS)
    if (value === undefined) return noValue(state, Array.isArray(from) ? NO_INDEX : NO_KEY)
    return value
  }
}

/** Compiles the access by a constant integer: the element of a list, or the value of a map. */
function compileElement(container: Run, index: bigint): Run {
  const position = Number(index)
  return (state) => {
    const from = container(state)
    if (Array.isArray(from)) {
      const value: unknown = position < from.length ? from[position] : undefined
      return value === undefined ? noValue(state, NO_INDEX) : value
    }
    if (from === NO_VALUE) return NO_VALUE
    if (!(from instanceof Map)) return noValue(state, NO_MEMBERS)
    const value: unknown = from.get(index)
    return value === undefined ? noValue(state, NO_KEY) : value
  }
}

/** Compiles the access by a constant name. */
function compileField(left: Node, key: string, scope: Scope, compilation: Compilation): Run {
  const missing = new EvaluationError('absent', `no such key: ${JSON.stringify(key.slice(0, 100))}`)
  const entry = left.op === 'variable' ? (left.args as VariableDefinition).entry : undefined
  if (entry !== undefined) {
    const name = key.toLowerCase()
    return (state) => {
      const value = entry(state.flow, name)
      return value === undefined ? noValue(state, missing) : value
    }
  }
  const container = compilation.compile(left, scope)
  return (state) => {
    const from = container(state)
    if (from instanceof Map) {
      const value: unknown = from.get(key)
      return value === undefined ? noValue(state, missing) : value
    }
    return from === NO_VALUE ? NO_VALUE : noValue(state, NO_MEMBERS)
  }
}

/** `has(e.f)`, `has(m['k'])` and `has(variable)`. */
function compilePresence(node: Node, scope: Scope, compilation: Compilation): Run {
  const target = node.args as Node
  if (target.op === 'variable') {
    const { read, present } = target.args as VariableDefinition
    if (present !== undefined) return (state) => present(state.flow)
    return (state) => read(state.flow) !== undefined
  }
  const [left, right] = target.args as [Node, Node | string]
  const container = compilation.compile(left, scope)
  const key = typeof right === 'string' ? constant(right) : compilation.compile(right, scope)
  return (state) => {
    const from = container(state)
    if (from === NO_VALUE) return NO_VALUE
    const at = key(state)
    if (at === NO_VALUE) return NO_VALUE
    const value = member(from, at)
    return value === NO_MEMBERS ? noValue(state, NO_MEMBERS) : value !== undefined
  }
}

function compileList(node: Node, scope: Scope, compilation: Compilation): Run {
  const known = literal(node)
  if (known !== undefined) return constant(known.value)
  const items = (node.args as readonly Node[]).map((item) => compilation.compile(item, scope))
  return (state) => {
    const list: unknown[] = []
    for (const item of items) {
      const value = item(state)
      if (value === NO_VALUE) return NO_VALUE
      list.push(value)
    }
    return list
  }
}

const REPEATED_KEY = new EvaluationError('failed', 'a map has one key twice')
function compileMap(node: Node, scope: Scope, compilation: Compilation): Run {
  const entries = (node.args as readonly (readonly [Node, Node])[]).map(
    ([key, value]) => [compilation.compile(key, scope), compilation.compile(value, scope)] as const
  )
  return (state) => {
    const map = new Map<unknown, unknown>()
    for (const [key, value] of entries) {
      const name = key(state)
      if (name === NO_VALUE) return NO_VALUE
      const known = mapKey(name)
      const item = value(state)
      if (item === NO_VALUE) return NO_VALUE
      map.set(known, item)
    }
    return map.size === entries.length ? map : noValue(state, REPEATED_KEY)
  }
}

function compileUnary(node: Node, scope: Scope, compilation: Compilation): Run {
  const operand = node.args as Node
  if (node.op === '-_') {
    const known = literal(node)
    if (known !== undefined) return constant(known.value)
  }
  const value = compilation.compile(operand, scope)
  const apply = node.op === '!_' ? not : negate
  return (state) => {
    const known = value(state)
    return known === NO_VALUE ? NO_VALUE : apply(known)
  }
}

function compileBinary(node: Node, scope: Scope, compilation: Compilation): Run {
  const [leftNode, rightNode] = node.args as [Node, Node]
  if (node.op === 'in') return compileIn(leftNode, rightNode, scope, compilation)
  const type = sameType(leftNode, rightNode)
  const quick =
    type === undefined || compilation.everyPart === true ? undefined : compileComparison(node, type, scope, compilation)
  if (quick !== undefined) return quick
  const left = compilation.compile(leftNode, scope)
  const right = compilation.compile(rightNode, scope)
  if (node.op === '+' && type === 'string') {
    return (state) => {
      const first = left(state)
      if (first === NO_VALUE) return NO_VALUE
      const second = right(state)
      return second === NO_VALUE ? NO_VALUE : concatText(first as string, second as string, state)
    }
  }
  const apply = BINARY[node.op]
  if (apply === undefined) throw new Error(`No operator ${node.op}`)
  return (state) => {
    const first = left(state)
    if (first === NO_VALUE) return NO_VALUE
    const second = right(state)
    return second === NO_VALUE ? NO_VALUE : apply(first, second, state)
  }
}

function compileIn(leftNode: Node, rightNode: Node, scope: Scope, compilation: Compilation): Run {
  const entry = rightNode.op === 'variable' ? (rightNode.args as VariableDefinition).entry : undefined
  const name = literal(leftNode)?.value
  if (entry !== undefined && typeof name === 'string') {
    const key = name.toLowerCase()
    return (state) => entry(state.flow, key) !== undefined
  }
  const left = compilation.compile(leftNode, scope)
  const known = literal(rightNode)
  if (known !== undefined && (known.value as readonly unknown[]).every((item) => typeof item === 'string')) {
    const set = new Set<unknown>(known.value as readonly unknown[])
    return (state) => {
      const value = left(state)
      return value === NO_VALUE ? NO_VALUE : set.has(value)
    }
  }
  const right = compilation.compile(rightNode, scope)
  const apply = BINARY.in as NonNullable<(typeof BINARY)[string]>
  return (state) => {
    const value = left(state)
    if (value === NO_VALUE) return NO_VALUE
    const container = right(state)
    return container === NO_VALUE ? NO_VALUE : apply(value, container, state)
  }
}

function sameType(left: Node, right: Node): string | undefined {
  const type = left.checkedType
  return type !== undefined && type === right.checkedType ? type.name : undefined
}
