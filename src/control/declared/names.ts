import { didYouMean } from '../../lib/suggest.js'
import type { NodePath } from '../../policy/problems.js'
import type { TreeNode } from '../../policy/tree.js'
import type { Declaration } from './declaration.js'
import { siteErrors } from './declaration.js'

/** The ids of one kind of thing by the names that the file gives them. */
class NameTable {
  readonly #declaration: Declaration
  /** With its article. */
  readonly #what: string
  /** Undefined: it has been reported as wrong, so that a reference to it is no second mistake. */
  readonly #ids = new Map<string, string | undefined>()

  constructor(declaration: Declaration, what: string) {
    this.#declaration = declaration
    this.#what = what
  }

  has(name: string): boolean {
    return this.#ids.has(name)
  }

  set(name: string, id: string | undefined): void {
    this.#ids.set(name, id)
  }

  /** The id that a text names; undefined after a report. */
  id(node: TreeNode, path: NodePath): string | undefined {
    const name = this.#declaration.text(node, path, `the name of ${this.#what}`)
    return name === undefined ? undefined : this.idOf(name, node, path)
  }

  idOf(name: string, { span }: Pick<TreeNode, 'span'>, path: NodePath): string | undefined {
    if (!this.#ids.has(name)) {
      const what = this.#what.replace(/^an? /, '')
      const known = [...this.#ids.keys()]
      const near = didYouMean(name, known)
      const all = known.length === 0 || near !== '' ? near : `; there are ${known.join(', ')}`
      this.#declaration.error({ path, span }, siteErrors.NAME_UNKNOWN, `there is no ${what} "${name}"${all}`)
    }
    return this.#ids.get(name)
  }

  /** The ids of the names that are known; the others are reported. */
  ids(items: readonly TreeNode[], path: NodePath): string[] {
    return items.map((item, index) => this.id(item, [...path, index])).filter((id) => id !== undefined)
  }
}

/** Everything that a site file can name. */
export interface Names {
  readonly backends: NameTable
  /** Backends that stand where a name may stand, by their URL. Undefined: it has been reported as wrong. */
  readonly written: Map<string, string | undefined>
  readonly ipPolicies: NameTable
  readonly authorities: NameTable
}

export function createNames(declaration: Declaration): Names {
  return {
    backends: new NameTable(declaration, 'a backend'),
    written: new Map(),
    ipPolicies: new NameTable(declaration, 'an IP policy'),
    authorities: new NameTable(declaration, 'a certificate authority')
  }
}
