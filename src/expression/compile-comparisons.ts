import { literal, type Node } from './cel-parser.js'
import { type Compilation, constant, constantOf, type Scope } from './compile-calls.js'
import { EvaluationError } from './expression.js'
import { sizeOf } from './functions/standard.js'
import { chargeFor, NO_VALUE, noValue, type Run, type State } from './state.js'
import { equals } from './values.js'
import type { VariableDefinition } from './variables/definition.js'

/**
 * Comparisons of operands with one static type. All values of such a type have one kind in JavaScript, so that no check is needed, and
 * constants are prepared in advance.
 */

/** An operand as a number. */
type NumberRun = (state: State) => number | typeof NO_VALUE

const MIRRORED: Readonly<Record<string, string>> = {
  '<': '>',
  '<=': '>=',
  '>': '<',
  '>=': '<=',
  '==': '==',
  '!=': '!='
}
const TIMESTAMP = 'google.protobuf.Timestamp'

/** Compiles a comparison of two values of the static type `type`; returns undefined if there is no shortcut. */
export function compileComparison(node: Node, type: string, scope: Scope, compilation: Compilation): Run | undefined {
  const [left, right] = node.args as [Node, Node]
  if (MIRRORED[node.op] === undefined) return undefined
  if (isSafeNumber(left) && isSafeNumber(right)) {
    const first = compileNumber(left, scope, compilation)
    const second = compileNumber(right, scope, compilation)
    return numbers(node.op, first, second)
  }
  const holds = ORDER[node.op]
  if (type === 'int' && holds !== undefined) {
    return integerOrder(holds, compilation.compile(left, scope), compilation.compile(right, scope))
  }
  if (!IDENTICAL.includes(type) || (node.op !== '==' && node.op !== '!=')) return undefined
  const equal = node.op === '=='
  const before = compilation.compile(left, scope)
  const after = compilation.compile(right, scope)
  const known = constantOf(after)
  if (known !== undefined) return sameAs(before, known.value, equal)
  return type === 'string' ? sameText(before, after, equal) : same(before, after, equal)
}

/** Types whose values are equal exactly when they are identical. */
const IDENTICAL: readonly string[] = ['string', 'int', 'bool', 'type']

function sameAs(operand: Run, known: unknown, equal: boolean): Run {
  return (state) => {
    const value = operand(state)
    return value === NO_VALUE ? NO_VALUE : (value === known) === equal
  }
}

function same(left: Run, right: Run, equal: boolean): Run {
  return (state) => {
    const first = left(state)
    if (first === NO_VALUE) return NO_VALUE
    const second = right(state)
    return second === NO_VALUE ? NO_VALUE : (first === second) === equal
  }
}

/** Two texts outside the source can both be long, which costs steps. */
function sameText(left: Run, right: Run, equal: boolean): Run {
  return (state) => {
    const first = left(state)
    if (first === NO_VALUE) return NO_VALUE
    const second = right(state)
    return second === NO_VALUE ? NO_VALUE : equals(first, second, state) === equal
  }
}

/** Compares two integers of which one may exceed the safe numbers. */
function integerOrder(holds: (a: bigint, b: bigint) => boolean, left: Run, right: Run): Run {
  return (state) => {
    const first = left(state)
    if (first === NO_VALUE) return NO_VALUE
    const second = right(state)
    return second === NO_VALUE ? NO_VALUE : holds(first as bigint, second as bigint)
  }
}

const ORDER: Readonly<Record<string, (a: bigint, b: bigint) => boolean>> = {
  '<': (a, b) => a < b,
  '<=': (a, b) => a <= b,
  '>': (a, b) => a > b,
  '>=': (a, b) => a >= b
}

/** Returns whether a node is always a safe integer, or a timestamp, which is a number of milliseconds. */
function isSafeNumber(node: Node): boolean {
  if (node.checkedType?.name === TIMESTAMP || knownNumber(node) !== undefined) return true
  if (node.op === 'variable') return (node.args as VariableDefinition).integer !== undefined
  return sizedNode(node) !== undefined
}

