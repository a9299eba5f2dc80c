import type { RecordedExchange } from './recorded-exchange.js'

interface Held {
  readonly id: string
  readonly content: Buffer
}

/** Ring buffer of the last exchanges, oldest first, limited in bytes. */
export class ExchangeRing {
  #held: Held[] = []
  /** Those before this index have been dropped. */
  #first = 0
  #bytes = 0
  #capacity: number
  /** Exchanges that had to make room, or were larger than the ring. */
  dropped = 0

  /** `capacity`: bytes. */
  constructor(capacity: number) {
    this.#capacity = capacity
  }

  /** Exchanges that are held. */
  get count(): number {
    return this.#held.length - this.#first
  }

  get bytes(): number {
    return this.#bytes
  }

  get capacity(): number {
    return this.#capacity
  }

  resize(capacity: number): void {
    this.#capacity = capacity
    this.#trim()
  }

  /** Adds an exchange. Returns false if it is larger than the ring. */
  add(recorded: RecordedExchange): boolean {
    return this.addText(recorded.id, JSON.stringify(recorded))
  }

  /** Adds an exchange in JSON. Returns false if it is larger than the ring. */
  addText(id: string, text: string): boolean {
    // Bytes outside of the heap of JavaScript: thousands of exchanges would slow down its collections.
    const content = Buffer.from(text)
    if (content.length > this.#capacity) {
      this.dropped++
      return false
    }
    this.#held.push({ id, content })
    this.#bytes += content.length
    this.#trim()
    return true
  }

  /** Keeps an exchange in the place of the one with its id; one that was dropped meanwhile stays so. */
  replace(recorded: RecordedExchange): void {
    const at = this.#held.findLastIndex(({ id }) => id === recorded.id)
    if (at < this.#first) return
    const content = Buffer.from(JSON.stringify(recorded))
    this.#bytes += content.length - (this.#held[at] as Held).content.length
    this.#held[at] = { id: recorded.id, content }
    this.#trim()
  }

  get(id: string): RecordedExchange | undefined {
    for (let i = this.#held.length - 1; i >= this.#first; i--) {
      const held = this.#held[i] as Held
      if (held.id === id) return read(held)
    }
    return undefined
  }

  /**
   * Yields the exchanges, newest first; `before`: only those older than this one. They are read lazily, so that the caller
   * can yield to the event loop. Exchanges added meanwhile are excluded, dropped ones skipped.
   */
  *newest(before?: string): Generator<RecordedExchange> {
    const all = this.#held.slice(this.#first)
    let i = all.length - 1
    if (before !== undefined) {
      const at = all.findIndex(({ id }) => id === before)
      i = at === -1 ? i : at - 1
    }
    for (; i >= 0; i--) yield read(all[i] as Held)
  }

  clear(): void {
    this.#held = []
    this.#first = 0
    this.#bytes = 0
  }

  #trim(): void {
    while (this.#bytes > this.#capacity) {
      this.#bytes -= (this.#held[this.#first] as Held).content.length
      this.#held[this.#first] = GONE
      this.#first++
      this.dropped++
    }
    if (this.#first > 1024 && this.#first * 2 > this.#held.length) {
      this.#held = this.#held.slice(this.#first)
      this.#first = 0
    }
  }
}

const GONE: Held = { id: '', content: Buffer.alloc(0) }

function read({ content }: Held): RecordedExchange {
  return JSON.parse(content.toString()) as RecordedExchange
}
