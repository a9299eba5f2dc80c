/** Position of a directive in the files of a rule set. */
export interface Place {
  readonly file: string
  /** Line of its first character, from 1. */
  readonly line: number
}

/** A rule set that cannot be read: one sentence for each mistake, with file and line. */
export class RuleSetError extends Error {
  readonly problems: readonly string[]

  constructor(problems: readonly string[]) {
    const [first = 'the rule set cannot be read'] = problems
    super(problems.length > 1 ? `${first} (and ${problems.length - 1} more)` : first)
    this.problems = problems
  }
}

/** A mistake at a place, found while a rule set is read or compiled. */
export class PlaceError extends Error {
  readonly place: Place

  constructor(place: Place, message: string) {
    super(`${place.file}:${place.line}: ${message}`)
    this.place = place
  }
}

/** One variable of a rule: `ARGS`, `ARGS:name`, `ARGS:/pattern/`, `&ARGS` (the number of members), `!ARGS:name` (an exclusion). */
export interface VariableUse {
  /** Collection in upper case. */
  readonly collection: string
  /** Member, in lower case; undefined for all members. */
  readonly key: string | undefined
  /** Pattern for names of members, instead of `key`. */
  readonly pattern: string | undefined
  readonly kind: 'values' | 'count' | 'excluded'
}

/** Operator of a rule with its argument as written. */
export interface OperatorUse {
  readonly name: string
  readonly negated: boolean
  readonly argument: string
}

/** An assignment to a variable of the collection TX. `value` and `name` may contain macros. */
export interface Assignment {
  readonly name: string
  readonly how: 'set' | 'add' | 'subtract' | 'unset'
  readonly value: string
}

/** A change of the transaction by an action `ctl`. */
export type Control =
  | {
      readonly kind: 'remove-rules'
      readonly ids: readonly (readonly [from: number, to: number])[]
      readonly tag: string | undefined
    }
  | {
      readonly kind: 'remove-target'
      readonly ids: readonly (readonly [from: number, to: number])[]
      readonly tag: string | undefined
      readonly target: VariableUse
    }
  | { readonly kind: 'body-variable'; readonly on: boolean }
  | { readonly kind: 'body-processor'; readonly name: string }
  | { readonly kind: 'engine'; readonly mode: 'on' | 'off' | 'detection' }

/** Consequence of a match for the request. */
export type Disruption = 'pass' | 'deny'

/** Condition of a rule: it matches if the operator holds for a value of a variable after the transformations. */
interface RuleTest {
  /** Empty for a `SecAction`, which always matches. */
  readonly variables: readonly VariableUse[]
  readonly operator: OperatorUse | undefined
  /** Names of transformations in order, without `none`. */
  readonly transformations: readonly string[]
  /** Tests the value before and after each transformation. */
  readonly multiMatch: boolean
  /** Keeps the match and its groups as TX:0 to TX:9. */
  readonly capture: boolean
}

/** Consequences of a match. */
interface RuleEffects {
  readonly assignments: readonly Assignment[]
  readonly controls: readonly Control[]
  readonly disruption: Disruption
  /** Status of a denial. */
  readonly status: number | undefined
  readonly skipAfter: string | undefined
}

/** Description of a match, for the log. */
interface RuleReport {
  /** May contain macros. */
  readonly message: string
  /** May contain macros. */
  readonly data: string
  readonly severity: string
  readonly tags: readonly string[]
  readonly logs: boolean
}

/** A rule, or a link of its chain. */
export interface Rule {
  readonly place: Place
  readonly id: number
  readonly phase: number
  readonly test: RuleTest
  readonly effects: RuleEffects
  readonly report: RuleReport
  /** Further links of the chain, all of which must match too. */
  readonly links: readonly Rule[]
}

/** A rule set as it is written, in order of evaluation. */
export interface RuleSetSource {
  readonly items: readonly (Rule | { readonly marker: string })[]
  /** Text of `SecComponentSignature`: name and version of the rule set; '' without one. */
  readonly signature: string
  /** Directives, operators and transformations that were left out, one sentence each. */
  readonly skipped: readonly string[]
}
