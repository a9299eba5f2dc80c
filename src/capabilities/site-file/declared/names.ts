import { didYouMean } from '../../../lib/suggest.js'
import type { NodePath } from '../../../policy/problems.js'
import type { TreeNode } from '../../../policy/tree.js'
import type { Declaration } from './declaration.js'
import { siteErrors } from './site-codes.js'

/** The ids of one kind of thing by the names that the file gives them. */
class NameTable {
  readonly #declaration: Declaration
  /** Kind of the named things, with its article. */
  readonly #what: string
  /** Ids by name; undefined after a report, so that references cause no further errors. */
  readonly #ids: Map<string, string | undefined>

  constructor(declaration: Declaration, what: string, ids = new Map<string, string | undefined>()) {
    this.#declaration = declaration
    this.#what = what
    this.#ids = ids
  }

  /** The same names for another part of the file, where their mistakes are reported. */
  within(declaration: Declaration): NameTable {
    return new NameTable(declaration, this.#what, this.#ids)
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

  /** Returns the ids of known names, and reports unknown ones. */
  ids(items: readonly TreeNode[], path: NodePath): string[] {
    return items.map((item, index) => this.id(item, [...path, index])).filter((id) => id !== undefined)
  }
}

/** Backends in place of names: ids by their URLs. */
class WrittenBackends {
  /** Backends that were looked up or created here. */
  readonly used = new Map<string, string | undefined>()
  /** Backends whose records were created here. */
  readonly made = new Set<string>()
  readonly #parent: WrittenBackends | undefined

  constructor(parent?: WrittenBackends) {
    this.#parent = parent
  }

  has(url: string): boolean {
    return this.used.has(url) || this.#parent?.has(url) === true
  }

  get(url: string): string | undefined {
    const id = this.used.has(url) ? this.used.get(url) : this.#parent?.get(url)
    this.used.set(url, id)
    return id
  }

  set(url: string, id: string | undefined): void {
    this.used.set(url, id)
    this.made.add(url)
  }
}

/** Everything that a site file can name. */
export interface Names {
  readonly backends: NameTable
  /** Backends in place of names, by their URL; undefined after a report. */
  readonly written: WrittenBackends
  readonly ipPolicies: NameTable
  readonly authorities: NameTable
}

export function createNames(declaration: Declaration): Names {
  return {
    backends: new NameTable(declaration, 'a backend'),
    written: new WrittenBackends(),
    ipPolicies: new NameTable(declaration, 'an IP policy'),
    authorities: new NameTable(declaration, 'a certificate authority')
  }
}

/** The same names for one entry of the file. */
export function namesWithin({ backends, written, ipPolicies, authorities }: Names, declaration: Declaration): Names {
  return {
    backends: backends.within(declaration),
    written: new WrittenBackends(written),
    ipPolicies: ipPolicies.within(declaration),
    authorities: authorities.within(declaration)
  }
}
