import { isInternal } from '../flow/flow.js'
import { ANY_HOST } from '../lib/host.js'
import type { ShardedMap } from '../lib/sharded-map.js'
import { POLICY_MODULE } from '../policy/record-policy.js'
import { botUser } from '../resources/identities.js'
import { aliases } from '../resources/registry.js'
import { adminFields, type Operation, type Resource } from '../resources/resource.js'
import { isUsableBy } from '../resources/vaults.js'
import type { FilteredTraffic } from '../runtime/address-filter.js'
import type { Unit } from '../runtime/plan.js'
import type { Change } from '../runtime/plan-changes.js'
import { fieldErrors } from '../schema/errors.js'
import type { ResourceRecord } from '../schema/field.js'
import type { StoreReader } from '../store/store.js'
import { USER } from './access.js'
import type { Principal, WriteMode } from './calls.js'
import { ControlError, controlErrors } from './errors.js'
import type { RecordedChange } from './revision-note.js'
import type { NewReach } from './vault-reach.js'

/** Records that an operation may touch: all of them, the caller's own, or none. */
export type Extent = 'any' | 'own' | 'none'

/** Rights to a resource. `secrets`: see secrets in responses; `command`: send commands to live entries. */
export type Right = 'read' | 'create' | 'update' | 'delete' | 'secrets' | 'command'

/** The rights of a member on one resource. */
export type Rights = Readonly<Record<Right, Extent>>

/** The classes of traffic that IP restrictions of the account hold for. */
const RESTRICTED_TRAFFIC: readonly FilteredTraffic[] = ['api', 'dashboard', 'agent', 'endpoints']

/** TCP ports below are privileged: well-known services of the machine have them. */
const FIRST_UNPRIVILEGED_PORT = 1024

/** Members read and write all records. */
const SHARED: Rights = { read: 'any', create: 'any', update: 'any', delete: 'any', secrets: 'none', command: 'none' }
/** Members read, administrators write. */
const ADMINISTERED: Rights = { ...SHARED, create: 'none', update: 'none', delete: 'none' }
/** Members may read and write only their own records. */
const PERSONAL: Rights = { ...SHARED, read: 'own', create: 'own', update: 'own', delete: 'own' }

/**
 * Rights of members, users and bots alike. Administrators may do everything. A resource without a row is only for
 * administrators. The owner of a record is its `owner_id`: its creator, unless an administrator named another.
 */
export const MEMBER_RIGHTS: Readonly<Record<string, Rights>> = {
  bot_user: ADMINISTERED,
  credential: PERSONAL,
  api_key: PERSONAL,
  ssh_credential: PERSONAL,
  ip_policy: SHARED,
  ip_policy_rule: SHARED,
  ip_restriction: ADMINISTERED,
  tls_certificate: SHARED,
  certificate_authority: SHARED,
  reserved_domain: SHARED,
  reserved_addr: SHARED,
  agent_ingress: SHARED,
  ssh_certificate_authority: SHARED,
  ssh_host_certificate: SHARED,
  ssh_user_certificate: SHARED,
  vault: ADMINISTERED,
  vault_secret: ADMINISTERED,
  tunnel_group_backend: SHARED,
  static_backend: SHARED,
  http_response_backend: SHARED,
  file_backend: ADMINISTERED,
  weighted_backend: SHARED,
  failover_backend: SHARED,
  tcp_edge: SHARED,
  tls_edge: SHARED,
  https_edge: SHARED,
  https_edge_route: { ...SHARED, secrets: 'own' },
  event_destination: ADMINISTERED,
  event_subscription: ADMINISTERED,
  abuse_report: { ...SHARED, update: 'none', delete: 'none' },
  kubernetes_operator: SHARED,
  tunnel_session: { ...ADMINISTERED, command: 'own' },
  tunnel: ADMINISTERED,
  application_user: ADMINISTERED,
  application_session: ADMINISTERED,
  endpoint: ADMINISTERED
}

