import { LRUCache } from 'lru-cache'
import { PHASES, type Phase } from '../flow/flow.js'
import type { Coded } from '../lib/errors.js'
import { SourceText, type Span } from '../lib/positions.js'
import { atOnce, Passes, type Steps } from '../lib/slices.js'
import { didYouMean } from '../lib/suggest.js'
import { findEmbeddedPolicies, siteHint } from './embedded-policies.js'
import { type NodePath, type Problem, policyErrors, Reporter } from './problems.js'
import {
  child,
  isMeant,
  isNull,
  type ListNode,
  type MapEntry,
  type MapNode,
  nameOf,
  type ScalarNode,
  type TreeNode,
  type TreeProblem
} from './tree.js'
import { readingTree } from './yaml-tree.js'

/** Carrier of a document: a TCP edge, or anything else. */
export type Carrier = 'http' | 'tcp'

/** Former names of phases (until 2024), with the current ones. */
export const LEGACY_PHASES: ReadonlyMap<string, Phase> = new Map([
  ['inbound', 'on_http_request'],
  ['outbound', 'on_http_response']
])

/** At a TCP edge, the inbound phase was for connections. */
function presentName(key: string, carrier: Carrier): Phase | undefined {
  return carrier === 'tcp' && key === 'inbound' ? 'on_tcp_connect' : LEGACY_PHASES.get(key)
}

/** Keys of the document's carrier, not of the document itself. */
const WRAPPERS = ['policy', 'traffic_policy', 'value', 'spec', 'inline']

/** Returns the phase for a legacy key at the root, or undefined after a report. */
function legacyKey({ key, keySpan, value }: MapEntry, carrier: Carrier, report: Reporter): Phase | undefined {
  const phase = presentName(key, carrier)
  if (phase !== undefined) {
    report.warning(
      [key],
      policyErrors.LEGACY_PHASE,
      `"${key}" is the old name of "${phase}"; its rules run after those of "${phase}"`,
      keySpan
    )
    return phase
  }
  if (key === 'enabled') {
    enabledKey(value, keySpan, report)
    return undefined
  }
  const hint = WRAPPERS.includes(key)
    ? `; "${key}" belongs to what carries the document, so put the phases at the root`
    : didYouMean(key, [...PHASES, ...LEGACY_PHASES.keys(), 'strict_expressions']) || siteHint(key)
  report.error(
    [key],
    policyErrors.PHASE_UNKNOWN,
    `"${key}" is no phase; phases are ${PHASES.join(', ')}${hint}`,
    keySpan
  )
  return undefined
}

/**
 * Old documents have `enabled` at the root. `true` has no effect and is tolerated. `false` has no safe meaning: obeying it would disable
 * protection by a word that other readers ignore, and ignoring it would run rules that the author disabled. Therefore it is rejected with
 * advice.
 */
function enabledKey(value: MapEntry['value'], keySpan: MapEntry['keySpan'], report: Reporter): void {
  if (value.kind === 'broken') return
  const switched = value.kind === 'scalar' ? value.value : undefined
  if (switched === true || switched === null) {
    const message =
      '"enabled" is no part of a policy document and has no effect; it belongs to the module that holds the policy'
    report.warning(['enabled'], policyErrors.LEGACY_ENABLED, message, keySpan)
    return
  }
  const message =
    switched === false
      ? 'a policy document cannot switch itself off; set "enabled" on the module that holds the policy and remove it here'
      : '"enabled" is no part of a policy document; remove it'
  report.error(['enabled'], policyErrors.DOCUMENT_INVALID, message, keySpan)
}

/** A CEL source of a rule, with the node that holds it. */
export interface ExpressionNode {
  readonly source: string
  readonly path: NodePath
  readonly node: ScalarNode
}

/** An action as written; its config is not read yet. */
export interface ActionNode {
  readonly type: string
  readonly path: NodePath
  readonly typeNode: ScalarNode
  /** The written config; undefined if omitted or null. */
  readonly config: MapNode | undefined
}

/** A rule as it is written. */
export interface RuleNode {
  /** Name as written, or `#<index>` in its phase. */
  readonly name: string
  readonly path: NodePath
  readonly span: Span
  readonly expressions: readonly ExpressionNode[]
  readonly actions: readonly ActionNode[]
}

