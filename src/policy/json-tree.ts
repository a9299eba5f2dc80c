import { Passes, type Steps } from '../lib/slices.js'
import type { MapEntry, ScalarNode, TreeLimits, TreeNode } from './tree.js'

/**
 * Reads JSON into the tree of the YAML reader, in a fraction of the time and in steps. Returns undefined for invalid JSON, for rejected
 * texts, and for the few texts that YAML reads differently; the YAML reader then reports the problem.
 */
export function* readingJson(text: string, limits: TreeLimits): Steps<TreeNode | undefined> {
  const first = text.charCodeAt(0)
  if (first !== OPEN_MAP && first !== OPEN_LIST) return undefined
  const reader = new JsonReader(text, limits)
  const root = yield* reader.value(0)
  return root !== undefined && reader.atEnd() ? root : undefined
}

const SPACE = 0x20
const NEWLINE = 0x0a
const QUOTE = 0x22
const BACKSLASH = 0x5c
const COLON = 0x3a
const COMMA = 0x2c
const OPEN_MAP = 0x7b
const CLOSE_MAP = 0x7d
const OPEN_LIST = 0x5b
const CLOSE_LIST = 0x5d

/** Maximum length of a YAML key. */
const KEY_LENGTH = 1000
/** Escapes in double quotes that are the same in JSON and YAML. */
export const ESCAPES: ReadonlyMap<string, string> = new Map([
  ['"', '"'],
  ['\\', '\\'],
  ['/', '/'],
  ['b', '\b'],
  ['f', '\f'],
  ['n', '\n'],
  ['r', '\r'],
  ['t', '\t']
])
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?/y
const WORDS: readonly (readonly [string, boolean | null])[] = [
  ['true', true],
  ['false', false],
  ['null', null]
]

class JsonReader {
  readonly #text: string
  readonly #limits: TreeLimits
  #at = 0
  #nodes = 0
  readonly #passes = new Passes()

  constructor(text: string, limits: TreeLimits) {
    this.#text = text
    this.#limits = limits
  }

  atEnd(): boolean {
    this.#skip()
    return this.#at === this.#text.length
  }

  /** `open`: number of enclosing maps and lists. */
  *value(open: number): Steps<TreeNode | undefined> {
    if (++this.#nodes > this.#limits.nodes || open >= this.#limits.depth) return undefined
    const code = this.#text.charCodeAt(this.#at)
    if (code === QUOTE) return this.#string()
    if (code === OPEN_MAP) return yield* this.#map(open + 1)
    if (code === OPEN_LIST) return yield* this.#list(open + 1)
    return this.#word() ?? this.#number()
  }

  *#map(open: number): Steps<TreeNode | undefined> {
    if (this.#passes.due()) yield
    const start = this.#at++
    const entries: MapEntry[] = []
    const keys = new Set<string>()
    if (!this.#takes(CLOSE_MAP)) {
      do {
        this.#skip()
        const key = this.#key()
        if (key === undefined || keys.has(key.text)) return undefined
        keys.add(key.text)
        const value = yield* this.value(open)
        if (value === undefined) return undefined
        entries.push({ key: key.text, keySpan: key.span, value })
      } while (this.#takes(COMMA))
      if (!this.#takes(CLOSE_MAP)) return undefined
    }
    return { kind: 'map', span: { start, end: this.#at }, entries }
  }

  *#list(open: number): Steps<TreeNode | undefined> {
    if (this.#passes.due()) yield
    const start = this.#at++
    const items: TreeNode[] = []
    if (!this.#takes(CLOSE_LIST)) {
      do {
        this.#skip()
        const item = yield* this.value(open)
        if (item === undefined) return undefined
        items.push(item)
      } while (this.#takes(COMMA))
      if (!this.#takes(CLOSE_LIST)) return undefined
    }
    return { kind: 'list', span: { start, end: this.#at }, items }
  }

  /** Reads a key with its colon. */
  #key(): ScalarNode | undefined {
    if (this.#text.charCodeAt(this.#at) !== QUOTE) return undefined
    const key = this.#string()
    if (key === undefined || key.span.end - key.span.start > KEY_LENGTH) return undefined
    if (this.#text.charCodeAt(this.#at) !== COLON) return undefined
    this.#at++
    this.#skip()
    return key
  }

  #string(): ScalarNode | undefined {
    const text = this.#text
    const start = this.#at
    let value = ''
    let from = start + 1
    for (let at = from; at < text.length; at++) {
      const code = text.charCodeAt(at)
      if (code === QUOTE) {
        value += text.slice(from, at)
        this.#at = at + 1
        return { kind: 'scalar', span: { start, end: this.#at }, value, text: value, style: 'double' }
      }
      if (code < SPACE) return undefined
      if (code !== BACKSLASH) continue
      const escaped = ESCAPES.get(text.charAt(at + 1))
      if (escaped === undefined) return undefined
      value += text.slice(from, at) + escaped
      at++
      from = at + 1
    }
    return undefined
  }

  #word(): ScalarNode | undefined {
    for (const [word, value] of WORDS) if (this.#text.startsWith(word, this.#at)) return this.#plain(word, value)
    return undefined
  }

  #number(): ScalarNode | undefined {
    NUMBER.lastIndex = this.#at
    const [digits] = NUMBER.exec(this.#text) ?? []
    return digits === undefined ? undefined : this.#plain(digits, Number(digits))
  }

  #plain(text: string, value: ScalarNode['value']): ScalarNode {
    const start = this.#at
    this.#at += text.length
    return { kind: 'scalar', span: { start, end: this.#at }, value, text, style: 'plain' }
  }

  /** Consumes this character, after spaces, if it comes next. */
  #takes(code: number): boolean {
    this.#skip()
    if (this.#text.charCodeAt(this.#at) !== code) return false
    this.#at++
    return true
  }

  /** Tabs and carriage returns are not skipped: YAML does not allow them as indentation. */
  #skip(): void {
    for (;;) {
      const code = this.#text.charCodeAt(this.#at)
      if (code !== SPACE && code !== NEWLINE) return
      this.#at++
    }
  }
}
