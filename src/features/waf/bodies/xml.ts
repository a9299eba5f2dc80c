import { APOSTROPHE, hexValue, isDigit, isLetter, isSpace, QUOTE } from '../bytes.js'
import { BodyError, type BodyOptions, type BodyResult, type BodyValues, collectValues, utf8Text } from './values.js'

/** Name of the values that are texts of elements, as CRS selects them. */
const XML_TEXT = '/*'
/** Name of the values that are attributes. */
const XML_ATTRIBUTE = '//@*'

/** Greatest number of nested elements. */
const MAX_DEPTH = 256

/** Greatest length of an entity between `&` and `;`. */
const MAX_ENTITY = 12

const ENTITIES: ReadonlyMap<string, string> = new Map([
  ['amp', '&'],
  ['lt', '<'],
  ['gt', '>'],
  ['quot', '"'],
  ['apos', "'"]
])

/**
 * Reads XML to the texts between its tags, without surrounding white space, and the values of its attributes. A document type
 * declaration is an error and nothing of it is used: no entity is known but the five of XML and numeric ones. The reader accepts more
 * than a parser of XML, so that an error of the sender hides nothing.
 */
export function readXml(bytes: Buffer, options: BodyOptions = {}): BodyResult {
  return collectValues(options, (values) => {
    const text = bytes.toString('latin1')
    if (text.includes('\0'))
      throw new BodyError('the XML body has NUL bytes; only encodings that contain ASCII are read')
    new XmlReader(text, values, options.truncated === true).read()
  })
}

class XmlReader {
  readonly #text: string
  readonly #values: BodyValues
  readonly #truncated: boolean
  /** Names of open elements. */
  readonly #open: string[] = []
  /** Pieces of the current text. Comments and processing instructions do not separate a text. */
  #pieces: string[] = []
  #at = 0
  #elements = 0
  /** First mistake that did not end the reading. */
  #mistake: string | undefined

  constructor(text: string, values: BodyValues, truncated: boolean) {
    this.#text = text
    this.#values = values
    this.#truncated = truncated
  }