/** A policy document, typed as far as all documents are alike; configs of actions are still nodes. Paths are those of the text. */
export interface PolicyDocument {
  readonly source: SourceText
  /** `strict_expressions`: an absent value in an expression of a rule fails the phase, not only the match. */
  readonly strict: boolean
  readonly phases: Readonly<Record<Phase, readonly RuleNode[]>>
}

interface ReadDocument {
  readonly document: PolicyDocument
  readonly problems: readonly Problem[]
}

/** Maximum length of a document in UTF-16 units. */
export const MAX_DOCUMENT = 1024 * 1024
const EMPTY =
  'the document has no rules: give a phase its list of rules, or say `on_http_request: []` for a policy without any'
const START = { start: 0, end: 0 }
const LIMITS = { depth: 64, nodes: 100_000 }
const STRICT = 'strict_expressions'
const RULE_KEYS = ['name', 'expressions', 'actions']
const ACTION_KEYS = ['type', 'config']

/**
 * Reads a policy document (YAML or JSON). A policy without rules must say so (`on_http_request: []`): a document without a list in any
 * phase is rejected, because a lost or half-written file looks like that. Never throws. `carrier` determines the meaning of legacy phase
 * names.
 */
export function readDocument(text: string, carrier: Carrier = 'http'): ReadDocument {
  return atOnce(readingDocument(text, carrier))
}

/** Reads a policy document in steps; see `readDocument`. */
function* readingDocument(text: string, carrier: Carrier): Steps<ReadDocument> {
  const source = new SourceText(text.startsWith('\ufeff') ? text.slice(1) : text)
  const report = new Reporter(source)
  const reader = new DocumentReader(report, carrier)
  if (text.length > MAX_DOCUMENT) {
    report.error([], policyErrors.DOCUMENT_LIMIT, 'a policy document is limited to 1 MiB', { start: 0, end: 1 })
  } else {
    const { root, problems } = yield* readingTree(source.text, LIMITS)
    for (const { code, message, span } of problems) report.error([], treeProblems[code], message, span)
    if (root !== undefined) yield* reader.root(root)
    if (!report.failed && !saysSomething(root))
      report.error([], policyErrors.DOCUMENT_EMPTY, EMPTY, root?.span ?? START)
  }
  return { document: { source, strict: reader.strict, phases: reader.phases }, problems: report.sorted() }
}

const treeProblems: Readonly<Record<TreeProblem['code'], Coded>> = {
  SYNTAX: policyErrors.DOCUMENT_SYNTAX,
  TAG: policyErrors.DOCUMENT_TAG,
  DUPLICATE_KEY: policyErrors.DOCUMENT_DUPLICATE_KEY,
  LIMIT: policyErrors.DOCUMENT_LIMIT,
  MANY_DOCUMENTS: policyErrors.DOCUMENT_MANY
}

class DocumentReader {
  readonly phases: Record<Phase, RuleNode[]> = {
    on_tcp_connect: [],
    on_http_request: [],
    on_http_response: [],
    on_event_stream_message: []
  }
  strict = false
  readonly #report: Reporter
  readonly #carrier: Carrier

  constructor(report: Reporter, carrier: Carrier) {
    this.#report = report
    this.#carrier = carrier
  }

