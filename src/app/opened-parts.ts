/** Key of a part that one stage of a start opens and others use. */
export interface PartKey<T> {
  readonly name: string
  readonly '~type'?: T
}

/** Key of a list to which several stages contribute. */
export interface ListKey<T> {
  readonly name: string
  readonly '~entry'?: T
}

/** Returns a key. Its name appears in messages only. */
export function partKey<T>(name: string): PartKey<T> {
  return { name }
}

/** Returns a key of a list. */
export function listKey<T>(name: string): ListKey<T> {
  return { name }
}

/** Parts that the stages of a start have opened for each other. */
export class OpenedParts {
  readonly #parts = new Map<PartKey<unknown>, unknown>()
  readonly #lists = new Map<ListKey<unknown>, unknown[]>()

  /** Sets the part of a key, in place of an earlier one. */
  put<T>(key: PartKey<T>, part: T): void {
    this.#parts.set(key, part)
  }

  /** Returns the part of a key. Throws a RangeError if no stage has opened it. */
  get<T>(key: PartKey<T>): T {
    if (!this.#parts.has(key)) throw new RangeError(`no stage has opened ${key.name}`)
    return this.#parts.get(key) as T
  }

  /** Returns the part of a key; undefined if no stage has opened it. */
  find<T>(key: PartKey<T>): T | undefined {
    return this.#parts.get(key) as T | undefined
  }

  add<T>(key: ListKey<T>, entry: T): void {
    const list = this.#lists.get(key)
    if (list === undefined) this.#lists.set(key, [entry])
    else list.push(entry)
  }

  /** Returns the contributions in the order in which they were made. */
  all<T>(key: ListKey<T>): readonly T[] {
    return (this.#lists.get(key) ?? []) as T[]
  }
}
