import { isDeepStrictEqual } from 'node:util'
import { isInternal } from '../flow/flow.js'
import { hostPatterns } from '../lib/host.js'
import { addTo } from '../lib/lists.js'
import type { ShardedMap } from '../lib/sharded-map.js'
import { Passes, type Steps } from '../lib/slices.js'
import type { HostLead } from '../policy/action.js'
import type { EdgeUnit, Plan, RouteUnit, TcpEdgeUnit, Unit, UpstreamUnit } from '../runtime/plan.js'
import type { Snapshot } from '../runtime/snapshot.js'
import { policiesOf } from './apply.js'

/** A unit whose policies see traffic. */
type Entry = RouteUnit | TcpEdgeUnit | EdgeUnit

/** Name of a vault; undefined if a policy chooses it at run time. */
type VaultName = string | undefined

/** Secrets of a vault that a change would send to somewhere else, or hand to another text of a policy. */
export interface NewReach {
  readonly vault: VaultName
  /** Users other than administrators who may use the vault. */
  readonly usableBy: readonly string[]
  /** Key of the route, TCP edge or edge where that happens. */
  readonly entry: string
  /** Key of the policy with a new text; undefined if there is none. */
  readonly policy: string | undefined
}

/** Modules that neither choose the receiver of a request or response nor change its contents. */
const NEUTRAL_MODULES: ReadonlySet<string> = new Set(['compression', 'circuit_breaker'])

/** True when a unit says something about where secrets go. */
export function concernsReach(unit: Unit | undefined): boolean {
  return unit !== undefined && REACHING.has(unit.kind)
}

const REACHING: ReadonlySet<Unit['kind']> = new Set(['policy', 'route', 'tcp_edge', 'edge', 'upstream'])

/**
 * Yields to find the vaults whose secrets reach a new destination in `after`, each with the first such place. Secrets reach
 * the servers of the entries whose policies read them, the entries that policies lead to from there, with their servers,
 * and, by the response, the entries that lead there. The hosts, path, modules and policies of all of these entries count
 * too: they decide who can send requests, and how the secret is used. Removals are no new reach.
 */
export function* newReaches(before: Snapshot, after: Snapshot): Steps<readonly NewReach[]> {
  const now = yield* readReach(after)
  if (now.size === 0) return []
  const former = yield* readReach(before)
  const found: NewReach[] = []
  const passes = new Passes()
  for (const [vault, { receives, sees }] of now) {
    const had = former.get(vault)
    for (const entry of sees) {
      if (passes.due()) yield
      const policy = changedPolicy(before, after, entry)
      const sends = receives.has(entry)
      const known = (sends ? had?.receives : had?.sees)?.has(entry) === true
      if (known && policy === undefined && isCovered(before, after, entry, sends)) continue
      found.push({ vault, usableBy: usersOf(vault, after), entry, policy })
      break
    }
  }
  return found
}

/** Labels of a tunnel group that gets secrets of a vault. */
export interface SecretLabels {
  readonly vault: VaultName
  /** Users other than administrators who may use the vault. */
  readonly usableBy: readonly string[]
  readonly labels: Readonly<Record<string, string>>
}

/** The tunnel groups that get secrets of vaults, by their labels, in steps. */
export function* secretLabels(snapshot: Snapshot): Steps<readonly SecretLabels[]> {
  const { units } = snapshot.plan
  const found: SecretLabels[] = []
  const passes = new Passes()
  for (const [vault, { receives }] of yield* readReach(snapshot)) {
    const usableBy = usersOf(vault, snapshot)
    for (const key of receives) {
      if (passes.due()) yield
      const entry = units.get(key)
      if (entry?.kind !== 'route' && entry?.kind !== 'tcp_edge') continue
      for (const unit of serversOf(entry.upstream, units).values()) {
        if (unit.form === 'tunnels') found.push({ vault, usableBy, labels: unit.labels })
      }
    }
  }
  return found
}

function usersOf(vault: VaultName, { plan, tables }: Snapshot): readonly string[] {
  const id = vault === undefined ? undefined : tables.secrets.vaultNamed(vault)
  const unit = id === undefined ? undefined : plan.units.get(`vault:${id}`)
  return unit?.kind === 'vault' ? (unit.usableBy ?? []) : []
}

/** Keys of the entries that secrets of one vault get to. */
interface Reach {
  /** The secret may be in the request here, so it may go to the upstream. */
  readonly receives: Set<string>
  /** The secret may be in the request or the response here. Holds `receives`. */
  readonly sees: Set<string>
}

/** Entries by vault. */
type Reaches = ReadonlyMap<VaultName, Reach>