  *root(root: TreeNode): Steps<void> {
    if (isNull(root) || root.kind === 'broken') return
    if (root.kind !== 'map') {
      const message = `a policy document is a map of phases (${PHASES.join(', ')}), not ${nameOf(root)}`
      this.#report.error([], policyErrors.DOCUMENT_INVALID, message, root.span)
      return
    }
    const embedded = findEmbeddedPolicies(root)
    if (embedded !== undefined && embedded.path.length > 0) {
      const { what, parts, path, span } = embedded
      const message = `this is ${what}; take ${parts} as a document of its own, with the phases at the root`
      this.#report.error(path, policyErrors.PHASE_UNKNOWN, message, span)
      return
    }
    // Legacy phases come after their current name, in any order of the text.
    const phases = root.entries.filter(({ key }) => key !== STRICT)
    const current = phases.filter(({ key }) => !LEGACY_PHASES.has(key))
    const legacy = phases.filter(({ key }) => LEGACY_PHASES.has(key))
    for (const entry of [...current, ...legacy]) {
      const phase = isPhase(entry.key) ? entry.key : legacyKey(entry, this.#carrier, this.#report)
      if (phase !== undefined) yield* this.#rules(phase, entry.value, [entry.key])
    }
    this.#strictness(child(root, STRICT))
  }

  #strictness(node: TreeNode | undefined): void {
    if (node === undefined || isNull(node) || node.kind === 'broken') return
    if (node.kind === 'scalar' && typeof node.value === 'boolean') {
      this.strict = node.value
      return
    }
    this.#report.error(
      [STRICT],
      policyErrors.DOCUMENT_INVALID,
      `${STRICT} is true or false, not ${nameOf(node)}`,
      node.span
    )
  }

  *#rules(phase: Phase, node: TreeNode, path: NodePath): Steps<void> {
    const list = this.#list(node, path, policyErrors.RULES_INVALID, `${path[0]} takes a list of rules`)
    const rules = this.phases[phase]
    const passes = new Passes()
    for (const [index, item] of (list?.items ?? []).entries()) {
      const rule = this.#rule(item, [...path, index], rules.length)
      if (rule !== undefined) rules.push(rule)
      if (passes.due()) yield
    }
  }

  #rule(node: TreeNode, path: NodePath, index: number): RuleNode | undefined {
    const map = this.#map(
      node,
      path,
      policyErrors.RULE_INVALID,
      'a rule is a map with `actions` and, if wanted, `name` and `expressions`'
    )
    if (map === undefined) return undefined
    this.#unknownKeys(map, path, policyErrors.RULE_KEY_UNKNOWN, 'rule', RULE_KEYS)
    const name = this.#name(child(map, 'name'), [...path, 'name']) ?? `#${index}`
    const expressions = this.#expressions(child(map, 'expressions'), [...path, 'expressions'])
    const actions = this.#actions(map, path)
    return { name, path, span: map.span, expressions, actions }
  }

  /** Accepts any scalar, because some authors number their rules. */
  #name(node: TreeNode | undefined, path: NodePath): string | undefined {
    if (node === undefined || isNull(node) || node.kind === 'broken') return undefined
    if (node.kind === 'scalar') return node.text === '' ? undefined : node.text
    this.#report.error(path, policyErrors.RULE_INVALID, `the name of a rule is a text, not ${nameOf(node)}`, node.span)
    return undefined
  }

  #expressions(node: TreeNode | undefined, path: NodePath): ExpressionNode[] {
    if (node === undefined) return []
    const list = this.#list(node, path, policyErrors.RULE_INVALID, 'expressions takes a list of CEL expressions')
    return (list?.items ?? []).flatMap((item, index) => this.#expression(item, [...path, index]))
  }

  #expression(node: TreeNode, path: NodePath): ExpressionNode[] {
    if (node.kind === 'broken') return []
    if (node.kind === 'scalar' && typeof node.value === 'string' && node.value.trim() !== '') {
      return [{ source: node.value, path, node }]
    }
    let message = `an expression is a text, not ${nameOf(node)}`
    if (node.kind === 'map') message += '; YAML reads "a: b" and "{…}" as maps, so put the expression in quotes'
    else if (node.kind === 'scalar' && node.value !== null && node.text !== '') message += '; put it in quotes'
    if (node.kind === 'scalar' && node.text === '') message = 'an expression must not be empty'
    this.#report.error(path, policyErrors.RULE_INVALID, message, node.span)
    return []
  }

  #actions(rule: MapNode, rulePath: NodePath): ActionNode[] {
    const path = [...rulePath, 'actions']
    const node = child(rule, 'actions')
    if (node === undefined && isMeant(rule, 'actions', RULE_KEYS)) return []
    if (node === undefined || isNull(node) || (node.kind === 'list' && node.items.length === 0)) {
      const legacy =
        child(rule, 'type') === undefined ? '' : '; put `type` and `config` into a list item below `actions`'
      const message = `a rule needs at least one action${legacy}`
      this.#report.error(
        node === undefined ? rulePath : path,
        policyErrors.ACTIONS_MISSING,
        message,
        keySpan(rule, 'actions')
      )
      return []
    }
    const list = this.#list(node, path, policyErrors.RULE_INVALID, 'actions takes a list of actions')
    return (list?.items ?? []).flatMap((item, index) => this.#action(item, [...path, index]) ?? [])
  }

  #action(node: TreeNode, path: NodePath): ActionNode | undefined {
    const map = this.#map(node, path, policyErrors.ACTION_INVALID, 'an action is a map with `type` and `config`')
    if (map === undefined) return undefined
    const [only, second] = map.entries
    if (only !== undefined && second === undefined && only.value.kind === 'map' && only.key !== 'config') {
      const message = `an action has its name as type; write "type: ${only.key.slice(0, 64)}" and the rest below config`
      this.#report.error([...path, only.key], policyErrors.ACTION_KEY_UNKNOWN, message, only.keySpan)
      return undefined
    }
    this.#unknownKeys(map, path, policyErrors.ACTION_KEY_UNKNOWN, 'action', ACTION_KEYS)
    const typeNode = child(map, 'type')
    if (typeNode === undefined && isMeant(map, 'type', ACTION_KEYS)) return undefined
    if (typeNode?.kind !== 'scalar' || typeof typeNode.value !== 'string' || typeNode.value === '') {
      const found = typeNode === undefined ? '' : `; \`type\` is the name of an action, not ${nameOf(typeNode)}`
      const place = typeNode === undefined ? path : [...path, 'type']
      if (typeNode?.kind !== 'broken') {
        this.#report.error(
          place,
          policyErrors.ACTION_INVALID,
          `an action needs a \`type\`${found}`,
          (typeNode ?? map).span
        )
      }
      return undefined
    }
    return { type: typeNode.value, path, typeNode, config: this.#config(child(map, 'config'), [...path, 'config']) }
  }

  #config(node: TreeNode | undefined, path: NodePath): MapNode | undefined {
    if (node === undefined || isNull(node)) return undefined
    return this.#map(node, path, policyErrors.ACTION_INVALID, 'config takes a map')
  }

  #map(node: TreeNode, path: NodePath, error: Coded, expected: string): MapNode | undefined {
    if (node.kind === 'map') return node
    if (node.kind !== 'broken') this.#report.error(path, error, `${expected}, not ${nameOf(node)}`, node.span)
    return undefined
  }

  /** null counts as an empty list. */
  #list(node: TreeNode, path: NodePath, error: Coded, expected: string): ListNode | undefined {
    if (node.kind === 'list') return node
    if (isNull(node) || node.kind === 'broken') return undefined
    const hint = node.kind === 'map' ? '; begin each item with "- "' : ''
    this.#report.error(path, error, `${expected}, not ${nameOf(node)}${hint}`, node.span)
    return undefined
  }

  #unknownKeys(map: MapNode, path: NodePath, error: Coded, what: string, known: readonly string[]): void {
    for (const { key, keySpan } of map.entries) {
      if (known.includes(key)) continue
      const message = `unknown key "${key}" in ${what === 'action' ? 'an action' : 'a rule'}; known are ${known.join(', ')}`
      this.#report.error([...path, key], error, `${message}${didYouMean(key, known)}`, keySpan)
    }
  }
}

