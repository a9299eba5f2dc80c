import { GREATER, HYPHEN, hexValue, isDigit, isLetter, isSpace, LESS, lowerText, SLASH } from '../bytes.js'
import {
  ACTIVE_ATTRIBUTES,
  ACTIVE_SCHEMES,
  ACTIVE_STYLES,
  ACTIVE_TAGS,
  ACTIVE_TAGS_WITH_ATTRIBUTES,
  ADDRESS_ATTRIBUTES,
  ADDRESS_ENTITIES,
  EVENT_ATTRIBUTES,
  PASSIVE_DATA
} from './html-words.js'

/** Greatest length of the name of a tag or attribute. */
const MAX_NAME = 64

/** Greatest length of a decoded address or style that is looked at, in characters. */
const MAX_ADDRESS = 4_096

/** Greatest number of characters of an entity's name. */
const MAX_ENTITY = 10

/** Greatest number of digits of a numeric entity. */
const MAX_ENTITY_DIGITS = 64

/**
 * Returns true for text that runs code in a page: as content of an element, or as part of an attribute value without quotes, in single or
 * double quotes, or in backticks. It follows the tokenizer states of HTML (WHATWG HTML 13.2.5) and looks for active elements, event
 * handlers, addresses with active schemes, active styles, document types and processing instructions.
 */
export function detectXss(text: string): boolean {
  if (text.includes('<') && scanContent(text)) return true
  if (!hasActiveAttribute(text)) return false
  if (new AttributeScan(text, 0, 'bare').runs()) return true
  for (const quote of ['"', "'", '`']) {
    const end = text.indexOf(quote)
    if (end !== -1 && new AttributeScan(text, end + 1, 'quoted').runs()) return true
  }
  return false
}

/** Returns true if an equals sign follows the name of an attribute that can run code. Most texts have none. */
function hasActiveAttribute(text: string): boolean {
  for (let equals = text.indexOf('='); equals !== -1; equals = text.indexOf('=', equals + 1)) {
    let end = equals
    while (isSpace(text.charCodeAt(end - 1))) end--
    let start = end
    while (end - start <= MAX_NAME && !isSeparator(text.charCodeAt(start - 1))) start--
    const name = lowerText(text.slice(start, end))
    const local = name.slice(name.lastIndexOf(':') + 1)
    if (EVENT_ATTRIBUTES.has(name) || ACTIVE_ATTRIBUTES.has(name) || VALUE_ATTRIBUTES.has(local)) return true
    if (ADDRESS_ATTRIBUTES.has(local)) return true
  }
  return false
}

/** Attributes whose value is more than an address. */
const VALUE_ATTRIBUTES: ReadonlySet<string> = new Set(['style', 'filter', 'attributename'])

/** Returns true for what ends the name of an attribute on its left, and before the text. */
function isSeparator(code: number): boolean {
  return (
    Number.isNaN(code) ||
    isSpace(code) ||
    code === SLASH ||
    code === 0x3d ||
    code === 0x22 ||
    code === 0x27 ||
    code === 0x60
  )
}

/** Reads text in the data state. */
function scanContent(text: string): boolean {
  let at = text.indexOf('<')
  while (at !== -1) {
    const next = text.charCodeAt(at + 1)
    let end = at + 1
    if (next === 0x21) {
      if (text.startsWith('--', at + 2)) end = commentEnd(text, at + 4)
      else if (startsWithWord(text, at + 2, 'doctype') || startsWithWord(text, at + 2, 'entity')) return true
    } else if (next === 0x3f) {
      if (startsWithWord(text, at + 2, 'xml') || startsWithWord(text, at + 2, 'import')) return true
    } else if (isLetter(next)) {
      const nameEnd = tagNameEnd(text, at + 1)
      const name = tagName(text, at + 1, nameEnd)
      if (isActiveTag(name)) return true
      const scan = new AttributeScan(text, nameEnd, 'tag')
      if (scan.runs() || (scan.values > 0 && ACTIVE_TAGS_WITH_ATTRIBUTES.has(name))) return true
      end = scan.at
    }
    at = text.indexOf('<', end)
  }
  return false
}

