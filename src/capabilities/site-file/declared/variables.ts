import type { MapEntry, TreeNode } from '../../../policy/tree.js'
import { fieldErrors } from '../../../schema/errors.js'
import type { Declaration } from './declaration.js'
import { siteErrors } from './site-codes.js'

/** Start of a reference to an environment variable: `${NAME}` or `${NAME:-default}`. */
const WRITTEN = '${'
/** Pattern of such a reference. */
const REFERENCE = /\$\{([^}]*)(\}?)/g
/** Pattern of a variable's name with its default. */
const NAME = /^([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?$/s

/**
 * Inserts environment variables into the hosts, URLs and listeners of a site file only: policies have their own `${…}`.
 * Reports missing variables with their positions.
 */
export class Variables {
  readonly #declaration: Declaration

  constructor(declaration: Declaration) {
    this.#declaration = declaration
  }

  /** The whole file. */
  root(root: TreeNode): TreeNode {
    if (!this.#declaration.input.text.includes(WRITTEN) || root.kind !== 'map') return root
    return this.#members(root, {
      listeners: (node) => this.#items(node, (item) => this.#listener(item)),
      sites: (node) => this.#entries(node, (entry) => this.#site(entry)),
      tcp: (node) => this.#entries(node, (entry) => ({ ...entry, value: this.#place(entry.value) })),
      backends: (node) =>
        this.#entries(node, ({ value, ...entry }) => ({ ...entry, value: this.#backend(value) }), false),
      acme: (node) => this.#members(node, { directory: (url) => this.#text(url) })
    })
  }

  /** One of the sites; undefined after a report on its name. */
  site(entry: MapEntry): MapEntry | undefined {
    if (!this.#declaration.input.text.includes(WRITTEN)) return entry
    const key = this.#expanded(entry.key, { path: ['sites', entry.key], span: entry.keySpan })
    return key === undefined ? undefined : this.#site({ ...entry, key })
  }

  #site({ value, ...entry }: MapEntry): MapEntry {
    const members = this.#members(value, {
      hosts: (node) => this.#items(node, (item) => this.#text(item)),
      backend: (node) => this.#backend(node),
      routes: (node) => this.#entries(node, (route) => ({ ...route, value: this.#place(route.value) }), false)
    })
    return { ...entry, value: value.kind === 'map' ? members : this.#backend(value) }
  }

  /** A route or TCP edge: a map with its backend, or the backend alone. */
  #place(node: TreeNode): TreeNode {
    return node.kind === 'map' ? this.#members(node, { backend: (one) => this.#backend(one) }) : this.#backend(node)
  }

  #backend(node: TreeNode): TreeNode {
    if (node.kind === 'map') return this.#members(node, { servers: (servers) => this.#backend(servers) })
    const url = (one: TreeNode) => this.#text(one)
    return this.#items(node, (item) => (item.kind === 'map' ? this.#members(item, { url }) : url(item)))
  }

  #listener(node: TreeNode): TreeNode {
    if (node.kind !== 'map') return this.#text(node)
    const entries = node.entries.map((entry) => ({ ...entry, value: this.#text(entry.value) }))
    return entries.some(({ value }) => value.kind === 'broken')
      ? { kind: 'broken', span: node.span }
      : { ...node, entries }
  }

  #members(node: TreeNode, members: Readonly<Record<string, (value: TreeNode) => TreeNode>>): TreeNode {
    if (node.kind !== 'map') return node
    const entries = node.entries.map((entry) => {
      const member = Object.hasOwn(members, entry.key) ? members[entry.key] : undefined
      return member === undefined ? entry : { ...entry, value: member(entry.value) }
    })
    return { ...node, entries }
  }

  /** `named`: are variables put into the keys too? */
  #entries(node: TreeNode, change: (entry: MapEntry) => MapEntry, named = true): TreeNode {
    if (node.kind !== 'map') return node
    const entries = node.entries.flatMap((entry) => {
      const key = named ? this.#expanded(entry.key, { path: [entry.key], span: entry.keySpan }) : entry.key
      return key === undefined ? [] : [change({ ...entry, key })]
    })
    return { ...node, entries }
  }

  #items(node: TreeNode, change: (item: TreeNode) => TreeNode): TreeNode {
    return node.kind === 'list' ? { ...node, items: node.items.map(change) } : this.#text(node)
  }

  #text(node: TreeNode): TreeNode {
    if (node.kind !== 'scalar' || typeof node.value !== 'string') return node
    const value = this.#expanded(node.value, { path: [], span: node.span })
    return value === undefined ? { kind: 'broken', span: node.span } : { ...node, value }
  }

  #expanded(text: string, at: Parameters<Declaration['error']>[0]): string | undefined {
    if (!text.includes(WRITTEN)) return text
    const declaration = this.#declaration
    declaration.volatile = true
    let failed = false
    const found = text.replace(REFERENCE, (whole, inside: string, end: string) => {
      const [, name, preset] = end === '' ? [] : (NAME.exec(inside) ?? [])
      if (name === undefined) {
        declaration.error(
          at,
          fieldErrors.FIELD_INVALID,
          `"${whole}" is no variable; write \${NAME} or \${NAME:-default}`
        )
        failed = true
        return ''
      }
      const value = declaration.input.environment[name]?.trim() || preset
      if (value !== undefined) return value
      declaration.error(at, siteErrors.VARIABLE_MISSING, `the environment variable ${name} is not set`)
      failed = true
      return ''
    })
    return failed ? undefined : found
  }
}
