import { Passes, type Steps } from '../lib/slices.js'
import { FlowReader, resolvePlain } from './flow-yaml.js'
import { readLiteral } from './literal-yaml.js'
import type { ListNode, MapEntry, MapNode, TreeLimits, TreeNode } from './tree.js'

/** A map or list in block style that is still open. */
interface Frame {
  readonly node: OpenMap | OpenList
  /** Column of its keys or dashes, from 0. */
  readonly indent: number
  /** For maps: keys read so far. */
  readonly keys: Set<string> | undefined
  /** For maps: a key whose value begins on a later line, or is null. */
  pending: Pending | undefined
}

interface Pending {
  readonly key: string
  readonly keySpan: { readonly start: number; readonly end: number }
  /** Offset of the next line. */
  readonly end: number
}

type OpenMap = { kind: 'map'; span: { start: number; end: number }; entries: MapEntry[] }
type OpenList = { kind: 'list'; span: { start: number; end: number }; items: TreeNode[] }

const TAB = 0x09
const NEWLINE = 0x0a
const RETURN = 0x0d
const SPACE = 0x20
const QUOTE = 0x22
const HASH = 0x23
const APOSTROPHE = 0x27
const DASH = 0x2d
const COLON = 0x3a
const OPEN_LIST = 0x5b
const OPEN_MAP = 0x7b
const PIPE = 0x7c

/**
 * Reads common block-style YAML into the tree of the YAML library, in a tenth of its time and in steps. Returns undefined for texts with
 * other constructs (anchors, tags, folded texts, values over several lines, …) or mistakes, which the library then reads or reports.
 * `without`: whole lines to skip, so that the key above them is null.
 */
export function* readBlockYaml(
  text: string,
  limits: TreeLimits,
  without?: LineRange
): Steps<MapNode | ListNode | undefined> {
  return yield* new BlockReader(text, limits, without).root()
}

/** A range of whole lines: offset of the first line and of the line after the last. */
export interface LineRange {
  readonly start: number
  readonly end: number
}

/**
 * Reads the lines of one entry of a block-style map as `readBlockYaml` does within the map; returns undefined for other forms. `indent` is
 * the column of its key.
 */
export function* readBlockEntry(
  text: string,
  indent: number,
  limits: TreeLimits
): Steps<{ readonly entry: MapEntry; readonly nodes: number } | undefined> {
  const reader = new BlockReader(text, limits)
  const root = yield* reader.root(indent)
  if (root?.kind !== 'map' || root.entries.length !== 1) return undefined
  return { entry: root.entries[0] as MapEntry, nodes: reader.nodes - 1 }
}

class BlockReader {
  /** Number of values read. */
  nodes = 0
  readonly #text: string
  readonly #end: number
  readonly #limits: TreeLimits
  readonly #flow: FlowReader
  readonly #frames: Frame[] = []
  readonly #without: LineRange | undefined
  #at = 0
  /** End of the last value, including its line. */
  #last = 0
  /** Column of the comments since the last content; -1 without comments. */
  #comment = -1
  /** Set if comments precede a value below its key. */
  #belowKey = false
  /** Set after an unsupported construct. */
  #failed = false
  /** Set if the comments belong to a closed collection. */
  #commented = false

  constructor(text: string, limits: TreeLimits, without?: LineRange) {
    this.#text = text
    this.#end = text.length
    this.#limits = limits
    this.#without = without
    this.#flow = new FlowReader(text, () => this.#count())
  }

