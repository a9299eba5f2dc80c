import type { ScalarNode } from './tree.js'

/**
 * Maps each character of a scalar to its offset in the text: `offsets[i]` belongs to `node.text[i]`, plus one for the end. Returns
 * undefined if the mapping cannot be reconstructed; messages then show the whole node.
 */
export function scalarOffsets(text: string, node: ScalarNode): readonly number[] | undefined {
  const walk = new Walk(text, node)
  const offsets: number[] = []
  for (let i = 0; i < node.text.length; i++) {
    const at = walk.next(node.text, i)
    if (at === undefined) return undefined
    offsets.push(at)
  }
  offsets.push(walk.at)
  return offsets
}

const HEX_DIGITS: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 }

/** Walks value and text in parallel: only the text has quotes, escapes, folded lines and indentation. */
class Walk {
  at: number
  readonly #text: string
  readonly #end: number
  readonly #style: ScalarNode['style']
  readonly #block: boolean
  readonly #indent: number
  /** The second half of a surrogate pair written as one escape has the offset of the first. */
  #pair = -1

  constructor(text: string, node: ScalarNode) {
    const { span, style } = node
    this.#text = text
    this.#end = span.end
    this.#style = style
    this.#block = style === 'literal' || style === 'folded'
    const header = this.#block ? text.indexOf('\n', span.start) : -1
    const content = header === -1 ? span.end : header + 1
    this.#indent = this.#block ? indentation(text, content, span.end) : 0
    this.at = style === 'single' || style === 'double' ? span.start + 1 : span.start
    if (this.#block) this.at = content + this.#indent
  }

  /** Returns the offset of `value[i]` and moves past it. */
  next(value: string, i: number): number | undefined {
    if (this.#pair === i) return this.at - 1
    const wanted = value[i] as string
    if (this.#style === 'double' && this.#text[this.at] === '\\') return this.#escape(value, i)
    if (this.#style === 'single' && this.#text.startsWith("''", this.at)) {
      this.at += 2
      return wanted === "'" ? this.at - 2 : undefined
    }
    if (this.#text[this.at] === wanted && wanted !== '\n' && !this.#foldHere(wanted)) return this.at++
    return this.#lineBreak(wanted, value[i + 1])
  }

  /** A space before the end of a folded line is not part of the value. */
  #foldHere(wanted: string): boolean {
    return (
      !this.#block &&
      (wanted === ' ' || wanted === '\t') &&
      /^[ \t]*\r?\n/.test(this.#text.slice(this.at, this.at + 200))
    )
  }

  #lineBreak(wanted: string, following: string | undefined): number | undefined {
    if (wanted !== ' ' && wanted !== '\n') return undefined
    const start = this.at
    if (!this.#skipLineEnd()) return undefined
    // One line end becomes a space, n + 1 line ends become n line feeds. Literal blocks preserve all.
    if (wanted === '\n' && this.#style !== 'literal' && following !== '\n') this.#skipLineEnd()
    return start
  }

  #skipLineEnd(): boolean {
    let at = this.at
    if (!this.#block) while (this.#text[at] === ' ' || this.#text[at] === '\t') at++
    if (this.#text[at] === '\r') at++
    if (this.#text[at] !== '\n' || at >= this.#end) return false
    at++
    if (this.#block) {
      for (let column = 0; column < this.#indent && this.#text[at] === ' '; column++) at++
    } else while (this.#text[at] === ' ' || this.#text[at] === '\t') at++
    this.at = at
    return true
  }

  #escape(value: string, i: number): number | undefined {
    const start = this.at
    const kind = this.#text[start + 1] as string
    if (kind === '\n' || kind === '\r') {
      this.at = start + 1
      return this.#skipLineEnd() ? this.next(value, i) : undefined
    }
    const digits = HEX_DIGITS[kind] ?? 0
    this.at = start + 2 + digits
    if (digits > 0 && Number.parseInt(this.#text.slice(start + 2, this.at), 16) > 0xffff) this.#pair = i + 1
    return start
  }
}

/** Indentation of a block scalar: that of its first non-empty line. */
function indentation(text: string, from: number, to: number): number {
  for (let at = from; at < to; ) {
    const end = text.indexOf('\n', at)
    const line = text.slice(at, end === -1 ? to : end)
    const indent = line.length - line.trimStart().length
    if (indent < line.length) return line.search(/[^ ]/)
    if (end === -1) break
    at = end + 1
  }
  return 0
}
