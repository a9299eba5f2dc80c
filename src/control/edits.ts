import { randomBytes } from 'node:crypto'
import { CALLER_LIMITS } from '../lib/caller-limits.js'
import type { Clock } from '../lib/clock.js'
import { newId } from '../lib/id.js'
import { isObject, type Json } from '../lib/json.js'
import type { Slices } from '../lib/slices.js'
import { POLICY_MODULE } from '../policy/record-policy.js'
import { httpsEdgeRoute } from '../resources/edges.js'
import { endpoint, endpointLayer } from '../resources/endpoints.js'
import { createRecord, type Input, type Read, type ReadOptions, readCreate, updateRecord } from '../resources/read.js'
import type { Resource } from '../resources/resource.js'
import { vaultSecret } from '../resources/vaults.js'
import { fieldErrors } from '../schema/errors.js'
import type { FileCheck, Makers, PolicyCheck, ResourceRecord } from '../schema/field.js'
import type { StoreReader } from '../store/store.js'
import type { Call, PathValues } from './calls.js'
import type { DeclaredRecords } from './declared-records.js'
import { isStoredEndpoint } from './endpoints.js'
import { ControlError, controlErrors, notFound, refusedBody } from './errors.js'
import type { Catalogue, Records, Versioned } from './records.js'
import { mayGive, ownersMustBeActive, ownersMustExist } from './rights.js'
import { mustLeadSomewhere } from './transaction.js'

/** The traffic that a policy in this body is for. A change of an endpoint without its URL is taken for one of HTTP. */
function layerOf({ name }: Resource, body: unknown): 'http' | 'tcp' {
  if (name === endpoint.name && isObject(body)) return endpointLayer(String(body.url))
  return name === httpsEdgeRoute.name ? 'http' : 'tcp'
}

/** Fails with `ENDPOINT_NOT_CLOUD` for the endpoint of an edge or an agent, and for the default one. */
function mustBeStored(id: string): void {
  if (isStoredEndpoint(id)) return
  const message = `${id} is no cloud endpoint: change the edge, the agent or the options that it belongs to`
  throw new ControlError(controlErrors.ENDPOINT_NOT_CLOUD, message)
}

interface EditsParts {
  readonly catalogue: Catalogue
  readonly records: Records
  readonly declared: DeclaredRecords
  readonly clock: Clock
  readonly checkPolicy: PolicyCheck
  readonly checkFile: FileCheck | undefined
  readonly checkFolder: FileCheck | undefined
  readonly slices: () => Slices
  readonly zone: string
}

/** A new record before it is written, with data for the creation's response only. */
interface Made {
  readonly record: ResourceRecord
  readonly once: Readonly<Record<string, Json>>
}

/** Converts request bodies into records. Fails with a `ControlError`; writes nothing. */
export class Edits {
  readonly #parts: EditsParts

  constructor(parts: EditsParts) {
    this.#parts = parts
  }

  /**
   * Checks the policy of this body in slices, then runs `write`, which reuses the result. `module`: the body is that of one
   * module.
   */
  async checkedAhead<T>(
    { resource, body, module }: { readonly resource: Resource; readonly body: unknown; readonly module?: string },
    { principal }: Call,
    write: () => Promise<T>
  ): Promise<T> {
    const { checkPolicy, slices } = this.#parts
    const given = module === undefined ? (isObject(body) ? body[POLICY_MODULE] : undefined) : body
    const isPolicy = (module ?? POLICY_MODULE) === POLICY_MODULE
    const text = isPolicy && isObject(given) ? given.value : resource.name === endpoint.name ? given : undefined
    if (typeof text !== 'string' || checkPolicy.ahead === undefined) return await write()
    const limits = principal.role === 'member' ? CALLER_LIMITS.member.documents : undefined
    const ahead = checkPolicy.ahead(text, layerOf(resource, body), limits)
    await slices().run(ahead.checking)
    try {
      return await write()
    } finally {
      ahead.forget()
    }
  }

  /** The record that a path names, even when its secrets do not open. Fails with `NOT_FOUND`, `DECLARED` or `ENDPOINT_NOT_CLOUD`. */
  async find(reader: StoreReader, resource: Resource, path: PathValues): Promise<Versioned> {
    this.#parts.declared.mustNotHave(resource.name, path.id ?? '')
    if (resource.name === endpoint.name) mustBeStored(path.id ?? '')
    const found = await this.#parts.records.findAny(reader, resource.name, path.id ?? '')
    const family = this.#parts.catalogue.parentOf(resource)
    const astray = family !== undefined && found?.record.body[family.field] !== path[family.field]
    if (found === undefined || astray) throw notFound(resource.name)
    return found
  }

