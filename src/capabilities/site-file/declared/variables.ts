import type { NodePath } from '../../../policy/problems.js'
import type { MapEntry, ScalarNode, TreeNode } from '../../../policy/tree.js'
import { fieldErrors } from '../../../schema/errors.js'
import type { Declaration } from './declaration.js'
import { SITE_FILE } from './fields.js'
import type { Form } from './form.js'
import { siteErrors } from './site-codes.js'

/** Start of a reference to an environment variable: `${NAME}` or `${NAME:-default}`. */
const WRITTEN = '${'
/** Pattern of such a reference. */
const REFERENCE = /\$\{([^}]*)(\}?)/g
/** Pattern of a variable's name with its default. */
const NAME = /^([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?$/s

/**
 * Inserts environment variables where the table of fields has them: in hosts, URLs and listeners, because policies have their own
 * `${…}`. Reports missing variables with their positions.
 */
export class Variables {
  readonly #declaration: Declaration
  readonly #isNeeded: boolean

  constructor(declaration: Declaration) {
    this.#declaration = declaration
    this.#isNeeded = declaration.input.text.includes(WRITTEN)
  }

  /** The whole file. */
  root(root: TreeNode): TreeNode {
    return this.#isNeeded && root.kind === 'map' ? this.#value(root, SITE_FILE, []) : root
  }

  /** One of the sites; undefined after a report on its name. */
  site(entry: MapEntry): MapEntry | undefined {
    return this.#isNeeded ? this.#entry(entry, SITE_FILE.fields.sites as Form, ['sites']) : entry
  }

  #value(node: TreeNode, form: Form, path: NodePath): TreeNode {
    const { fields = {}, entries, items, variables } = form
    if (node.kind === 'scalar') return variables === true ? this.#text(node, path) : node
    if (node.kind === 'list' && items !== undefined)
      return { ...node, items: node.items.map((item, index) => this.#value(item, items, [...path, index])) }
    if (node.kind !== 'map') return node
    const inner = node.entries.map((entry) => {
      const field = Object.hasOwn(fields, entry.key) ? fields[entry.key] : undefined
      if (field !== undefined) return { ...entry, value: this.#value(entry.value, field, [...path, entry.key]) }
      return entries === undefined ? entry : this.#entry(entry, form, path)
    })
    return { ...node, entries: inner.filter((entry) => entry !== undefined) }
  }

  /** An entry of a map of `form`; undefined after a report on its key. */
  #entry(entry: MapEntry, { entries: form, variables }: Form, path: NodePath): MapEntry | undefined {
    const within = [...path, entry.key]
    const key = variables === true ? this.#expanded(entry.key, { path: within, span: entry.keySpan }) : entry.key
    if (key === undefined || form === undefined) return undefined
    return { ...entry, key, value: this.#value(entry.value, form, within) }
  }

  #text(node: ScalarNode, path: NodePath): TreeNode {
    if (typeof node.value !== 'string') return node
    const value = this.#expanded(node.value, { path, span: node.span })
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
