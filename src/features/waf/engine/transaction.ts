import type { VariableUse } from '../seclang/rule.js'
import { NO_TARGETS, Target, TargetList } from './target.js'
import { type Meter, WorkExceeded } from './transformation-chains.js'

/** A rule that matched. */
export interface MatchedRule {
  readonly id: number
  readonly message: string
  readonly severity: string
  readonly data: string
  /** The variable of the message whose value matched last in the chain: `ARGS:q`; '' for a rule without variables. */
  readonly variable: string
  /** Values of the message that matched in the last link that examines such values; empty for a rule about other values. */
  readonly sources: readonly MatchedSource[]
  /** Anomaly score that the rule added. */
  readonly score: number
}

/** A value of the message that matched. */
export interface MatchedSource {
  /** The value after the transformations. */
  readonly target: Target
  readonly transformations: readonly string[]
  /** Anomaly score that the match of this value added. */
  score: number
}

/** A rule that denies the request or response. */
export interface Denial {
  readonly id: number
  readonly status: number | undefined
}

/** Maximum length of a value in TX and of expanded data in UTF-16 units. */
const MAX_TEXT = 4_096
/** Maximum number of variables in TX, so that names from a request do not grow it without bound. */
const MAX_VARIABLES = 4_096
/** Maximum number of recorded matches. */
const MAX_RECORDED = 256

/** Maximum number of values that are kept of one rule. */
const MAX_SOURCES = 16

const NO_SOURCES: readonly MatchedSource[] = []
const NO_VALUES: readonly Target[] = []

/** State of the rules for one request and its response. */
export class Transaction {
  readonly meter: Meter
  /** Lists of values by the number of the variable set, for variables that rules do not change. */
  readonly lists: (TargetList | undefined)[] = []
  /** Matches that rules report, in order. */
  readonly reported: MatchedRule[] = []
  /** Rules continue after a denial, as for a decision that is not enforced. */
  readonly detectionOnly: boolean
  /** First denial. */
  denied: Denial | undefined = undefined
  /** `ctl:ruleEngine=Off`: no further rule is evaluated. */
  off = false
  /** `ctl:forceRequestBodyVariable`: REQUEST_BODY is set whatever the type of the body. */
  keepsBodyText = false
  /** The value that matched last. */
  matched: Target | undefined = undefined
  /** Values of the message that matched in the last link of the current chain that examines such values. */
  sources: readonly MatchedSource[] = NO_SOURCES
  /** Anomaly score that the current chain has added. */
  added = 0
  /** Values that matched in the current chain. */
  matchedAll: Target[] = []
  readonly #fixed: ReadonlyMap<string, string>
  #tx: Map<string, string>
  #sourceLink: object | undefined
  #captures: readonly string[] = []
  readonly #values = new Map<string, readonly Target[] | (() => readonly Target[])>()
  /** Lists of all values of variables that rules do not change. */
  readonly #whole = new Map<string, TargetList>()
  #removed: Uint8Array | undefined
  #ownsRemoved = false
  #excluded: Map<number, readonly VariableUse[]> | undefined

  /** `fixed`: variables of TX that rules cannot change. `removed`: 1 at the numbers of rules that are not evaluated. */
  constructor(options: {
    readonly budget: number
    readonly fixed?: ReadonlyMap<string, string>
    readonly removed?: Uint8Array | undefined
    readonly detectionOnly?: boolean
  }) {
    const { budget, fixed = new Map<string, string>(), removed, detectionOnly = false } = options
    this.meter = { budget }
    this.#fixed = fixed
    this.#tx = new Map(fixed)
    this.#removed = removed
    this.detectionOnly = detectionOnly
  }

  /** Charges work. Throws `WorkExceeded`. */
  spend(steps: number): void {
    this.meter.budget -= steps
    if (this.meter.budget < 0) throw new WorkExceeded()
  }

  /** Forgets what the previous rule matched. */
  beginRule(): void {
    this.matchedAll = []
    this.sources = NO_SOURCES
    this.#sourceLink = undefined
    this.added = 0
  }

  /** Adds a value of the message that matched in a link. `examined`: the value before the transformations of the link. */
  addSource(link: object, examined: Target, matched: Target, transformations: readonly string[]): MatchedSource {
    // A value of MATCHED_VARS has gone through the transformations of an earlier link.
    const earlier = this.sources.find(({ target }) => target === examined)?.transformations
    const all = earlier === undefined ? transformations : [...earlier, ...transformations]
    const source = { target: matched, transformations: all, score: 0 }
    const { sources } = this
    const isFull = this.#sourceLink === link && sources.length >= MAX_SOURCES
    if (!isFull) this.sources = this.#sourceLink === link ? [...sources, source] : [source]
    this.#sourceLink = link
    return source
  }

  /** Returns a variable of TX; `name` is in lower case. */
  getTx(name: string): string | undefined {
    if (name.length === 1) {
      const digit = name.charCodeAt(0) - 0x30
      if (digit >= 0 && digit <= 9) return this.#captures[digit]
    }
    return this.#tx.get(name)
  }