function commentEnd(text: string, at: number): number {
  // `<!-->` and `<!--->` are complete.
  if (text.startsWith('>', at)) return at + 1
  if (text.startsWith('->', at)) return at + 2
  const end = text.indexOf('--', at)
  if (end === -1) return text.length
  let close = end + 2
  while (text.charCodeAt(close) === HYPHEN) close++
  if (text.charCodeAt(close) === 0x21) close++
  return text.charCodeAt(close) === GREATER ? close + 1 : close
}

function startsWithWord(text: string, at: number, word: string): boolean {
  return text.slice(at, at + word.length).toLowerCase() === word
}

function tagNameEnd(text: string, start: number): number {
  let end = start
  for (; end < text.length; end++) {
    const code = text.charCodeAt(end)
    if (isSpace(code) || code === SLASH || code === GREATER || code === LESS) break
  }
  return end
}

/** Returns the name of a tag in lower case without its namespace; one that is too long is empty. */
function tagName(text: string, start: number, end: number): string {
  if (end - start > MAX_NAME) return ''
  const name = lowerText(text.slice(start, end))
  return name.slice(name.lastIndexOf(':') + 1)
}

function isActiveTag(name: string): boolean {
  return ACTIVE_TAGS.has(name) || name.startsWith('svg') || name.startsWith('xsl')
}

/** Place of attributes: in a tag, after the end of a quoted value, or after a value without quotes. */
type Place = 'tag' | 'quoted' | 'bare'

/** Reads attributes up to the end of their tag or of the text. */
class AttributeScan {
  /** Number of attributes with a value so far. */
  values = 0
  /** Offset after the last attribute, at the end behind the tag. */
  at: number
  readonly #text: string
  readonly #place: Place

  constructor(text: string, at: number, place: Place) {
    this.#text = text
    this.at = at
    this.#place = place
    if (place === 'bare') this.#skipValue()
  }