const EVERYTHING: Rights = {
  read: 'any',
  create: 'any',
  update: 'any',
  delete: 'any',
  secrets: 'any',
  command: 'any'
}

const NOTHING: Rights = {
  read: 'none',
  create: 'none',
  update: 'none',
  delete: 'none',
  secrets: 'none',
  command: 'none'
}

/**
 * Rights to operations outside of resources: `?force=true`, the whole account as a document or a backup, and dead letters,
 * whose events contain records of other owners.
 */
export const ACCOUNT_RIGHTS = {
  force: { member: false, refusal: 'only an administrator may use force' },
  backup: { member: false, refusal: 'only an administrator may make a backup' },
  dead_letters: { member: false, refusal: 'only an administrator may see, deliver again or drop dead letters' },
  explain: { member: false, refusal: 'only an administrator may explain requests' },
  exchanges: { member: false, refusal: 'only an administrator may see, follow or replay exchanges' },
  limits: { member: false, refusal: 'only an administrator may see limits of traffic or empty their buckets' },
  shadow: { member: false, refusal: 'only an administrator may run, see or end shadows' },
  site_file: { member: false, refusal: 'only an administrator may see, apply or remove the site file' },
  transfer: { member: false, refusal: 'only an administrator may export or import the account' }
} as const

const RIGHTS: Readonly<Record<Operation, Right>> = {
  get: 'read',
  list: 'read',
  create: 'create',
  update: 'update',
  delete: 'delete'
}

/** Returns the rights of a caller: each right to the account, and the extent of each right to each resource. */
export function rightsOf(
  { role }: Principal,
  resources: readonly Pick<Resource, 'name'>[]
): Readonly<Record<string, unknown>> {
  const administrator = role === 'administrator'
  const extents = (of: Rights) => {
    const { read, create, update, delete: remove, command } = of
    return { read, create, update, delete: remove, command }
  }
  return {
    ...Object.fromEntries(Object.entries(ACCOUNT_RIGHTS).map(([name, { member }]) => [name, administrator || member])),
    resources: Object.fromEntries(
      resources.map((resource) => [resource.name, extents(administrator ? EVERYTHING : memberRights(resource))])
    )
  }
}

/** Returns the rights of members to a resource. */
export function memberRights({ name }: Pick<Resource, 'name'>): Rights {
  const same = aliases.find(({ alias }) => alias.name === name)?.of.name ?? name
  return MEMBER_RIGHTS[same] ?? NOTHING
}

/** Returns the extent of the caller's right to this operation. */
export function extentOf({ role }: Principal, resource: Pick<Resource, 'name'>, operation: Operation): Extent {
  return role === 'administrator' ? 'any' : memberRights(resource)[RIGHTS[operation]]
}

/** Fails with `ADMIN_REQUIRED` if only administrators may do this to any record of the resource. */
export function mayOperate(principal: Principal, resource: Resource, operation: Operation): void {
  if (extentOf(principal, resource, operation) !== 'none') return
  const verb = RIGHTS[operation] === 'read' ? 'read' : 'write'
  throw new ControlError(controlErrors.ADMIN_REQUIRED, `only an administrator may ${verb} a ${resource.name}`)
}

/** Fails with `ADMIN_REQUIRED` if the caller may not do this to this record, which may be new. */
export function mayTouch(
  principal: Principal,
  operation: Operation,
  record: Pick<ResourceRecord, 'kind' | 'body'>
): void {
  const resource = { name: record.kind }
  const right = RIGHTS[operation]
  if (!reaches(extentOf(principal, resource, operation), principal, record)) {
    const verb = right === 'read' ? 'read' : 'change'
    throw new ControlError(
      controlErrors.ADMIN_REQUIRED,
      `only an administrator may ${verb} the ${record.kind} of somebody else`
    )
  }
}

/** May the caller read this record? */
export function mayRead(principal: Principal, record: Pick<ResourceRecord, 'kind' | 'body'>): boolean {
  return reaches(extentOf(principal, { name: record.kind }, 'get'), principal, record)
}

