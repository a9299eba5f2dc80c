import { isInternal } from '../flow/flow.js'
import { takesStrictPaths } from '../flow/target.js'
import { parseAuthority } from '../lib/host.js'
import { isLinkLocal } from '../lib/http-client/addresses.js'
import type { UnitName } from '../policy/action.js'
import { judgePaths, type Problem, type UnitProblems } from '../policy/problems.js'
import { POLICY_MODULE } from '../policy/record-policy.js'
import { failoverBackend, httpResponseBackend, weightedBackend } from '../resources/backends.js'
import { reservedDomain } from '../resources/domains.js'
import { httpsEdge, httpsEdgeRoute, tcpEdge } from '../resources/edges.js'
import { endpoint } from '../resources/endpoints.js'
import { entryOf, namedHostports } from '../resources/entries.js'
import { fileBackend } from '../resources/file-backend.js'
import { reservedAddress } from '../resources/reserved-addresses.js'
import type { RecordOf, Resource } from '../resources/resource.js'
import { staticBackend } from '../resources/static-backend.js'
import { tlsEdge } from '../resources/tls-edges.js'
import { authorityKey, splitHostport } from '../resources/units.js'
import type { Unit } from '../runtime/plan.js'
import type { Snapshot } from '../runtime/snapshot.js'
import { fieldErrors } from '../schema/errors.js'
import type { ResourceRecord } from '../schema/field.js'
import { refusalOfMatch } from '../schema/formats.js'
import type { RecordKey } from '../store/records.js'
import type { StoreReader } from '../store/store.js'
import type { PolicyWarning } from './calls.js'
import { ControlError, controlErrors, inUse } from './errors.js'
import { isStrictFor } from './path-forms.js'
import { recordsNaming } from './records.js'

/** Uniqueness space of the names of reserved domains. */
const DOMAIN_SPACE = 'domain'
/** Uniqueness space of reserved addresses. */
const ADDRESS_SPACE = 'reserved_addr'
/** Uniqueness space of the hosts and ports of edges and endpoints. */
export const HOSTPORT_SPACE = 'hostport'

/** Returns the id of the reserved domain that covers a host: with its own name, otherwise the nearest wildcard above it. */
export async function keeperOfHost(reader: StoreReader, host: string): Promise<string | undefined> {
  const own = await reader.keeperOf(DOMAIN_SPACE, host)
  if (own !== undefined) return own.id
  for (let dot = host.indexOf('.'); dot !== -1; dot = host.indexOf('.', dot + 1)) {
    const wildcard = await reader.keeperOf(DOMAIN_SPACE, `*${host.slice(dot)}`)
    if (wildcard !== undefined) return wildcard.id
  }
  return undefined
}

/** Returns the id of the reserved address with this host and port. */
export async function keeperOfAddress(reader: StoreReader, hostport: string): Promise<string | undefined> {
  return (await reader.keeperOf(ADDRESS_SPACE, hostport))?.id
}

/** Returns the reservation that an endpoint uses: an address for TCP, a domain for other protocols. */
export async function reservationOf(
  reader: StoreReader,
  { proto, host, hostport }: { readonly proto: string; readonly host: string; readonly hostport: string }
): Promise<{ readonly resource: Resource; readonly id: string } | undefined> {
  const isTcp = proto === 'tcp'
  const id = isTcp ? await keeperOfAddress(reader, hostport) : await keeperOfHost(reader, host)
  return id === undefined ? undefined : { resource: isTcp ? reservedAddress : reservedDomain, id }
}

/** Fails with `IN_USE` when an edge serves the reserved domain that shall go. */
export function mustNotServe({ kind, id, body }: ResourceRecord, edgeOn: (host: string) => string | undefined): void {
  if (kind !== reservedDomain.name) return
  const edge = edgeOn(String(body.domain))
  if (edge !== undefined) throw inUse({ kind, id }, [`${(entryOf(edge) ?? httpsEdge).name} ${edge}`])
}

/** Returns the edge or cloud endpoint that uses a reserved address; undefined for other records. */
export async function userOfAddress(
  reader: StoreReader,
  { kind, body }: Pick<ResourceRecord, 'kind' | 'body'>
): Promise<RecordKey | undefined> {
  return kind === reservedAddress.name ? await reader.keeperOf(HOSTPORT_SPACE, String(body.addr)) : undefined
}

/** Fails with `IN_USE` when an edge or cloud endpoint uses the reserved address that shall go. */
export async function addressMustBeFree(reader: StoreReader, record: ResourceRecord): Promise<void> {
  const user = await userOfAddress(reader, record)
  if (user !== undefined) throw inUse(record, [`${user.kind} ${user.id}`])
}

