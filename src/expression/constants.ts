import { forEachChild, literal, type Node } from './cel-parser.js'
import { boundBy, isBind } from './compile-macros.js'
import { EvaluationError } from './expression.js'
import type { FunctionTable } from './signatures.js'
import { numeric } from './values.js'

/** A part of an expression that has no value for any exchange. */
export interface FailingPart {
  readonly node: Node
  /** Message for people. */
  readonly message: string
}

interface Parts {
  readonly functions: FunctionTable
  /** Returns the value of a node that reads nothing, or its `EvaluationError`. */
  readonly outcome: (node: Node) => unknown
}

const NO_NAMES: ReadonlySet<string> = new Set()

/**
 * Finds the parts of a resolved and checked tree that fail for every exchange: constant parts such as `int('abc')`, and operations with an
 * invalid constant, such as a division by zero or an unknown time zone. Failures that another operand absorbs, as in `true || 1/0 > 0`, do
 * not count.
 */
export function failingParts(root: Node, parts: Parts): readonly FailingPart[] {
  const found: FailingPart[] = []
  const visit = (node: Node): void => {
    if (isConstant(node, NO_NAMES, parts.functions)) {
      const failing = failingConstant(node, parts)
      if (failing !== undefined) found.push(failing)
      return
    }
    const failing = impossible(node, parts.functions)
    if (failing !== undefined) found.push(failing)
    forEachChild(node, visit)
  }
  visit(root)
  return found
}

/** Returns the smallest part of a constant that fails. */
function failingConstant(node: Node, parts: Parts): FailingPart | undefined {
  if (literal(node) !== undefined) return undefined
  const outcome = parts.outcome(node)
  if (!(outcome instanceof EvaluationError)) return undefined
  let inner: FailingPart | undefined
  forEachChild(node, (child) => {
    if (inner === undefined && isConstant(child, NO_NAMES, parts.functions)) inner = failingConstant(child, parts)
  })
  return inner ?? { node, message: fails(outcome.message) }
}

/** Returns whether a node depends on the source alone and so is equal for every exchange. `names`: bound variables around it. */
function isConstant(node: Node, names: ReadonlySet<string>, functions: FunctionTable): boolean {
  switch (node.op) {
    case 'variable':
      return false
    case 'id':
      return names.has(String(node.args))
    case 'call':
    case 'rcall': {
      const [name] = node.args as [string]
      const overloads = functions.named(node.op === 'call' ? 'function' : 'method', name)
      if (overloads.some(({ readsFlow, varies }) => readsFlow || varies)) return false
      if (boundBy(node) > 0) return isConstantMacro(node, names, functions)
    }
  }
  let constant = true
  forEachChild(node, (child) => {
    constant &&= isConstant(child, names, functions)
  })
  return constant
}

function isConstantMacro(node: Node, names: ReadonlySet<string>, functions: FunctionTable): boolean {
  const [name, receiver, args] = node.args as [string, Node, readonly Node[]]
  const count = boundBy(node)
  const bind = isBind(name, receiver, args)
  const outer = bind ? [args[1] as Node] : [receiver]
  const inner = new Set([...names, ...args.slice(0, count).map((one) => String(one.args))])
  const bodies = bind ? [args[2] as Node] : args.slice(count)
  return (
    outer.every((one) => isConstant(one, names, functions)) && bodies.every((one) => isConstant(one, inner, functions))
  )
}

/** Returns an operation with an unknown operand that fails for every value of it. */
function impossible(node: Node, functions: FunctionTable): FailingPart | undefined {
  switch (node.op) {
    case '/':
    case '%': {
      const [, divisor] = node.args as [Node, Node]
      const value = literal(divisor)?.value
      const isZero = typeof value !== 'number' && isNumber(value) && Number(numeric(value)) === 0
      return isZero ? { node: divisor, message: fails('division by zero') } : undefined
    }
    case '[]':
      return impossibleIndex(node.args as [Node, Node | string])
    case 'call':
    case 'rcall':
      return impossibleCall(node, functions)
  }
  return undefined
}

function isNumber(value: unknown): boolean {
  return typeof value === 'bigint' || (typeof value === 'object' && value !== null && 'value' in value)
}

function impossibleIndex([container, key]: [Node, Node | string]): FailingPart | undefined {
  if (typeof key === 'string') return undefined
  const index = literal(key)?.value
  const isList = container.op === 'list' || container.checkedType?.kind === 'list'
  if (typeof index !== 'bigint' || !isList) return undefined
  const length = container.op === 'list' ? (container.args as readonly Node[]).length : Number.POSITIVE_INFINITY
  return index < 0n || Number(index) >= length ? { node: key, message: fails('index out of range') } : undefined
}

/** Returns the constant argument that makes a call fail, or the call if several arguments are involved. */
function impossibleCall(node: Node, functions: FunctionTable): FailingPart | undefined {
  const isMethod = node.op === 'rcall'
  const [name] = node.args as [string]
  const args = isMethod
    ? [(node.args as [string, Node])[1], ...(node.args as [string, Node, readonly Node[]])[2]]
    : (node.args as [string, readonly Node[]])[1]
  const overloads = functions.find(isMethod ? 'method' : 'function', name, args.length)
  const values = args.map((arg) => literal(arg)?.value)
  for (const { refuses } of overloads) {
    const message = refuses?.(...values)
    if (message === undefined) continue
    const one = args.find((_, i) => values[i] !== undefined && refuses?.(...alone(values, i)) !== undefined)
    return { node: one ?? node, message }
  }
  return undefined
}

function fails(reason: string): string {
  return `this fails for every request: ${reason}`
}

function alone(values: readonly unknown[], index: number): readonly unknown[] {
  return values.map((value, i) => (i === index ? value : undefined))
}