function compileNumber(node: Node, scope: Scope, compilation: Compilation): NumberRun {
  const known = knownNumber(node)
  if (known !== undefined) return constant(known) as NumberRun
  const measured = sizedNode(node)
  if (measured !== undefined) return compileSize(compilation.compileRange(measured, scope))
  const { integer, optional, path } = node.op === 'variable' ? (node.args as VariableDefinition) : NO_VARIABLE
  if (integer !== undefined) {
    if (optional !== true) return (state) => integer(state.flow) as number
    const missing = new EvaluationError('absent', `${path} is not there`)
    return (state) => integer(state.flow) ?? noValue(state, missing)
  }
  const run = compilation.compile(node, scope)
  const instant = constantOf(run)?.value
  if (instant instanceof Date) return constant(instant.getTime()) as NumberRun
  return (state) => {
    const value = run(state)
    return value === NO_VALUE ? NO_VALUE : (value as Date).getTime()
  }
}

const NO_VARIABLE: Partial<VariableDefinition> = {}

function knownNumber(node: Node): number | undefined {
  const value = literal(node)?.value
  return typeof value === 'bigint' && Number.isSafeInteger(Number(value)) ? Number(value) : undefined
}

/** Returns the operand of `size(x)` or `x.size()`. */
function sizedNode(node: Node): Node | undefined {
  if (node.op === 'call') {
    const [name, args] = node.args as [string, readonly Node[]]
    return name === 'size' && args.length === 1 ? args[0] : undefined
  }
  if (node.op !== 'rcall') return undefined
  const [name, receiver, args] = node.args as [string, Node, readonly Node[]]
  return name === 'size' && args.length === 0 ? receiver : undefined
}

const NO_SIZE = new EvaluationError('failed', 'size() does not take these values')

function compileSize(operand: Run): NumberRun {
  return (state) => {
    const value = operand(state)
    if (value === NO_VALUE) return NO_VALUE
    chargeFor(state, value)
    return sizeOf(value) ?? noValue(state, NO_SIZE)
  }
}

function numbers(operator: string, left: NumberRun, right: NumberRun): Run {
  const after = constantOf(right)
  if (after !== undefined) return numberAgainst(operator, left, after.value as number)
  const before = constantOf(left)
  if (before !== undefined) return numberAgainst(MIRRORED[operator] as string, right, before.value as number)
  const holds = NUMBER_ORDER[operator] as (a: number, b: number) => boolean
  return (state) => {
    const first = left(state)
    if (first === NO_VALUE) return NO_VALUE
    const second = right(state)
    return second === NO_VALUE ? NO_VALUE : holds(first, second)
  }
}

const NUMBER_ORDER: Readonly<Record<string, (a: number, b: number) => boolean>> = {
  '<': (a, b) => a < b,
  '<=': (a, b) => a <= b,
  '>': (a, b) => a > b,
  '>=': (a, b) => a >= b,
  '==': (a, b) => a === b,
  '!=': (a, b) => a !== b
}

/** One closure per operator, because a nested call would double the cost. */
function numberAgainst(operator: string, operand: NumberRun, known: number): Run {
  switch (operator) {
    case '<':
      return (state) => {
        const value = operand(state)
        return value === NO_VALUE ? NO_VALUE : value < known
      }
    case '<=':
      return (state) => {
        const value = operand(state)
        return value === NO_VALUE ? NO_VALUE : value <= known
      }
    case '>':
      return (state) => {
        const value = operand(state)
        return value === NO_VALUE ? NO_VALUE : value > known
      }
    case '>=':
      return (state) => {
        const value = operand(state)
        return value === NO_VALUE ? NO_VALUE : value >= known
      }
    case '==':
      return (state) => {
        const value = operand(state)
        return value === NO_VALUE ? NO_VALUE : value === known
      }
    default:
      return (state) => {
        const value = operand(state)
        return value === NO_VALUE ? NO_VALUE : value !== known
      }
  }
}
