import { type Place, PlaceError, type VariableUse } from '../seclang/rule.js'
import { CHANGING } from '../seclang/variables.js'
import type { RulePattern } from './patterns.js'
import type { RuleTables } from './tables.js'
import { NO_TARGETS, Target, TargetList } from './target.js'
import type { Transaction } from './transaction.js'

/** Returns the values that a rule examines. */
export type Selection = (transaction: Transaction) => TargetList

/** Decides whether a value belongs to a use of a variable. */
interface Selector {
  readonly use: VariableUse
  readonly pattern: RulePattern | undefined
}

/** Lists of variables of a rule set. Equal lists share their values in a transaction. */
export class Selections {
  readonly #numbers = new Map<string, number>()
  readonly #tables: RuleTables

  constructor(tables: RuleTables) {
    this.#tables = tables
  }

  /** Compiles the variables of a rule. Throws `PlaceError`. */
  compile(uses: readonly VariableUse[], place: Place): Selection {
    const selectors = uses.map((use) => this.#selector(use, place))
    const [only] = uses
    if (uses.length === 1 && only?.collection === 'TX' && only.key !== undefined) {
      const { key } = only
      if (only.kind === 'values') return (transaction) => toList(transaction.txTarget(key))
      return (transaction) => toList(new Target('TX', key, transaction.getTx(key) === undefined ? '0' : '1'))
    }
    if (uses.some(({ collection }) => CHANGING.has(collection))) return (transaction) => select(selectors, transaction)
    const number = this.#number(uses)
    return (transaction) => {
      const known = transaction.lists[number]
      if (known !== undefined) return known
      const list = select(selectors, transaction)
      transaction.lists[number] = list
      return list
    }
  }

  /** Returns whether a value belongs to an exclusion that was found while a request is handled. */
  isExcluded(target: Target, use: VariableUse, transaction: Transaction): boolean {
    return isExcludedBy(target, { use, pattern: this.#pattern(use) }, transaction)
  }

  #selector(use: VariableUse, place: Place): Selector {
    const pattern = this.#pattern(use)
    if (pattern === undefined && use.pattern !== undefined)
      throw new PlaceError(place, `the pattern for names of ${use.collection} is not valid`)
    return { use, pattern }
  }

  /** Returns the pattern for names of members; undefined without a valid one. */
  #pattern({ pattern: written }: VariableUse): RulePattern | undefined {
    const pattern = written === undefined ? undefined : this.#tables.pattern(written)
    return typeof pattern === 'string' ? undefined : pattern
  }

  #number(uses: readonly VariableUse[]): number {
    const key = JSON.stringify(uses)
    let number = this.#numbers.get(key)
    if (number === undefined) {
      number = this.#numbers.size
      this.#numbers.set(key, number)
    }
    return number
  }
}

function toList(target: Target | undefined): TargetList {
  return target === undefined ? NO_TARGETS : new TargetList([target])
}

function select(selectors: readonly Selector[], transaction: Transaction): TargetList {
  const targets: Target[] = []
  for (const selector of selectors) {
    const { kind, collection } = selector.use
    if (kind === 'excluded') continue
    const values = transaction.collection(collection)
    transaction.spend(values.length)
    if (kind === 'count') {
      const count = values.filter((target) => matches(target, selector, transaction)).length
      targets.push(new Target(`&${collection}`, selector.use.key ?? '', String(count)))
    } else for (const target of values) if (matches(target, selector, transaction)) targets.push(target)
  }
  const exclusions = selectors.filter(({ use }) => use.kind === 'excluded')
  if (exclusions.length === 0) return new TargetList(targets)
  return new TargetList(targets.filter((target) => !exclusions.some((one) => isExcludedBy(target, one, transaction))))
}

/** Returns whether a value is one that a use excludes. */
function isExcludedBy(target: Target, selector: Selector, transaction: Transaction): boolean {
  return target.collection === selector.use.collection && matches(target, selector, transaction)
}

/** Returns whether a member of the collection is selected. A member of MATCHED_VARS has the collection and the name that it matched with. */
function matches({ key }: Target, { use, pattern }: Selector, transaction: Transaction): boolean {
  if (use.key !== undefined) return key === use.key
  if (use.pattern === undefined) return true
  return pattern?.test(key, transaction) ?? false
}
