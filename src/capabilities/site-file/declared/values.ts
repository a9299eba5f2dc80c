import type { NodePath } from '../../../policy/problems.js'
import { isNull, type MapEntry, type MapNode, setOwn, type TreeNode } from '../../../policy/tree.js'
import type { Declaration } from './declaration.js'
import { type Fields, NAMED_LISTS } from './form.js'
import type { Names } from './names.js'
import { siteErrors } from './site-codes.js'

/** Subset of a request's JSON Schema that leads to its secrets and references. */
interface RequestSchema {
  readonly type?: unknown
  readonly writeOnly?: boolean
  readonly properties?: Readonly<Record<string, RequestSchema>>
  readonly items?: RequestSchema
  readonly additionalProperties?: RequestSchema | boolean
}

/** Context for reading the parts of a file. */
export interface Reader {
  readonly declaration: Declaration
  readonly names: Names
  readonly values: Values
}

/** Turns values of the file into those of requests: names become ids, references to secrets their values. */
export class Values {
  readonly #declaration: Declaration
  readonly #names: Names
  /** Values of the vaults of the file, by `vault/name`. */
  readonly #vaults: ReadonlyMap<string, string>

  constructor(declaration: Declaration, names: Names, vaults: ReadonlyMap<string, string>) {
    this.#declaration = declaration
    this.#names = names
    this.#vaults = vaults
  }

  /** Reads the fields that requests have under the same names. A module that is off is left out. */
  async fields(given: ReadonlyMap<string, MapEntry>, path: NodePath, known: Fields): Promise<Record<string, unknown>> {
    const body: Record<string, unknown> = {}
    for (const [key, { value }] of given) {
      const { request, module } = known[key] ?? {}
      if (request === undefined) continue
      const word = module === true && value.kind === 'scalar' ? value.value : undefined
      if (word === true || word === null) body[key] = {}
      else if (word !== false) body[key] = await this.of(value, [...path, key], request)
    }
    return body
  }

  /** Reads the value of a field with this schema. Invalid references are reported and left out. */
  async of(node: TreeNode, path: NodePath, schema: object | undefined): Promise<unknown> {
    const rules = (schema ?? {}) as RequestSchema
    if (rules.writeOnly === true) return isNull(node) ? null : await this.secret(node, path)
    if (node.kind === 'scalar') return node.value
    if (node.kind === 'list') {
      return await Promise.all(node.items.map((item, index) => this.of(item, [...path, index], rules.items)))
    }
    const data: Record<string, unknown> = {}
    if (node.kind === 'map') await this.#members(node, path, rules, data)
    return data
  }

  async #members(node: MapNode, path: NodePath, rules: RequestSchema, data: object): Promise<void> {
    const others = typeof rules.additionalProperties === 'object' ? rules.additionalProperties : undefined
    for (const { key, value } of node.entries) {
      const named = NAMED_LISTS[key]
      const within = [...path, key]
      if (named !== undefined && rules.properties?.[named.request] !== undefined) {
        const items = this.#declaration.items(value, within, key)
        setOwn(data, named.request, this.#names[named.names].ids(items, within))
      } else setOwn(data, key, await this.of(value, within, rules.properties?.[key] ?? others))
    }
  }

  /** The value that `{ env: … }`, `{ file: … }` or `{ vault: … }` refers to; undefined after a report. Never repeats a text. */
  async secret(node: TreeNode, path: NodePath): Promise<string | undefined> {
    const declaration = this.#declaration
    declaration.volatile = true
    const at = { path, span: node.span }
    const [entry, second] = node.kind === 'map' ? node.entries : []
    if (entry === undefined || second !== undefined || !REFERENCES.includes(entry.key)) {
      if (node.kind !== 'broken') declaration.error(at, siteErrors.SECRET_LITERAL, ONLY_REFERENCES)
      return undefined
    }
    const name = declaration.text(entry.value, [...path, entry.key], entry.key)
    if (name === undefined) return undefined
    const place = { path: [...path, entry.key], span: entry.value.span }
    if (entry.key === 'file') {
      return withoutMarks(await declaration.file(name, place, 'the secret in'))
    }
    const value = entry.key === 'env' ? withoutMarks(declaration.input.environment[name]) : this.#vaults.get(name)
    if (value !== undefined && value !== '') return value
    const message =
      entry.key === 'env'
        ? `the environment variable ${name} is not set`
        : `there is no secret "${name}" in the vaults of this file; write vault/name`
    declaration.error(place, siteErrors.SECRET_MISSING, message)
    return undefined
  }
}

/** Editors end a text with a line end, as `$(cat FILE)` with quotes does, and some begin it with a byte order mark: neither belongs to a secret. */
const withoutMarks = (text: string | undefined) => text?.replace(/^\uFEFF|\r?\n$/g, '')

const REFERENCES = ['env', 'file', 'vault']
const ONLY_REFERENCES =
  'a secret does not stand in this file; write { env: NAME }, { file: path } or { vault: vault/name }'
