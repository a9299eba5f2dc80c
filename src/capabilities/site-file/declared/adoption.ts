import { everyRecord, type Records } from '../../../control/records.js'
import {
  failoverBackend,
  httpResponseBackend,
  tunnelGroupBackend,
  weightedBackend
} from '../../../resources/backends.js'
import { certificateAuthority, tlsCertificate } from '../../../resources/certificates.js'
import { httpsEdge, httpsEdgeRoute, tcpEdge } from '../../../resources/edges.js'
import { endpoint } from '../../../resources/endpoints.js'
import { fileBackend } from '../../../resources/file-backend.js'
import { ipPolicy, ipPolicyRule, ipRestriction } from '../../../resources/ip-policies.js'
import type { Resource } from '../../../resources/resource.js'
import { staticBackend } from '../../../resources/static-backend.js'
import { tlsEdge } from '../../../resources/tls-edges.js'
import { vault, vaultSecret } from '../../../resources/vaults.js'
import type { StoreReader } from '../../../store/store.js'
import { Adopter } from './adopter.js'
import type { Adoption, Found, OnHttp } from './adoption-form.js'
import type { RemovedRecord } from './site-request.js'

interface AdoptionParts {
  readonly records: Records
  /** Every resource. */
  readonly resources: readonly Resource[]
  /** Default response of edges without TLS, from the process's options. */
  readonly edgesOnHttp: OnHttp
}

/** Resources other than routes that a site file can declare, in the order of their removal: users before what they use. */
export const ADOPTED: readonly Resource[] = [
  httpsEdge,
  tcpEdge,
  failoverBackend,
  weightedBackend,
  staticBackend,
  httpResponseBackend,
  fileBackend,
  tunnelGroupBackend,
  tlsCertificate,
  certificateAuthority,
  ipRestriction,
  ipPolicyRule,
  ipPolicy,
  vaultSecret,
  vault
]

/** Converts the API's records into a site file. Parts that it cannot express are in `left`, with the reason. */
export async function adoptionOf(reader: StoreReader, parts: AdoptionParts): Promise<Adoption> {
  const found = new Map<string, Found[]>()
  for (const { name } of [...ADOPTED, httpsEdgeRoute]) {
    const all: Found[] = []
    for await (const page of everyRecord(reader, name)) {
      for (const stored of page) all.push({ record: parts.records.openAny(stored).record, revision: stored.revision })
    }
    found.set(name, all.reverse())
  }
  const adopter = new Adopter(found, parts.edgesOnHttp)
  const { records: taken, ...written } = adopter.adopt()
  const staying: string[] = []
  for (const { name } of [endpoint, tlsEdge]) {
    for await (const page of everyRecord(reader, name)) {
      for (const { body } of page) staying.push(JSON.stringify(body))
    }
  }
  const named = policiesNamedByStaying(found, taken, staying)
  for (const id of named.policies)
    adopter.leave(ipPolicy, id, 'is in the file and stays in the API too, where a policy names it')
  const order = new Map(ADOPTED.map(({ name }, index) => [name, index]))
  const wanted = taken
    .filter(({ id }) => !named.records.has(id))
    .sort((a, b) => (order.get(a.resource) ?? 0) - (order.get(b.resource) ?? 0))
  for (const resource of parts.resources) {
    if (found.has(resource.name) || !resource.operations.includes('create')) continue
    for await (const page of everyRecord(reader, resource.name)) {
      for (const { id } of page) adopter.leave(resource, id, 'stays in the API, which alone can have it')
    }
  }
  const records = await removable(reader, wanted)
  const kept = wanted.filter((one) => !records.includes(one))
  for (const { resource, id } of kept) {
    adopter.left.push({ resource, id, why: 'is in the file and stays in the API too, where other records use it' })
  }
  return { ...written, records, left: adopter.left }
}

/** Those that no record uses that stays. */
async function removable<R extends RemovedRecord>(reader: StoreReader, wanted: readonly R[]): Promise<R[]> {
  let going = [...wanted]
  while (true) {
    const keys = new Set(going.map(({ resource, id }) => `${resource} ${id}`))
    const stays: R[] = []
    for (const one of going) {
      const users = await reader.referencesTo(one.resource, one.id)
      const outside = await Promise.all(users.map(({ from }) => usedOutside(reader, from, keys)))
      if (outside.includes(true)) stays.push(one)
    }
    if (stays.length === 0) return going
    going = going.filter((one) => !stays.includes(one))
  }
}

/** Is the record used by one that stays? A route is removed with its edge. */
async function usedOutside(
  reader: StoreReader,
  from: { readonly kind: string; readonly id: string },
  going: ReadonlySet<string>
): Promise<boolean> {
  if (going.has(`${from.kind} ${from.id}`)) return false
  if (from.kind !== httpsEdgeRoute.name) return true
  const route = await reader.get(from.kind, from.id)
  return !going.has(`${httpsEdge.name} ${String((route?.body as { edge_id?: unknown } | undefined)?.edge_id)}`)
}

/** Returns IP policies that remaining policies name by their ids, and those records with their rules. `others`: other records that stay. */
function policiesNamedByStaying(
  found: ReadonlyMap<string, readonly Found[]>,
  taken: readonly RemovedRecord[],
  others: readonly string[]
): { readonly policies: readonly string[]; readonly records: ReadonlySet<string> } {
  const all = ({ name }: Resource) => found.get(name) ?? []
  const going = new Set(taken.map(({ id }) => id))
  const staying = [
    ...all(httpsEdgeRoute).filter(({ record }) => !going.has(String(record.body.edge_id))),
    ...all(tcpEdge).filter(({ record }) => !going.has(record.id))
  ]
  const texts = [...others, ...staying.map(({ record }) => JSON.stringify(record.body.traffic_policy ?? null))]
  const named = all(ipPolicy).map(({ record }) => record.id)
  const policies = named.filter((id) => texts.some((text) => text.includes(id)))
  const rules = all(ipPolicyRule).filter(({ record }) => policies.includes(String(record.body.ip_policy)))
  return { policies, records: new Set([...policies, ...rules.map(({ record }) => record.id)]) }
}
