import type { NeedMarks } from '../../../lib/need-table.js'

/** A value that rules examine, with its forms after transformations. */
export class Target {
  /** Collection in upper case. */
  readonly collection: string
  readonly value: string
  readonly #member: string
  #key: string | undefined
  #forms: (string | undefined)[] | undefined

  constructor(collection: string, member: string, value: string) {
    this.collection = collection
    this.#member = member
    this.value = value
  }

  /** Name of the member in lower case; '' for a variable with one value. */
  get key(): string {
    this.#key ??= this.#member.toLowerCase()
    return this.#key
  }

  /** Results of transformation chains by the number of the chain. */
  get forms(): (string | undefined)[] {
    this.#forms ??= []
    return this.#forms
  }

  /** `ARGS:name`, as rules and logs name the value. */
  get name(): string {
    return this.#member === '' ? this.collection : `${this.collection}:${this.#member}`
  }

  /** Name of the member as it was received. */
  get member(): string {
    return this.#member
  }
}

/** Values that a rule examines. The joined form of all of them is computed once for each transformation chain. */
export class TargetList {
  #items: readonly Target[] | undefined
  #distinct: readonly Target[] | undefined
  readonly joined: (string | undefined)[] = []
  /** Needs that the values meet by the number of the transformation chain. */
  readonly marks: (NeedMarks | undefined)[] = []
  /** Parts of the values by the number of the part. */
  readonly derived: (TargetList | undefined)[] = []
  /** Chain with the same results for all values, by the number of the transformation chain. */
  readonly equals: (number | undefined)[] = []

  /** Lists of the values, one after the other, that other lists have too; undefined for a list of its own. */
  readonly parts: readonly TargetList[] | undefined
  /** Number of values. */
  readonly size: number
  /** Lists without excluded values, by the exclusions. */
  #reduced: Map<object, TargetList> | undefined

  constructor(items: readonly Target[] | undefined, parts?: readonly TargetList[]) {
    this.#items = items
    this.parts = parts
    this.size = items?.length ?? (parts ?? []).reduce((sum, { size }) => sum + size, 0)
  }

  /** Returns the list of all values of lists. */
  static union(parts: readonly TargetList[]): TargetList {
    return new TargetList(undefined, parts)
  }

  /** All values. Those of a union are collected when they are needed: most rules only look at the joined text. */
  get items(): readonly Target[] {
    this.#items ??= (this.parts ?? []).flatMap(({ items }) => items)
    return this.#items
  }

  /** The first of equal values. Values of JSON repeat. */
  get distinct(): readonly Target[] {
    this.#distinct ??=
      this.parts === undefined ? firstOfEqual(this.items) : this.parts.flatMap(({ distinct }) => distinct)
    return this.#distinct
  }

  /**
   * Returns the values that `isExcluded` does not exclude. It stands for `exclusions`: one list is made for each. Lists of which nothing is
   * excluded stay as they are.
   */
  without(exclusions: object, isExcluded: (target: Target) => boolean): TargetList {
    const known = this.#reduced?.get(exclusions)
    if (known !== undefined) return known
    const reduced = this.#reduce(exclusions, isExcluded)
    this.#reduced ??= new Map()
    this.#reduced.set(exclusions, reduced)
    return reduced
  }

  #reduce(exclusions: object, isExcluded: (target: Target) => boolean): TargetList {
    const { parts } = this
    if (parts === undefined) {
      const left = this.items.filter((target) => !isExcluded(target))
      return left.length === this.size ? this : new TargetList(left)
    }
    const reduced = parts.map((part) => part.without(exclusions, isExcluded))
    if (reduced.every((part, i) => part === parts[i])) return this
    const left = reduced.filter(({ size }) => size > 0)
    const [only = NO_TARGETS] = left
    return left.length > 1 ? TargetList.union(left) : only
  }
}

/** Number of values from which equal ones are looked for. */
const MANY = 8

function firstOfEqual(items: readonly Target[]): readonly Target[] {
  if (items.length < MANY) return items
  const values = new Set<string>()
  const first: Target[] = []
  for (const target of items) {
    const { size } = values
    if (values.add(target.value).size > size) first.push(target)
  }
  return first
}

/** A list without values. */
export const NO_TARGETS = new TargetList([])
