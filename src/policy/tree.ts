import { defineErrors } from '../lib/errors.js'
import { exact } from '../lib/exact-json.js'
import type { Span } from '../lib/positions.js'
import { suggest } from '../lib/suggest.js'

/** A node of a document with its position in the text. */
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
  /** In document order; no duplicate keys. */
  readonly entries: readonly MapEntry[]
}

export interface ListNode {
  readonly kind: 'list'
  readonly span: Span
  readonly items: readonly TreeNode[]
}

/** A value of a document that is neither a map nor a list. */
export interface ScalarNode {
  readonly kind: 'scalar'
  readonly span: Span
  readonly value: string | number | boolean | null
  /** Characters as written, with escapes resolved: `1.30` for the number 1.3. */
  readonly text: string
  readonly style: 'plain' | 'single' | 'double' | 'literal' | 'folded'
}

/** Placeholder for a node with a reported problem, so that no second one is reported. */
export interface BrokenNode {
  readonly kind: 'broken'
  readonly span: Span
}

/** Error codes of unreadable YAML and JSON, such as an imported account. */
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

/** Maximum sizes of a tree. */
export interface TreeLimits {
  readonly depth: number
  /** Number of nodes after alias expansion. */
  readonly nodes: number
}

/** Converts a node to plain data, for schemas. Map keys become own properties. `read` converts scalars. */
export function dataOf(node: TreeNode, read: (scalar: ScalarNode) => unknown = ({ value }) => value): unknown {
  if (node.kind === 'scalar') return read(node)
  if (node.kind === 'list') return node.items.map((item) => dataOf(item, read))
  const data: Record<string, unknown> = {}
  if (node.kind === 'map') for (const { key, value } of node.entries) setOwn(data, key, dataOf(value, read))
  return data
}

/** Returns the value of a scalar exactly: an integer beyond the safe range as a bigint, or as its digits beyond 64 bits. */
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

/** Returns the node's kind with an article, for messages. */
export function nameOf(node: TreeNode): string {
  if (node.kind === 'map') return 'a map'
  if (node.kind === 'list') return 'a list'
  if (node.kind === 'broken' || node.value === null) return 'null'
  if (typeof node.value === 'string') return node.value === '' ? 'an empty text' : 'a text'
  return typeof node.value === 'number' ? `the number ${node.text}` : `${node.text}`
}

/** Returns the value of `key`, or undefined if the map does not have it. */
export function child(map: MapNode, key: string): TreeNode | undefined {
  return map.entries.find((entry) => entry.key === key)?.value
}

/** Returns the node at a path of keys and indexes, or its nearest ancestor. */
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

/** Returns whether the node is an explicit or empty null. */
export function isNull(node: TreeNode): boolean {
  return node.kind === 'scalar' && node.value === null
}

/** Returns whether the map has the key in a misspelling that was already reported. */
export function isMeant(map: MapNode, key: string, known: readonly string[]): boolean {
  return map.entries.some((entry) => !known.includes(entry.key) && suggest(entry.key, known) === key)
}
