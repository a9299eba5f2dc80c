import { CodedError } from '../lib/errors.js'
import { type Json, timestampText } from '../lib/json.js'
import type { Sealer } from '../lib/seal.js'
import type { Resource } from '../resources/resource.js'
import type { ResourceRecord } from '../schema/field.js'
import type { RecordUpdate, StoredRecord } from '../store/records.js'
import type { StoreReader } from '../store/store.js'

/** A resource whose records are children of another resource's records. */
interface Family {
  readonly parent: Resource
  readonly child: Resource
  /** The child's field, and the parameter of its path, that holds the parent's id. */
  readonly field: string
}

const BELOW = /^(.*)\/\{(\w+)\}\//

/** The resources by kind, and their parent-child relations. */
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

  /** Returns the resource of a kind; undefined for kinds that the API does not know, because the store holds more than resources. */
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

/** A record with the revision that wrote it last. */
export interface Versioned {
  readonly record: ResourceRecord
  readonly revision: number
  /** Why its secrets do not open; the record is then without them. */
  readonly unopened?: CodedError
}

/** Records between their stored form, where secrets are sealed, and the form that resources work on. */
export class Records {
  readonly #seal: Sealer

  constructor(seal: Sealer) {
    this.#seal = seal
  }

  /** Throws a CodedError of the sealer when the secrets do not open. */
  open({ kind, id, createdAt, body, sealed, revision }: StoredRecord): Versioned {
    const secrets = sealed === null ? {} : this.#secrets(sealed, ownerOf(kind, id))
    return {
      record: { kind, id, createdAt: timestampText(createdAt), body: body as ResourceRecord['body'], secrets },
      revision
    }
  }

  /** Opens a record like `open`; one whose secrets cannot be decrypted is returned without them, with the error. */
  openAny(stored: StoredRecord): Versioned {
    try {
      return this.open(stored)
    } catch (error) {
      if (!(error instanceof CodedError) || !error.code.startsWith('SEAL_')) throw error
      return { ...this.open({ ...stored, sealed: null }), unopened: error }
    }
  }

  /** Returns the stored form of a record. */
  stored({ kind, id, body, secrets }: ResourceRecord): Required<RecordUpdate> {
    const empty = Object.keys(secrets).length === 0
    const sealed = empty ? null : this.#seal.seal(Buffer.from(JSON.stringify(secrets)), ownerOf(kind, id))
    return { body: body as Json, sealed }
  }

  async find(reader: StoreReader, kind: string, id: string): Promise<Versioned | undefined> {
    const stored = await reader.get(kind, id)
    return stored === undefined ? undefined : this.open(stored)
  }

  /** Finds a record like `find`, and opens it like `openAny`. */
  async findAny(reader: StoreReader, kind: string, id: string): Promise<Versioned | undefined> {
    const stored = await reader.get(kind, id)
    return stored === undefined ? undefined : this.openAny(stored)
  }

  #secrets(sealed: Uint8Array, owner: string): Record<string, string> {
    return JSON.parse(Buffer.from(this.#seal.open(sealed, owner)).toString('utf8')) as Record<string, string>
  }
}

/** A sealed value opens only for the record that it was sealed for. */
function ownerOf(kind: string, id: string): string {
  return `${kind}/${id}`
}

/** Page size, small enough not to block the event loop. */
const PAGE = 500

/** All records of a kind, newest first, page by page. */
export async function* everyRecord(reader: StoreReader, kind: string): AsyncGenerator<readonly StoredRecord[]> {
  let before: { createdAt: number; sequence: number } | undefined
  while (true) {
    const page = await reader.list(kind, {
      limit: PAGE,
      ...(before === undefined ? {} : { before })
    })
    if (page === undefined || page.records.length === 0) return
    yield page.records
    if (!page.more) return
    before = page.records.at(-1)
  }
}

/** All records of a kind that name one of these in this field, by the id that they name, each list oldest first. */
export async function recordsNaming(
  reader: StoreReader,
  kind: string,
  { field, to }: { readonly field: string; readonly to: { readonly kind: string; readonly ids: readonly string[] } }
): Promise<Map<string, StoredRecord[]>> {
  const references = await reader.referencesToAny(to.kind, to.ids)
  const named = references.filter((one) => one.field === field && one.from.kind === kind)
  const found = await reader.getMany(named.map(({ from }) => from))
  const byId = new Map(found.map((stored) => [stored.id, stored]))
  const naming = new Map<string, Set<StoredRecord>>()
  for (const { from, to } of named) {
    const stored = byId.get(from.id)
    if (stored !== undefined) naming.set(to.id, (naming.get(to.id) ?? new Set()).add(stored))
  }
  const oldestFirst = (a: StoredRecord, b: StoredRecord) => a.createdAt - b.createdAt || a.sequence - b.sequence
  return new Map([...naming].map(([id, records]) => [id, [...records].sort(oldestFirst)]))
}