/** Links between the entries of a snapshot by hosts. */
interface Leads {
  /** Entry → entries that it hands exchanges to. */
  readonly forwards: Map<string, Set<string>>
  /** Entry → entries that it sends its own requests to. */
  readonly requests: Map<string, Set<string>>
  /** Entry → entries that hand exchanges to it. */
  readonly forwarders: Map<string, Set<string>>
  /** Entry → entries that send it requests by an internal host; any client may request other hosts. */
  readonly askers: Map<string, Set<string>>
}

/** Cached results by plan: a write reads the plan of the previous write. */
const followed = new WeakMap<Plan, Reaches>()

function* readReach(snapshot: Snapshot): Steps<Reaches> {
  const known = followed.get(snapshot.plan)
  if (known !== undefined) return known
  const reaches = yield* followSecrets(snapshot)
  followed.set(snapshot.plan, reaches)
  return reaches
}

function* followSecrets(snapshot: Snapshot): Steps<Reaches> {
  const passes = new Passes()
  let reads = false
  for (const [, { vaults }] of snapshot.tables.policies) {
    if (passes.due()) yield
    reads ||= vaults.size > 0
  }
  if (!reads) return new Map()
  const readers = new Map<VaultName, Set<string>>()
  const leading: (readonly [key: string, leads: readonly HostLead[]])[] = []
  for (const [key, unit] of snapshot.plan.units) {
    if (passes.due()) yield
    for (const policy of policiesAt(unit)) {
      const compiled = snapshot.policy(policy)
      if (compiled === undefined) continue
      for (const vault of compiled.vaults) addTo(readers, vault, key)
      if (compiled.leads.length > 0) leading.push([key, compiled.leads])
    }
  }
  const leads = yield* resolveLeads(snapshot, leading)
  const reaches = new Map<VaultName, Reach>()
  for (const [vault, entries] of readers) {
    yield
    reaches.set(vault, reachOf(entries, leads))
  }
  return reaches
}

function* resolveLeads(
  snapshot: Snapshot,
  leading: readonly (readonly [key: string, leads: readonly HostLead[]])[]
): Steps<Leads> {
  const leads: Leads = { forwards: new Map(), requests: new Map(), forwarders: new Map(), askers: new Map() }
  if (leading.length === 0) return leads
  const hosts = yield* servedHosts(
    snapshot,
    leading.flatMap(([, to]) => to)
  )
  for (const [key, to] of leading) {
    for (const { by, layer, host } of to) {
      yield
      for (const target of entriesAt(hosts, layer, host, snapshot)) {
        addTo(by === 'forward' ? leads.forwards : leads.requests, key, target)
        if (by === 'forward') addTo(leads.forwarders, target, key)
        else if (host !== undefined && isInternal(host)) addTo(leads.askers, target, key)
      }
    }
  }
  return leads
}

/** Follows secrets from the entries whose policies read them. */
function reachOf(readers: ReadonlySet<string>, { forwards, requests, forwarders, askers }: Leads): Reach {
  // Entries whose responses may contain the secret. The policy of a forwarder sees such a response; that of an asker has it as data of its own
  // request.
  const answers = new Set(readers)
  const receives = new Set(readers)
  for (const entry of answers) {
    for (const caller of forwarders.get(entry) ?? []) answers.add(caller)
    for (const caller of askers.get(entry) ?? []) {
      answers.add(caller)
      receives.add(caller)
    }
  }
  for (const entry of answers) for (const target of requests.get(entry) ?? []) receives.add(target)
  for (const entry of receives) {
    for (const target of forwards.get(entry) ?? []) receives.add(target)
    for (const target of requests.get(entry) ?? []) receives.add(target)
  }
  return { receives, sees: new Set([...receives, ...answers]) }
}

/** Layer and host → keys of the edges that serve it, on any port. */
type ServedHosts = ReadonlyMap<string, ReadonlySet<string>>

/** Returns the hosts that `leads` may name; for a host known only at run time, all internal ones. */
function* servedHosts({ plan }: Snapshot, leads: readonly HostLead[]): Steps<ServedHosts> {
  const passes = new Passes()
  const wanted = new Set(leads.flatMap(({ host }) => (host === undefined ? [] : hostPatterns(host))))
  const everyInternal = leads.some(({ host }) => host === undefined)
  const found = new Map<string, Set<string>>()
  for (const [key, unit] of plan.units) {
    if (passes.due()) yield
    if (unit.kind !== 'tcp_edge' && unit.kind !== 'edge') continue
    const hosts = unit.kind === 'tcp_edge' ? unit.ports : unit.hosts === 'every' ? [] : unit.hosts
    const layer = unit.kind === 'tcp_edge' ? 'tcp' : 'http'
    for (const { host } of hosts) {
      if (wanted.has(host) || (everyInternal && isInternal(host))) addTo(found, `${layer} ${host}`, key)
    }
  }
  return found
}

