import { ESCAPES } from '../../../policy/json-tree.js'
import { BACKSLASH, hexByte, isDigit, isLetter, isSpace, QUOTE } from '../bytes.js'
import { BodyError, type BodyOptions, type BodyResult, type BodyValues, collectValues, utf8Text } from './values.js'

/** Greatest number of nested objects and arrays. */
const MAX_DEPTH = 64

/** Name of the document, and beginning of the names of its members. */
const ROOT = 'json'

/**
 * Reads JSON (RFC 8259) to one value for each string, number and literal; `null` is an empty text. Names are `json.a.0`. Members with
 * the same name are all kept, as applications differ in which one they take. Control characters in strings are accepted.
 */
export function readJson(bytes: Buffer, options: BodyOptions = {}): BodyResult {
  return collectValues(options, (values) =>
    new JsonReader(bytes.toString('latin1'), values).read(options.truncated === true)
  )
}

/** An open object or array. */
interface Container {
  readonly name: string
  readonly array: boolean
  /** Number of members before the current one. */
  count: number
}

/** Thrown at the end of the text in the middle of the document. */
class EndOfText extends BodyError {}

class JsonReader {
  readonly #text: string
  readonly #values: BodyValues
  readonly #open: Container[] = []
  #at = 0

  constructor(text: string, values: BodyValues) {
    this.#text = text
    this.#values = values
    if (text.startsWith('\xef\xbb\xbf')) this.#at = 3
  }

  read(truncated: boolean): void {
    try {
      this.#document()
    } catch (error) {
      if (!(truncated && error instanceof EndOfText)) throw error
    }
  }

  #document(): void {
    let name: string | undefined = ROOT
    while (name !== undefined) name = this.#value(name) ?? this.#next()
    this.#skipSpace()
    if (this.#at < this.#text.length) throw this.#mistake()
  }

  /** Reads a value, or opens a container and returns the name of its first member. */
  #value(name: string): string | undefined {
    const code = this.#peek()
    if (code === 0x7b || code === 0x5b) return this.#enter(name, code === 0x5b)
    if (code === QUOTE) this.#string((text) => this.#values.add('ARGS_POST', name, text))
    else this.#values.add('ARGS_POST', name, this.#scalar())
    return undefined
  }

  #enter(name: string, array: boolean): string | undefined {
    if (this.#open.length === MAX_DEPTH) throw new BodyError(`the JSON body is nested deeper than ${MAX_DEPTH}`)
    this.#at++
    const container = { name, array, count: 0 }
    this.#open.push(container)
    const close = array ? 0x5d : 0x7d
    return this.#peek() === close ? undefined : this.#memberName(container)
  }

  /** Returns the name of the next member after a value, and closes containers that end; undefined at the end of the document. */
  #next(): string | undefined {
    for (let container = this.#open.at(-1); container !== undefined; container = this.#open.at(-1)) {
      const code = this.#peek()
      if (code === 0x2c) {
        this.#at++
        container.count++
        return this.#memberName(container)
      }
      if (code !== (container.array ? 0x5d : 0x7d)) throw this.#mistake()
      this.#at++
      this.#open.pop()
    }
    return undefined
  }

  #memberName(container: Container): string {
    if (container.array) return `${container.name}.${container.count}`
    if (this.#peek() !== QUOTE) throw this.#mistake()
    let key = ''
    this.#string((text) => {
      key = text
    })
    if (this.#peek() !== 0x3a) throw this.#mistake()
    this.#at++
    return `${container.name}.${key}`
  }

  /** Reads a string and passes it on; also its beginning if the text ends inside. */
  #string(add: (text: string) => void): void {
    const text = this.#text
    const parts: string[] = []
    let from = ++this.#at
    for (;;) {
      const code = text.charCodeAt(this.#at)
      if (code === QUOTE) break
      if (this.#at >= text.length) {
        add(parts.join('') + text.slice(from))
        throw this.#ended()
      }
      if (code !== BACKSLASH) {
        this.#at++
        continue
      }
      parts.push(text.slice(from, this.#at))
      if (this.#at + 6 > text.length && !text.includes('"', this.#at + 2)) {
        add(parts.join(''))
        throw this.#ended()
      }
      parts.push(this.#escape())
      from = this.#at
    }
    parts.push(text.slice(from, this.#at++))
    add(parts.join(''))
  }

  #escape(): string {
    const letter = this.#text[this.#at + 1] ?? ''
    if (letter !== 'u') {
      const meaning = ESCAPES.get(letter)
      if (meaning === undefined) throw this.#mistake()
      this.#at += 2
      return meaning
    }
    const high = this.#unit()
    if (high >> 10 !== 0x36 || !this.#text.startsWith('\\u', this.#at)) return utf8Text(high)
    const start = this.#at
    const low = this.#unit()
    if (low >> 10 === 0x37) return utf8Text(0x10000 + ((high & 0x3ff) << 10) + (low & 0x3ff))
    this.#at = start
    return utf8Text(high)
  }

  /** Reads `\uHHHH`. */
  #unit(): number {
    const high = hexByte(this.#text, this.#at + 2)
    const low = hexByte(this.#text, this.#at + 4)
    if (high === -1 || low === -1) throw this.#mistake()
    this.#at += 6
    return high * 256 + low
  }

  /** Reads a number or a literal; the text of `null` is empty. */
  #scalar(): string {
    const start = this.#at
    for (;;) {
      const code = this.#text.charCodeAt(this.#at)
      if (!isLetter(code) && !isDigit(code) && code !== 0x2b && code !== 0x2d && code !== 0x2e) break
      this.#at++
    }
    const word = this.#text.slice(start, this.#at)
    if (word === 'true' || word === 'false' || isNumber(word)) return word
    if (word === 'null') return ''
    if (word !== '' && this.#at === this.#text.length) throw this.#ended()
    this.#at = start
    throw this.#mistake()
  }

  /** Skips white space and returns the code that follows. Throws at the end of the text. */
  #peek(): number {
    this.#skipSpace()
    if (this.#at >= this.#text.length) throw this.#ended()
    return this.#text.charCodeAt(this.#at)
  }

  #skipSpace(): void {
    while (isSpace(this.#text.charCodeAt(this.#at))) this.#at++
  }

  #mistake(): BodyError {
    return new BodyError(`the JSON body is invalid at byte ${this.#at}`)
  }

  #ended(): EndOfText {
    return new EndOfText('the JSON body ends too early')
  }
}

/** Returns true for a number in decimal form. */
function isNumber(word: string): boolean {
  const first = word.charCodeAt(0)
  if (!isDigit(first) && first !== 0x2d) return false
  for (let i = 0; i < word.length; i++) {
    const code = word.charCodeAt(i)
    if (isLetter(code) && (code | 0x20) !== 0x65) return false
  }
  return !Number.isNaN(Number(word))
}
