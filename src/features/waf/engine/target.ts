/** A value that rules examine, with its forms after transformations. */
export class Target {
  /** Collection in upper case. */
  readonly collection: string
  /** Name of the member in lower case; '' for a variable with one value. */
  readonly key: string
  readonly value: string
  readonly #member: string
  /** Results of transformation chains by the number of the chain. */
  readonly forms: (string | undefined)[] = []

  constructor(collection: string, member: string, value: string) {
    this.collection = collection
    this.#member = member
    this.key = member.toLowerCase()
    this.value = value
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
  readonly joined: (string | undefined)[] = []
  /** Characters of all values by the number of the transformation chain, as bits. */
  readonly characters: (Int32Array | undefined)[] = []
  /** Chain with the same results for all values, by the number of the transformation chain. */
  readonly equals: (number | undefined)[] = []

  /** Lists of the values, one after the other, that other lists have too; undefined for a list of its own. */
  readonly parts: readonly TargetList[] | undefined

  constructor(items: readonly Target[] | undefined, parts?: readonly TargetList[]) {
    this.#items = items
    this.parts = parts
  }

  /** Number of values. */
  get size(): number {
    return this.#items?.length ?? (this.parts ?? []).reduce((sum, { size }) => sum + size, 0)
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
}

/** A list without values. */
export const NO_TARGETS = new TargetList([])
