import type { Place } from '../lib/positions.js'
import type { Verdict } from './verdict.js'

/** What becomes of a rule: `absent` has not matched because a value is not there, `failed` has ended its phase. */
export type RuleOutcome = 'matched' | 'not_matched' | 'absent' | 'failed'

/** What becomes of an action: `ended` has decided the exchange. */
export type ActionOutcome = 'continued' | 'ended' | 'failed'

/** Something of a policy document and where it begins there. */
export interface Placed {
  readonly place: Place
}

interface NamedRule extends Placed {
  readonly name: string
}

/** Takes down one evaluation of an expression. Offsets are UTF-16 units of its source. Values are plain JSON data. */
export interface ExpressionExplainer {
  /** `names`: what the value comes from, such as a header; `secret`: it comes from a vault. Called again where a macro repeats the part. */
  part(start: number, end: number, value: unknown, from: ValueOrigin): void
  /** The part has no value. */
  missing(start: number, end: number, reason: string): void
  ended(value: unknown, from: ValueOrigin): void
  failed(kind: 'absent' | 'failed', reason: string): void
}

/** Where a value comes from, as far as that says whether it may be shown. */
export interface ValueOrigin {
  readonly names: readonly string[]
  readonly secret: boolean
}

/**
 * Takes down how one exchange is decided, while it is. A flow has one only where that is wanted: the steps of an exchange call it
 * in the order in which they run, and it changes nothing. Its methods throw only to give up an imagined exchange. `F`: the flow.
 */
export interface Explainer<F> {
  /** No client waits for the exchange: what has effects outside of it does not run. */
  readonly imagined: boolean
  /** A module was left out, and why. */
  unjudged(module: string, owner: string, reason: string): void
  /** A module begins its step. `owner`: the id of its route. */
  step(module: string, owner: string, on: 'connect' | 'request' | 'response'): void
  stepped(verdict: Verdict | undefined): void
  /** A policy runs the rules of a phase, until one of them ends it. */
  phase(phase: string, owner: string, rules: readonly NamedRule[]): void
  rule(name: string, at: Placed): void
  ruled(outcome: RuleOutcome, reason?: string): void
  /**
   * An expression is evaluated: of the rule, or of the action that has begun. Answers what takes down the values of its parts;
   * undefined: they are not wanted.
   */
  expression(source: string): ExpressionExplainer | undefined
  /** The next expression stands here. */
  at(place: Place | undefined): void
  action(type: string, at: Placed, flow: F): void
  acted(outcome: ActionOutcome, flow: F, reason?: string): void
  /** What was asked for is not to be had for an imagined exchange, such as keys of a server; absent: that need not be known. */
  unknown?(what: string): void
}
