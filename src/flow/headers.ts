/** Names and values by turns, in wire order and wire case; an ordered flat list, never a map. */
export type HeaderList = readonly string[]

/** One name for all spellings that an upstream may take for one: case does not count, and many read `_` as `-`. */
export function spellingOf(name: string): string {
  return name.toLowerCase().replaceAll('_', '-')
}

/**
 * Header fields of one message while policies read and change them.
 *
 * Keeps wire order, wire case and repeated fields (RFC 9110 5.3). Every lookup takes any case. The lower-case
 * view is built at the first need and again after a change.
 */
export class HeaderFields {
  #list: string[]
  #byName: Map<string, string[]> | undefined

  constructor(list: HeaderList) {
    this.#list = list as string[]
  }

  /** The fields as they go to the wire. Do not change the returned list. */
  get list(): HeaderList {
    return this.#list
  }

  /** Lower-case name → values in order of arrival. Do not change the returned map. */
  get byName(): ReadonlyMap<string, readonly string[]> {
    if (this.#byName === undefined) {
      const view = new Map<string, string[]>()
      for (let i = 0; i < this.#list.length; i += 2) {
        const name = (this.#list[i] as string).toLowerCase()
        const values = view.get(name)
        if (values === undefined) view.set(name, [this.#list[i + 1] as string])
        else values.push(this.#list[i + 1] as string)
      }
      this.#byName = view
    }
    return this.#byName
  }

  /** First value of `name`, or undefined. */
  get(name: string): string | undefined {
    return this.byName.get(name.toLowerCase())?.[0]
  }

  /** All values of `name` in order of arrival; empty when absent. */
  values(name: string): readonly string[] {
    return this.byName.get(name.toLowerCase()) ?? []
  }

  has(name: string): boolean {
    return this.byName.has(name.toLowerCase())
  }

  append(name: string, value: string): void {
    this.#list = [...this.#list, name, value]
    this.#byName = undefined
  }

  /** Replaces every field of this name by one, at the end of the list. */
  set(name: string, value: string): void {
    this.delete(name)
    this.append(name, value)
  }

  /** Removes the fields of this name in every spelling; true when there was one. */
  deleteSpellings(name: string): boolean {
    const wanted = spellingOf(name)
    let found = false
    for (const one of [...this.byName.keys()]) {
      if (spellingOf(one) === wanted) found = this.delete(one) || found
    }
    return found
  }

  /** Removes every field of this name; true when there was one. */
  delete(name: string): boolean {
    const wanted = name.toLowerCase()
    if (!this.byName.has(wanted)) return false
    const kept: string[] = []
    for (let i = 0; i < this.#list.length; i += 2) {
      if ((this.#list[i] as string).toLowerCase() !== wanted)
        kept.push(this.#list[i] as string, this.#list[i + 1] as string)
    }
    this.#list = kept
    this.#byName = undefined
    return true
  }
}
