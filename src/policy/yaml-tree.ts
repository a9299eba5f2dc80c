import {
  type Alias,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  type Node,
  parseAllDocuments,
  type Scalar,
  type YAMLError
} from 'yaml'
import type { Span } from '../lib/positions.js'
import { atOnce, type Steps } from '../lib/slices.js'
import { yamlMistake } from '../lib/yaml-mistakes.js'
import { readBlockYaml } from './block-yaml.js'
import { readingJson } from './json-tree.js'
import type { BrokenNode, MapEntry, ScalarNode, TreeLimits, TreeNode, TreeProblem } from './tree.js'

/** Further syntax errors are mostly consequences of the first ones. */
const MAX_SYNTAX_PROBLEMS = 5

/** Returns a YAML syntax error in our own words. */
function syntaxProblem(error: YAMLError, text: string): TreeProblem {
  const [start, end] = error.pos
  const code = error.code === 'RESOURCE_EXHAUSTION' ? 'LIMIT' : 'SYNTAX'
  return { code, message: yamlMistake(error, text), span: { start, end } }
}

/** The parser recurses for each bracket, so brackets are counted before it runs. Brackets in texts count, too: the factor is generous. */
function nestingProblem(text: string, depth: number): TreeProblem | undefined {
  let open = 0
  const limit = depth * 16
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === 0x5b || code === 0x7b) open++
    else if ((code === 0x5d || code === 0x7d) && open > 0) open--
    if (open > limit) {
      return { code: 'LIMIT', message: `more than ${limit} brackets are open here`, span: { start: at, end: at + 1 } }
    }
  }
  return undefined
}

interface Tree {
  /** The tree; undefined for an empty or unreadable text. */
  readonly root: TreeNode | undefined
  readonly problems: readonly TreeProblem[]
}

/** Reads YAML 1.2 (core schema, merge keys; JSON is a subset) into a tree with positions. Never throws. */
export function readTree(text: string, limits: TreeLimits): Tree {
  return atOnce(readingTree(text, limits))
}

/** Reads YAML in steps; see `readTree`. The library reads only texts that are neither JSON nor common block-style YAML, in one go. */
export function* readingTree(text: string, limits: TreeLimits): Steps<Tree> {
  const tooDeep = nestingProblem(text, limits.depth)
  if (tooDeep !== undefined) return { root: undefined, problems: [tooDeep] }
  const json = yield* readingJson(text, limits)
  if (json !== undefined) return { root: json, problems: [] }
  const block = yield* readBlockYaml(text, limits)
  if (block !== undefined) return { root: block, problems: [] }
  return readAnyYaml(text, limits)
}

/** Reads any YAML with the library. */
export function readAnyYaml(text: string, limits: TreeLimits): Tree {
  const documents = parseAllDocuments(text, {
    schema: 'core',
    stringKeys: true,
    // Comparing every key with every other one takes minutes for large maps; the builder uses a set.
    uniqueKeys: false,
    resolveKnownTags: false,
    prettyErrors: false,
    logLevel: 'silent'
  })
  // A stream without a document carries the errors itself.
  const all = 'empty' in documents ? [] : [...documents]
  const syntax =
    'empty' in documents ? [...documents.errors, ...documents.warnings] : all.flatMap((document) => document.errors)
  if (syntax.length > 0)
    return {
      root: undefined,
      problems: firstOfEachLine(
        syntax.map((error) => syntaxProblem(error, text)),
        text
      ).slice(0, MAX_SYNTAX_PROBLEMS)
    }
  const filled = all.filter(({ contents }) => contents !== null && !isNothing(contents))
  const [first, second] = filled
  if (first?.contents == null) return { root: undefined, problems: [] }
  const tags = first.warnings.filter((warning) => warning.code === 'TAG_RESOLVE_FAILED').map((warning) => warning.pos)
  const builder = new TreeBuilder(limits, tags)
  const root = builder.build(first.contents as Node)
  if (second?.contents != null) {
    const message = 'the text holds more than one document; put each document into a file of its own'
    builder.problem('MANY_DOCUMENTS', message, spanOf(second.contents as Node))
  }
  const whole = builder.problems.every(({ code }) => code !== 'LIMIT')
  return { root: whole ? root : undefined, problems: builder.problems }
}

