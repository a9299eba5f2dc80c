import { dataOf } from '../policy/tree.js'
import { readTree, type TreeLimits } from '../policy/yaml-tree.js'

/** Characters of records that are read together: a tree of all of them takes fifty times the memory of their text. */
const PIECE = 1_000_000

/**
 * The data of a document that is JSON, or YAML in the form of exports (`records:` as a block, kinds and records indented by two
 * and four). Undefined when it is anything else or something is wrong with it, or may be: then the text is to be read as a
 * whole, which says what is wrong and where. What it answers is what reading the whole gives. `piece`: characters.
 */
export function readPieces(text: string, limits: TreeLimits, piece = PIECE): unknown {
  return /^\s*\{/.test(text) ? jsonData(text, limits) : blockData(text, limits, piece)
}

function jsonData(text: string, limits: TreeLimits): unknown {
  try {
    const data: unknown = JSON.parse(text)
    const { keys, nodes } = countedIn(data, limits.depth)
    // Of a key that stands twice JSON.parse keeps the last one, and a document must not have one.
    return keys === colonsIn(text) && nodes <= limits.nodes ? data : undefined
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof RangeError) return undefined
    throw error
  }
}

/** Throws a RangeError when it is nested deeper than `depth`. */
function countedIn(data: unknown, depth: number): { keys: number; nodes: number } {
  if (typeof data !== 'object' || data === null) return { keys: 0, nodes: 1 }
  if (depth <= 1) throw new RangeError('nested too deeply')
  const sum = { keys: Array.isArray(data) ? 0 : Object.keys(data).length, nodes: 1 }
  for (const value of Object.values(data)) {
    const { keys, nodes } = countedIn(value, depth - 1)
    sum.keys += keys
    sum.nodes += nodes
  }
  return sum
}

/** The colons of a JSON text outside of its strings: one for each key. */
function colonsIn(text: string): number {
  let count = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === COLON) count++
    else if (code === QUOTE) at = endOfString(text, at)
  }
  return count
}

const COLON = 0x3a
const QUOTE = 0x22
const BACKSLASH = 0x5c

function endOfString(text: string, start: number): number {
  let at = start + 1
  while (at < text.length && text.charCodeAt(at) !== QUOTE) at += text.charCodeAt(at) === BACKSLASH ? 2 : 1
  return at
}

/** What begins another document or says how to read this one; anchors that reach from one piece to another fail in the other. */
const DIRECTIVE = /^(?:%|---|\.\.\.)/m
const RECORDS = /^records:[ \t]*\r?\n/m
const KIND = /^ {2}([a-z]\w*):$/
const NEXT_FIELD = /^\w+:(?:\s|$)/
const EMPTY = /^\s*(?:#|$)/

function blockData(text: string, limits: TreeLimits, piece: number): unknown {
  const start = RECORDS.exec(text)
  if (start === null || DIRECTIVE.test(text)) return undefined
  const from = start.index + start[0].length
  const pieces = new Map<string, Span[]>()
  let spans: Span[] | undefined
  let at = from
  for (; at < text.length; ) {
    const end = text.indexOf('\n', at) + 1 || text.length
    const last = spans?.at(-1)
    if (text.startsWith('    ', at)) {
      const begins = text.startsWith('    - ', at) && (last === undefined || at - last.start >= piece)
      if (begins) spans?.push({ start: at, end })
      else if (last !== undefined) last.end = end
      if (spans === undefined || spans.length === 0) return undefined
    } else {
      const line = text.slice(at, end).trimEnd()
      const kind = KIND.exec(line)?.[1]
      if (kind !== undefined) {
        if (pieces.has(kind)) return undefined
        spans = []
        pieces.set(kind, spans)
      } else if (NEXT_FIELD.test(line)) break
      else if (!EMPTY.test(line)) return undefined
      else if (last !== undefined) last.end = end
    }
    at = end
  }
  const around = treeData(text.slice(0, start.index) + text.slice(at), limits)
  if (typeof around !== 'object' || around === null || Array.isArray(around) || 'records' in around) return undefined
  const records = recordsOf(text, pieces, limits)
  return records === undefined ? undefined : { ...around, records }
}

interface Span {
  readonly start: number
  end: number
}

function recordsOf(text: string, pieces: ReadonlyMap<string, readonly Span[]>, limits: TreeLimits) {
  const records: Record<string, unknown[]> = {}
  for (const [kind, spans] of pieces) {
    const entries: unknown[] = []
    for (const { start, end } of spans) {
      // The document and its map of kinds are around it; only an alias makes more values than there are characters.
      const part = treeData(text.slice(start, end), { depth: limits.depth - 2, nodes: end - start })
      if (!Array.isArray(part)) return undefined
      for (const entry of part) entries.push(entry)
    }
    if (entries.length === 0) return undefined
    records[kind] = entries
  }
  return pieces.size === 0 ? undefined : records
}

function treeData(text: string, limits: TreeLimits): unknown {
  const { root, problems } = readTree(text, limits)
  return root === undefined || problems.length > 0 ? undefined : dataOf(root)
}
