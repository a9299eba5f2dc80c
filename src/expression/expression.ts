import type { Flow, Phase } from '../flow/flow.js'
import type { TextSet } from './text-set.js'
import type { VariableDefinition } from './variables/definition.js'

/** What is wrong with an expression or a template, and where: offsets are UTF-16 units into the text that was given. */
export interface ExpressionProblem {
  readonly severity: 'error' | 'warning'
  /** `EXPRESSION_SYNTAX`, `EXPRESSION_TYPE`, `EXPRESSION_UNKNOWN`, `EXPRESSION_LIMIT`, `EXPRESSION_REGEX`, `DATA_UNAVAILABLE`, … */
  readonly code: string
  /** Says what is wrong and what is allowed; holds no text of the expression engine. */
  readonly message: string
  readonly start: number
  readonly end: number
  /** Both sides of `==` or `!=` have types that are never equal: a rule that denies by it denies nothing, or everything. */
  readonly isNeverMet?: boolean
}

/**
 * Why an evaluation has no value. `absent`: a key, an index or an optional value is not there; `failed`: anything else.
 * The message is our own and holds no data of the exchange, so it may be logged.
 */
export class EvaluationError extends Error {
  readonly kind: 'absent' | 'failed'
  constructor(kind: 'absent' | 'failed', message: string) {
    // Compiling makes many that no request meets: their stacks would take a tenth of its time.
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
  /** CEL type where it is known when written (`bool`, `string`, `list`, …), else `dyn`. */
  readonly type: string
  /** The documented variables that it reads, such as `req.url.path` or `vars.name`. */
  readonly variables: ReadonlySet<string>
  /** The value in the engine's representation, where nothing but constants goes into it; undefined: it is not known when written. */
  readonly constant: { readonly value: unknown } | undefined
  /** The value in the engine's representation. Throws `EvaluationError` and nothing else. */
  evaluate(flow: Flow): unknown
  /** As `evaluate`, but answers the `EvaluationError` where there is no value: for what every request pays. */
  outcome(flow: Flow): unknown
}

/** A string with `${…}` parts, compiled. */
export interface Template {
  readonly source: string
  /** The text, when there is no `${…}` in it. */
  readonly constant: string | undefined
  /** CEL type of `value`, as `Expression.type`. */
  readonly type: string
  readonly variables: ReadonlySet<string>
  /**
   * Every part as text: lists joined by `,`, maps as JSON. `shown` may put another text in place of what an expression gave, by
   * the variables that it reads. Throws `EvaluationError`.
   */
  text(flow: Flow, shown?: (text: string, variables: ReadonlySet<string>) => string): string
  /** The value with its type when the whole string is one `${…}`, else the text. Throws `EvaluationError`. */
  value(flow: Flow): unknown
}

/** A value that an expression asks for and that may not be there. */
export interface MaybeAbsent {
  /** One name for one value, however it is written: `req.headers["x-token"]`, `vars.plan`, `size:vars.list`. */
  readonly key: string
  /** As the source has it. */
  readonly shown: string
  /** An expression that is true when it is not there. */
  readonly missing: string
}

/**
 * A comparison that its author wants to be true when a value is not there, such as `!=`, and that has no value then.
 * Offsets are those of the source.
 */
export interface OpenComparison {
  readonly source: string
  readonly start: number
  readonly end: number
  readonly values: readonly MaybeAbsent[]
}

/** What an expression says about values that may be absent. */
export interface Absence {
  /** Keys of the values whose presence it asks for by `has`, `in`, `size`, `hasReqHeader`, … */
  readonly asked: ReadonlySet<string>
  /** All that it reads and that may be absent, or empty where it is the whole value. */
  readonly values: readonly MaybeAbsent[]
  readonly open: readonly OpenComparison[]
}

/** A comparison with texts of the source: something is one of them, or none. */
export interface TextCondition {
  /** What is compared, as the source has it. */
  readonly of: string
  readonly among: 'some' | 'none'
  readonly set: TextSet
  /** It is a variable that has a text in every request. */
  readonly isAlwaysThere: boolean
}

/** One operand of the `&&` chain of an expression. Offsets are those of the source. */
export interface Condition {
  readonly source: string
  readonly start: number
  readonly end: number
  readonly variables: ReadonlySet<string>
  /** It is the same for all rules of a phase, as long as no action changes its variables. */
  readonly isSteady: boolean
  /** Where the source says so: true for every request, or for none. */
  readonly always?: boolean
  /** It is true for every request that has what it asks for. */
  readonly isTrueIfThere?: boolean
  readonly text?: TextCondition
  /** Where it compares more than one thing: it is true when one of these is. */
  readonly anyOf?: readonly TextCondition[]
}

/** A literal that what it is compared with is in no exchange. Offsets are UTF-16 units of the source. */
export interface MisreadLiteral {
  /** The literal: a text, or a number as it is written. */
  readonly text: string
  /** Says so, how the values are written, and what was probably meant. */
  readonly message: string
  readonly start: number
  readonly end: number
  /** False: only where the form of paths is strict. */
  readonly isCertain: boolean
}

/** A secret that an expression reads. Undefined: that name is known only at run time. */
export interface SecretName {
  readonly vault: string | undefined
  readonly name: string | undefined
}

/** An expression that can run, or every reason why it cannot. */
export type Compiled<T> =
  | {
      readonly ok: true
      readonly value: T
      readonly warnings: readonly ExpressionProblem[]
      /** The secrets that it reads. */
      readonly secrets?: readonly SecretName[]
      readonly literals?: readonly MisreadLiteral[]
      /** Of a condition: what becomes of it when a value is absent. */
      readonly absence?: Absence
      /** Of a condition: what must be true together. */
      readonly conditions?: readonly Condition[]
    }
  | { readonly ok: false; readonly problems: readonly ExpressionProblem[] }

/** Compiles expressions against the one list of variables and functions. */
export interface Expressions {
  /** `more` are variables that this one expression knows besides. */
  expression(source: string, phase: Phase, more?: readonly VariableDefinition[]): Compiled<Expression>
  template(source: string, phase: Phase): Compiled<Template>
  /** A value of the engine as text, as `Template.text` writes it. */
  textOf(value: unknown): string
  /** A value of the engine as plain JSON data (integers as numbers where safe, else decimal text; bytes as base64). */
  dataOf(value: unknown): unknown
}