  /** Returns true if an attribute runs code. */
  runs(): boolean {
    for (;;) {
      this.#skip((code) => isSpace(code) || code === SLASH)
      const code = this.#code()
      if (this.at >= this.#text.length) return false
      if (code === GREATER) {
        this.at++
        return false
      }
      // A tag without its end: browsers take the next one as an attribute, other readers as a tag.
      if (code === LESS && this.#place === 'tag' && isLetter(this.#text.charCodeAt(this.at + 1))) return false
      if (this.#attribute()) return true
    }
  }

  #attribute(): boolean {
    const start = this.at
    this.at++
    this.#skip((code) => !isSpace(code) && code !== SLASH && code !== GREATER && code !== 0x3d)
    const name = this.at - start > MAX_NAME ? '' : lowerText(this.#text.slice(start, this.at))
    const nameEnd = this.at
    this.#skip(isSpace)
    if (this.#code() !== 0x3d) {
      return this.#place === 'tag' && this.#isEvent(name)
    }
    const spaced = this.at > nameEnd
    this.at++
    this.#skip(isSpace)
    const value = this.#value()
    this.values++
    if (this.#place === 'bare' && spaced) return false
    return this.#isActive(name, value)
  }

  #isActive(name: string, value: string): boolean {
    if (this.#isEvent(name) || ACTIVE_ATTRIBUTES.has(name)) return true
    const local = name.slice(name.lastIndexOf(':') + 1)
    if (ADDRESS_ATTRIBUTES.has(local)) return isActiveAddress(value)
    if (local === 'style' || local === 'filter') return isActiveStyle(value)
    // <set attributeName=href to=…>
    return (
      local === 'attributename' &&
      (this.#isEvent(lowerText(value.trim())) || ADDRESS_ATTRIBUTES.has(lowerText(value.trim())))
    )
  }

  /** Outside of a tag only known handlers count: prose has words such as `only`. */
  #isEvent(name: string): boolean {
    if (!name.startsWith('on') || name.length < 4) return false
    if (EVENT_ATTRIBUTES.has(name)) return true
    if (this.#place !== 'tag' || name.length < 5) return false
    for (let i = 2; i < name.length; i++) if (!isLetter(name.charCodeAt(i))) return false
    return true
  }

  /** Reads a value with or without quotes. */
  #value(): string {
    const quote = this.#text.charAt(this.at)
    if (quote === '"' || quote === "'" || quote === '`') {
      const start = this.at + 1
      const end = this.#text.indexOf(quote, start)
      this.at = end === -1 ? this.#text.length : end + 1
      return this.#text.slice(start, end === -1 ? this.#text.length : end)
    }
    const start = this.at
    this.#skipValue()
    return this.#text.slice(start, this.at)
  }

  #skipValue(): void {
    this.#skip((code) => !isSpace(code) && code !== GREATER)
  }

  #skip(accepts: (code: number) => boolean): void {
    while (this.at < this.#text.length && accepts(this.#code())) this.at++
  }

  #code(): number {
    return this.#text.charCodeAt(this.at)
  }
}

/** Returns true for an address that runs code. White space and controls count for nothing, as in browsers. */
function isActiveAddress(value: string): boolean {
  const address = decodeValue(value)
  const colon = address.indexOf(':')
  if (colon === -1) return false
  const scheme = address.slice(0, colon)
  if (ACTIVE_SCHEMES.includes(scheme)) return true
  const type = address.slice(colon + 1)
  return scheme === 'data' && !PASSIVE_DATA.some((passive) => type.startsWith(passive))
}

function isActiveStyle(value: string): boolean {
  const style = withoutComments(decodeValue(value))
  return ACTIVE_STYLES.some((active) => style.includes(active))
}

/** Removes C comments and backslashes, which hide words of styles. */
function withoutComments(style: string): string {
  let out = ''
  let from = 0
  for (let start = style.indexOf('/*'); start !== -1; start = style.indexOf('/*', from)) {
    out += style.slice(from, start)
    const end = style.indexOf('*/', start + 2)
    if (end === -1) return out
    from = end + 2
  }
  return (out + style.slice(from)).replaceAll('\\', '')
}

/** Decodes entities, changes to lower case, and removes white space and controls. */
function decodeValue(value: string): string {
  let out = ''
  let at = 0
  while (at < value.length && out.length < MAX_ADDRESS) {
    const entity = value.charAt(at) === '&' ? readEntity(value, at + 1) : undefined
    const character = entity?.text ?? value.charAt(at)
    at = entity?.end ?? at + 1
    const code = character.charCodeAt(0)
    if (code > 0x20 && code !== 0x7f && code !== 0xa0) out += character
  }
  return lowerText(out)
}

function readEntity(text: string, at: number): { text: string; end: number } | undefined {
  let end = at
  if (text.charAt(at) !== '#') {
    while (isLetter(text.charCodeAt(end)) && end - at < MAX_ENTITY) end++
    const character = ADDRESS_ENTITIES.get(text.slice(at, end))
    if (character === undefined) return undefined
    return { text: character, end: text.charAt(end) === ';' ? end + 1 : end }
  }
  const hexadecimal = (text.charCodeAt(at + 1) | 0x20) === 0x78
  const start = hexadecimal ? at + 2 : at + 1
  let point = 0
  for (end = start; end - start < MAX_ENTITY_DIGITS; end++) {
    const code = text.charCodeAt(end)
    if (hexadecimal ? hexValue(code) === -1 : !isDigit(code)) break
    point = Math.min(point * (hexadecimal ? 16 : 10) + hexValue(code), 0x110000)
  }
  if (end === start) return undefined
  // Characters beyond Latin-1 are in no scheme.
  return { text: String.fromCharCode(point > 0xff ? 0x3f : point), end: text.charAt(end) === ';' ? end + 1 : end }
}
