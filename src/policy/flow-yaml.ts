import { ESCAPES } from './json-tree.js'
import type { MapEntry, ScalarNode, TreeNode } from './tree.js'

const SPACE = 0x20
const QUOTE = 0x22
const APOSTROPHE = 0x27
const COMMA = 0x2c
const COLON = 0x3a
const BACKSLASH = 0x5c
const OPEN_LIST = 0x5b
const CLOSE_LIST = 0x5d
const OPEN_MAP = 0x7b
const CLOSE_MAP = 0x7d

/** Characters of a plain value inside brackets, restricted to a safe subset. */
const PLAIN =
  /[A-Za-z0-9_/.$(](?:[A-Za-z0-9_/.$()'"+*%@=<>!&|?~;^-]|:(?=[A-Za-z0-9_/.]))*(?: +(?:[A-Za-z0-9_/.$()'"+*%@=<>!&|?~;^-]|:(?=[A-Za-z0-9_/.]))+)*/y

/** Reads quoted and bracketed values that end on their line. Functions return undefined for unsupported values. */
export class FlowReader {
  readonly #text: string
  readonly #end: number
  readonly #count: () => boolean

  /** `count` is called for each value and returns false beyond the limit. */
  constructor(text: string, count: () => boolean) {
    this.#text = text
    this.#end = text.length
    this.#count = count
  }

  /** `depth`: maximum number of open maps and lists. */
  node(at: number, depth: number): TreeNode | undefined {
    const code = this.#text.charCodeAt(at)
    if (!this.#count()) return undefined
    if (code === QUOTE || code === APOSTROPHE) return this.quoted(at)
    if (code === OPEN_LIST || code === OPEN_MAP) {
      if (depth <= 1) return undefined
      return code === OPEN_LIST ? this.#list(at, depth - 1) : this.#map(at, depth - 1)
    }
    return this.#plain(at)
  }

  /** Reads a quoted text without counting it. */
  quoted(start: number): ScalarNode | undefined {
    const text = this.#text
    const quote = text.charCodeAt(start)
    let value = ''
    let from = start + 1
    for (let at = from; at < this.#end; at++) {
      const code = text.charCodeAt(at)
      if (code < SPACE) return undefined
      if (code === quote) {
        value += text.slice(from, at)
        if (quote === APOSTROPHE && text.charCodeAt(at + 1) === APOSTROPHE) {
          from = ++at
          continue
        }
        const style = quote === QUOTE ? 'double' : 'single'
        return { kind: 'scalar', span: { start, end: at + 1 }, value, text: value, style }
      }
      if (code !== BACKSLASH || quote !== QUOTE) continue
      const escaped = ESCAPES.get(text.charAt(at + 1))
      if (escaped === undefined) return undefined
      value += text.slice(from, at) + escaped
      at++
      from = at + 1
    }
    return undefined
  }

  #plain(at: number): ScalarNode | undefined {
    PLAIN.lastIndex = at
    const [found] = PLAIN.exec(this.#text) ?? []
    return found === undefined || at + found.length > this.#end ? undefined : resolvePlain(found, at)
  }

  #list(start: number, depth: number): TreeNode | undefined {
    const items: TreeNode[] = []
    let at = this.#spaces(start + 1)
    if (this.#text.charCodeAt(at) !== CLOSE_LIST) {
      for (;;) {
        const item = this.node(at, depth)
        if (item === undefined) return undefined
        items.push(item)
        at = this.#spaces(item.span.end)
        if (this.#text.charCodeAt(at) === CLOSE_LIST) break
        if (this.#text.charCodeAt(at) !== COMMA) return undefined
        at = this.#spaces(at + 1)
      }
    }
    return { kind: 'list', span: { start, end: at + 1 }, items }
  }

  #map(start: number, depth: number): TreeNode | undefined {
    const text = this.#text
    const entries: MapEntry[] = []
    const keys = new Set<string>()
    let at = this.#spaces(start + 1)
    if (text.charCodeAt(at) !== CLOSE_MAP) {
      for (;;) {
        const code = text.charCodeAt(at)
        const key = code === QUOTE || code === APOSTROPHE ? this.quoted(at) : this.#plain(at)
        if (key === undefined || keys.has(key.text) || key.text.length > LONGEST_KEY) return undefined
        keys.add(key.text)
        at = key.span.end
        if (text.charCodeAt(at) !== COLON || text.charCodeAt(at + 1) !== SPACE) return undefined
        const value = this.node(this.#spaces(at + 1), depth)
        if (value === undefined) return undefined
        entries.push({ key: key.text, keySpan: key.span, value })
        at = this.#spaces(value.span.end)
        if (text.charCodeAt(at) === CLOSE_MAP) break
        if (text.charCodeAt(at) !== COMMA) return undefined
        at = this.#spaces(at + 1)
      }
    }
    return { kind: 'map', span: { start, end: at + 1 }, entries }
  }

  #spaces(from: number): number {
    let at = from
    while (at < this.#end && this.#text.charCodeAt(at) === SPACE) at++
    return at
  }
}

const LONGEST_KEY = 1000

const INTEGER = /^[-+]?[0-9]+$/
const FLOAT = /^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$/
/** Numbers in forms that are not supported here: other bases, infinity, NaN. */
const OTHER_NUMBER = /^(?:0[ox]|[-+]?\.(?:inf|nan)$)/i
/** Spellings in lower case, upper case and capitalized. */
const WORDS: ReadonlyMap<string, boolean | null> = new Map([
  ['~', null],
  ...(
    [
      ['null', null],
      ['true', true],
      ['false', false]
    ] as const
  ).flatMap(([word, value]) =>
    [word, word.toUpperCase(), `${word.charAt(0).toUpperCase()}${word.slice(1)}`].map((form) => [form, value] as const)
  )
])

/** Resolves a plain value by the core schema of YAML 1.2 (10.3.2); returns undefined for unsupported values. */
export function resolvePlain(text: string, start: number): ScalarNode | undefined {
  const plain = (value: ScalarNode['value']): ScalarNode => {
    return { kind: 'scalar', span: { start, end: start + text.length }, value, text, style: 'plain' }
  }
  const code = text.charCodeAt(0)
  if ((code >= 0x30 && code <= 0x39) || code === 0x2e || code === 0x2b || code === 0x2d) {
    if (OTHER_NUMBER.test(text)) return undefined
    if (INTEGER.test(text)) return plain(Number.parseInt(text, 10))
    return plain(FLOAT.test(text) ? Number.parseFloat(text) : text)
  }
  if (text.length > 5) return plain(text)
  const word = WORDS.get(text)
  return plain(word === undefined ? text : word)
}
