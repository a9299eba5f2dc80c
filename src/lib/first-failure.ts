/** Something that is tried again and again: the first failure of a row is worth a line of the log, the others say nothing new. */
export class FirstFailure {
  #failing = false

  /** It failed: calls `tell` unless it had failed before as well. */
  failed(tell: () => void): void {
    if (this.#failing) return
    this.#failing = true
    tell()
  }

  /** It succeeded. */
  passed(): void {
    this.#failing = false
  }
}
