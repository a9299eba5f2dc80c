import type { Resource } from '../resources/resource.js'

/** A resource whose records stand below records of another. */
export interface Family {
  readonly parent: Resource
  readonly child: Resource
  /** The child's field, and the parameter of its path, that holds the parent's id. */
  readonly field: string
}

const BELOW = /^(.*)\/\{(\w+)\}\//

/** The resources by kind, and how they stand below each other. */
export class Catalogue {
  readonly #byKind: ReadonlyMap<string, Resource>
  readonly #parents = new Map<string, Family>()
  readonly #children = new Map<string, Family[]>()

  /** Throws a RangeError when a path names a parent that is no resource. */
  constructor(resources: readonly Resource[]) {
    this.#byKind = new Map(resources.map((resource) => [resource.name, resource]))
    for (const child of resources) {
      const [, path, field] = BELOW.exec(child.path) ?? []
      if (path === undefined || field === undefined) continue
      const parent = resources.find((resource) => resource.path === path)
      if (parent === undefined) throw new RangeError(`${child.name} stands below ${path}, which is no resource`)
      const family = { parent, child, field }
      this.#parents.set(child.name, family)
      this.#children.set(parent.name, [...(this.#children.get(parent.name) ?? []), family])
    }
  }

  /** Undefined for kinds that the API does not know: the store holds more than resources. */
  find(kind: string): Resource | undefined {
    return this.#byKind.get(kind)
  }

  parentOf({ name }: Resource): Family | undefined {
    return this.#parents.get(name)
  }

  childrenOf({ name }: Resource): readonly Family[] {
    return this.#children.get(name) ?? []
  }
}
