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
  /** Results of the pattern by name, because names repeat from request to request. */
  readonly known: Map<string, boolean>
}

/** Maximum number of names whose results are kept, and of their characters. */
const MAX_KNOWN = { names: 128, characters: 64 }

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
    return isExcludedBy(target, { use, pattern: this.#pattern(use), known: new Map() }, transaction)
  }

  #selector(use: VariableUse, place: Place): Selector {
    const pattern = this.#pattern(use)
    if (pattern === undefined && use.pattern !== undefined)
      throw new PlaceError(place, `the pattern for names of ${use.collection} is not valid`)
    return { use, pattern, known: new Map() }
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
  const exclusions = selectors.filter(({ use }) => use.kind === 'excluded')
  const parts: TargetList[] = []
  for (const selector of selectors) {
    const { kind, collection } = selector.use
    if (kind === 'excluded') continue
    const all = transaction.wholeList(collection)
    transaction.spend(all.items.length)
    let { items } = all
    if (kind === 'count') {
      const count = items.filter((target) => matches(target, selector, transaction)).length
      items = [new Target(`&${collection}`, selector.use.key ?? '', String(count))]
    } else if (selector.use.key !== undefined || selector.use.pattern !== undefined)
      items = items.filter((target) => matches(target, selector, transaction))
    // Values of a variable that rules change belong to other variables.
    const excluding = CHANGING.has(collection)
      ? exclusions
      : exclusions.filter(({ use }) => use.collection === collection && kind === 'values')
    if (excluding.length > 0)
      items = items.filter((target) => !excluding.some((one) => isExcludedBy(target, one, transaction)))
    if (items.length === 0) continue
    parts.push(items.length === all.items.length && kind === 'values' ? all : new TargetList(items))
  }
  const [only = NO_TARGETS, second] = parts
  return second === undefined ? only : TargetList.union(parts)
}

/** Returns whether a value is one that a use excludes. */
function isExcludedBy(target: Target, selector: Selector, transaction: Transaction): boolean {
  return target.collection === selector.use.collection && matches(target, selector, transaction)
}

/** Returns whether a member of the collection is selected. A member of MATCHED_VARS has the collection and the name that it matched with. */
function matches({ key }: Target, { use, pattern, known }: Selector, transaction: Transaction): boolean {
  if (use.key !== undefined) return key === use.key
  if (use.pattern === undefined) return true
  if (key.length > MAX_KNOWN.characters) return pattern?.test(key, transaction) ?? false
  let result = known.get(key)
  if (result === undefined) {
    result = pattern?.test(key, transaction) ?? false
    if (known.size >= MAX_KNOWN.names) known.clear()
    known.set(key, result)
  }
  return result
}