  /** `indent` is the column of the root. */
  *root(indent = 0): Steps<MapNode | ListNode | undefined> {
    const passes = new Passes()
    let root: OpenMap | OpenList | undefined
    while (this.#at < this.#end) {
      if (passes.due()) yield
      const start = this.#contentStart()
      if (start === undefined) return undefined
      if (start === this.#end) break
      const column = start - this.#at
      if (root === undefined) {
        if (column !== indent) return undefined
        const opened = this.#open(start, column, 0)
        if (opened === undefined) return undefined
        root = opened
      } else if (!this.#enter(start, column)) return undefined
      this.#comment = -1
      this.#commented = false
      this.#belowKey = false
      if (!this.#line(start)) return undefined
    }
    while (this.#frames.length > 0) this.#close(this.#end)
    return this.#failed ? undefined : root
  }

  /** Returns the offset of the next content and moves `#at` to the start of its line; undefined for an unsupported construct. */
  #contentStart(): number | undefined {
    const text = this.#text
    for (;;) {
      if (this.#at === this.#without?.start) {
        this.#at = this.#without.end
        this.#belowKey = false
      }
      let at = this.#at
      while (at < this.#end && text.charCodeAt(at) === SPACE) at++
      if (at >= this.#end) return this.#end
      const code = text.charCodeAt(at)
      if (code === TAB || code === RETURN) return undefined
      if (code === NEWLINE) {
        this.#at = at + 1
        continue
      }
      if (code !== HASH) return at
      // A comment that is deeper than the value above may count as a part of it.
      const top = this.#frames.at(-1)
      const column = at - this.#at
      if (top?.pending !== undefined) this.#belowKey = true
      else {
        if (top !== undefined && column > top.indent) return undefined
        if (this.#comment !== -1 && this.#comment !== column) return undefined
        this.#comment = column
      }
      const end = text.indexOf('\n', at)
      if (end === -1 || end >= this.#end) {
        if (text.charCodeAt(this.#end - 1) === RETURN) return undefined
        return this.#end
      }
      if (text.charCodeAt(end - 1) === RETURN) return undefined
      this.#at = end + 1
    }
  }

  /** Closes collections that end before a line and opens those that begin on it. Returns false if the line does not fit. */
  #enter(start: number, column: number): boolean {
    let top = this.#frames.at(-1) as Frame
    const isItem = this.#isDash(start)
    while (column < top.indent || (column === top.indent && top.node.kind === 'list' && !isItem)) {
      this.#close(start)
      const above = this.#frames.at(-1)
      if (above === undefined) return false
      top = above
    }
    if (top.pending !== undefined) {
      if (column > top.indent || (column === top.indent && isItem)) {
        return this.#child(start, column)
      }
      this.#nullValue(top)
    }
    if (column !== top.indent) return false
    return (top.node.kind === 'list') === isItem
  }

  /** Opens the collection that is a pending key's value. */
  #child(start: number, column: number): boolean {
    const top = this.#frames.at(-1) as Frame
    const { key, keySpan } = top.pending as Pending
    const node = this.#open(start, column, this.#frames.length)
    if (node === undefined) return false
    top.pending = undefined
    ;(top.node as OpenMap).entries.push({ key, keySpan, value: node })
    return true
  }

  /** Opens a collection at this offset; returns undefined if none begins here or if it is too deep. */
  #open(start: number, indent: number, depth: number): OpenMap | OpenList | undefined {
    // Near the depth limit, the library counts exactly.
    if (depth + 1 >= this.#limits.depth || !this.#count()) return undefined
    const span = { start, end: start }
    const node: OpenMap | OpenList = this.#isDash(start)
      ? { kind: 'list', span, items: [] }
      : { kind: 'map', span, entries: [] }
    this.#frames.push({ node, indent, keys: node.kind === 'map' ? new Set() : undefined, pending: undefined })
    return node
  }

  /** Comments after the last value belong to the innermost collection that is not deeper, and to its parents, up to `next`. */
  #close(next: number): void {
    const frame = this.#frames.pop() as Frame
    if (frame.pending !== undefined) this.#nullValue(frame)
    frame.node.span.end = this.#commented ? next : this.#last
    if (frame.indent > 0 && frame.indent <= this.#comment) this.#commented = true
  }

  #nullValue(frame: Frame): void {
    const { key, keySpan, end } = frame.pending as Pending
    frame.pending = undefined
    if (this.#belowKey) this.#failed = true
    this.#count()
    const value: TreeNode = { kind: 'scalar', span: keySpan, value: null, text: '', style: 'plain' }
    ;(frame.node as OpenMap).entries.push({ key, keySpan, value })
    this.#last = end
  }

  #count(): boolean {
    return ++this.nodes <= this.#limits.nodes
  }

  #isDash(at: number): boolean {
    return this.#text.charCodeAt(at) === DASH && (at + 1 === this.#end || isBlank(this.#text.charCodeAt(at + 1)))
  }

  /** Reads a line for the innermost collection, from the offset of its content; moves `#at` to the next line. */
  #line(start: number): boolean {
    const top = this.#frames.at(-1) as Frame
    if (top.node.kind === 'map') return this.#entry(start, top)
    const lineStart = this.#at
    let at = start + 1
    while (this.#text.charCodeAt(at) === SPACE) at++
    if (at >= this.#end || at === start + 1) return false
    const code = this.#text.charCodeAt(at)
    if (code === NEWLINE || code === HASH || code === TAB || this.#isDash(at)) return false
    if (this.#keyEnd(at) === undefined) {
      const value = this.#value(at, top.indent)
      if (value === undefined) return false
      top.node.items.push(value)
      return true
    }
    const node = this.#open(at, at - lineStart, this.#frames.length)
    if (node === undefined) return false
    top.node.items.push(node)
    return this.#entry(at, this.#frames.at(-1) as Frame)
  }

  #entry(start: number, frame: Frame): boolean {
    const text = this.#text
    const colon = this.#keyEnd(start)
    if (colon === undefined) return false
    const key = this.#key(start, colon)
    if (key === undefined || frame.keys?.has(key) === true) return false
    frame.keys?.add(key)
    const keySpan = { start, end: colon }
    let at = colon + 1
    while (at < this.#end && text.charCodeAt(at) === SPACE) at++
    if (at >= this.#end || text.charCodeAt(at) === NEWLINE) {
      frame.pending = { key, keySpan, end: at }
      this.#at = at + 1
      return true
    }
    const value = this.#value(at, frame.indent)
    if (value === undefined) return false
    ;(frame.node as OpenMap).entries.push({ key, keySpan, value })
    return true
  }

  /** Returns the offset of the colon after a simple key; undefined if no such key begins here. */
  #keyEnd(start: number): number | undefined {
    const text = this.#text
    const first = text.charCodeAt(start)
    if (first === QUOTE || first === APOSTROPHE) {
      const read = this.#flow.quoted(start)
      const end = read?.span.end
      return end !== undefined && this.#isColon(end) ? end : undefined
    }
    if (!beginsPlain(first, text.charCodeAt(start + 1)) || text.startsWith('...', start)) return undefined
    for (let at = start; at < this.#end; at++) {
      const code = text.charCodeAt(at)
      if (code === NEWLINE || code === TAB || code === RETURN) return undefined
      if (code === HASH && text.charCodeAt(at - 1) === SPACE) return undefined
      // A space before the colon is not part of the key.
      if (this.#isColon(at)) return text.charCodeAt(at - 1) === SPACE ? undefined : at
    }
    return undefined
  }

  #isColon(at: number): boolean {
    return this.#text.charCodeAt(at) === COLON && (at + 1 >= this.#end || isBlank(this.#text.charCodeAt(at + 1)))
  }

  #key(start: number, end: number): string | undefined {
    if (end - start > LONGEST_KEY) return undefined
    const first = this.#text.charCodeAt(start)
    if (first === QUOTE || first === APOSTROPHE) return this.#flow.quoted(start)?.text
    const key = this.#text.slice(start, end)
    return key === '<<' ? undefined : key
  }

  /** Reads a value that ends on this line, or a literal text; moves `#at` to the next line. */
  #value(start: number, indent: number): TreeNode | undefined {
    const first = this.#text.charCodeAt(start)
    if (first === PIPE) {
      const literal = readLiteral(this.#text, start, indent)
      if (literal === undefined || !this.#count()) return undefined
      this.#at = literal.span.end
      this.#last = literal.span.end
      return literal
    }
    if (first === QUOTE || first === APOSTROPHE || first === OPEN_LIST || first === OPEN_MAP) {
      const node = this.#flow.node(start, this.#limits.depth - this.#frames.length)
      return node !== undefined && this.#endOfLine(node.span.end) ? node : undefined
    }
    if (!beginsPlain(first, this.#text.charCodeAt(start + 1))) return undefined
    return this.#plain(start)
  }

  #plain(start: number): TreeNode | undefined {
    const text = this.#text
    let end = start
    for (let at = start; at < this.#end; at++) {
      const code = text.charCodeAt(at)
      if (code === NEWLINE) break
      if (code === TAB || code === RETURN || this.#isColon(at)) return undefined
      if (code === HASH && text.charCodeAt(at - 1) === SPACE) break
      if (code !== SPACE) end = at + 1
    }
    if (!this.#count() || !this.#endOfLine(end) || text.startsWith('...', start)) return undefined
    return resolvePlain(text.slice(start, end), start)
  }

  /** Returns whether only a comment follows a value, and then moves `#at` to the next line. */
  #endOfLine(end: number): boolean {
    const text = this.#text
    let at = end
    while (at < this.#end && text.charCodeAt(at) === SPACE) at++
    if (at < this.#end && text.charCodeAt(at) !== NEWLINE) {
      if (text.charCodeAt(at) !== HASH || at === end) return false
      const next = text.indexOf('\n', at)
      const stop = next === -1 ? this.#end : Math.min(next, this.#end)
      if (text.charCodeAt(stop - 1) === RETURN) return false
      at = stop
    }
    this.#at = Math.min(this.#end, at + 1)
    this.#last = this.#at
    return true
  }
}

/** Maximum length of a key in UTF-16 units, below the library's limit. */
const LONGEST_KEY = 1000

function isBlank(code: number): boolean {
  return code === SPACE || code === NEWLINE
}

/** Characters with another meaning at the start of a plain value (YAML 1.2, 5.3), or with which few values begin. */
const INDICATORS: ReadonlySet<number> = new Set(Array.from('-?:,[]{}#&*!|>\'"%@`', (sign) => sign.charCodeAt(0)))

function beginsPlain(code: number, second: number): boolean {
  if (code === DASH) return second > SPACE && second !== DASH
  return code > SPACE && code < 0x7f && !INDICATORS.has(code)
}
