import { defineErrors } from '../lib/errors.js'
import { exact } from '../lib/exact-json.js'
import type { Span } from '../lib/positions.js'
import { suggest } from '../lib/suggest.js'

/** A node of a document, with its place in the text. */
export type TreeNode = MapNode | ListNode | ScalarNode | BrokenNode

/** One key of a map with its value. */
export interface MapEntry {
  readonly key: string
  readonly keySpan: Span
  readonly value: TreeNode
}

/** A map of a document. */
export interface MapNode {
  readonly kind: 'map'
  readonly span: Span
  /** In order of the text; no key twice. */
  readonly entries: readonly MapEntry[]
}

export interface ListNode {
  readonly kind: 'list'
  readonly span: Span
  readonly items: readonly TreeNode[]
}

export interface ScalarNode {
  readonly kind: 'scalar'
  readonly span: Span
  readonly value: string | number | boolean | null
  /** Characters as written, escapes resolved: `1.30` for the number 1.3. */
  readonly text: string
  readonly style: 'plain' | 'single' | 'double' | 'literal' | 'folded'
}

/** Stands where a problem has been reported already, so that no second one is reported. */
export interface BrokenNode {
  readonly kind: 'broken'
  readonly span: Span
}

/** Codes of YAML and JSON texts that cannot be read, such as an account that is imported. */
export const treeErrors = defineErrors({
  SYNTAX: { text: 'The text is no valid YAML or JSON.', help: 'Correct it at the place that the message names.' },
  TAG: { text: 'The text uses a YAML tag.', help: 'Write the value without the tag.' },
  DUPLICATE_KEY: { text: 'A key stands twice in one map.', help: 'Remove one of them.' },
  LIMIT: { text: 'The text is too deep or has too many values.', help: 'Divide it, or leave out what repeats.' },
  MANY_DOCUMENTS: { text: 'The text holds more than one document.', help: 'Put each document into a file of its own.' }
})

export interface TreeProblem {
  readonly code: keyof typeof treeErrors
  readonly message: string
  readonly span: Span
}

/** What a text may hold at most. */
export interface TreeLimits {
  readonly depth: number
  /** After aliases are written out. */
  readonly nodes: number
}

/** Plain data of a node, for schemas. Maps become objects whose keys are all own properties. `read` gives the data of scalars. */
export function dataOf(node: TreeNode, read: (scalar: ScalarNode) => unknown = ({ value }) => value): unknown {
  if (node.kind === 'scalar') return read(node)
  if (node.kind === 'list') return node.items.map((item) => dataOf(item, read))
  const data: Record<string, unknown> = {}
  if (node.kind === 'map') for (const { key, value } of node.entries) setOwn(data, key, dataOf(value, read))
  return data
}

/** The value of a scalar; of a whole number that a number of JavaScript may not hold a bigint, or its digits beyond 64 bits. */
export function exactValue({ value, text }: ScalarNode): ScalarNode['value'] | bigint {
  if (typeof value !== 'number' || Number.isSafeInteger(value) || !/^(?:[-+]?\d+|0x[\da-f]+|0o[0-7]+)$/i.test(text))
    return value
  if (text.length > 64) return text
  return exact(text.startsWith('0x') || text.startsWith('0o') ? String(BigInt(text)) : text.replace(/^\+/, ''))
}

/** Like `data[key] = value`, also for the key `__proto__`. */
export function setOwn(data: object, key: string, value: unknown): void {
  Object.defineProperty(data, key, { value, writable: true, enumerable: true, configurable: true })
}

/** What a node is, with its article, for messages. */
export function nameOf(node: TreeNode): string {
  if (node.kind === 'map') return 'a map'
  if (node.kind === 'list') return 'a list'
  if (node.kind === 'broken' || node.value === null) return 'null'
  if (typeof node.value === 'string') return node.value === '' ? 'an empty text' : 'a text'
  return typeof node.value === 'number' ? `the number ${node.text}` : `${node.text}`
}

/** The value of `key`; undefined when the map does not have it. */
export function child(map: MapNode, key: string): TreeNode | undefined {
  return map.entries.find((entry) => entry.key === key)?.value
}

/** The node at a path of keys and indexes, or the nearest one above it. */
export function nodeAt(root: TreeNode, path: readonly (string | number)[]): TreeNode {
  let node = root
  for (const step of path) {
    const next =
      node.kind === 'map'
        ? child(node, String(step))
        : node.kind === 'list' && typeof step === 'number'
          ? node.items[step]
          : undefined
    if (next === undefined) return node
    node = next
  }
  return node
}

/** Is the node an explicit or empty null? */
export function isNull(node: TreeNode): boolean {
  return node.kind === 'scalar' && node.value === null
}

/** Does the map have the key in another spelling, which is reported already? */
export function isMeant(map: MapNode, key: string, known: readonly string[]): boolean {
  return map.entries.some((entry) => !known.includes(entry.key) && suggest(entry.key, known) === key)
}
