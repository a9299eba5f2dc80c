import type { Flow, Phase } from '../flow/flow.js'
import type { TextSet } from './text-set.js'
import type { VariableDefinition } from './variables/definition.js'

/** A problem in an expression or a template; offsets are UTF-16 units of the given text. */
export interface ExpressionProblem {
  readonly severity: 'error' | 'warning'
  /** `EXPRESSION_SYNTAX`, `EXPRESSION_TYPE`, `EXPRESSION_UNKNOWN`, `EXPRESSION_LIMIT`, `EXPRESSION_REGEX`, `DATA_UNAVAILABLE`, … */
  readonly code: string
  /** Describes the mistake and the allowed form; contains no text of the expression engine. */
  readonly message: string
  readonly start: number
  readonly end: number
  /** Set if both sides of `==` or `!=` have types that are never equal: a rule that denies by it denies nothing, or everything. */
  readonly isNeverMet?: boolean
}

/**
 * Reason why an evaluation has no value. `absent`: a missing key, index or optional value; `failed`: anything else. The message is our own
 * and contains no data of the exchange, so it may be logged.
 */
export class EvaluationError extends Error {
  readonly kind: 'absent' | 'failed'
  constructor(kind: 'absent' | 'failed', message: string) {
    // Compilation creates many errors that no request meets: their stacks would take a tenth of its time.
    const { stackTraceLimit } = Error
    Error.stackTraceLimit = 0
    super(message)
    Error.stackTraceLimit = stackTraceLimit
    this.kind = kind
  }
}

/** A compiled CEL expression. */
export interface Expression {
  readonly source: string
  /** CEL type if known at compile time (`bool`, `string`, `list`, …), else `dyn`. */
  readonly type: string
  /** Documented variables that the expression reads, such as `req.url.path` or `vars.name`. */
  readonly variables: ReadonlySet<string>
  /** Value in the engine's representation if the expression is constant; undefined otherwise. */
  readonly constant: { readonly value: unknown } | undefined
  /** Returns the value in the engine's representation. Throws only `EvaluationError`. */
  evaluate(flow: Flow): unknown
  /** Like `evaluate`, but returns the `EvaluationError`, which is cheaper for every request. */
  outcome(flow: Flow): unknown
}

/** A compiled string with `${…}` parts. */
export interface Template {
  readonly source: string
  /** The text if it contains no `${…}`. */
  readonly constant: string | undefined
  /** CEL type of `value`, see `Expression.type`. */
  readonly type: string
  readonly variables: ReadonlySet<string>
  /**
   * Returns all parts as text: lists joined by `,`, maps as JSON. `shown` may replace the text of an expression, by the variables that it
   * reads. Throws `EvaluationError`.
   */
  text(flow: Flow, shown?: (text: string, variables: ReadonlySet<string>) => string): string
  /** Returns the typed value if the whole string is one `${…}`, else the text. Throws `EvaluationError`. */
  value(flow: Flow): unknown
}

/** A value that an expression reads and that may be absent. */
export interface MaybeAbsent {
  /** Canonical name of the value, for every spelling: `req.headers["x-token"]`, `vars.plan`, `size:vars.list`. */
  readonly key: string
  /** Spelling in the source. */
  readonly shown: string
  /** An expression that is true if the value is absent. */
  readonly missing: string
}

/**
 * A comparison that its author expects to be true for an absent value, such as `!=`, but that then has no value. Offsets are those of the
 * source.
 */
export interface OpenComparison {
  readonly source: string
  readonly start: number
  readonly end: number
  readonly values: readonly MaybeAbsent[]
}

/** Values that an expression checks for being absent, or depends on. */
export interface Absence {
  /** Keys of the values whose presence it checks by `has`, `in`, `size`, `hasReqHeader`, … */
  readonly asked: ReadonlySet<string>
  /** All values that it reads and that may be absent, or empty for a whole value. */
  readonly values: readonly MaybeAbsent[]
  readonly open: readonly OpenComparison[]
}

/** A comparison with literal texts: the operand is one of them, or none. */
export interface TextCondition {
  /** Compared operand as in the source. */
  readonly of: string
  readonly among: 'some' | 'none'
  readonly set: TextSet
  /** Whether the operand is a variable with a text in every request. */
  readonly isAlwaysThere: boolean
}

/** One operand of the `&&` chain of an expression. Offsets are those of the source. */
export interface Condition {
  readonly source: string
  readonly start: number
  readonly end: number
  readonly variables: ReadonlySet<string>
  /** Whether it is the same for all rules of a phase, as long as no action changes its variables. */
  readonly isSteady: boolean
  /** Set if the source shows it: true for every request, or for none. */
  readonly always?: boolean
  /** True for every request that has the values it reads. */
  readonly isTrueIfThere?: boolean
  readonly text?: TextCondition
  /** Set for several comparisons: the condition is true if one of them is. */
  readonly anyOf?: readonly TextCondition[]
}

/** A literal that the compared value never has in any exchange. Offsets are UTF-16 units of the source. */
export interface MisreadLiteral {
  /** The literal: a text, or a number as written. */
  readonly text: string
  /** Message with the form of the values and the probable intent. */
  readonly message: string
  readonly start: number
  readonly end: number
  /** False if it applies under strict paths only. */
  readonly isCertain: boolean
}

/** A secret that an expression reads. Undefined names are known only at run time. */
export interface SecretName {
  readonly vault: string | undefined
  readonly name: string | undefined
}

/** A compiled expression, or all reasons why it is invalid. */
export type Compiled<T> =
  | {
      readonly ok: true
      readonly value: T
      readonly warnings: readonly ExpressionProblem[]
      /** Secrets that it reads. */
      readonly secrets?: readonly SecretName[]
      readonly literals?: readonly MisreadLiteral[]
      /** For conditions: the effect of absent values. */
      readonly absence?: Absence
      /** For conditions: operands that must all be true. */
      readonly conditions?: readonly Condition[]
    }
  | { readonly ok: false; readonly problems: readonly ExpressionProblem[] }

/** Compiles expressions with one set of variables and functions. */
export interface Expressions {
  /** `more`: additional variables of this expression. */
  expression(source: string, phase: Phase, more?: readonly VariableDefinition[]): Compiled<Expression>
  template(source: string, phase: Phase): Compiled<Template>
  /** Converts an engine value to text, as in `Template.text`. */
  textOf(value: unknown): string
  /** Converts an engine value to plain JSON data (integers as numbers if safe, else decimal text; bytes as base64). */
  dataOf(value: unknown): unknown
}
