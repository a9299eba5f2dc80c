import { syntaxError } from '../errors.js'
import type { SourcePosition } from '../model.js'

/** A directive of nginx with its arguments, unescaped, and with its block if it has one. */
export interface Directive {
  readonly name: string
  readonly args: readonly string[]
  readonly block: Directive[] | undefined
  readonly at: SourcePosition
}

interface Token {
  readonly kind: 'word' | 'open' | 'close' | 'end'
  readonly text: string
  readonly line: number
  readonly column: number
}

/** Deepest nesting of blocks; real files have about five. */
const MAX_DEPTH = 64
const ESCAPES: Readonly<Record<string, string>> = { '"': '"', "'": "'", '\\': '\\', t: '\t', r: '\r', n: '\n' }
const SPACE = /[ \t\r\n]/

/** Splits the text of a file as nginx does. Throws IMPORT_SYNTAX. */
class Tokenizer {
  readonly #text: string
  readonly #file: string
  #at = 0
  #line = 1
  /** Offset of the first character of the line. */
  #lineStart = 0

  constructor(text: string, file: string) {
    this.#text = text
    this.#file = file
  }

  get position(): SourcePosition {
    return { file: this.#file, line: this.#line, column: this.#at - this.#lineStart + 1 }
  }

  /** Returns the next token; undefined at the end of the text. */
  next(): Token | undefined {
    this.#skipSpace()
    const char = this.#text[this.#at]
    if (char === undefined) return undefined
    const { line, column } = this.position
    const kind = char === '{' ? 'open' : char === '}' ? 'close' : char === ';' ? 'end' : 'word'
    if (kind !== 'word') {
      this.#at++
      return { kind, text: char, line, column }
    }
    const text = char === '"' || char === "'" ? this.#quoted(char) : this.#word()
    return { kind, text, line, column }
  }

  /** Skips the content of a block in another language, such as Lua, whose opening brace has been read. */
  skipForeignBlock(): void {
    for (let depth = 1; depth > 0; this.#advance()) {
      const char = this.#text[this.#at]
      if (char === undefined) throw syntaxError('a block has no closing brace', this.position)
      if (char === '{') depth++
      else if (char === '}') depth--
    }
  }

  #advance(): void {
    if (this.#text.charCodeAt(this.#at++) !== 10) return
    this.#line++
    this.#lineStart = this.#at
  }

  #skipSpace(): void {
    for (;;) {
      const char = this.#text[this.#at]
      if (char === '#') {
        const end = this.#text.indexOf('\n', this.#at)
        this.#at = end === -1 ? this.#text.length : end
      } else if (char !== undefined && (SPACE.test(char) || (char === '\ufeff' && this.#at === 0))) this.#advance()
      else return
    }
  }

  #quoted(quote: string): string {
    const start = this.position
    this.#advance()
    let text = ''
    for (;;) {
      const char = this.#text[this.#at]
      if (char === undefined) throw syntaxError(`a text that begins with ${quote} does not end`, start)
      if (char === '\\') text += this.#escape()
      else {
        this.#advance()
        if (char === quote) break
        text += char
      }
    }
    const next = this.#text[this.#at]
    if (next !== undefined && !/[\s;{})]/.test(next))
      throw syntaxError(`"${next}" follows a quoted text`, this.position)
    return text
  }

  #word(): string {
    let text = ''
    for (;;) {
      const char = this.#text[this.#at]
      if (char === undefined || char === ';' || SPACE.test(char)) return text
      if (char === '{') {
        if (!text.endsWith('$')) return text
        text += this.#braced()
      } else if (char === '\\') text += this.#escape()
      else {
        text += char
        this.#at++
      }
    }
  }

  /** The name of `${name}`. */
  #braced(): string {
    const end = this.#text.indexOf('}', this.#at)
    const name = end === -1 ? '' : this.#text.slice(this.#at, end + 1)
    if (!/^\{[^\s{};]*\}$/.test(name)) throw syntaxError('"${" begins no name of a variable', this.position)
    this.#at = end + 1
    return name
  }

  #escape(): string {
    const escaped = this.#text[this.#at + 1]
    if (escaped === undefined) throw syntaxError('a backslash ends the file', this.position)
    this.#advance()
    this.#advance()
    return ESCAPES[escaped] ?? `\\${escaped}`
  }
}

/** Reads the text of one file; `include` is left as it is. Throws IMPORT_SYNTAX. */
export function parseNginx(text: string, file: string): Directive[] {
  const tokens = new Tokenizer(text, file)
  const root: Directive[] = []
  const open: Directive[][] = [root]
  let words: Token[] = []
  for (let token = tokens.next(); token !== undefined; token = tokens.next()) {
    if (token.kind === 'word') {
      words.push(token)
      continue
    }
    const [first] = words
    const at = { file, line: first?.line ?? token.line, column: first?.column ?? token.column }
    if (token.kind === 'close') {
      if (first !== undefined) throw syntaxError(`"${first.text}" has no ";"`, at)
      if (open.length === 1) throw syntaxError('"}" closes no block', at)
      open.pop()
      continue
    }
    if (first === undefined) throw syntaxError(`"${token.text}" follows no directive`, at)
    const block = token.kind === 'open' ? [] : undefined
    const args = words.slice(1).map((word) => word.text)
    ;(open.at(-1) as Directive[]).push({ name: first.text, args, block, at })
    words = []
    if (block === undefined) continue
    if (first.text.endsWith('_by_lua_block')) tokens.skipForeignBlock()
    else if (open.length === MAX_DEPTH) throw syntaxError(`blocks are nested deeper than ${MAX_DEPTH}`, at)
    else open.push(block)
  }
  const [first] = words
  if (first !== undefined)
    throw syntaxError(`"${first.text}" has no ";"`, { file, line: first.line, column: first.column })
  if (open.length > 1) throw syntaxError('a block has no closing brace', tokens.position)
  return root
}

/** A directive on one line, for the report. */
export function directiveText({ name, args, block }: Directive): string {
  const words = [name, ...args].map((word) =>
    /^[^\s;{}"']+$/.test(word) || /^\S*\$\{\w+\}\S*$/.test(word) ? word : `"${word}"`
  )
  const text = words.join(' ').replaceAll('\n', '\\n')
  return `${text.length > 100 ? `${text.slice(0, 99)}…` : text}${block === undefined ? ';' : ' {'}`
}