/** Fails with `REF_NOT_FOUND` if a new host of an edge or a public cloud endpoint is not covered by a reserved domain. */
export async function hostsMustBeReserved(
  reader: StoreReader,
  before: ResourceRecord | undefined,
  after: ResourceRecord
): Promise<void> {
  if (after.kind === endpoint.name) {
    const { proto, host, url } = after.body
    if (proto === 'tcp' || host === before?.body.host || isInternal(String(host))) return
    if ((await keeperOfHost(reader, String(host))) !== undefined) return
    const message = `${url} is below no reserved domain of the account`
    throw new ControlError(fieldErrors.REF_NOT_FOUND, message, { field: 'url' })
  }
  if (after.kind !== httpsEdge.name && after.kind !== tcpEdge.name && after.kind !== tlsEdge.name) return
  const held = new Set((before?.body.hostports ?? []) as readonly string[])
  for (const [index, hostport] of namedHostports(after.kind, after.body).entries()) {
    if (held.has(hostport) || (await keeperOfHost(reader, splitHostport(hostport).host)) !== undefined) continue
    const message = `${hostport} is below no reserved domain of the account`
    throw new ControlError(fieldErrors.REF_NOT_FOUND, message, { field: `hostports[${index}]` })
  }
}

/** URL of a cloud endpoint, which it may share. */
export interface WantedUrl {
  readonly proto: string
  readonly host: string
  readonly port: number
  readonly pooled: boolean
}

/**
 * Fails with `ALREADY_EXISTS` when an agent of this process serves the host or TCP port that a cloud endpoint gets, unless both share the
 * same URL.
 */
export function mustNotBeOpened(
  before: ResourceRecord | undefined,
  { kind, body }: ResourceRecord,
  agentAt: (url: WantedUrl) => string | undefined
): void {
  if (kind !== endpoint.name) return
  if (before?.body.url === body.url && before?.body.pooling_enabled === body.pooling_enabled) return
  const { proto, host, port, pooling_enabled: pooled } = body as unknown as RecordOf<typeof endpoint>['body']
  const agent = agentAt({ proto, host, port, pooled })
  if (agent === undefined) return
  const details = { taken_by: agent }
  const why = `url is taken by an endpoint of an agent (${agent}), and both share it only with pooling enabled`
  throw new ControlError(controlErrors.ALREADY_EXISTS, why, { field: 'url', details })
}

/**
 * Fails with `FIELD_INVALID` if a static backend gets a link-local address. Names with such an address are rejected at
 * connection time.
 */
export function mustNotBeLinkLocal(before: ResourceRecord | undefined, after: ResourceRecord): void {
  if (after.kind !== staticBackend.name || before?.body.address === after.body.address) return
  const host = parseAuthority(String(after.body.address))?.host ?? ''
  if (!isLinkLocal(host)) return
  const message = `${host} is link-local or answers machines about themselves; the option upstream_link_local allows such addresses`
  throw new ControlError(fieldErrors.FIELD_INVALID, `address ${message}`, { field: 'address' })
}

/**
 * Fails with `FIELD_INVALID` when a route gets a match that no request can have in the form of paths of its edge, or an edge a form
 * that leaves a route of it without requests. `lenient`: does a listener take the lenient form?
 */
export async function matchesMustBePossible(
  reader: StoreReader,
  before: ResourceRecord | undefined,
  { kind, id, body }: ResourceRecord,
  lenient: () => boolean
): Promise<void> {
  const isStrict = (form: unknown) => takesStrictPaths(form, lenient())
  if (kind === httpsEdgeRoute.name) {
    const refusal = before?.body.match === body.match ? undefined : refusalOfMatch(String(body.match))
    if (refusal === undefined) return
    const edge = await reader.get(httpsEdge.name, String(body.edge_id))
    if (!isStrict((edge as Place | undefined)?.body.path_form)) return
    throw new ControlError(fieldErrors.FIELD_INVALID, `match ${refusal}`, { field: 'match' })
  }
  if (kind !== httpsEdge.name || before === undefined || before.body.path_form === body.path_form) return
  if (!isStrict(body.path_form) || isStrict(before.body.path_form)) return
  const routes = await recordsNaming(reader, httpsEdgeRoute.name, { field: 'edge_id', to: { kind, ids: [id] } })
  const lost = routes.get(id)?.find((route) => refusalOfMatch(String((route as Place).body.match)) !== undefined)
  if (lost === undefined) return
  const message = `path_form leaves no request to route ${lost.id}, whose match ${(lost as Place).body.match} is refused in the strict form`
  throw new ControlError(fieldErrors.FIELD_INVALID, message, { field: 'path_form' })
}

type Module = { readonly enabled: boolean } & Readonly<Record<string, unknown>>
type Place = Pick<ResourceRecord, 'kind' | 'id' | 'body'>

/** Backends that respond to HTTP requests themselves. */
const ANSWERING: readonly string[] = [httpResponseBackend.name, fileBackend.name]
const GROUPS: ReadonlySet<string> = new Set([weightedBackend.name, failoverBackend.name])

/**
 * Fails with `CONFLICTING_FIELDS` if plain bytes would reach a fixed HTTP response or files, which cannot answer them: from
 * a TCP or TLS edge or a route that converts WebSockets, directly or through nested backends. Existing paths are allowed.
 */
