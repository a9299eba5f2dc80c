import {
  APOSTROPHE,
  ASTERISK,
  BACKSLASH,
  HYPHEN,
  hexValue,
  isDigit,
  isLetter,
  isSpace,
  NO_BREAK_SPACE,
  QUOTE,
  SLASH
} from '../bytes.js'
import { SQL_STARTS, SQL_WORDS, type SqlKind } from './sql-words.js'

/** A token; `word` is the word in lower case, and empty for other tokens. */
export interface SqlToken {
  readonly kind: SqlKind
  readonly word: string
  /** True after a space or a comment. */
  readonly spaced: boolean
  /** True for a string without an end. */
  readonly open?: boolean
}

/** Position of a text in SQL: by itself, or inside of a string in these quotes. */
export type SqlContext = '' | "'" | '"'

/** Greatest number of tokens that are read: an injection shows at its beginning. */
const MAX_TOKENS = 40

/** Greatest length of a keyword or function. */
const MAX_WORD = 20

/** Kinds of which one says as much as several. */
const REPEATED: readonly SqlKind[] = ['(', ')', ';', 'N', '-', '+', 'X']

/** Kinds of operators that combine two numbers into one. */
const ARITHMETIC: readonly SqlKind[] = ['a', '-', '+']

/** Kinds of single characters. */
const MARKS: Readonly<Record<string, SqlKind>> = {
  '(': '(',
  ')': ')',
  ',': ',',
  ';': ';',
  '.': '.',
  '+': '+',
  '|': '+',
  '-': '-',
  '*': 'a',
  '/': 'a',
  '%': 'a',
  '^': 'a',
  '&': 'a',
  '=': 'o',
  '<': 'o',
  '>': 'o',
  '~': 'o',
  '!': 'N'
}

/** Operators of two and three characters, longer ones first. */
const OPERATORS: readonly (readonly [string, SqlKind])[] = [
  ['<=>', 'o'],
  ['||', '|'],
  ['&&', '|'],
  ['<=', 'o'],
  ['>=', 'o'],
  ['<>', 'o'],
  ['!=', 'o'],
  ['==', 'o'],
  ['!~', 'o'],
  [':=', 'o'],
  ['<<', 'a'],
  ['>>', 'a']
]

/** Returns the first tokens of a text in a context. Comments between tokens count as white space. */
export function readSqlTokens(text: string, context: SqlContext): SqlToken[] {
  const reader = new SqlReader(text)
  if (context !== '') reader.openString(context === "'" ? APOSTROPHE : QUOTE)
  while (reader.tokens.length < MAX_TOKENS && !isProse(reader.tokens) && reader.next());
  return reader.tokens
}

/**
 * Returns true if nothing that follows makes the tokens an attack: the second of three is a word where SQL has an operator, or a
 * parenthesis follows a number.
 */
function isProse(tokens: readonly SqlToken[]): boolean {
  const [first, second, third] = tokens
  if (third === undefined) return false
  if (tokens.at(-1)?.kind === '(' && tokens.at(-2)?.kind === '1') return true
  if (second?.kind !== 'n' || SQL_STARTS.has(second.word)) return false
  return first?.kind === 's' || (first?.kind === 'n' && !SQL_STARTS.has(first.word))
}

class SqlReader {
  readonly tokens: SqlToken[] = []
  readonly #text: string
  #at = 0
  #spaced = false

  constructor(text: string) {
    this.#text = text
  }

  /** Reads the text up to the first quote as a string that began before it. */
  openString(quote: number): void {
    this.#string(quote, 0)
  }

