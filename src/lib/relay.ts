interface RelayParts<T> {
  /** Sends what was gathered, and how many were dropped since the last time. */
  readonly post: (items: readonly T[], bytes: number, dropped: number) => void
  /** Most bytes that may be gathered or under way; what comes beyond them is dropped and counted. */
  readonly most: number
  /** Bytes of memory of one. */
  readonly sizeOf: (item: T) => number
}

/** Bytes that are sent without waiting for the end of the turn. */
const BATCH = 65_536

/**
 * Things on their way to another thread: whole, in order, several in one message. The other thread says what it has dealt with, so that a slow
 * one costs a bounded amount of memory.
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

  /** `counts`: how many it counts for where it is dropped. */
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

  /** The other thread has dealt with so many bytes. */
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
