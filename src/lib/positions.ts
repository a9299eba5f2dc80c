/** From 1; columns count UTF-16 units, as editors do. */
export interface Place {
  readonly line: number
  readonly column: number
}

/** A text with its line table. */
export class SourceText {
  readonly text: string
  readonly #starts: number[] = [0]

  constructor(text: string) {
    this.text = text
    for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) this.#starts.push(at + 1)
  }

  place(offset: number): Place {
    let low = 0
    let high = this.#starts.length - 1
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if ((this.#starts[middle] as number) <= offset) low = middle
      else high = middle - 1
    }
    return { line: low + 1, column: offset - (this.#starts[low] as number) + 1 }
  }

  /** Line `number` (from 1) without its end; '' when there is none. */
  line(number: number): string {
    const start = this.#starts[number - 1]
    if (start === undefined) return ''
    const end = this.#starts[number]
    return this.text.slice(start, end === undefined ? this.text.length : end - 1).replace(/\r$/, '')
  }
}

/** Offsets into the text: from `start` up to `end`. */
export interface Span {
  readonly start: number
  readonly end: number
}