  /** Reads a token; returns false at the end of the text. */
  next(): boolean {
    this.#skipSpace()
    const text = this.#text
    if (this.#at >= text.length) return false
    const code = text.charCodeAt(this.#at)
    if (code === APOSTROPHE || code === QUOTE) this.#string(code, this.#at + 1)
    else if (code === SLASH && text.charCodeAt(this.#at + 1) === ASTERISK) this.#comment()
    else if (code === 0x23 || (code === HYPHEN && text.charCodeAt(this.#at + 1) === HYPHEN)) this.#lineComment(code)
    else if (isDigit(code) || (code === 0x2e && isDigit(text.charCodeAt(this.#at + 1)))) this.#number()
    else if (code === 0x40) this.#variable()
    else if (isWordCode(code)) this.#word()
    else if (code === 0x60) this.#quotedName()
    else this.#operator()
    return true
  }

  /** Adds a token, except for repeated signs and parentheses and for arithmetic of numbers, which an attacker could use as padding. */
  #push(kind: SqlKind, end: number, word = ''): void {
    const last = this.tokens.at(-1)?.kind
    const sum = kind === '1' && ARITHMETIC.includes(last ?? '') && this.tokens.at(-2)?.kind === '1'
    if (sum) this.tokens.pop()
    else if (last !== kind || !REPEATED.includes(kind)) this.tokens.push({ kind, word, spaced: this.#spaced })
    this.#at = end
    this.#spaced = false
  }

  #skipSpace(): void {
    for (; this.#at < this.#text.length; this.#at++) {
      const code = this.#text.charCodeAt(this.#at)
      if (!isSpace(code) && code !== NO_BREAK_SPACE && code !== 0) return
      this.#spaced = true
    }
  }

  /** Reads a string from `start`. Two quotes and a backslash with a quote do not end it. */
  #string(quote: number, start: number): void {
    let at = start
    for (; at < this.#text.length; at++) {
      const code = this.#text.charCodeAt(at)
      if (code === BACKSLASH) at++
      else if (code === quote) {
        if (this.#text.charCodeAt(at + 1) !== quote) break
        at++
      }
    }
    const open = at >= this.#text.length
    this.tokens.push({ kind: 's', word: '', spaced: this.#spaced, open })
    this.#at = Math.min(at + 1, this.#text.length)
    this.#spaced = false
  }

  /** Skips a C comment. The text of a conditional comment of MySQL (`/*!50000 … `) is read, as the server runs it. */
  #comment(): void {
    const text = this.#text
    const start = this.#at + 2
    if (text.charCodeAt(start) === 0x21 && !isSpace(text.charCodeAt(start + 1))) {
      let at = start + 1
      while (isDigit(text.charCodeAt(at)) && at < start + 7) at++
      this.#at = at
      this.#spaced = true
      return
    }
    const end = text.indexOf('*/', start)
    const nested = text.indexOf('/*', start)
    if (end === -1) this.#push(endKind(text, start, 1), text.length)
    else if (nested !== -1 && nested <= end) this.#push('X', end + 2)
    else this.#at = end + 2
    this.#spaced = true
  }

  /** Skips a comment up to the end of its line; at the end of the text it is a token. */
  #lineComment(code: number): void {
    const start = this.#at + (code === HYPHEN ? 2 : 1)
    const line = this.#text.indexOf('\n', start)
    if (line !== -1 && line < this.#text.length - 1) {
      this.#at = line + 1
      this.#spaced = true
      return
    }
    this.#push(endKind(this.#text, start, code === HYPHEN ? 1 : 0), this.#text.length)
  }

  /** Reads a number. Letters behind it make it a name (`5pm`), unless they are a keyword (`1or 1=1`). */
  #number(): void {
    const text = this.#text
    let at = this.#at
    const hex = text.charCodeAt(at) === 0x30 && (text.charCodeAt(at + 1) | 0x20) === 0x78
    if (hex) {
      at += 2
      while (hexValue(text.charCodeAt(at)) !== -1) at++
    } else {
      while (isDigit(text.charCodeAt(at))) at++
      if (
        text.charCodeAt(at) === 0x2e &&
        (!isWordCode(text.charCodeAt(at + 1)) || isDigit(text.charCodeAt(at + 1)) || this.#isKeyword(at + 1))
      )
        at++
      while (isDigit(text.charCodeAt(at))) at++
      const exponent = (text.charCodeAt(at) | 0x20) === 0x65 ? at + 1 : 0
      const sign = text.charCodeAt(exponent) === HYPHEN || text.charCodeAt(exponent) === 0x2b ? 1 : 0
      if (exponent > 0 && isDigit(text.charCodeAt(exponent + sign))) {
        at = exponent + sign
        while (isDigit(text.charCodeAt(at))) at++
      }
    }
    const end = this.#wordEnd(at)
    if (end === at || this.#isKeyword(at)) this.#push('1', at)
    else this.#push('n', end)
  }

  #isKeyword(start: number): boolean {
    return SQL_WORDS.has(this.#wordText(start, this.#wordEnd(start)))
  }

  #variable(): void {
    let start = this.#at
    while (this.#text.charCodeAt(start) === 0x40 && start < this.#at + 2) start++
    const end = this.#wordEnd(start)
    this.#push(end === start ? '?' : 'v', end)
  }

  #word(): void {
    const end = this.#wordEnd(this.#at)
    // Quotes directly behind these letters begin a string of that kind.
    const next = this.#text.charCodeAt(end)
    if (end === this.#at + 1 && next === APOSTROPHE && 'nbxNBX'.includes(this.#text.charAt(this.#at))) {
      this.#string(APOSTROPHE, end + 1)
      return
    }
    const word = this.#wordText(this.#at, end)
    this.#push(SQL_WORDS.get(word) ?? 'n', end, word)
  }

  #quotedName(): void {
    const end = this.#text.indexOf('`', this.#at + 1)
    this.#push('n', end === -1 ? this.#text.length : end + 1)
  }

  #operator(): void {
    const text = this.#text
    if (text.startsWith('*/', this.#at)) {
      // End of a conditional comment.
      this.#at += 2
      this.#spaced = true
      return
    }
    if (text.startsWith('\\N', this.#at)) {
      // NULL of MySQL
      this.#push('1', this.#at + 2)
      return
    }
    const operator = OPERATORS.find(([mark]) => text.startsWith(mark, this.#at))
    if (operator === undefined) this.#push(MARKS[text.charAt(this.#at)] ?? '?', this.#at + 1)
    else this.#push(operator[1], this.#at + operator[0].length)
  }

  #wordEnd(start: number): number {
    let end = start
    while (isWordCode(this.#text.charCodeAt(end))) end++
    return end
  }

  /** Returns a word in lower case; one that is too long for a keyword is empty. */
  #wordText(start: number, end: number): string {
    return end - start > MAX_WORD ? '' : this.#text.slice(start, end).toLowerCase()
  }
}

function isWordCode(code: number): boolean {
  return isLetter(code) || isDigit(code) || code === 0x5f || code === 0x24 || (code >= 0x80 && code !== NO_BREAK_SPACE)
}

/**
 * Returns the kind of a comment up to the end of the text. A comment that cuts a statement off holds a word at most, apart from its mark
 * and without the quote that it cuts off: `'--option'` and `' -- as people write` are none.
 */
function endKind(text: string, start: number, maxWords: number): SqlKind {
  let words = isLetter(text.charCodeAt(start)) ? 2 : 0
  let inside = false
  for (let i = start; i < text.length && words <= maxWords; i++) {
    const code = text.charCodeAt(i)
    if (code === QUOTE || code === APOSTROPHE) return 'l'
    const white = isSpace(code)
    if (!white && !inside && code !== HYPHEN) words++
    inside = !white
  }
  return words <= maxWords ? 'c' : 'l'
}
