import type { Steps } from '../../../lib/slices.js'
import type { Rule, RuleSetSource } from '../seclang/rule.js'
import { type CompiledRule, compileRules, type RuleSelector } from './compile.js'
import { Opening } from './opening.js'
import { toNumber } from './operators.js'
import { Selections } from './selection.js'
import { RuleTables, type TableData } from './tables.js'
import type { Transaction } from './transaction.js'
import { TransformationChains } from './transformation-chains.js'

/** Phases of a transaction: head and body of the request, head and body of the response, and the log. */
export type RulePhase = 1 | 2 | 3 | 4 | 5

/** Variables of TX that hold paranoia levels. */
const LEVELS = ['blocking_paranoia_level', 'detection_paranoia_level']
/** Ids of the rules of CRS that set up a transaction: of crs-setup.conf, and of REQUEST-901-INITIALIZATION. */
const SETUP_IDS = { from: 900_000, to: 901_999 }
/** Steps after which a phase pauses. */
const PAUSE = 100_000

/** Rules of one phase in order. */
interface PhaseRules {
  readonly rules: readonly CompiledRule[]
  /** Index in `rules` at which evaluation continues after a rule with `skipAfter`, by the number of the rule. */
  readonly jumps: ReadonlyMap<number, number>
}

/** The rules of a set that a paranoia level leaves, and the order of their evaluation. Immutable. */
export class RulePlan {
  /** Variables of TX that are fixed for all transactions. */
  readonly fixed: ReadonlyMap<string, string>
  readonly #phases: readonly PhaseRules[]
  readonly #opening: Opening

  constructor(phases: readonly PhaseRules[], fixed: ReadonlyMap<string, string>) {
    this.#phases = phases
    this.#opening = new Opening(phases[0] as PhaseRules)
    this.fixed = fixed
  }

  /** Number of rules. */
  get size(): number {
    return this.#phases.reduce((sum, { rules }) => sum + rules.length, 0)
  }