  read(): void {
    while (this.#at < this.#text.length) {
      const less = this.#text.indexOf('<', this.#at)
      const end = less === -1 ? this.#text.length : less
      if (end > this.#at) this.#pieces.push(this.#decode(this.#text.slice(this.#at, end)))
      this.#at = end
      if (less !== -1) this.#markup()
    }
    this.#addText()
    if (this.#mistake !== undefined) throw new BodyError(this.#mistake)
    if (this.#truncated) return
    if (this.#elements === 0) throw new BodyError('the XML body has no element')
    if (this.#open.length > 0) throw new BodyError(`the XML body ends inside of an element`)
  }

  #addText(): void {
    if (this.#pieces.length === 0) return
    const text = this.#pieces.join('').trim()
    this.#pieces = []
    if (text !== '') this.#values.add('XML', XML_TEXT, text)
  }

  /** Reads a tag, comment, CDATA section, processing instruction or declaration after `<`. */
  #markup(): void {
    if (this.#starts('<!--')) this.#skipTo('-->', 4)
    else if (this.#starts('<![CDATA[')) this.#pieces.push(this.#skipTo(']]>', 9))
    else if (this.#starts('<?')) this.#skipTo('?>', 2)
    else if (this.#starts('<!')) this.#declaration()
    else if (this.#starts('</')) {
      this.#addText()
      const name = this.#skipTo('>', 2).trim()
      if (this.#open.pop() !== name) this.#mistaken('an end tag has no start tag')
    } else this.#element()
  }

  #starts(mark: string): boolean {
    return this.#text.startsWith(mark, this.#at)
  }

  /** Moves behind `mark` and returns the text before it, or the rest of the body if the mark is missing. */
  #skipTo(mark: string, skipped: number): string {
    const from = this.#at + skipped
    const end = this.#text.indexOf(mark, from)
    this.#at = end === -1 ? this.#text.length : end + mark.length
    return this.#text.slice(from, end === -1 ? this.#text.length : end)
  }

  /** Skips a document type declaration with its internal subset. */
  #declaration(): void {
    const rest = this.#text.slice(this.#at, this.#at + 9)
    if (this.#at + rest.length === this.#text.length && ('<!--'.startsWith(rest) || '<![CDATA['.startsWith(rest))) {
      this.#at = this.#text.length
      this.#mistaken('a "<!" begins no declaration')
      return
    }
    this.#mistaken('the XML body has a document type declaration')
    let depth = 0
    for (this.#at += 2; this.#at < this.#text.length; this.#at++) {
      const code = this.#text.charCodeAt(this.#at)
      if (code === QUOTE || code === APOSTROPHE) {
        const end = this.#text.indexOf(code === QUOTE ? '"' : "'", this.#at + 1)
        if (end === -1) this.#at = this.#text.length
        else this.#at = end
      } else if (code === 0x5b || code === 0x3c) depth++
      else if (code === 0x5d) depth--
      else if (code === 0x3e && depth-- <= 0) {
        this.#at++
        return
      }
    }
  }

  #element(): void {
    this.#addText()
    this.#at++
    const name = this.#word()
    if (name === '') this.#mistaken('a "<" begins no tag')
    this.#elements++
    for (;;) {
      this.#skipSpace()
      const code = this.#text.charCodeAt(this.#at)
      if (this.#at >= this.#text.length) return
      if (code === 0x3e) {
        this.#at++
        if (this.#open.push(name) > MAX_DEPTH) throw new BodyError(`the XML body is nested deeper than ${MAX_DEPTH}`)
        return
      }
      if (this.#starts('/>')) {
        this.#at += 2
        return
      }
      if (code === 0x2f || code === 0x3d) this.#at++
      else this.#attribute()
    }
  }

  #attribute(): void {
    const name = this.#word()
    this.#skipSpace()
    if (this.#text.charCodeAt(this.#at) !== 0x3d) {
      // A word or a stray quote.
      if (name === '') this.#at++
      this.#mistaken('an attribute has no value')
      if (name !== '') this.#values.add('XML', XML_ATTRIBUTE, name)
      return
    }
    this.#at++
    this.#skipSpace()
    const quote = this.#text.charAt(this.#at)
    if (quote === '"' || quote === "'") {
      this.#values.add('XML', XML_ATTRIBUTE, this.#decode(this.#skipTo(quote, 1)))
    } else {
      this.#mistaken('the value of an attribute has no quotes')
      this.#values.add('XML', XML_ATTRIBUTE, this.#decode(this.#word()))
    }
  }

  /** Reads up to white space, `=`, `/`, `>` or a quote. */
  #word(): string {
    const start = this.#at
    for (; this.#at < this.#text.length; this.#at++) {
      const code = this.#text.charCodeAt(this.#at)
      if (isSpace(code) || code === 0x3d || code === 0x2f || code === 0x3e || code === QUOTE || code === APOSTROPHE)
        break
    }
    return this.#text.slice(start, this.#at)
  }

  #skipSpace(): void {
    while (isSpace(this.#text.charCodeAt(this.#at))) this.#at++
  }

  /** Notes a mistake. The end of a truncated body is none. */
  #mistaken(reason: string): void {
    if (this.#truncated && this.#at >= this.#text.length) return
    this.#mistake ??= reason
  }

  /** Decodes entities; unknown ones stay and are a mistake. */
  #decode(text: string): string {
    let ampersand = text.indexOf('&')
    if (ampersand === -1) return text
    const parts: string[] = []
    let from = 0
    for (; ampersand !== -1; ampersand = text.indexOf('&', from)) {
      let semicolon = ampersand + 1
      while (semicolon <= ampersand + MAX_ENTITY && isEntityCode(text.charCodeAt(semicolon))) semicolon++
      const ended = text.charCodeAt(semicolon) === 0x3b
      const entity = ended ? entityText(text.slice(ampersand + 1, semicolon)) : undefined
      parts.push(text.slice(from, ampersand), entity ?? '&')
      from = entity === undefined ? ampersand + 1 : semicolon + 1
      if (entity === undefined) this.#mistaken('an entity is unknown')
    }
    parts.push(text.slice(from))
    return parts.join('')
  }
}

const isEntityCode = (code: number) => isLetter(code) || isDigit(code) || code === 0x23

/** Returns the text of an entity without `&` and `;`. */
function entityText(name: string): string | undefined {
  if (!name.startsWith('#')) return ENTITIES.get(name)
  const base = name.charAt(1) === 'x' ? 16 : 10
  let point = 0
  const start = base === 16 ? 2 : 1
  for (let i = start; i < name.length; i++) {
    const digit = hexValue(name.charCodeAt(i))
    if (digit === -1 || digit >= base) return undefined
    point = Math.min(point * base + digit, 0x110000)
  }
  return name.length === start ? undefined : utf8Text(point)
}