/** A value that begins with `!`, which YAML reads as a tag: other errors on the line are consequences. */
const TAGGED_LINE = /^[ \t]*(?:-[ \t]+|[\w"'-]+:[ \t]+)*(?:\[[ \t]*)?(?=!(?![!<]))/

/** Returns the first problem of each line, because later ones are consequences; only the tag problems of lines that have any. */
function firstOfEachLine(problems: readonly TreeProblem[], text: string): TreeProblem[] {
  const found = new Map<number, TreeProblem>()
  for (const one of problems) {
    const begin = text.lastIndexOf('\n', one.span.start - 1) + 1
    if (found.has(begin)) continue
    const end = text.indexOf('\n', begin)
    const line = text.slice(begin, Math.min(end === -1 ? text.length : end, begin + MAX_LINE))
    const before = TAGGED_LINE.exec(line)?.[0].length
    const tag = before === undefined ? '' : (/^!\S*/.exec(line.slice(before))?.[0] ?? '')
    const start = begin + (before ?? 0)
    found.set(
      begin,
      tag === '' ? one : { code: 'TAG', message: tagMessage(tag), span: { start, end: start + tag.length } }
    )
  }
  const all = [...found.values()]
  const tags = all.filter(({ code }) => code === 'TAG')
  return tags.length > 0 ? tags : all
}

/** Returns whether the document between two markers, or after the last one, is empty. */
function isNothing(node: Node): boolean {
  return isScalar(node) && node.value === null && node.source === '' && node.tag === undefined
}

/** Maximum number of characters examined per line. */
const MAX_LINE = 1_000

const STYLES: Readonly<Record<string, ScalarNode['style']>> = {
  PLAIN: 'plain',
  QUOTE_SINGLE: 'single',
  QUOTE_DOUBLE: 'double',
  BLOCK_LITERAL: 'literal',
  BLOCK_FOLDED: 'folded'
}

/** Maximum number of values that aliases of one document may expand to: a policy repeats a few hundred, an attack as many as possible. */
const MAX_REPEATED = 20_000

class TreeBuilder {
  readonly problems: TreeProblem[] = []
  readonly #limits: TreeLimits
  /** Positions of unresolvable tags, in order. */
  readonly #tags: readonly (readonly [number, number])[]
  readonly #anchors = new Map<string, Node>()
  /** Nodes under construction: an alias to one of them is endless. */
  readonly #open = new Set<Node>()
  #nodes = 0
  /** Number of nodes below an alias. */
  #repeated = 0
  #aliases = 0

  constructor(limits: TreeLimits, tags: readonly (readonly [number, number])[]) {
    this.#limits = limits
    this.#tags = tags
  }

  problem(code: TreeProblem['code'], message: string, span: Span): BrokenNode {
    this.problems.push({ code, message, span })
    return { kind: 'broken', span }
  }

  build(node: Node | null): TreeNode {
    if (node === null) return { kind: 'scalar', span: { start: 0, end: 0 }, value: null, text: '', style: 'plain' }
    if (this.#aliases > 0) this.#repeated++
    if (++this.#nodes > this.#limits.nodes || this.#repeated > MAX_REPEATED || this.#open.size >= this.#limits.depth)
      return this.#overLimit(node)
    if (isAlias(node)) return this.#alias(node)
    if (node.anchor !== undefined) this.#anchors.set(node.anchor, node)
    if (isForeignTag(node.tag, node)) return this.problem('TAG', tagMessage(node.tag as string), this.#tagSpan(node))
    if (isScalar(node)) return scalarNode(node)
    this.#open.add(node)
    const built = isMap(node) ? this.#map(node) : this.#list(node)
    this.#open.delete(node)
    return built
  }

  #overLimit(node: Node): BrokenNode {
    const span = spanOf(node)
    if (this.problems.some((problem) => problem.code === 'LIMIT')) return { kind: 'broken', span }
    const { nodes, depth } = this.#limits
    return this.problem('LIMIT', this.#excess(nodes, depth), span)
  }

  #excess(nodes: number, depth: number): string {
    if (this.#nodes > nodes) return `the document has more than ${nodes} values (aliases written out)`
    if (this.#repeated > MAX_REPEATED) return `the aliases of the document repeat more than ${MAX_REPEATED} values`
    return `the document is nested deeper than ${depth} levels`
  }

  #alias(alias: Alias): TreeNode {
    const target = this.#anchors.get(alias.source)
    if (target === undefined) {
      return this.problem('SYNTAX', `no anchor "&${alias.source}" stands before this alias`, spanOf(alias))
    }
    if (this.#open.has(target)) {
      return this.problem('SYNTAX', `"*${alias.source}" stands inside the value that it repeats`, spanOf(alias))
    }
    this.#aliases++
    const built = this.build(target)
    this.#aliases--
    return built
  }

  /** The tag precedes the value's own range. */
  #tagSpan(node: Node): Span {
    const { start, end } = spanOf(node)
    const tag = this.#tags.findLast(([, tagEnd]) => tagEnd <= start)
    return { start: tag?.[0] ?? start, end }
  }

  #list(node: Node): TreeNode {
    const items = isSeq(node) ? node.items.map((item) => this.build(item as Node | null)) : []
    return { kind: 'list', span: spanOf(node), items }
  }

  #map(node: Node): TreeNode {
    const entries = new Map<string, MapEntry>()
    const merged: MapEntry[] = []
    for (const pair of isMap(node) ? node.items : []) {
      const keyNode = pair.key as Scalar
      const key = String(keyNode.value)
      const keySpan = spanOf(keyNode)
      const value = this.#entryValue(pair.value as Node | null, keySpan)
      if (key === '<<' && keyNode.type === 'PLAIN') merged.push(...this.#merge(value, keySpan))
      else if (entries.has(key)) this.problem('DUPLICATE_KEY', `the key "${key}" stands twice in this map`, keySpan)
      else entries.set(key, { key, keySpan, value })
    }
    for (const entry of merged) if (!entries.has(entry.key)) entries.set(entry.key, entry)
    return { kind: 'map', span: spanOf(node), entries: [...entries.values()] }
  }

  /** A key without a value is null and has the position of its key. */
  #entryValue(node: Node | null, keySpan: Span): TreeNode {
    const value = this.build(node)
    return value.kind === 'scalar' && value.span.start === value.span.end ? { ...value, span: keySpan } : value
  }

  /** `<<`: a map or a list of maps whose entries apply unless the map has the key itself. */
  #merge(value: TreeNode, keySpan: Span): readonly MapEntry[] {
    if (value.kind === 'map') return value.entries
    if (value.kind === 'list' && value.items.every((item) => item.kind === 'map')) {
      return value.items.flatMap((item) => (item.kind === 'map' ? item.entries : []))
    }
    if (value.kind !== 'broken') this.problem('SYNTAX', 'the merge key "<<" takes a map or a list of maps', keySpan)
    return []
  }
}

function scalarNode(node: Scalar): ScalarNode {
  const raw = node.value
  const value = typeof raw === 'string' || typeof raw === 'number' || typeof raw === 'boolean' ? raw : null
  const style = STYLES[node.type ?? 'PLAIN'] ?? 'plain'
  return { kind: 'scalar', span: spanOf(node), value, text: typeof raw === 'string' ? raw : (node.source ?? ''), style }
}

function spanOf(node: Node): Span {
  const [start, end] = node.range ?? [0, 0]
  return { start, end: Math.max(start, end) }
}

/** `!name` and unresolved `!!name`: no policy needs one, and an expression that begins with `!` looks like one. */
function isForeignTag(tag: string | undefined, node: Node): boolean {
  if (tag === undefined) return false
  if (!tag.startsWith(CORE_TAGS)) return true
  const type = tag.slice(CORE_TAGS.length)
  if (isMap(node)) return type !== 'map'
  if (isSeq(node)) return type !== 'seq'
  if (type === 'str') return false
  const value = (node as Scalar).value
  const fits = { int: typeof value === 'number', float: typeof value === 'number', bool: typeof value === 'boolean' }
  return type === 'null' ? value !== null : fits[type as keyof typeof fits] !== true
}

const CORE_TAGS = 'tag:yaml.org,2002:'

function tagMessage(tag: string): string {
  if (tag.startsWith(CORE_TAGS)) return `the tag "!!${tag.slice(CORE_TAGS.length)}" is not supported here`
  return `YAML reads "${tag}" as a tag, because the value begins with "!"; put the whole value in quotes`
}