  /** Fails with `NOT_FOUND` if the parent record of a collection does not exist, with `DECLARED` if it is declared in a file. */
  async mustHaveParent(reader: StoreReader, resource: Resource, path: PathValues): Promise<void> {
    const family = this.#parts.catalogue.parentOf(resource)
    if (family === undefined) return
    const { name } = family.parent
    this.#parts.declared.mustNotHave(name, path[family.field] ?? '')
    if ((await reader.get(name, path[family.field] ?? '')) === undefined) throw notFound(name)
  }

  /** A new record. May take seconds: keys are made here. */
  async make(reader: StoreReader, resource: Resource, path: PathValues, body: unknown, call: Call): Promise<Made> {
    await this.mustHaveParent(reader, resource, path)
    mayGive(call.principal, resource, body)
    const input = accepted(readCreate(resource, body, this.readOptions(path, call)))
    const draft = { kind: resource.name, id: '', createdAt: '', body: input.body, secrets: {} }
    await mustLeadSomewhere(reader, resource, undefined, draft)
    const written = await createRecord(resource, input, this.#makers(reader, call))
    if (!written.ok) throw refusedBody(written.problems)
    await ownersMustExist(reader, resource, written.record)
    await ownersMustBeActive(reader, resource, written.record)
    return written
  }

  /** The record after an update that is read already. */
  async change(
    reader: StoreReader,
    resource: Resource,
    current: ResourceRecord,
    read: Read,
    call: Call
  ): Promise<ResourceRecord> {
    const input = accepted(read)
    if (input.given.size === 0) return current
    const written = await updateRecord(resource, current, input, this.#makers(reader, call))
    if (!written.ok) throw refusedBody(written.problems)
    return written.record
  }

  /** Returns the options for reading a caller's body: documents of members have lower limits. */
  readOptions(path: PathValues, { principal, nullIsUnset }: Call): ReadOptions {
    const { checkPolicy, checkFile, checkFolder } = this.#parts
    const options = { checkPolicy, checkFile, checkFolder, path, zeroIsAbsent: true, nullIsUnset }
    if (principal.role !== 'member') return options
    const { documents } = CALLER_LIMITS.member
    return { ...options, checkPolicy: (text, layer) => checkPolicy(text, layer, documents) }
  }

  #makers(reader: StoreReader, { principal }: Call): Makers {
    const { clock, records, zone } = this.#parts
    return {
      clock,
      zone,
      principal: principal.id,
      newId: (prefix) => newId(prefix, clock.wall()),
      random: (bytes) => randomBytes(bytes),
      find: async (kind, id) => (await records.find(reader, kind, id))?.record
    }
  }
}

function accepted(read: Read): Input {
  if (!read.ok) throw refusedBody(read.problems)
  return read.input
}

/** Fails with `PRECONDITION_FAILED` when the caller knows another revision of the record. */
export function mustMatch({ revision }: Pick<Versioned, 'revision'>, ifMatch: readonly number[] | undefined): void {
  if (ifMatch === undefined || ifMatch.includes(revision)) return
  const details = { revision: String(revision) }
  throw new ControlError(controlErrors.PRECONDITION_FAILED, `the record has changed; its revision is ${revision}`, {
    details
  })
}

/** A reference that a creation may give by the name of its target instead of by its id. */
export interface NamedReference {
  /** Fields of the request. */
  readonly name: string
  readonly id: string
  /** Uniqueness space of the target's names. */
  readonly space: string
}

const NAMED: readonly (NamedReference & { readonly resource: Resource })[] = [
  { resource: vaultSecret, name: 'vault_name', id: 'vault_id', space: 'vault_name' }
]

/** Those of a resource. */
export function namedReferences({ name }: Resource): readonly NamedReference[] {
  return NAMED.filter(({ resource }) => resource.name === name)
}

const isUnset = (given: unknown) => given === undefined || given === null || given === ''

/**
 * Replaces names by ids in the body of a creation; a body that is no object is returned unchanged. Fails with
 * `CONFLICTING_FIELDS`, `FIELD_INVALID` or `REF_NOT_FOUND`.
 */
export async function withIds(reader: StoreReader, resource: Resource, body: unknown): Promise<unknown> {
  if (!isObject(body)) return body
  let resolved = body
  for (const { name, id, space } of namedReferences(resource)) {
    const { [name]: given, ...rest } = resolved
    if (isUnset(given)) {
      resolved = rest
      continue
    }
    if (!isUnset(rest[id])) {
      throw new ControlError(fieldErrors.CONFLICTING_FIELDS, `${name} and ${id} say the same; give one of them`, {
        field: name
      })
    }
    if (typeof given !== 'string')
      throw new ControlError(fieldErrors.FIELD_INVALID, `${name} must be a text`, { field: name })
    const keeper = await reader.keeperOf(space, given)
    if (keeper === undefined)
      throw new ControlError(fieldErrors.REF_NOT_FOUND, `${name} names nothing`, { field: name })
    resolved = { ...rest, [id]: keeper.id }
  }
  return resolved
}
