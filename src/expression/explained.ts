import type { ExpressionExplainer, ValueOrigin } from '../flow/explainer.js'
import { literal, type Node } from './cel-parser.js'
import { constantOf } from './compile-calls.js'
import { EvaluationError } from './expression.js'
import { NO_VALUE, type Run, reasonOf, type State } from './state.js'
import { dataOf } from './text.js'
import type { VariableDefinition } from './variables/definition.js'

/** The part of a state that takes values down. */
export interface ExplainedState extends State {
  explainer?: ExpressionExplainer
}

const NOWHERE: ValueOrigin = { names: [], secret: false }

/**
 * The closure of a node, which takes down its value where its state has an explainer. A literal says nothing that its source
 * does not.
 */
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

/** Plain data of a value, for people. */
export function shownData(value: unknown): unknown {
  try {
    return dataOf(value)
  } catch (error) {
    if (error instanceof EvaluationError || error instanceof RangeError) return '[too much to show]'
    throw error
  }
}

/** What the value of a node comes from: names of header fields, parameters and variables that stand in its source. */
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
  // Of an entry its key says what it is, not the whole map.
  const field = op === '.' || op === '[]' ? fieldOf(args as readonly [Node, Node | string]) : undefined
  if (field !== undefined) names.add(field)
  collect(args, names, origin)
}

/** The texts among the arguments of a call: `getQueryParam('token')`. */
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
