import { literal, type Node } from './cel-parser.js'
import { type Compilation, compileCall, constant, type Scope } from './compile-calls.js'
import { compileMacro } from './compile-macros.js'
import { EvaluationError } from './expression.js'
import { BINARY, concatText, negate, not } from './operators.js'
import { isAbsorbable, type Run, type State, weightier } from './state.js'
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
    throw NOT_BOOL
  }
}

/** `||` (decided by true) and `&&` (decided by false): an operand that decides makes up for an error of the other. */
function compileLogical(node: Node, decisive: boolean, scope: Scope, compilation: Compilation): Run {
  const [left, right] = (node.args as readonly Node[]).map((part) => compilation.compile(part, scope)) as [Run, Run]
  return (state) => {
    let first: unknown
    try {
      first = left(state)
    } catch (error) {
      if (!isAbsorbable(error)) throw error
      return decideAfter(error, right, decisive, state)
    }
    if (first === decisive) return decisive
    if (first !== !decisive) return decideAfter(NOT_BOOL, right, decisive, state)
    const second = right(state)
    if (typeof second === 'boolean') return second
    throw NOT_BOOL
  }
}

function decideAfter(error: EvaluationError, right: Run, decisive: boolean, state: State): boolean {
  let second: unknown
  try {
    second = right(state)
  } catch (other) {
    throw isAbsorbable(other) ? weightier(error, other) : other
  }
  if (second === decisive) return decisive
  throw typeof second === 'boolean' ? error : weightier(error, NOT_BOOL)
}

/** Turns a checked tree into a closure. */
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
    if (value === undefined) throw missing
    return value
  }
}

function compileName(node: Node, scope: Scope): Run {
  const slot = scope.get(node.args as string)
  if (slot !== undefined) return (state) => state.locals[slot]
  // A type name: the checker has put its value there.
  return constant(engineValue(node.meta.alternate?.args))
}

const NO_KEY = new EvaluationError('absent', 'no such key')
const NO_INDEX = new EvaluationError('absent', 'index out of range')
const NO_MEMBERS = new EvaluationError('failed', 'this value has no members')

/** The member of a container; undefined when it is not there. Throws when the value can have none of this kind. */
function member(container: unknown, key: unknown): unknown {
  if (container instanceof Map) return container.get(typeof key === 'string' ? key : keyOf(key))
  if (Array.isArray(container)) {
    const index = keyOf(key)
    if (typeof index === 'bigint') return container[Number(index)]
  }
  throw NO_MEMBERS
}

function compileAccess(node: Node, scope: Scope, compilation: Compilation): Run {
  const [left, right] = node.args as [Node, Node | string]
  const key = typeof right === 'string' ? { value: right } : literal(right)
  if (typeof key?.value === 'string') return compileField(left, key.value, scope, compilation)
  const container = compile(left, scope, compilation)
  const index = key === undefined ? compile(right as Node, scope, compilation) : constant(key.value)
  return (state) => {
    const from = container(state)
    const value = member(from, index(state))
    if (value === undefined) throw Array.isArray(from) ? NO_INDEX : NO_KEY
    return value
  }
}