export async function mustCarryBytes(
  reader: StoreReader,
  before: ResourceRecord | undefined,
  after: ResourceRecord
): Promise<void> {
  const backend = carrierOf(after)
  if (backend !== undefined && backend !== (before === undefined ? undefined : carrierOf(before))) {
    const response = await responseBehind(reader, [backend])
    if (response !== undefined) {
      const message = `leads to ${response.kind} ${response.id}, which cannot answer on plain bytes`
      throw new ControlError(fieldErrors.CONFLICTING_FIELDS, `backend.backend_id ${message}`, {
        field: 'backend.backend_id'
      })
    }
  }
  if (!GROUPS.has(after.kind)) return
  const had = new Set(before === undefined ? [] : membersOf(before))
  const response = await responseBehind(
    reader,
    membersOf(after).filter((id) => !had.has(id))
  )
  const carrier = response === undefined ? undefined : await carrierAbove(reader, after)
  if (carrier === undefined) return
  const message = `backends leads to ${response?.kind} ${response?.id}, but ${carrier.kind} ${carrier.id} sends plain bytes here`
  throw new ControlError(fieldErrors.CONFLICTING_FIELDS, message, { field: 'backends' })
}

/** Id of the backend to which a record sends plain bytes. */
function carrierOf({ kind, body }: Place): string | undefined {
  const { backend, websocket_tcp_converter: converter } = body as Readonly<Record<string, Module | null | undefined>>
  const sends =
    kind === tcpEdge.name || kind === tlsEdge.name || (kind === httpsEdgeRoute.name && converter?.enabled === true)
  return sends && backend?.enabled === true ? String(backend.backend) : undefined
}

function membersOf({ kind, body }: Place): readonly string[] {
  if (!GROUPS.has(kind)) return []
  return Array.isArray(body.backends) ? (body.backends as string[]) : Object.keys(body.backends as object)
}

/** Returns a backend that responds itself, among backends and their members. Groups are acyclic. */
async function responseBehind(reader: StoreReader, ids: readonly string[]): Promise<RecordKey | undefined> {
  if (ids.length === 0) return undefined
  const kinds = [...ANSWERING, ...GROUPS]
  const found = await reader.getMany(ids.flatMap((id) => kinds.map((kind) => ({ kind, id }))))
  const response = found.find(({ kind }) => ANSWERING.includes(kind))
  if (response !== undefined) return response
  return await responseBehind(
    reader,
    found.flatMap((one) => membersOf(one as Place))
  )
}

/** Returns a record that sends plain bytes to a group, directly or through another. */
async function carrierAbove(reader: StoreReader, { kind, id }: RecordKey): Promise<RecordKey | undefined> {
  const users = (await reader.referencesTo(kind, id)).map(({ from }) => from)
  for (const user of await reader.getMany(users)) {
    if (carrierOf(user as Place) === id) return user
    const above = GROUPS.has(user.kind) ? await carrierAbove(reader, user) : undefined
    if (above !== undefined) return above
  }
  return undefined
}

/**
 * Returns warnings for the author of policies: those of the compiler, and names that `snapshot`, which serves next, does not
 * have. They are no errors, because the names may be created later. `declared`: keys of the units of a site file.
 */
export function policyWarnings(
  put: readonly (readonly [key: string, unit: Unit])[],
  compiled: readonly UnitProblems[],
  {
    snapshot,
    declared
  }: { readonly snapshot: Snapshot; readonly declared: Pick<ReadonlySet<string>, 'has'> | undefined }
): readonly FoundWarning[] {
  const found = new Map<string, FoundWarning>()
  const note = (key: string, source: string, problem: Problem) => {
    const warning = declared?.has(key) ? { ...shown(problem), file: source, length: problem.length } : shown(problem)
    // A document that several routes have is one.
    found.set(JSON.stringify([source, warning]), { source, warning })
  }
  for (const { key, source, problems } of compiled)
    for (const one of judgePaths(problems, isStrictFor(key, snapshot))) note(key, source, one)
  for (const [key, unit] of put) {
    for (const one of snapshot.policy(key)?.named ?? []) {
      if (!isThere(one.unit, snapshot)) note(key, unit.kind === 'policy' ? unit.source : key, one.missing)
    }
  }
  return [...found.values()]
}

/** A warning with its document, named as in the log. */
export interface FoundWarning {
  readonly source: string
  readonly warning: PolicyWarning
}

/** True when a write of the module of a record may be answered with warnings. */
export function isWarnedOf(module: string): boolean {
  return module === POLICY_MODULE
}

function isThere(unit: UnitName, snapshot: Snapshot): boolean {
  switch (unit.kind) {
    case 'secret':
      return snapshot.secret(unit.vault, unit.name) !== undefined
    case 'ip-policy':
      return snapshot.ipPolicy(unit.id) !== undefined
    case 'authority':
      return snapshot.tables.certificates.authority(authorityKey(unit.id)) !== undefined
    case 'internal':
      return snapshot.hasInternal(unit.layer, unit.host, unit.port)
    case 'one-address':
      return !snapshot.tables.https.takesIpv6
  }
}

function shown({ code, message, path, line, column }: Problem): PolicyWarning {
  return { code, message, path, line, column }
}
