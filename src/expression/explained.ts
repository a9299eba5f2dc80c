import type { ExpressionExplainer, ValueOrigin } from '../flow/explainer.js'
import { literal, type Node } from './cel-parser.js'
import { constantOf } from './compile-calls.js'
import { EvaluationError } from './expression.js'
import { NO_VALUE, type Run, reasonOf, type State } from './state.js'
import { dataOf } from './text.js'
import type { VariableDefinition } from './variables/definition.js'

/** State with an optional recorder of values. */
export interface ExplainedState extends State {
  explainer?: ExpressionExplainer
}

const NOWHERE: ValueOrigin = { names: [], secret: false }

/** Wraps a node's closure to record its value if the state has an explainer. Literals are not recorded. */
export function explaining(node: Node, run: Run): Run {
  if (constantOf(run) !== undefined || node.op === 'value') return run
  const from = originOf(node)
  const { start, end } = node
  return (state: ExplainedState) => {
    const { explainer } = state
    try {
      const value = run(state)
      if (value === NO_VALUE) explainer?.missing(start, end, reasonOf(state).message)
      else explainer?.part(start, end, shownData(value), from)
      return value
    } catch (error) {
      explainer?.missing(start, end, error instanceof EvaluationError ? error.message : 'it cannot be evaluated')
      throw error
    }
  }
}

/** Converts a value to plain data for people. */
export function shownData(value: unknown): unknown {
  try {
    return dataOf(value)
  } catch (error) {
    if (error instanceof EvaluationError || error instanceof RangeError) return '[too much to show]'
    throw error
  }
}

/** Returns the origins of a node's value: names of header fields, parameters and variables in its source. */
export function originOf(node: Node): ValueOrigin {
  const names = new Set<string>()
  const origin = { secret: false }
  collect(node, names, origin)
  return names.size === 0 && !origin.secret ? NOWHERE : { names: [...names], secret: origin.secret }
}

function collect(value: unknown, names: Set<string>, origin: { secret: boolean }): void {
  if (Array.isArray(value)) {
    for (const item of value) collect(item, names, origin)
    return
  }
  if (!isNode(value)) return
  const { op, args } = value
  if (op === 'variable') {
    names.add((args as VariableDefinition).path)
    return
  }
  if (op === 'value') return
  if (op === 'call' || op === 'rcall') {
    const name = (args as readonly [string])[0]
    if (name.startsWith('secrets__') || name.startsWith('secrets.')) origin.secret = true
    names.add(name)
    named((args as readonly unknown[]).slice(1), names)
  }
  // An entry is identified by its key, not by the whole map.
  const field = op === '.' || op === '[]' ? fieldOf(args as readonly [Node, Node | string]) : undefined
  if (field !== undefined) names.add(field)
  collect(args, names, origin)
}

/** Collects the texts among the arguments of a call: `getQueryParam('token')`. */
function named(args: readonly unknown[], names: Set<string>): void {
  for (const arg of args.flat()) {
    const text = isNode(arg) ? literal(arg)?.value : undefined
    if (typeof text === 'string') names.add(text)
  }
}

function fieldOf([, right]: readonly [Node, Node | string]): string | undefined {
  const key = typeof right === 'string' ? right : literal(right)?.value
  return typeof key === 'string' ? key : undefined
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'op' in value && 'args' in value
}