/** A member by a name that stands in the source. */
function compileField(left: Node, key: string, scope: Scope, compilation: Compilation): Run {
  const missing = new EvaluationError('absent', `no such key: ${JSON.stringify(key.slice(0, 100))}`)
  const entry = left.op === 'variable' ? (left.args as VariableDefinition).entry : undefined
  if (entry !== undefined) {
    const name = key.toLowerCase()
    return (state) => {
      const value = entry(state.flow, name)
      if (value === undefined) throw missing
      return value
    }
  }
  const container = compile(left, scope, compilation)
  return (state) => {
    const value = member(container(state), key)
    if (value === undefined) throw missing
    return value
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
  const container = compile(left, scope, compilation)
  const key = typeof right === 'string' ? constant(right) : compile(right, scope, compilation)
  return (state) => member(container(state), key(state)) !== undefined
}

function compileList(node: Node, scope: Scope, compilation: Compilation): Run {
  const known = literal(node)
  if (known !== undefined) return constant(known.value)
  const items = (node.args as readonly Node[]).map((item) => compile(item, scope, compilation))
  return (state) => items.map((item) => item(state))
}

const REPEATED_KEY = new EvaluationError('failed', 'a map has one key twice')
function compileMap(node: Node, scope: Scope, compilation: Compilation): Run {
  const entries = (node.args as readonly (readonly [Node, Node])[]).map(
    ([key, value]) => [compile(key, scope, compilation), compile(value, scope, compilation)] as const
  )
  return (state) => {
    const map = new Map<unknown, unknown>()
    for (const [key, value] of entries) map.set(mapKey(key(state)), value(state))
    if (map.size !== entries.length) throw REPEATED_KEY
    return map
  }
}

function compileUnary(node: Node, scope: Scope, compilation: Compilation): Run {
  const operand = node.args as Node
  if (node.op === '-_') {
    const known = literal(node)
    if (known !== undefined) return constant(known.value)
  }
  const value = compile(operand, scope, compilation)
  const apply = node.op === '!_' ? not : negate
  return (state) => apply(value(state))
}

function compileBinary(node: Node, scope: Scope, compilation: Compilation): Run {
  const [leftNode, rightNode] = node.args as [Node, Node]
  const left = compile(leftNode, scope, compilation)
  const type = sameType(leftNode, rightNode)
  if (node.op === 'in') return compileIn(left, leftNode, rightNode, scope, compilation)
  const right = compile(rightNode, scope, compilation)
  if (type === 'string' || type === 'int' || type === 'bool') {
    // Values of these types are primitives of one kind, so the comparison needs no look at them.
    if (node.op === '==') return (state) => left(state) === right(state)
    if (node.op === '!=') return (state) => left(state) !== right(state)
    if (node.op === '+' && type === 'string')
      return (state) => concatText(left(state) as string, right(state) as string, state)
    const quick = type === 'int' ? integerOrder(node.op, left, right) : undefined
    if (quick !== undefined) return quick
  }
  const apply = BINARY[node.op]
  if (apply === undefined) throw new Error(`No operator ${node.op}`)
  return (state) => apply(left(state), right(state), state)
}

function integerOrder(operator: string, left: Run, right: Run): Run | undefined {
  switch (operator) {
    case '<':
      return (state) => (left(state) as bigint) < (right(state) as bigint)
    case '<=':
      return (state) => (left(state) as bigint) <= (right(state) as bigint)
    case '>':
      return (state) => (left(state) as bigint) > (right(state) as bigint)
    case '>=':
      return (state) => (left(state) as bigint) >= (right(state) as bigint)
    default:
      return undefined
  }
}

function compileIn(left: Run, leftNode: Node, rightNode: Node, scope: Scope, compilation: Compilation): Run {
  const known = literal(rightNode)
  if (known !== undefined && (known.value as readonly unknown[]).every((item) => typeof item === 'string')) {
    const set = new Set<unknown>(known.value as readonly unknown[])
    return (state) => set.has(left(state))
  }
  const entry = rightNode.op === 'variable' ? (rightNode.args as VariableDefinition).entry : undefined
  const name = literal(leftNode)?.value
  if (entry !== undefined && typeof name === 'string') {
    const key = name.toLowerCase()
    return (state) => entry(state.flow, key) !== undefined
  }
  const right = compile(rightNode, scope, compilation)
  const apply = BINARY.in as NonNullable<(typeof BINARY)[string]>
  return (state) => apply(left(state), right(state), state)
}

function sameType(left: Node, right: Node): string | undefined {
  const type = left.checkedType
  return type !== undefined && type === right.checkedType && type.kind === 'primitive' ? type.name : undefined
}
