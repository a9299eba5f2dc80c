/** Buffer whose parts are lent to writers; reusable after all of them have returned it. */
export class LentBuffer {
  readonly bytes: Buffer
  readonly #free: (buffer: LentBuffer) => void
  /** Writers that still need it. */
  #loans = 0
  #kept = false
  #left = false

  /** `free` is called at most once after `leave`, when no writer needs the buffer. */
  constructor(bytes: Buffer, free: (buffer: LentBuffer) => void) {
    this.bytes = bytes
    this.#free = free
  }

  /** True if it can be filled again. */
  get reusable(): boolean {
    return this.#loans === 0 && !this.#kept
  }

  /** Parts of it have been given away for good: it is never reused. */
  keep(): void {
    this.#kept = true
  }

  /** Lends the buffer. The writer calls the returned function once. */
  lend(): () => void {
    this.#loans++
    return () => {
      this.#loans--
      if (this.#left) this.#freeIfReusable()
    }
  }

  /** Its owner reads into another one. */
  leave(): void {
    this.#left = true
    this.#freeIfReusable()
  }

  /** Makes it usable like a new one. */
  renew(): void {
    this.#left = false
  }

  #freeIfReusable(): void {
    if (this.reusable) this.#free(this)
  }
}

/** Buffers of one size that are not in use, at most `most`. */
export class BufferPool {
  readonly #bytes: number
  readonly #most: number
  readonly #free: LentBuffer[] = []

  constructor(bytes: number, most: number) {
    this.#bytes = bytes
    this.#most = most
  }

  take(): LentBuffer {
    const buffer = this.#free.pop() ?? new LentBuffer(Buffer.allocUnsafeSlow(this.#bytes), this.#onFree)
    buffer.renew()
    return buffer
  }

  readonly #onFree = (buffer: LentBuffer): void => {
    if (this.#free.length < this.#most) this.#free.push(buffer)
  }
}