  /** Evaluates a phase, and pauses after some work. Throws `WorkExceeded`. */
  run(phase: RulePhase, transaction: Transaction): Steps<void> {
    const from = phase === 1 ? this.#opening.apply(transaction) : 0
    return evaluatePhase(this.#phases[phase - 1] as PhaseRules, transaction, from)
  }

  /** Evaluates only the rules that set up the transaction, for a response whose request was not examined. */
  setUp(transaction: Transaction): void {
    for (const compiled of (this.#phases[0] as PhaseRules).rules) {
      const { id } = compiled.rule
      if (id >= SETUP_IDS.from && id <= SETUP_IDS.to) compiled.evaluate(transaction)
    }
  }
}

function* evaluatePhase({ rules, jumps }: PhaseRules, transaction: Transaction, from: number): Steps<void> {
  let pausedAt = transaction.meter.budget
  for (let i = from; i < rules.length; i++) {
    if (transaction.off || (transaction.denied !== undefined && !transaction.detectionOnly)) return
    const compiled = rules[i] as CompiledRule
    if (transaction.isRemoved(compiled.number)) continue
    if (compiled.evaluate(transaction)) {
      const jump = jumps.get(compiled.number)
      if (jump !== undefined) i = jump - 1
    }
    if (pausedAt - transaction.meter.budget < PAUSE) continue
    pausedAt = transaction.meter.budget
    yield
  }
}

/** A rule set that was compiled once, as plain data that threads share: each makes closures of it. */
export interface BuiltRules {
  readonly source: RuleSetSource
  readonly digest: string
  readonly tables: TableData
}

/** A compiled rule set. Immutable; shared by all policies that use its folder. */
export class RuleSet {
  /** Name and version, as the rules say. */
  readonly signature: string
  /** SHA-256 of its files. */
  readonly digest: string
  /** Rules that were left out, one sentence each. */
  readonly skipped: readonly string[]
  readonly #items: readonly (CompiledRule | { readonly marker: string })[]
  readonly #scope: Scope
  readonly #plans = new Map<number | undefined, RulePlan>()

  private constructor(parts: {
    readonly source: RuleSetSource
    readonly digest: string
    readonly skipped: readonly string[]
    readonly items: readonly (CompiledRule | { readonly marker: string })[]
    readonly scope: Scope
  }) {
    this.signature = parts.source.signature
    this.digest = parts.digest
    this.skipped = parts.skipped
    this.#items = parts.items
    this.#scope = parts.scope
  }

  /** Compiles a rule set in steps. `data` returns a file beside the rules. Throws `RuleSetError`. */
  static *compile(
    source: RuleSetSource,
    options: {
      readonly digest: string
      readonly data: (name: string) => string | undefined
      /** Leaves out rules with an operator or transformation that is not known. */
      readonly skipUnknown?: boolean
    }
  ): Steps<RuleSet> {
    const skipped = [...source.skipped]
    const scope = new Scope(new RuleTables(), options.data)
    const skip = options.skipUnknown === true ? (problem: string) => skipped.push(problem) : undefined
    const items = yield* compileRules(source.items, scope, skip)
    scope.rules = items.filter((item) => !('marker' in item)) as CompiledRule[]
    return new RuleSet({ source, digest: options.digest, skipped, items, scope })
  }

  /** Makes closures for rules that were compiled before. */
  static *from({ source, digest, tables }: BuiltRules): Steps<RuleSet> {
    const scope = new Scope(new RuleTables(tables), () => undefined)
    const items = yield* compileRules(source.items, scope)
    scope.rules = items.filter((item) => !('marker' in item)) as CompiledRule[]
    return new RuleSet({ source, digest, skipped: source.skipped, items, scope })
  }

  /** Returns the rules as data for `from`. */
  build(): BuiltRules {
    const { signature, digest, skipped } = this
    const items = this.#items.map((item) => ('marker' in item ? item : item.rule))
    return { source: { items, signature, skipped }, digest, tables: this.#scope.tables.share() }
  }

  /** Number of rules. */
  get size(): number {
    return this.#scope.rules.length
  }

  /** Returns the id of the rule of this number. */
  idOf(number: number): number {
    return this.#scope.rules[number]?.rule.id ?? 0
  }

  /** Returns the numbers of rules. */
  select(selector: RuleSelector): readonly number[] {
    return this.#scope.select(selector)
  }

  /**
   * Returns the rules for a paranoia level, without those that the level leaves out.
   * @default the level that the rules set up
   */
  plan(level: number | undefined): RulePlan {
    let plan = this.#plans.get(level)
    if (plan === undefined) {
      plan = this.#plan(level)
      this.#plans.set(level, plan)
    }
    return plan
  }

  /** Prepares the plans that another rule set has. */
  *planLike(other: RuleSet): Steps<void> {
    for (const level of other.#plans.keys()) {
      this.plan(level)
      yield
    }
  }

  #plan(level: number | undefined): RulePlan {
    const chosen = level ?? this.#ownLevel()
    const fixed = new Map(chosen === undefined ? [] : LEVELS.map((name) => [name, String(chosen)] as const))
    return new RulePlan(
      [1, 2, 3, 4, 5].map((phase) => this.#phase(phase, fixed)),
      fixed
    )
  }

  /** Returns the paranoia level that the set-up rules assign; undefined if it depends on the request, or differs for detection. */
  #ownLevel(): number | undefined {
    const values = new Map<string, string>()
    for (const item of this.#items) {
      if ('marker' in item) continue
      const { rule } = item
      for (const { name, value, how } of [rule, ...rule.links].flatMap(({ effects }) => effects.assignments)) {
        const key = name.toLowerCase()
        if (!LEVELS.includes(key)) continue
        const isDefault = countedName(rule) === key
        if (values.has(key) && isDefault) continue
        if (values.has(key) || how !== 'set' || (rule.test.operator !== undefined && !isDefault)) return undefined
        const [, macro] = /^%\{tx\.(\w+)\}$/i.exec(value) ?? []
        values.set(key, macro === undefined ? value : (values.get(macro.toLowerCase()) ?? ''))
      }
    }
    const [blocking, detection] = LEVELS.map((name) => values.get(name))
    return blocking !== undefined && blocking === detection && /^[1-4]$/.test(blocking) ? Number(blocking) : undefined
  }

  #phase(phase: number, fixed: ReadonlyMap<string, string>): PhaseRules {
    const rules: CompiledRule[] = []
    const jumps = new Map<number, number>()
    const waiting: { readonly number: number; readonly marker: string }[] = []
    /** Marker up to which rules are left out. */
    let leftOutTo: string | undefined
    for (const item of this.#items) {
      if ('marker' in item) {
        if (item.marker === leftOutTo) leftOutTo = undefined
        for (const { number, marker } of waiting)
          if (marker === item.marker && !jumps.has(number)) jumps.set(number, rules.length)
        continue
      }
      if (item.rule.phase !== phase || leftOutTo !== undefined) continue
      const decided = decide(item.rule, fixed)
      if (decided === false) continue
      const { skipAfter } = item.rule.effects
      if (decided === true && skipAfter !== undefined) {
        leftOutTo = skipAfter
        continue
      }
      if (skipAfter !== undefined) waiting.push({ number: item.number, marker: skipAfter })
      rules.push(item)
    }
    // A marker that does not follow ends the phase.
    for (const { number } of waiting) if (!jumps.has(number)) jumps.set(number, rules.length)
    return { rules, jumps }
  }
}

/** Returns the name of the variable of TX whose presence a rule tests with `&TX:name "@eq 0"`. */
function countedName({ test, links }: Rule): string | undefined {
  const [use] = test.variables
  const { operator } = test
  if (links.length > 0 || test.variables.length !== 1 || use?.kind !== 'count' || use.collection !== 'TX')
    return undefined
  return operator?.name === 'eq' && !operator.negated && operator.argument === '0' ? use.key : undefined
}

/** Returns whether a rule matches if fixed values alone decide it; undefined otherwise. Only rules without other effects are decided. */
function decide(rule: Rule, fixed: ReadonlyMap<string, string>): boolean | undefined {
  const { test, effects, report, links } = rule
  const [use] = test.variables
  const { operator } = test
  if (links.length > 0 || test.variables.length !== 1 || use?.kind !== 'values' || use.collection !== 'TX')
    return undefined
  const value = use.key === undefined ? undefined : fixed.get(use.key)
  if (value === undefined || operator === undefined || operator.negated || test.transformations.length > 0)
    return undefined
  if (!/^\d+$/.test(operator.argument)) return undefined
  const [left, right] = [toNumber(value), Number(operator.argument)]
  const compare = COMPARISONS[operator.name]
  if (compare === undefined) return undefined
  if (!compare(left, right)) return false
  const plain = effects.assignments.length === 0 && effects.controls.length === 0 && !report.logs
  return plain && effects.disruption === 'pass' ? true : undefined
}

const COMPARISONS: Readonly<Record<string, (left: number, right: number) => boolean>> = {
  eq: (left, right) => left === right,
  lt: (left, right) => left < right,
  gt: (left, right) => left > right,
  le: (left, right) => left <= right,
  ge: (left, right) => left >= right
}

/** Parts that the rules of a set share while they are compiled and evaluated. */
class Scope {
  readonly chains: TransformationChains
  readonly selections: Selections
  readonly tables: RuleTables
  readonly data: (name: string) => string | undefined
  rules: readonly CompiledRule[] = []
  readonly #selected = new Map<string, readonly number[]>()

  constructor(tables: RuleTables, data: (name: string) => string | undefined) {
    this.tables = tables
    this.chains = new TransformationChains(tables.needs)
    this.selections = new Selections(tables)
    this.data = data
  }

  readonly count = () => this.rules.length

  select({ ids, tag }: RuleSelector): readonly number[] {
    const key = JSON.stringify([ids, tag])
    let numbers = this.#selected.get(key)
    if (numbers === undefined) {
      numbers = this.rules
        .filter(
          ({ rule }) =>
            (tag !== undefined && rule.report.tags.includes(tag)) ||
            ids.some(([from, to]) => rule.id >= from && rule.id <= to)
        )
        .map(({ number }) => number)
      this.#selected.set(key, numbers)
    }
    return numbers
  }
}