/** May the caller read the changes of a record? `owner`: its current owner; undefined if it was deleted. */
export function mayReadChange(
  principal: Principal,
  change: Pick<RecordedChange, 'kind' | 'fields'>,
  owner: unknown
): boolean {
  const { after, before } = change.fields.owner_id ?? {}
  return mayRead(principal, { kind: change.kind, body: { owner_id: owner ?? after ?? before } })
}

/** May the caller see secrets of the record in responses? */
export function maySeeSecrets(principal: Principal, record: Pick<ResourceRecord, 'kind' | 'body'>): boolean {
  return principal.role === 'administrator' || reaches(memberRights({ name: record.kind }).secrets, principal, record)
}

/** Fails with `ADMIN_REQUIRED` if the caller may not send commands. `owner`: owner of the session's credential; undefined if deleted. */
export function mayCommand(principal: Principal, resource: Resource, owner: string | undefined): void {
  const { command } = memberRights(resource)
  if (principal.role === 'administrator' || command === 'any' || (command === 'own' && owner === principal.id)) return
  throw new ControlError(
    controlErrors.ADMIN_REQUIRED,
    `only an administrator may send commands to a ${resource.name} of somebody else`
  )
}

/** Fails with `ADMIN_REQUIRED` if the body assigns fields to another user that only an administrator may assign. */
export function mayGive(principal: Principal, resource: Resource, body: unknown): void {
  if (principal.role === 'administrator' || typeof body !== 'object' || body === null) return
  const given = body as Readonly<Record<string, unknown>>
  const field = adminFields(resource, given).find((name) => ![principal.id, '', null].includes(given[name] as string))
  if (field === undefined) return
  throw new ControlError(controlErrors.ADMIN_REQUIRED, `only an administrator may set ${field} to somebody else`, {
    field
  })
}

/**
 * Fails with `ADMIN_REQUIRED` if a write changes the addresses that the account's IP restrictions admit, possibly through a
 * rule of an IP policy. `same`: is the restriction of this traffic unchanged?
 */
export function mayChangeAddresses({ role }: Principal, same: (traffic: FilteredTraffic) => boolean): void {
  const changed = role === 'administrator' ? undefined : RESTRICTED_TRAFFIC.find((traffic) => !same(traffic))
  if (changed === undefined) return
  const message = `an IP restriction of type ${changed} rests on this, so only an administrator may change it`
  throw new ControlError(controlErrors.ADMIN_REQUIRED, message)
}

/** Fails with `ADMIN_REQUIRED` when a write opens ports of TCP edges below 1024. `running`: the units that it starts from. */
export function mayOpenPorts({ role }: Principal, put: Change['put'], running: ShardedMap<Unit>): void {
  if (role === 'administrator') return
  for (const [key, unit] of put) {
    if (unit.kind !== 'tcp_edge') continue
    const before = running.get(key)
    const open = before?.kind === 'tcp_edge' ? before.ports : []
    const index = unit.ports.findIndex(
      ({ host, port }) =>
        port < FIRST_UNPRIVILEGED_PORT &&
        !isInternal(host) &&
        !open.some((one) => one.port === port && !isInternal(one.host))
    )
    if (index === -1) continue
    const message = `only an administrator may open a port below ${FIRST_UNPRIVILEGED_PORT} (${unit.ports[index]?.port})`
    throw new ControlError(controlErrors.ADMIN_REQUIRED, message, { field: `hostports[${index}]` })
  }
}

/** Fails with `ADMIN_REQUIRED` when a write makes an edge take the requests of every host that no other edge has. */
export function mayTakeEveryHost({ role }: Principal, put: Change['put'], running: ShardedMap<Unit>): void {
  if (role === 'administrator') return
  for (const [key, unit] of put) {
    if (unit.kind !== 'edge' || unit.hosts === 'every') continue
    const before = running.get(key)
    const had = before?.kind === 'edge' && before.hosts !== 'every' ? before.hosts : []
    const index = unit.hosts.findIndex(
      (one) => one.host === ANY_HOST && !had.some((at) => at.port === one.port && at.host === ANY_HOST)
    )
    if (index === -1) continue
    const message = 'only an administrator may let an edge take every host that no other edge has'
    throw new ControlError(controlErrors.ADMIN_REQUIRED, message, { field: `hostports[${index}]` })
  }
}

