import type { Compilation, Scope } from './compilation.js'
import type { Node } from './engine.js'
import { EvaluationError } from './expression.js'
import { isAbsorbable, type Run, type State, weightier } from './state.js'

const NOT_BOOL = new EvaluationError('failed', 'a condition is not a bool')

/** `condition ? a : b`. */
export function compileTernary(node: Node, scope: Scope, compilation: Compilation): Run {
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
export function compileLogical(node: Node, decisive: boolean, scope: Scope, compilation: Compilation): Run {
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