/** Returns whether a phase has a list, even an empty one. The rest of the document has been checked. */
function saysSomething(root: TreeNode | undefined): boolean {
  return root?.kind === 'map' && root.entries.some(({ value }) => value.kind === 'list')
}

function isPhase(key: string): key is Phase {
  return (PHASES as readonly string[]).includes(key)
}

function keySpan(map: MapNode, key: string) {
  return map.entries.find((entry) => entry.key === key)?.keySpan ?? map.span
}

/** Bounds of the cache, small because a parsed document needs many times the memory of its text. `text` and `each` in UTF-16 units. */
const MOST = { documents: 64, text: 512 * 1024, each: 256 * 1024 }

/**
 * Cache of parsed documents by text: a write reads a document for its check and again for the snapshot, and many routes have the same text.
 * Cached documents are shared and never changed.
 */
export class RecentDocuments {
  readonly #documents = new LRUCache<string, ReadDocument>({
    max: MOST.documents,
    maxSize: MOST.text,
    maxEntrySize: MOST.each,
    sizeCalculation: (_document, key) => key.length
  })

  /** Reads a document or returns it from the cache; see `readDocument`. */
  read(text: string, carrier: Carrier = 'http'): ReadDocument {
    return atOnce(this.reading(text, carrier))
  }

  /** Reads a document in steps or returns it from the cache. */
  *reading(text: string, carrier: Carrier = 'http'): Steps<ReadDocument> {
    const key = `${carrier} ${text}`
    const known = this.#documents.get(key)
    if (known !== undefined) return known
    const read = yield* readingDocument(text, carrier)
    this.#documents.set(key, read)
    return read
  }
}