/** Returns the keys of the entries that a host may reach: its own edge, and wildcards above it. */
function entriesAt(
  hosts: ServedHosts,
  layer: HostLead['layer'],
  host: HostLead['host'],
  { plan, tables }: Snapshot
): readonly string[] {
  const names =
    host === undefined
      ? [...hosts.keys()].filter((served) => served.startsWith(`${layer} `) && isInternal(served))
      : hostPatterns(host).map((one) => `${layer} ${one}`)
  return names.flatMap((name) =>
    [...(hosts.get(name) ?? [])].flatMap((key) => {
      const unit = plan.units.get(key)
      return unit?.kind === 'edge' ? [...tables.edges.routesOf(unit.id)].map(({ id }) => `route:${id}`) : [key]
    })
  )
}

/** Keys of the policies that see traffic at a unit. */
function policiesAt(unit: Unit | undefined): readonly string[] {
  if (unit?.kind !== 'edge') return unit === undefined ? [] : policiesOf(unit)
  return unit.connectPolicy === undefined ? [] : [unit.connectPolicy]
}

/** Returns the key of a policy of the entry with a changed text; undefined if there is none. */
function changedPolicy(before: Snapshot, after: Snapshot, entry: string): string | undefined {
  const had = new Set(policiesAt(before.plan.units.get(entry)))
  return policiesAt(after.plan.units.get(entry)).find(
    (key) => !had.has(key) || before.policySource(key)?.text !== after.policySource(key)?.text
  )
}

/** True when the entry lets secrets get nowhere in `after` where they did not get in `before`, its own texts of policies apart. */
function isCovered(before: Snapshot, after: Snapshot, entry: string, sends: boolean): boolean {
  const [was, is] = [before.plan.units, after.plan.units]
  const [former, current] = [was.get(entry), is.get(entry)] as [Entry | undefined, Entry | undefined]
  if (former === undefined || current === undefined) return false
  if (!sameFrame(former, was, current, is)) return false
  if (!sends || current.kind === 'edge' || former.kind === 'edge') return true
  const known = serversOf(former.upstream, was)
  return [...serversOf(current.upstream, is).keys()].every((one) => known.has(one))
}

function sameFrame(former: Entry, was: ShardedMap<Unit>, current: Entry, is: ShardedMap<Unit>): boolean {
  const edgeOf = (entry: Entry, units: ShardedMap<Unit>) =>
    entry.kind === 'route' ? units.get(`edge:${entry.edge}`) : undefined
  // Units are shared as long as no write touches them.
  if (former === current && edgeOf(former, was) === edgeOf(current, is)) return true
  return isDeepStrictEqual(frameOf(former, was), frameOf(current, is))
}

/** Returns an entry without its servers: its match and its modules. */
function frameOf(entry: Entry, units: ShardedMap<Unit>): unknown {
  if (entry.kind === 'edge') {
    const { hsts: _, ...frame } = entry
    return frame
  }
  const { upstream: _, modules, ...frame } = entry
  const edge = entry.kind === 'route' ? units.get(`edge:${entry.edge}`) : undefined
  return {
    ...frame,
    modules: Object.fromEntries(Object.entries(modules).filter(([name]) => !NEUTRAL_MODULES.has(name))),
    edge: edge?.kind === 'edge' ? frameOf(edge, units) : undefined
  }
}

type ServerUpstream = Extract<UpstreamUnit, { form: 'address' | 'tunnels' }>

/**
 * Returns the servers of an upstream by their identity: the address, and the TLS settings. A member without weight is
 * different from one with it.
 */
function serversOf(key: string | undefined, units: ShardedMap<Unit>): ReadonlyMap<string, ServerUpstream> {
  const found = new Map<string, ServerUpstream>()
  const visit = (upstream: string, idle: boolean): void => {
    const unit = units.get(upstream)
    if (unit?.kind !== 'upstream' || unit.form === 'response' || unit.form === 'files') return
    if (unit.form === 'weighted') for (const one of unit.members) visit(one.upstream, idle || one.weight === 0)
    else if (unit.form === 'failover') for (const one of unit.members) visit(one, idle)
    else found.set(JSON.stringify([idle, placeOf(unit)]), unit)
  }
  if (key !== undefined) visit(key, false)
  return found
}

function placeOf(unit: ServerUpstream): unknown {
  if (unit.form === 'tunnels') return unit.labels
  const { health: _, passiveHealth: __, retries: ___, timeouts: ____, ...place } = unit
  return place
}
