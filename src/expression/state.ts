import type { Flow } from '../flow/flow.js'
import { EvaluationError } from './expression.js'

/**
 * Steps that one evaluation may take. A step is the work of one node, some tens of nanoseconds, so that all of them
 * together hold the event loop up for a few milliseconds. What a policy does without nested comprehensions over long
 * lists is far below it.
 */
export const BUDGET = 100_000

/** Thrown when the budget is used up. One object, so that no operator that absorbs errors absorbs this one. */
const EXHAUSTED = new EvaluationError('failed', 'the expression takes too many steps')

/** What one evaluation needs besides the tree: the flow, the values of comprehension variables, the steps that are left. */
export class State {
  flow: Flow
  budget = BUDGET
  readonly locals: unknown[] = []

  constructor(flow: Flow) {
    this.flow = flow
  }
}

/** A compiled node. Throws `EvaluationError` for whatever the exchange can cause. */
export type Run = (state: State) => unknown

/** Takes `steps` from the budget. */
export function charge(state: State, steps: number): void {
  state.budget -= steps
  if (state.budget < 0) throw EXHAUSTED
}

/** True for an error that an operator may absorb when the other operand decides. */
export function isAbsorbable(error: unknown): error is EvaluationError {
  return error instanceof EvaluationError && error !== EXHAUSTED
}

/** Of two errors the one that weighs more: `failed` before `absent`, then the first. */
export function weightier(first: EvaluationError | undefined, second: EvaluationError): EvaluationError {
  return first === undefined || (first.kind === 'absent' && second.kind === 'failed') ? second : first
}

/** Takes from the budget what it costs a function to walk a text or list. */
export function chargeFor(state: State, value: unknown): void {
  if (typeof value === 'string') {
    if (value.length > 256) charge(state, value.length >> 3)
  } else if (Array.isArray(value) && value.length > 16) charge(state, value.length)
}

/** Takes from the budget what it costs a function to make a text or list. */
export function chargeForResult(state: State, value: unknown): void {
  if (typeof value === 'string') {
    if (value.length > 256) charge(state, value.length >> 3)
  } else if (Array.isArray(value) && value.length > 16) charge(state, value.length * 4)
}