/** Fails with `ADMIN_REQUIRED` when a write leads traffic to a Unix domain socket: those of the machine's own services trust each process that reaches them. */
export function mayUseSockets({ role }: Principal, put: Change['put'], running: ShardedMap<Unit>): void {
  if (role === 'administrator') return
  for (const [key, unit] of put) {
    if (unit.kind !== 'upstream' || unit.form !== 'address' || unit.socket === undefined) continue
    const before = running.get(key)
    if (before?.kind === 'upstream' && before.form === 'address' && before.socket === unit.socket) continue
    const message = 'only an administrator may send traffic to a Unix domain socket'
    throw new ControlError(controlErrors.ADMIN_REQUIRED, message, { field: 'address' })
  }
}

/**
 * Fails with `VAULT_NOT_ALLOWED` if a write sends secrets of a vault that the caller may not use to a new destination, or
 * exposes them to a changed policy. `guarded`: the revert of its guard would do so.
 */
export function mayReach({ id, role }: Principal, reach: NewReach, guarded: boolean): void {
  const { vault, usableBy, entry, policy } = reach
  if (role === 'administrator' || isUsableBy(usableBy, id)) return
  const whose =
    vault === undefined ? 'of any vault, which its policy names only at run time' : `of the vault "${vault}"`
  const what =
    policy === undefined
      ? `this changes where secrets ${whose} go (${entry})`
      : `the policy reads or is handed secrets ${whose} (${entry})`
  const why = guarded ? `if its guard breaks, ${what}` : what
  const message = `${why}, and only an administrator may use that; usable_by of a vault says who else may`
  const field = policy === undefined || guarded ? {} : { field: `${POLICY_MODULE}.value` }
  throw new ControlError(controlErrors.VAULT_NOT_ALLOWED, message, field)
}

/** Fails with `ADMIN_REQUIRED`. */
export function mayForce(principal: Principal, { force }: WriteMode): void {
  if (force === true) mustHave(principal, 'force')
}

/** Fails with `ADMIN_REQUIRED` if the caller lacks this right. */
export function mustHave({ role }: Principal, right: keyof typeof ACCOUNT_RIGHTS): void {
  const { member, refusal } = ACCOUNT_RIGHTS[right]
  if (role !== 'administrator' && !member) throw new ControlError(controlErrors.ADMIN_REQUIRED, refusal)
}

/** Fails with `REF_NOT_FOUND` when an owner is no user; references show only those that are records of resources. */
export async function ownersMustExist(reader: StoreReader, resource: Resource, record: ResourceRecord): Promise<void> {
  for (const field of adminFields(resource, record.body)) {
    const id = String(record.body[field])
    if (!id.startsWith('usr_') || (await reader.get(USER, id)) !== undefined) continue
    throw new ControlError(fieldErrors.REF_NOT_FOUND, `there is no user ${id}`, { field })
  }
}

/** Fails with `OWNER_INACTIVE` if an owner is an inactive bot, whose records would have no effect. */
export async function ownersMustBeActive(
  reader: StoreReader,
  resource: Resource,
  record: ResourceRecord
): Promise<void> {
  for (const field of adminFields(resource, record.body)) {
    const id = String(record.body[field])
    const { active } = ((await reader.get(botUser.name, id))?.body ?? {}) as { readonly active?: boolean }
    if (active !== false) continue
    const message = `${botUser.name} ${id} is not active, so its ${resource.name} would open nothing: activate it first`
    throw new ControlError(controlErrors.OWNER_INACTIVE, message, { field })
  }
}

function reaches(extent: Extent, { id }: Principal, { body }: Pick<ResourceRecord, 'body'>): boolean {
  return extent === 'any' || (extent === 'own' && body.owner_id === id)
}
