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

/** Result of a closure without a value; `State.reason` then has the error. */
export const NO_VALUE: unique symbol = Symbol('no value')

/** State of one evaluation: the flow, values of comprehension variables, and the remaining steps. */
export class State {
  flow: Flow
  budget = BUDGET
  /** Why the last closure that answered `NO_VALUE` did so. */
  reason: EvaluationError | undefined = undefined
  readonly locals: unknown[]

  /** `slots`: how many variables the comprehensions of the expression bind. */
  constructor(flow: Flow, slots: number) {
    this.flow = flow
    this.locals = new Array<unknown>(slots).fill(undefined)
  }
}

/**
 * A compiled node. What the exchange lacks is answered as `NO_VALUE`, because throwing costs a hundred times as much as
 * a comparison and a client chooses what it leaves out; functions also throw `EvaluationError`.
 */
export type Run = (state: State) => unknown

/** The answer of a closure that has no value. */
export function noValue(state: State, reason: EvaluationError): typeof NO_VALUE {
  state.reason = reason
  return NO_VALUE
}

/** Why the closure before had no value. */
export function reasonOf({ reason }: State): EvaluationError {
  return reason as EvaluationError
}

/** Steps that are left. */
export interface Meter {
  budget: number
}

/** Takes `steps` from the budget. */
export function charge(state: Meter, steps: number): void {
  state.budget -= steps
  if (state.budget < 0) throw EXHAUSTED
}

/** The error as one that an operator may absorb when the other operand decides; what it may not absorb is thrown again. */
export function absorbed(error: unknown): EvaluationError {
  if (error instanceof EvaluationError && error !== EXHAUSTED) return error
  throw error
}

/** Returns the more severe of two errors: `failed` before `absent`, then the first. */
export function weightier(first: EvaluationError | undefined, second: EvaluationError): EvaluationError {
  return first === undefined || (first.kind === 'absent' && second.kind === 'failed') ? second : first
}

/** Takes from the budget what it costs a function to walk a text or list. */
export function chargeFor(state: Meter, value: unknown): void {
  if (typeof value === 'string') {
    if (value.length > 256) charge(state, value.length >> 3)
  } else if (typeof value === 'object') {
    if (Array.isArray(value)) {
      if (value.length > 16) charge(state, value.length)
    } else if (value instanceof Uint8Array && value.length > 256) charge(state, value.length >> 3)
  }
}

/** Takes from the budget what it costs a function to make a text or list. */
export function chargeForResult(state: State, value: unknown): void {
  if (typeof value === 'string') {
    if (value.length > 256) charge(state, value.length >> 3)
  } else if (Array.isArray(value) && value.length > 16) charge(state, value.length * 4)
}

/** Steps for an entry of a map, which functions put in order or write anew. */
const MAP_ENTRY = 5

/** Charges a value including all its contents: an item that occurs several times in a list counts each time. */
export function chargeForAll(state: Meter, value: unknown): void {
  if (Array.isArray(value)) {
    charge(state, value.length)
    for (const item of value) if (typeof item === 'object' || typeof item === 'string') chargeForAll(state, item)
  } else if (value instanceof Map) {
    charge(state, value.size * MAP_ENTRY)
    for (const [key, item] of value) {
      chargeFor(state, key)
      chargeForAll(state, item)
    }
  } else if (value instanceof Uint8Array) charge(state, value.length >> 3)
  else chargeFor(state, value)
}

/** Takes from the budget what it costs to compare two texts or bytes of `length`. */
export function chargeForComparison(meter: Meter, length: number): void {
  if (length > 256) charge(meter, length >> 6)
}
