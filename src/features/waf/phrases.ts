import { hexValue, isSpace, lowerCode } from './bytes.js'

/** Finds the first phrase that ends in a Latin-1 text, in one pass over it; undefined if there is none. */
export type PhraseSearch = (text: string) => string | undefined

/** Root of the trie. */
const ROOT = 0

/** Number of different bytes. */
const BYTES = 256

/**
 * Compiles phrases to a search (Aho and Corasick 1975) that compares ASCII letters without case. The result is the part of the text that
 * matches, in the case of the text; of several phrases that end at one byte it is the longest. An empty phrase is ignored. Throws
 * `RangeError` for a phrase of more than 4,096 characters.
 */
export function compilePhrases(phrases: readonly string[]): PhraseSearch {
  return searchPhrases(buildPhraseTable(phrases))
}

/** Builds the table of a search for phrases, which threads can share. */
export function buildPhraseTable(phrases: readonly string[]): PhraseTable {
  const trie = buildTrie(phrases)
  linkFailures(trie)
  return trie
}

/** Returns the search with a table. */
export function searchPhrases(table: PhraseTable): PhraseSearch {
  return (text) => search(table, text)
}

/**
 * Trie with sparse edges: the children of a node are a list, linked by `sibling`. The root, where most bytes of a text lead, has a
 * table. About 14 bytes a node.
 */
export interface PhraseTable {
  readonly child: Int32Array
  readonly sibling: Int32Array
  readonly failure: Int32Array
  readonly byte: Uint8Array
  /** Length of the longest phrase that ends at a node, 0 if there is none. */
  readonly ending: Uint16Array
  /** Children of the root by byte. */
  readonly root: Int32Array
}

/** Greatest length of a phrase in bytes. */
export const MAX_PHRASE = 4_096

function buildTrie(phrases: readonly string[]): PhraseTable {
  const size = 1 + phrases.reduce((sum, phrase) => sum + phrase.length, 0)
  const trie: PhraseTable = {
    child: new Int32Array(size),
    sibling: new Int32Array(size),
    failure: new Int32Array(size),
    byte: new Uint8Array(size),
    ending: new Uint16Array(size),
    root: new Int32Array(BYTES)
  }
  let nodes = 1
  for (const phrase of phrases) {
    if (phrase.length > MAX_PHRASE)
      throw new RangeError(`a phrase has ${phrase.length} characters, more than ${MAX_PHRASE}`)
    let node = ROOT
    for (let i = 0; i < phrase.length; i++) {
      const byte = lowerCode(phrase.charCodeAt(i))
      let next = findChild(trie, node, byte)
      if (next === ROOT) {
        next = nodes++
        trie.byte[next] = byte
        trie.sibling[next] = trie.child[node] as number
        trie.child[node] = next
        if (node === ROOT) trie.root[byte] = next
      }
      node = next
    }
    if (node !== ROOT) trie.ending[node] = phrase.length
  }
  return trimTrie(trie, nodes)
}

/** Returns a trie without the memory that common beginnings of phrases left unused. */
function trimTrie(trie: PhraseTable, nodes: number): PhraseTable {
  return {
    child: trie.child.slice(0, nodes),
    sibling: trie.sibling.slice(0, nodes),
    failure: trie.failure.slice(0, nodes),
    byte: trie.byte.slice(0, nodes),
    ending: trie.ending.slice(0, nodes),
    root: trie.root
  }
}

/** Returns the child of a node for a byte, or `ROOT` if there is none. */
function findChild(trie: PhraseTable, node: number, byte: number): number {
  if (node === ROOT) return trie.root[byte] as number
  let next = trie.child[node] as number
  while (next !== ROOT && trie.byte[next] !== byte) next = trie.sibling[next] as number
  return next
}

/** Sets the failure link of each node, breadth first, and the longest phrase that ends there. */
function linkFailures(trie: PhraseTable): void {
  const queue = new Int32Array(trie.child.length)
  let length = 1
  for (let at = 0; at < length; at++) {
    const node = queue[at] as number
    for (let next = trie.child[node] as number; next !== ROOT; next = trie.sibling[next] as number) {
      queue[length++] = next
      if (node === ROOT) continue
      const failure = follow(trie, trie.failure[node] as number, trie.byte[next] as number)
      trie.failure[next] = failure
      if (trie.ending[next] === 0) trie.ending[next] = trie.ending[failure] as number
    }
  }
}

/** Returns the node after `byte`: the longest beginning of a phrase that the text ends with. */
function follow(trie: PhraseTable, from: number, byte: number): number {
  let node = from
  for (;;) {
    const next = findChild(trie, node, byte)
    if (next !== ROOT || node === ROOT) return next
    node = trie.failure[node] as number
  }
}

function search(trie: PhraseTable, text: string): string | undefined {
  let node = ROOT
  for (let i = 0; i < text.length; i++) {
    const byte = lowerCode(text.charCodeAt(i)) & 0xff
    node = node === ROOT ? (trie.root[byte] as number) : follow(trie, node, byte)
    const length = trie.ending[node] as number
    if (length > 0) return text.slice(i + 1 - length, i + 1)
  }
  return undefined
}

/** Splits the argument of `@pm` at white space and decodes its hexadecimal parts. */
export function parsePhrases(argument: string): string[] {
  const phrases: string[] = []
  let start = -1
  for (let i = 0; i <= argument.length; i++) {
    const white = i === argument.length || isSpace(argument.charCodeAt(i))
    if (white && start !== -1) {
      phrases.push(decodePhrase(argument.slice(start, i)))
      start = -1
    } else if (!white && start === -1) start = i
  }
  return phrases
}

/** Reads a file of `@pmFromFile`: one phrase a line, without white space around it; empty lines and lines with `#` are skipped. */
export function parsePhraseFile(text: string): string[] {
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map(decodePhrase)
}

/**
 * Decodes the parts of a phrase between two `|` that are pairs of hexadecimal digits, with or without spaces: `A|42 43|D` is `ABCD`.
 * A part that is something else stays as it is, with its bars.
 */
function decodePhrase(phrase: string): string {
  let out = ''
  let from = 0
  let start = phrase.indexOf('|')
  while (start !== -1) {
    const end = phrase.indexOf('|', start + 1)
    if (end === -1) break
    const bytes = hexBytes(phrase.slice(start + 1, end))
    if (bytes === undefined) {
      start = end
      continue
    }
    out += phrase.slice(from, start) + bytes
    from = end + 1
    start = phrase.indexOf('|', from)
  }
  return out + phrase.slice(from)
}

function hexBytes(text: string): string | undefined {
  const codes: number[] = []
  let high = -1
  for (let i = 0; i < text.length; i++) {
    if (high === -1 && text.charCodeAt(i) === 0x20) continue
    const value = hexValue(text.charCodeAt(i))
    if (value === -1) return undefined
    if (high === -1) high = value
    else {
      codes.push(high * 16 + value)
      high = -1
    }
  }
  return codes.length === 0 || high !== -1 ? undefined : String.fromCharCode(...codes)
}
