import { syntaxError } from '../errors.js'
import type { SourcePosition } from '../model.js'

/** A directive of a Caddyfile, with its block if it has one. */
export interface CaddyDirective {
  readonly name: string
  readonly args: readonly string[]
  readonly block: readonly CaddyDirective[] | undefined
  readonly at: SourcePosition
}

/** A block of the first level: a site, a snippet or the global options. */
export interface CaddyBlock {
  /** Addresses, or the name of a snippet; empty: global options. */
  readonly keys: readonly string[]
  readonly directives: readonly CaddyDirective[]
  readonly at: SourcePosition
}

interface Token {
  readonly text: string
  readonly quoted: boolean
  /** Line of the last character, for tokens over several lines. */
  readonly lastLine: number
  readonly at: SourcePosition
}

const MAX_DEPTH = 64

/** Splits a Caddyfile into tokens as Caddy does (caddyconfig/caddyfile/lexer.go). Throws IMPORT_SYNTAX. */
function tokenize(text: string, file: string): Token[] {
  const tokens: Token[] = []
  let at = text.startsWith('\ufeff') ? 1 : 0
  let line = 1
  let lineStart = 0
  const position = (): SourcePosition => ({ file, line, column: at - lineStart + 1 })
  const advance = () => {
    if (text.charCodeAt(at++) !== 10) return
    line++
    lineStart = at
  }
  while (at < text.length) {
    const char = text[at] as string
    if (/\s/.test(char)) {
      advance()
      continue
    }
    if (char === '#') {
      const end = text.indexOf('\n', at)
      at = end === -1 ? text.length : end
      continue
    }
    if (char === '\\' && /^\\\r?\n/.test(text.slice(at, at + 3))) {
      while (text[at] !== '\n') advance()
      // A backslash continues the line.
      at++
      lineStart = at
      continue
    }
    const start = position()
    if (char === '"' || char === '`') {
      const pieces: string[] = []
      advance()
      let from = at
      for (; text[at] !== char; advance()) {
        if (text[at] === undefined) throw syntaxError(`a text that begins with ${char} does not end`, start)
        if (char === '"' && text[at] === '\\' && text[at + 1] === '"') {
          pieces.push(text.slice(from, at))
          from = ++at
        }
      }
      const word = pieces.join('') + text.slice(from, at)
      advance()
      tokens.push({ text: word, quoted: true, lastLine: line, at: start })
      continue
    }
    const heredoc = /^<<([A-Za-z0-9_-]+)\r?\n/.exec(text.slice(at, at + 80))
    if (heredoc !== null) {
      const [opening, marker = ''] = heredoc
      const from = at + opening.length
      const rest = text.slice(from)
      const end = new RegExp(`^([ \\t]*)${marker}(?=\\s|$)`, 'm').exec(rest)
      if (end === null) throw syntaxError(`a text that begins with <<${marker} does not end`, start)
      const indent = end[1] as string
      const lines = rest.slice(0, Math.max(0, end.index - 1)).split('\n')
      const word = lines.map((one) => (one.startsWith(indent) ? one.slice(indent.length) : one)).join('\n')
      const stop = from + end.index + end[0].length
      while (at < stop) advance()
      tokens.push({ text: word, quoted: true, lastLine: line, at: start })
      continue
    }
    // Pieces and not characters: a text that is added to a million times costs the collector more than its length.
    const pieces: string[] = []
    let from = at
    for (let next = text[at]; next !== undefined && !/\s/.test(next); next = text[at]) {
      if (next === '\\' && /["`{}#\\]/.test(text[at + 1] ?? '')) {
        pieces.push(text.slice(from, at))
        from = ++at
      }
      at++
    }
    const word = pieces.join('') + text.slice(from, at)
    tokens.push({ text: word, quoted: false, lastLine: line, at: start })
  }
  return tokens
}

class Parser {
  readonly #tokens: readonly Token[]
  #index = 0

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens
  }

  blocks(): CaddyBlock[] {
    const blocks: CaddyBlock[] = []
    for (let token = this.#tokens[this.#index]; token !== undefined; token = this.#tokens[this.#index]) {
      const { at } = token
      if (isClosing(token)) throw syntaxError('"}" closes no block', at)
      const keys: string[] = []
      let opened = false
      for (let next: Token | undefined = token; next !== undefined; next = this.#tokens[this.#index]) {
        if (isOpening(next)) {
          opened = true
          this.#index++
          break
        }
        const previous = this.#tokens[this.#index - 1]
        if (
          keys.length > 0 &&
          previous !== undefined &&
          next.at.line > previous.lastLine &&
          !previous.text.endsWith(',')
        )
          break
        keys.push(...next.text.split(',').filter((key) => key !== ''))
        this.#index++
      }
      if (opened) blocks.push({ keys, directives: this.#inside(at, 1), at })
      else {
        if (blocks.length > 0 && keys[0] !== 'import') throw syntaxError(`"${keys[0]}" has no block`, at)
        if (keys[0] === 'import')
          blocks.push({ keys: [], directives: [{ name: 'import', args: keys.slice(1), block: undefined, at }], at })
        // A file of one site needs no braces.
        else blocks.push({ keys, directives: this.#lines(undefined, 1), at })
      }
    }
    return blocks
  }

  #inside(opened: SourcePosition, depth: number): CaddyDirective[] {
    if (depth > MAX_DEPTH) throw syntaxError(`blocks are nested deeper than ${MAX_DEPTH}`, opened)
    return this.#lines(opened, depth)
  }

  /** Reads directives up to the closing brace, or to the end of a file without braces. */
  #lines(opened: SourcePosition | undefined, depth: number): CaddyDirective[] {
    const directives: CaddyDirective[] = []
    for (;;) {
      const token = this.#tokens[this.#index]
      if (token === undefined) {
        if (opened === undefined) return directives
        throw syntaxError('a block has no closing brace', opened)
      }
      if (isClosing(token)) {
        if (opened === undefined) throw syntaxError('"}" closes no block', token.at)
        this.#index++
        return directives
      }
      if (isOpening(token)) throw syntaxError('"{" follows no directive', token.at)
      directives.push(this.#directive(token, depth))
    }
  }

  #directive(first: Token, depth: number): CaddyDirective {
    const args: string[] = []
    let last = first
    this.#index++
    for (let token = this.#tokens[this.#index]; token !== undefined; token = this.#tokens[this.#index]) {
      if (token.at.line > last.lastLine || isClosing(token)) break
      this.#index++
      if (isOpening(token)) {
        return { name: first.text, args, block: this.#inside(token.at, depth + 1), at: first.at }
      }
      args.push(token.text)
      last = token
    }
    return { name: first.text, args, block: undefined, at: first.at }
  }
}

const isOpening = ({ text, quoted }: Token) => text === '{' && !quoted
const isClosing = ({ text, quoted }: Token) => text === '}' && !quoted

/** Reads the text of a Caddyfile. Throws IMPORT_SYNTAX. */
export function parseCaddyfile(text: string, file: string): CaddyBlock[] {
  return new Parser(tokenize(text, file)).blocks()
}

/** Returns a directive on one line for the report. */
export function caddyText({ name, args, block }: Pick<CaddyDirective, 'name' | 'args' | 'block'>): string {
  const words = [name, ...args].map((word) => (word === '' || /\s/.test(word) ? JSON.stringify(word) : word))
  return `${words.join(' ')}${block === undefined ? '' : ' {'}`
}

/** Returns a directive with the positions that it has without a line before the text. */
export const movedUp = (directive: CaddyDirective): CaddyDirective => ({
  ...directive,
  at: { ...directive.at, line: directive.at.line - 1 },
  block: directive.block?.map(movedUp)
})
