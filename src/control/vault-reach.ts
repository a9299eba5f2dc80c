import { isDeepStrictEqual } from 'node:util'
import { isInternal } from '../flow/flow.js'
import type { ShardedMap } from '../lib/sharded-map.js'
import { Passes, type Steps } from '../lib/slices.js'
import type { EdgeUnit, RouteUnit, TcpEdgeUnit, Unit, UpstreamUnit } from '../runtime/plan.js'
import type { Snapshot } from '../runtime/snapshot.js'
import { policiesOf } from './apply.js'

/** A unit whose policies see traffic. */
type Entry = RouteUnit | TcpEdgeUnit | EdgeUnit

/** Name of a vault; undefined: any, because a policy names it only at run time. */
type VaultName = string | undefined

/** Secrets of a vault that a change would send to somewhere else, or hand to another text of a policy. */
export interface NewReach {
  readonly vault: VaultName
  /** Key of the route, TCP edge or edge where that happens. */
  readonly entry: string
  /** Key of the policy whose text is new there; undefined: no text is. */
  readonly policy: string | undefined
}

/** Modules that neither choose who gets a request or response nor change what it says. */
const NEUTRAL_MODULES: ReadonlySet<string> = new Set(['compression', 'circuit_breaker'])

/** True when a unit says something about where secrets go. */
export function concernsReach(unit: Unit | undefined): boolean {
  return unit !== undefined && REACHING.has(unit.kind)
}

const REACHING: ReadonlySet<Unit['kind']> = new Set(['policy', 'route', 'tcp_edge', 'edge', 'upstream'])

/**
 * The vaults whose secrets reach something in `after` that they do not reach in `before`, each with the first such place. Secrets
 * reach the servers of the entries whose policies read them, the internal entries that policies lead to from there, with
 * their servers, and, by the response, the entries that lead there. The hosts, path, modules and policies of all of these
 * entries count too: they decide who asks, and what becomes of the secret. What only falls away is no new reach.
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
      found.push({ vault, entry, policy })
      break
    }
  }
  return found
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

/** How the entries of a snapshot lead to each other through internal hosts. */
interface Leads {
  /** Entry → entries that it hands exchanges to. */
  readonly forwards: ReadonlyMap<string, ReadonlySet<string>>
  /** Entry → entries that it sends requests of its own to. */
  readonly requests: ReadonlyMap<string, ReadonlySet<string>>
}

function* readReach(snapshot: Snapshot): Steps<Reaches> {
  const passes = new Passes()
  let reads = false
  for (const [, { vaults }] of snapshot.tables.policies) {
    if (passes.due()) yield
    reads ||= vaults.size > 0
  }
  if (!reads) return new Map()
  const internal = yield* internalEntries(snapshot)
  const readers = new Map<VaultName, string[]>()
  const forwards = new Map<string, ReadonlySet<string>>()
  const requests = new Map<string, ReadonlySet<string>>()
  for (const [key, unit] of snapshot.plan.units) {
    if (passes.due()) yield
    for (const policy of policiesAt(unit)) {
      const { vaults = [], leads = [] } = snapshot.policy(policy) ?? {}
      for (const vault of vaults) readers.set(vault, [...(readers.get(vault) ?? []), key])
      for (const { by, layer, host } of leads) {
        const targets = internal.filter((one) => one.layer === layer && isNamed(one.host, host))
        const known = by === 'forward' ? forwards : requests
        known.set(key, new Set([...(known.get(key) ?? []), ...targets.flatMap(({ entries }) => entries)]))
      }
    }
  }
  const reaches = new Map<VaultName, Reach>()
  for (const [vault, entries] of readers) {
    yield
    reaches.set(vault, reachOf(entries, { forwards, requests }))
  }
  return reaches
}

/** Follows secrets from the entries whose policies read them. */
function reachOf(readers: readonly string[], { forwards, requests }: Leads): Reach {
  const callers = { forwards: reversed(forwards), requests: reversed(requests) }
  // Entries whose responses may hold the secret: a caller's policy sees the response, and what it has asked for becomes data of its request.
  const answers = new Set(readers)
  const receives = new Set(readers)
  for (const entry of answers) {
    for (const caller of callers.forwards.get(entry) ?? []) answers.add(caller)
    for (const caller of callers.requests.get(entry) ?? []) {
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

function reversed(leads: ReadonlyMap<string, ReadonlySet<string>>): ReadonlyMap<string, readonly string[]> {
  const callers = new Map<string, string[]>()
  for (const [caller, targets] of leads) {
    for (const target of targets) {
      const known = callers.get(target)
      if (known === undefined) callers.set(target, [caller])
      else known.push(caller)
    }
  }
  return callers
}

/** An internal host with the keys of the entries behind it. */
interface InternalHost {
  readonly layer: 'http' | 'tcp'
  readonly host: string
  readonly entries: readonly string[]
}

function* internalEntries({ plan, tables }: Snapshot): Steps<InternalHost[]> {
  const passes = new Passes()
  const found: InternalHost[] = []
  for (const { hosts, routes } of tables.edges) {
    if (passes.due()) yield
    if (hosts === 'every') continue
    const entries = () => [...routes].map(({ id }) => `route:${id}`)
    for (const { host } of hosts) if (isInternal(host)) found.push({ layer: 'http', host, entries: entries() })
  }
  for (const [key, unit] of plan.units) {
    if (passes.due()) yield
    if (unit.kind !== 'tcp_edge') continue
    for (const { host } of unit.ports) if (isInternal(host)) found.push({ layer: 'tcp', host, entries: [key] })
  }
  return found
}

/** True when an internal host of an edge may be the one that a policy names, whatever the ports. */
function isNamed(host: string, name: string | undefined): boolean {
  return name === undefined || host === name || (host.startsWith('*.') && name.endsWith(host.slice(1)))
}

/** Keys of the policies that see traffic at a unit. */
function policiesAt(unit: Unit | undefined): readonly string[] {
  if (unit?.kind !== 'edge') return unit === undefined ? [] : policiesOf(unit)
  return unit.connectPolicy === undefined ? [] : [unit.connectPolicy]
}

/** Key of a policy of the entry whose text is not the one that ran there; undefined: all are. */
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
  if (!isDeepStrictEqual(frameOf(former, was), frameOf(current, is))) return false
  if (!sends || current.kind === 'edge' || former.kind === 'edge') return true
  const known = destinationsOf(former.upstream, was)
  return [...destinationsOf(current.upstream, is)].every((one) => known.has(one))
}

/** What an entry is beside the servers behind it: which requests come to it, and what its modules do. */
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

/** The servers behind an upstream, each with the TLS that it is spoken to with. A member without weight is another one than with it. */
function destinationsOf(key: string | undefined, units: ShardedMap<Unit>): ReadonlySet<string> {
  const found = new Set<string>()
  const visit = (upstream: string, idle: boolean): void => {
    const unit = units.get(upstream)
    if (unit?.kind !== 'upstream') return
    if (unit.form === 'weighted') for (const one of unit.members) visit(one.upstream, idle || one.weight === 0)
    else if (unit.form === 'failover') for (const one of unit.members) visit(one, idle)
    else found.add(JSON.stringify([idle, serverOf(unit)]))
  }
  if (key !== undefined) visit(key, false)
  return found
}

function serverOf(unit: Exclude<UpstreamUnit, { form: 'weighted' | 'failover' }>): unknown {
  if (unit.form === 'response') return 'response'
  if (unit.form === 'tunnels') return unit.labels
  const { health: _, passiveHealth: __, retries: ___, timeouts: ____, ...server } = unit
  return server
}
