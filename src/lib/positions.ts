/** Position from 1; columns count UTF-16 units, as in editors. */
export interface Place {
  readonly line: number
  readonly column: number
}

/** A text with a lazily built line table. */
export class SourceText {
  readonly text: string
  /** Offsets of the known lines. */
  readonly #starts: number[] = [0]
  readonly #first: number

  /** `first`: number of its first line, for a part of a longer text. */
  constructor(text: string, first = 1) {
    this.text = text
    this.#first = first
  }

  place(offset: number): Place {
    while ((this.#starts.at(-1) as number) <= offset && this.#nextLine());
    let low = 0
    let high = this.#starts.length - 1
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if ((this.#starts[middle] as number) <= offset) low = middle
      else high = middle - 1
    }
    return { line: low + this.#first, column: offset - (this.#starts[low] as number) + 1 }
  }

  /** Returns line `number` without its line end; '' if it does not exist. */
  line(number: number): string {
    const index = number - this.#first
    while (this.#starts.length <= index + 1 && this.#nextLine());
    const start = this.#starts[index]
    if (start === undefined) return ''
    const end = this.#starts[index + 1]
    return this.text.slice(start, end === undefined ? this.text.length : end - 1).replace(/\r$/, '')
  }

  /** Finds the next line; returns false at the end. */
  #nextLine(): boolean {
    const at = this.text.indexOf('\n', this.#starts.at(-1))
    if (at === -1) return false
    this.#starts.push(at + 1)
    return true
  }
}

/** Offsets into the text: from `start` up to `end`. */
export interface Span {
  readonly start: number
  readonly end: number
}
