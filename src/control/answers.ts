import type { Json } from '../lib/json.js'
import { tunnelGroupBackend } from '../resources/backends.js'
import { httpsEdge, httpsEdgeRoute } from '../resources/edges.js'
import { CLOUD, endpoint } from '../resources/endpoints.js'
import { present, presentList, presentModule, presentPart, uriOf } from '../resources/present.js'
import type { Part, RecordOf, Resource } from '../resources/resource.js'
import type { PresentContext, ResourceRecord } from '../schema/field.js'
import type { StoreReader } from '../store/store.js'
import type { Principal } from './calls.js'
import type { DeclaredRecords } from './declared-records.js'
import { notFound } from './errors.js'
import { reservationOf } from './record-rules.js'
import { type Catalogue, type Records, recordsNaming } from './records.js'
import { maySeeSecrets } from './rights.js'

export interface AnswerOptions {
  readonly baseUrl: () => string
  readonly zone: string
  readonly regions: readonly string[]
  /** Ids of the live tunnels that carry all of the labels, for each of `groups`, by its id. */
  readonly selectedBy?: (groups: readonly LabelGroup[]) => Promise<ReadonlyMap<string, readonly string[]>>
  readonly deliveryOf?: ((destination: string) => Json | undefined) | undefined
  readonly healthOf?: ((backend: string) => Json | undefined) | undefined
}

/** A backend and the labels that a tunnel must carry to be selected by it. */
interface LabelGroup {
  readonly id: string
  readonly labels: Readonly<Record<string, string>>
}

/** Responses of the API: records in their public form, with their child records. */
export class Answers {
  readonly #catalogue: Catalogue
  readonly #records: Records
  readonly #declared: DeclaredRecords
  readonly #options: AnswerOptions
  readonly #live = new WeakSet<object>()

  constructor(catalogue: Catalogue, records: Records, declared: DeclaredRecords, options: AnswerOptions) {
    this.#catalogue = catalogue
    this.#records = records
    this.#declared = declared
    this.#options = options
  }

  get baseUrl(): string {
    return this.#options.baseUrl()
  }

  /**
   * Builds the response for one record. `viewer`: the user who sees it, undefined for any user. `once`: members for the creation's response only.
   */
  async one(
    reader: StoreReader,
    resource: Resource,
    record: ResourceRecord,
    viewer: Principal | undefined,
    once: Readonly<Record<string, Json>> = {}
  ): Promise<Json> {
    const context = await this.context(reader, resource, [record], viewer)
    let live = false
    const watched: PresentContext = {
      ...context,
      tunnelsOf(backend) {
        live = true
        return context.tunnelsOf(backend)
      },
      deliveryOf(destination) {
        live = true
        return context.deliveryOf?.(destination)
      },
      healthOf(backend) {
        live = true
        return context.healthOf?.(backend)
      }
    }
    const answer = present(resource, record, watched, once)
    if (live) this.#live.add(answer)
    return answer
  }

  /** Does this response contain data that changes without a revision of the record? */
  isLive(answer: Json): boolean {
    return typeof answer === 'object' && answer !== null && this.#live.has(answer)
  }

  async module(
    reader: StoreReader,
    resource: Resource,
    record: ResourceRecord,
    name: string,
    viewer: Principal
  ): Promise<Json> {
    return presentModule(resource, record, name, await this.context(reader, resource, [record], viewer))
  }

  /** The entry of a list inside the record that `key` names. Fails with `NOT_FOUND`. */
  async entry(reader: StoreReader, resource: Resource, part: Part, record: ResourceRecord, key: string): Promise<Json> {
    const context = await this.context(reader, resource, [record], undefined)
    const shown = presentPart(resource, part, record, key, context)
    if (shown === undefined) throw notFound(`entry of ${part.name}`)
    return shown
  }

  async list(
    reader: StoreReader,
    resource: Resource,
    records: readonly ResourceRecord[],
    page: Parameters<typeof presentList>[2]
  ): Promise<Json> {
    return presentList(resource, records, page, await this.context(reader, resource, records, undefined))
  }

  /** Reads the data of other records for the responses. */
  async context(
    reader: StoreReader,
    resource: Resource,
    records: readonly ResourceRecord[],
    viewer: Principal | undefined
  ): Promise<PresentContext> {
    const { zone, regions, deliveryOf, healthOf } = this.#options
    const below = new Map<string, readonly ResourceRecord[]>()
    for (const { child, field } of this.#catalogue.childrenOf(resource)) {
      const to = { kind: resource.name, ids: records.map(({ id }) => id) }
      for (const [id, children] of await recordsNaming(reader, child.name, { field, to })) {
        below.set(
          `${child.name} ${id}`,
          children.map((stored) => this.#records.openAny(stored).record)
        )
      }
      for (const { id } of records) {
        const children = this.#declared.list(child, { field, id })
        if (children.length > 0) below.set(`${child.name} ${id}`, children)
      }
    }
    const tunnels = await this.#tunnelsOf(resource, records)
    const hostports = await this.#hostportsOf(reader, resource, records)
    const reservations = await this.#reservationsOf(reader, resource, records)
    return {
      baseUrl: this.baseUrl,
      zone,
      regions,
      showSecrets: (record) => viewer !== undefined && maySeeSecrets(viewer, record),
      children: (kind, parent) => below.get(`${kind} ${parent}`) ?? [],
      tunnelsOf: (backend) => tunnels?.get(backend) ?? [],
      hostportsOf: (edge) => hostports.get(edge) ?? [],
      reservationOf: (id) => reservations?.get(id),
      placeOf: (record) => this.#declared.placeOf(record),
      deliveryOf: (destination) => deliveryOf?.(destination),
      healthOf: (backend) => healthOf?.(backend)
    }
  }

  /** Reads the hosts of HTTPS edges, of which the service providers of their routes are named. */
  async #hostportsOf(reader: StoreReader, { name }: Resource, records: readonly ResourceRecord[]) {
    const found = new Map<string, readonly string[]>()
    for (const record of records) {
      let edge = name === httpsEdge.name ? record : undefined
      if (name === httpsEdgeRoute.name && record.body.saml !== null && record.body.saml !== undefined) {
        const id = String(record.body.edge_id)
        edge =
          this.#declared.find(httpsEdge.name, id) ?? (await this.#records.findAny(reader, httpsEdge.name, id))?.record
      }
      if (edge !== undefined) found.set(edge.id, edge.body.hostports as readonly string[])
    }
    return found
  }

  /** Reserved domains and addresses of cloud endpoints by the ids of the endpoints. */
  async #reservationsOf(reader: StoreReader, { name }: Resource, records: readonly ResourceRecord[]) {
    if (name !== endpoint.name) return undefined
    const found = new Map<string, { readonly id: string; readonly uri: string }>()
    for (const { id, body } of records) {
      if (body.type !== CLOUD) continue
      const { proto, host, hostport } = body
      const reserved = await reservationOf(reader, {
        proto: String(proto),
        host: String(host),
        hostport: String(hostport)
      })
      if (reserved === undefined) continue
      const { resource, id: reservation } = reserved
      found.set(id, { id: reservation, uri: uriOf(resource, { id: reservation, body: {} }, this.baseUrl) })
    }
    return found
  }

  async #tunnelsOf({ name }: Resource, records: readonly ResourceRecord[]) {
    if (name !== tunnelGroupBackend.name || records.length === 0) return undefined
    type Body = RecordOf<typeof tunnelGroupBackend>['body']
    return await this.#options.selectedBy?.(
      records.map(({ id, body }) => ({ id, labels: (body as unknown as Body).labels }))
    )
  }
}
