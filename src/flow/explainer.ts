import type { Place } from '../lib/positions.js'
import type { Verdict } from './verdict.js'

/** Outcome of a rule: `absent` did not match because a value is absent, `failed` ended its phase. */
export type RuleOutcome = 'matched' | 'not_matched' | 'absent' | 'failed'

/** Outcome of an action: `ended` decided the exchange. */
export type ActionOutcome = 'continued' | 'ended' | 'failed'

/** An element of a policy document with its position. */
export interface Placed {
  readonly place: Place
}

interface NamedRule extends Placed {
  readonly name: string
}

/** Records one evaluation of an expression. Offsets are UTF-16 units of its source. Values are plain JSON data. */
export interface ExpressionExplainer {
  /** `names`: origins of the value, such as a header; `secret`: it comes from a vault. Called again if a macro repeats the part. */
  part(start: number, end: number, value: unknown, from: ValueOrigin): void
  /** Reports a part without a value. */
  missing(start: number, end: number, reason: string): void
  ended(value: unknown, from: ValueOrigin): void
  failed(kind: 'absent' | 'failed', reason: string): void
}

/** Origin of a value, to decide whether it may be shown. */
export interface ValueOrigin {
  readonly names: readonly string[]
  readonly secret: boolean
}

/**
 * Records how one exchange is decided. A flow has an explainer only on demand: the steps of an exchange call it in execution order, and it
 * changes nothing. Its methods throw only to cancel a simulated exchange. `F` is the flow.
 */
export interface Explainer<F> {
  /** True for a simulated exchange without a client: actions with external effects do not run. */
  readonly imagined: boolean
  /** A module was skipped for a reason. */
  unjudged(module: string, owner: string, reason: string): void
  /** A module starts its step. `owner` is the id of its route. */
  step(module: string, owner: string, on: 'connect' | 'request' | 'response'): void
  stepped(verdict: Verdict | undefined): void
  /** A policy runs the rules of a phase until one of them ends it. */
  phase(phase: string, owner: string, rules: readonly NamedRule[]): void
  rule(name: string, at: Placed): void
  ruled(outcome: RuleOutcome, reason?: string): void
  /**
   * An expression of the rule or of the current action is evaluated. Returns a recorder for the values of its parts, or undefined if they
   * are not needed.
   */
  expression(source: string): ExpressionExplainer | undefined
  /** Sets the position of the next expression. */
  at(place: Place | undefined): void
  action(type: string, at: Placed, flow: F): void
  acted(outcome: ActionOutcome, flow: F, reason?: string): void
  /** A value is unavailable in a simulated exchange, such as keys of a server. Optional. */
  unknown?(what: string): void
}
