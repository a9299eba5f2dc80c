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

/** Values of one variable that a list has. */
interface Part {
  readonly selector: Selector
  /** Uses that exclude values of it. */
  readonly excluding: readonly Selector[]
  /** All values of the variable. */
  readonly isWhole: boolean
  /** Number of the part among different ones. */
  readonly number: number
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
    const parts = this.#parts(selectors)
    if (uses.some(({ collection }) => CHANGING.has(collection))) return (transaction) => select(parts, transaction)
    const number = this.#number(uses)
    return (transaction) => {
      const known = transaction.lists[number]
      if (known !== undefined) return known
      const list = select(parts, transaction)
      transaction.lists[number] = list
      return list
    }
  }

  /** Returns whether a value belongs to an exclusion that was found while a request is handled. */
  isExcluded(target: Target, use: VariableUse, transaction: Transaction): boolean {
    return isExcludedBy(target, { use, pattern: this.#pattern(use), known: new Map() }, transaction)
  }

  #parts(selectors: readonly Selector[]): readonly Part[] {
    const exclusions = selectors.filter(({ use }) => use.kind === 'excluded')
    return selectors
      .filter(({ use }) => use.kind !== 'excluded')
      .map((selector) => {
        const { kind, collection, key, pattern } = selector.use
        // Values of a variable that rules change belong to other variables.
        const excluding = CHANGING.has(collection)
          ? exclusions
          : exclusions.filter(({ use }) => use.collection === collection && kind === 'values')
        const isWhole = kind === 'values' && key === undefined && pattern === undefined && excluding.length === 0
        return { selector, excluding, isWhole, number: this.#number([selector, ...excluding].map(({ use }) => use)) }
      })
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

function select(parts: readonly Part[], transaction: Transaction): TargetList {
  const lists: TargetList[] = []
  for (const part of parts) {
    const list = selectPart(part, transaction)
    if (list.size > 0) lists.push(list)
  }
  const [only = NO_TARGETS, second] = lists
  return second === undefined ? only : TargetList.union(lists)
}

/** Returns the values of a part. Lists with the same part share them. */
function selectPart(part: Part, transaction: Transaction): TargetList {
  const all = transaction.wholeList(part.selector.use.collection)
  if (part.isWhole) return all
  if (all === NO_TARGETS) return toPart(part, all, transaction)
  const known = all.derived[part.number]
  if (known !== undefined) return known
  const list = toPart(part, all, transaction)
  all.derived[part.number] = list
  return list
}

function toPart({ selector, excluding }: Part, all: TargetList, transaction: Transaction): TargetList {
  const { kind, collection, key, pattern } = selector.use
  transaction.spend(all.size)
  let { items } = all
  if (kind === 'count') {
    const count = items.filter((target) => matches(target, selector, transaction)).length
    items = [new Target(`&${collection}`, key ?? '', String(count))]
  } else if (key !== undefined || pattern !== undefined)
    items = items.filter((target) => matches(target, selector, transaction))
  if (excluding.length > 0)
    items = items.filter((target) => !excluding.some((one) => isExcludedBy(target, one, transaction)))
  return items.length === all.size && kind === 'values' ? all : items.length === 0 ? NO_TARGETS : new TargetList(items)
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