  setTx(name: string, value: string): void {
    const key = name.toLowerCase()
    if (this.#fixed.has(key)) return
    if (this.#tx.size >= MAX_VARIABLES && !this.#tx.has(key)) throw new WorkExceeded()
    this.#tx.set(key, value.length > MAX_TEXT ? value.slice(0, MAX_TEXT) : value)
  }

  /** Takes over variables of TX that rules have set for another transaction with the same fixed variables. */
  startFrom(variables: ReadonlyMap<string, string>): void {
    this.#tx = new Map(variables)
  }

  /** All variables of TX but captured groups. */
  get txVariables(): ReadonlyMap<string, string> {
    return this.#tx
  }

  /** Variables of TX that rules cannot change. */
  get fixed(): ReadonlyMap<string, string> {
    return this.#fixed
  }

  unsetTx(name: string): void {
    const key = name.toLowerCase()
    if (!this.#fixed.has(key)) this.#tx.delete(key)
  }

  /** Keeps the match and its groups as TX:0 to TX:9. */
  capture(groups: readonly string[]): void {
    this.#captures = groups.length > 10 ? groups.slice(0, 10) : groups
  }

  /** Sets the values of a variable, or a function that makes them for the first rule that examines them. */
  set(collection: string, values: readonly Target[] | (() => readonly Target[])): void {
    this.#values.set(collection, values)
    this.#whole.delete(collection)
    this.lists.length = 0
  }

  /** Sets a variable with one value. */
  setOne(collection: string, value: string): void {
    this.set(collection, [new Target(collection, '', value)])
  }

  /** Returns the values of a variable by its name in upper case. */
  collection(name: string): readonly Target[] {
    switch (name) {
      case 'TX':
        return this.#txTargets()
      case 'MATCHED_VAR':
        return this.matched === undefined ? NO_VALUES : [new Target('MATCHED_VAR', '', this.matched.value)]
      case 'MATCHED_VAR_NAME':
        return this.matched === undefined ? NO_VALUES : [new Target('MATCHED_VAR_NAME', '', this.matched.name)]
      case 'MATCHED_VARS':
        return this.matchedAll
      case 'MATCHED_VARS_NAMES':
        return this.matchedAll.map(({ name: one, member }) => new Target('MATCHED_VARS_NAMES', member, one))
      default:
        return this.#stored(name)
    }
  }

  #stored(name: string): readonly Target[] {
    const known = this.#values.get(name)
    if (typeof known !== 'function') return known ?? NO_VALUES
    const values = known()
    this.#values.set(name, values)
    return values
  }

  /** Returns the list of all values of a variable; equal calls return the same list unless rules change the variable. */
  wholeList(name: string): TargetList {
    const known = this.#whole.get(name)
    if (known !== undefined) return known
    const values = this.collection(name)
    if (values.length === 0) return NO_TARGETS
    // A rule that examines MATCHED_VARS adds to its array.
    if (!this.#values.has(name)) return new TargetList([...values])
    const list = new TargetList(values)
    this.#whole.set(name, list)
    return list
  }

  /** Returns the target of one variable of TX; `name` is in lower case. */
  txTarget(name: string): Target | undefined {
    const value = this.getTx(name)
    return value === undefined ? undefined : new Target('TX', name, value)
  }

  #txTargets(): readonly Target[] {
    const targets: Target[] = []
    for (const [name, value] of this.#tx) targets.push(new Target('TX', name, value))
    for (const [i, value] of this.#captures.entries()) targets.push(new Target('TX', String(i), value))
    return targets
  }

  /** True if some rules are not evaluated. */
  get hasRemoved(): boolean {
    return this.#removed !== undefined
  }

  /** Returns whether the rule of this number is not evaluated. */
  isRemoved(rule: number): boolean {
    return this.#removed !== undefined && this.#removed[rule] === 1
  }

  /** Removes rules by their numbers; `count` is the number of all rules. */
  removeRules(rules: Iterable<number>, count: number): void {
    if (!this.#ownsRemoved) {
      const own = new Uint8Array(count)
      if (this.#removed !== undefined) own.set(this.#removed)
      this.#removed = own
      this.#ownsRemoved = true
    }
    for (const rule of rules) (this.#removed as Uint8Array)[rule] = 1
  }

  /** Excludes values from the rules of these numbers. Rules with equal exclusions share one list of them. */
  excludeTarget(rules: Iterable<number>, target: VariableUse): void {
    this.#excluded ??= new Map()
    const extended = new Map<readonly VariableUse[] | undefined, readonly VariableUse[]>()
    for (const rule of rules) {
      const before = this.#excluded.get(rule)
      let after = extended.get(before)
      if (after === undefined) {
        after = [...(before ?? []), target]
        extended.set(before, after)
      }
      this.#excluded.set(rule, after)
    }
  }

  /** Returns the values that this transaction excludes from a rule; undefined without any. */
  excludedFrom(rule: number): readonly VariableUse[] | undefined {
    return this.#excluded?.get(rule)
  }

  /** Records a match that its rule reports. */
  report(match: MatchedRule): void {
    if (this.reported.length < MAX_RECORDED) this.reported.push(match)
  }
}
