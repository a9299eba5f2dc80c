interface RelayParts<T> {
  /** Sends the collected items, with the number dropped since the last time. */
  readonly post: (items: readonly T[], bytes: number, dropped: number) => void
  /** Maximum size of collected and unconfirmed items (bytes); further ones are dropped and counted. */
  readonly most: number
  /** Returns the memory of an item in bytes. */
  readonly sizeOf: (item: T) => number
}

/** Bytes that are sent without waiting for the end of the turn. */
const BATCH = 65_536

/**
 * Sends items to another thread in order, several per message. The other thread confirms processed bytes, so that a slow one costs a
 * bounded amount of memory.
 */
export class Relay<T> {
  readonly #parts: RelayParts<T>
  #items: T[] = []
  #gathered = 0
  #underWay = 0
  #dropped = 0
  #due = false

  constructor(parts: RelayParts<T>) {
    this.#parts = parts
  }

  /** `counts`: number of items that a dropped one counts for. */
  put(item: T, counts = 1): void {
    const bytes = this.#parts.sizeOf(item)
    if (this.#gathered + this.#underWay + bytes > this.#parts.most) {
      this.#dropped += counts
      return
    }
    this.#items.push(item)
    this.#gathered += bytes
    if (this.#gathered >= BATCH) this.flush()
    else if (!this.#due) {
      this.#due = true
      setImmediate(() => {
        this.#due = false
        this.flush()
      })
    }
  }

  /** Confirms bytes processed by the other thread. */
  taken(bytes: number): void {
    this.#underWay -= bytes
    if (this.#dropped > 0) this.flush()
  }

  flush(): void {
    if (this.#items.length === 0 && this.#dropped === 0) return
    const [items, bytes, dropped] = [this.#items, this.#gathered, this.#dropped]
    this.#items = []
    this.#gathered = 0
    this.#dropped = 0
    this.#underWay += bytes
    this.#parts.post(items, bytes, dropped)
  }
}
