import { randomBytes } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { stringify } from 'yaml'
import { policyCheck } from '../../app/policy-check.js'
import { offline, policyServices } from '../../app/services.js'
import type { StorePlace } from '../../cli/store-place.js'
import { Records } from '../../control/records.js'
import { actions } from '../../features/registry.js'
import { systemClock } from '../../lib/clock.js'
import { packageVersion } from '../../lib/files.js'
import { type Place, SourceText } from '../../lib/positions.js'
import type { Sealer } from '../../lib/seal.js'
import { Slices } from '../../lib/slices.js'
import { dataOf, nodeAt, type TreeLimits, type TreeNode } from '../../policy/tree.js'
import { readTree } from '../../policy/yaml-tree.js'
import { resources } from '../../resources/registry.js'
import { policyTesting } from '../policy-tests/stored-tests.js'
import type { AccountDocument, ImportOptions, TransferProblem } from './document.js'

/** Characters of records that are read together: a tree of all of them takes fifty times the memory of their text. */
const PIECE = 1_000_000

/**
 * Reads a document in JSON, or YAML in the form of exports (`records:` as a block, kinds and records indented by two and
 * four). Returns undefined for any other or possibly invalid document, which must then be parsed as a whole to report errors
 * with positions. Otherwise the result equals that of parsing the whole. `piece`: characters.
 */
export function readPieces(text: string, limits: TreeLimits, piece = PIECE): unknown {
  return /^\s*\{/.test(text) ? jsonData(text, limits) : blockData(text, limits, piece)
}

function jsonData(text: string, limits: TreeLimits): unknown {
  try {
    const data: unknown = JSON.parse(text)
    const { keys, nodes } = countedIn(data, limits.depth)
    // JSON.parse keeps the last of duplicate keys, which a document must not have.
    return keys === colonsIn(text) && nodes <= limits.nodes ? data : undefined
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof RangeError) return undefined
    throw error
  }
}

/** Counts keys and nodes. Throws a RangeError for nesting deeper than `depth`. */
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

/** Start of another document, or a directive; anchors across pieces fail in the other piece. */
const DIRECTIVE = /^(?:%|---|\.\.\.)/m
/** Start of the records. */
const RECORDS = /^records:[ \t]*\r?\n/m
/** Pattern of a kind's line. */
const KIND = /^ {2}([a-z]\w*):$/
/** Start of the field after the records. */
const NEXT_FIELD = /^\w+:(?:\s|$)/
/** Pattern of an empty line or a comment. */
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

/** Returns the program's dependencies for exports and imports. */
export function transferOptions(
  { options }: StorePlace,
  seal: Sealer
): Omit<ImportOptions, 'prune'> & { version: string } {
  return {
    resources,
    records: new Records(seal),
    clock: systemClock,
    checkPolicy: policyCheck(policyServices(offline(actions)), actions),
    testPolicy: policyTesting({ slices: () => new Slices() }),
    zone: options.zone,
    requireReserved: options.require_reserved,
    random: (bytes) => randomBytes(bytes),
    version: packageVersion()
  }
}

/** Far more than the largest account, and few enough that no file fills the memory. */
const LIMITS = { depth: 64, nodes: 20_000_000 }

/** Formats a document deterministically. Throws a RangeError if parsing the text would give a different document. */
export function accountText(document: AccountDocument): string {
  const body = stringify(document, { lineWidth: 0, aliasDuplicateObjects: false, blockQuote: 'literal' })
  const text = `${heading(document)}${body}`
  const read = readAccountText(text)
  if (!read.ok || !isDeepStrictEqual(read.data, document)) throw new RangeError('the account has no exact text')
  return text
}

function heading({ secrets, records }: AccountDocument): string {
  const left = Object.values(records).flatMap((entries) => entries.filter(({ withheld }) => withheld !== undefined))
  const lines = ['A whole Sluice account. `sluice import` shows what it would change before it does.']
  if (secrets !== undefined) lines.push('Secrets are encrypted with a passphrase, which is not stored.')
  else if (left.length > 0) {
    lines.push(
      `Secrets are left out; \`withheld\` names them, in ${left.length} ${left.length === 1 ? 'record' : 'records'}.`,
      'An import keeps those that are there. `sluice export --with-secrets` takes them along.'
    )
  }
  return lines.map((line) => `# ${line}\n`).join('')
}

/** Parsed text, with positions. */
export type AccountText =
  | { readonly ok: true; readonly data: unknown; readonly locate: Locate }
  | { readonly ok: false; readonly problems: readonly Located[] }

type Locate = (problem: TransferProblem) => Located

export interface Located extends Place {
  readonly code: string
  readonly message: string
}

/** Parses YAML or JSON. Never throws. Positions are computed on demand: the tree of a large text takes a gigabyte. */
export function readAccountText(text: string): AccountText {
  const plain = text.startsWith('\ufeff') ? text.slice(1) : text
  const pieces = readPieces(plain, LIMITS)
  if (pieces !== undefined) return { ok: true, data: pieces, locate: locator(plain) }
  const { root, problems } = readTree(plain, LIMITS)
  if (root !== undefined && problems.length === 0) return { ok: true, data: dataOf(root), locate: locator(plain) }
  const source = new SourceText(plain)
  const located = problems.map(({ code, message, span }) => ({ code, message, ...source.place(span.start) }))
  const empty = { code: 'DOCUMENT_EMPTY', message: 'the file has no document', line: 1, column: 1 }
  return { ok: false, problems: located.length === 0 ? [empty] : located }
}

/** Parses the text again on the first request for a position. */
function locator(text: string): Locate {
  let read: { readonly root: TreeNode | undefined; readonly source: SourceText } | undefined
  return (problem) => {
    read ??= { root: readTree(text, LIMITS).root, source: new SourceText(text) }
    const { root, source } = read
    return root === undefined ? atStart(problem) : locate(root, source, problem)
  }
}

/** Position in a text that exceeds the tree's size limit. */
function atStart({ code, path, message }: TransferProblem): Located {
  return { line: 1, column: 1, code, message: `${path.join('.')} ${message}` }
}

function locate(root: TreeNode, source: SourceText, problem: TransferProblem): Located {
  const { code, path, message, within } = problem
  const node = nodeAt(root, path)
  const place = source.place(node.span.start)
  const text = `${path.join('.')} ${message}`
  if (within === undefined) return { ...place, code, message: text }
  if (node.kind !== 'scalar' || node.style !== 'literal') {
    return { ...place, code, message: `${text} (line ${within.line}, column ${within.column} of the policy)` }
  }
  // The text of a literal begins on the line after its sign, one indentation to the right.
  const [first = ''] = node.text.split('\n')
  const indentation = first === '' ? 0 : source.line(place.line + 1).indexOf(first)
  return { line: place.line + within.line, column: Math.max(0, indentation) + within.column, code, message: text }
}
