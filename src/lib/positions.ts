/** From 1; columns count UTF-16 units, as editors do. */
export interface Place {
  readonly line: number
  readonly column: number
}

/** A text with its line table, which is made as far as it is asked for. */
export class SourceText {
  readonly text: string
  /** Offsets of lines, from the first one on. */
  readonly #starts: number[] = [0]
  readonly #first: number

  /** `first`: the number of its first line, where the text is a part of another one. */
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

  /** Line `number` without its end; '' when there is none. */
  line(number: number): string {
    const index = number - this.#first
    while (this.#starts.length <= index + 1 && this.#nextLine());
    const start = this.#starts[index]
    if (start === undefined) return ''
    const end = this.#starts[index + 1]
    return this.text.slice(start, end === undefined ? this.text.length : end - 1).replace(/\r$/, '')
  }

  /** Finds one more line; false: there is none. */
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
