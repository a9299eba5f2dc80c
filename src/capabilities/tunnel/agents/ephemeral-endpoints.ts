import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'
import type { Applied, OwnUnits } from '../../../control/apply.js'
import { keeperOfAddress, keeperOfHost } from '../../../control/record-rules.js'
import { isInternal } from '../../../flow/flow.js'
import { formatAuthority } from '../../../lib/host.js'
import { isCloudEndpoint } from '../../../resources/endpoints.js'
import type { CompiledEdge } from '../../../runtime/http-edges.js'
import type { Unit } from '../../../runtime/plan.js'
import type { SnapshotHolder } from '../../../runtime/snapshot.js'
import type { StoreReader } from '../../../store/store.js'
import { bind } from '../../../transport/bind.js'
import { type BindDenied, type CredentialGrant, isBindDenied } from '../server/authority.js'
import type { EndpointOpener, EndpointProto, EndpointWish, OpenEndpoint } from '../server/binding.js'
import { endpointLabels, type LiveTunnelGroups } from './tunnel-groups.js'

export interface EphemeralEndpointsParts {
  readonly own: OwnUnits
  readonly groups: LiveTunnelGroups
  readonly reader: StoreReader
  readonly holder: SnapshotHolder
  readonly zone: string
  /** Must names outside of the zone be reserved domains? */
  readonly requireReserved: boolean
  /** Address of TCP endpoints, and their permitted ports. */
  readonly tcp: { readonly host: string; readonly ports: PortRange | undefined }
  /** Endpoints of the predecessor process by id: their agents may reopen them here. */
  readonly expected: Map<string, HandedEndpoint>
  readonly failed: (error: unknown) => void
}

/** An endpoint that is handed over to another process. Plain data. */
export interface HandedEndpoint {
  readonly id: string
  readonly credential: string
  readonly units: readonly (readonly [key: string, unit: Unit])[]
}

/** A name of an agent that is an edge's now. */
export interface Overtaken {
  readonly url: string
  readonly edge: string
}

/** Both ends belong to it. */
export interface PortRange {
  readonly from: number
  readonly to: number
}

type Wish = EndpointWish<CredentialGrant>

const PORTS = { http: 80, https: 443, tls: 443 } as const
/** Protocol that competes for the same port of a name. */
const RIVALS: Readonly<Partial<Record<EndpointProto, EndpointProto>>> = { https: 'tls', tls: 'https' }
/** Ports below belong to the services of the machine. */
const FIRST_PORT = 1024
/** Maximum number of attempts to find a free port. */
const MOST_TRIES = 50
const EVERYWHERE: ReadonlySet<string> = new Set(['0.0.0.0', '::'])
/** A slash, which no id of a record holds: keys of these units and of records' never meet. */
const PREFIX = 'ephemeral/'

/**
 * Endpoints that agents open, as units of the process itself: visitors pass the same listeners, pipeline, policies and logs
 * as those of edges.
 */
export class EphemeralEndpoints implements EndpointOpener<CredentialGrant> {
  readonly #parts: EphemeralEndpointsParts
  readonly #open = new Map<string, Wish & { readonly units: ReadonlyMap<string, Unit> }>()
  /** Ids of endpoints that are being opened: another one of their pool takes another id. */
  readonly #opening = new Set<string>()

  constructor(parts: EphemeralEndpointsParts) {
    this.#parts = parts
  }

  async open(wish: Wish): Promise<OpenEndpoint | BindDenied> {
    return wish.proto === 'tcp' ? await this.#openTcp(wish) : await this.#openNamed(wish, wish.proto)
  }

  /** Returns the endpoints for a successor process. */
  handed(): HandedEndpoint[] {
    const open = Array.from(this.#open, ([id, { grant, units }]) => ({
      id,
      credential: grant.credential,
      units: [...units]
    }))
    return [...this.#parts.expected.values(), ...open]
  }

  /** Yields names that an edge of the configuration has claimed since they were opened, on any port: the configuration wins. */
  *overtaken(): Iterable<Overtaken> {
    for (const { proto, host, pooled } of this.#open.values()) {
      const edge = proto === 'tcp' ? undefined : this.#edgeOn(host)
      if (edge !== undefined && !edge.yields && !(pooled && this.#isShared(proto, host)))
        yield { url: `${proto}://${host}`, edge: edge.id }
    }
  }

  /** True if all endpoints at the URL share it. */
  #isShared(proto: EndpointProto, host: string): boolean {
    const { hosts } = this.#parts.holder.current().tables.edges
    const port = proto === 'tcp' ? undefined : PORTS[proto]
    return hosts.exactly(host).some(({ edge, endpoint }) => {
      return edge.pool !== undefined && endpoint?.port === port && findProto(edge) === proto
    })
  }

  /** The edge that a name belongs to: its own, or that of a wildcard above it. */
  #edgeOn(host: string): CompiledEdge | undefined {
    return this.#parts.holder.current().claimant(host)?.edge
  }

  async #openNamed(wish: Wish, proto: keyof typeof PORTS): Promise<OpenEndpoint | BindDenied> {
    const { host } = wish
    const refusal = await this.#refuseHost(wish)
    if (refusal !== undefined) return refusal
    const id = this.#freeId(`${PREFIX}${proto}/${host}`, wish)
    const units = proto === 'tls' ? tlsUnits(id, host, wish) : httpUnits(id, proto, host, wish)
    return await this.#serve(id, wish, units, `${proto}://${host}`)
  }

  /**
   * Returns the id of an endpoint: that of its URL, for others in its pool with a number behind it. An endpoint of the predecessor with the
   * same credential and policy keeps its id, because visitors reach its other agents by it.
   */
  #freeId(id: string, { pooled, grant, trafficPolicy }: Wish): string {
    if (!pooled) return id
    let free: string | undefined
    for (let number = 1; ; number++) {
      const own = number === 1 ? id : `${id}/${number}`
      const expected = this.#parts.expected.get(own)
      const isTaken = this.#open.has(own) || this.#opening.has(own)
      if (expected === undefined) {
        if (!isTaken) return free ?? own
      } else if (!isTaken && expected.credential === grant.credential) {
        if (policyIn(expected) === trafficPolicy.trim()) return own
        free ??= own
      }
    }
  }

  async #openTcp(wish: Wish): Promise<OpenEndpoint | BindDenied> {
    const { host, ports } = this.#parts.tcp
    const asked = wish.port
    if (isInternal(wish.host)) return internal(wish.host)
    if (asked !== undefined && (asked < FIRST_PORT || !within(asked, ports))) {
      const offered = ports === undefined ? `from ${FIRST_PORT} on` : `${ports.from} to ${ports.to}`
      return { refused: `port ${asked} is not offered; ${offered} are` }
    }
    const name = wish.host !== '' ? wish.host : EVERYWHERE.has(host) ? this.#parts.zone : host
    for (let tries = 1; ; tries++) {
      const port = asked ?? (ports === undefined ? await freePort(host) : randomInt(ports.from, ports.to + 1))
      const base = `${PREFIX}tcp/${port}`
      const id = asked === undefined ? base : this.#freeId(base, wish)
      if (
        asked === undefined &&
        (await keeperOfAddress(this.#parts.reader, formatAuthority(name, port))) !== undefined
      ) {
        if (tries === MOST_TRIES) return { refused: 'no port is free for this endpoint' }
        continue
      }
      const expected = this.#parts.expected.get(id)
      if (!this.#open.has(id) && (expected === undefined || expected.credential === wish.grant.credential)) {
        const units = tcpUnits(id, { host: name, port }, wish)
        const served = await this.#serve(id, wish, units, `tcp://${formatAuthority(name, port)}`)
        if (!isBindDenied(served) || !('port' in served) || asked !== undefined) return served
      } else if (asked !== undefined) return { refused: `port ${port} is already served by another tunnel` }
      if (tries === MOST_TRIES) return { refused: 'no port is free for this endpoint' }
    }
  }

  async #refuseHost(wish: Wish): Promise<BindDenied | undefined> {
    const { host, grant, proto } = wish
    const { reader, zone, requireReserved } = this.#parts
    if (isInternal(host)) return internal(host)
    const edge = this.#edgeOn(host)
    const isShared = wish.pooled && this.#isShared(proto, host)
    if (edge !== undefined && !edge.yields && !isShared)
      return { refused: `${host} is already served by an edge (${edge.id})${pooling(edge, wish)}` }
    if (edge?.yields === true && !isShared && this.#ownerOf(edge.id) !== grant.credential) {
      return { refused: `${host} is already served by another tunnel` }
    }
    const rival = `${PREFIX}${RIVALS[proto]}/${host}`
    if (this.#open.has(rival) || this.#parts.expected.has(rival))
      return { refused: `${host} is already served by another tunnel as ${RIVALS[proto]}` }
    if (!requireReserved || host.endsWith(`.${zone}`)) return undefined
    const reserved = await keeperOfHost(reader, host)
    return reserved === undefined ? { refused: `${host} is no reserved domain` } : undefined
  }

  #ownerOf(id: string): string | undefined {
    return this.#open.get(id)?.grant.credential ?? this.#parts.expected.get(id)?.credential
  }

  async #serve(
    id: string,
    wish: Wish,
    units: ReadonlyMap<string, Unit>,
    url: string
  ): Promise<OpenEndpoint | BindDenied | PortDenied> {
    const { own, groups, failed } = this.#parts
    const { dialer } = wish
    groups.addEndpoint(id, url, dialer)
    this.#opening.add(id)
    try {
      const applied = await own.put(id, units)
      if (!applied.ok) {
        groups.removeEndpoint(id, url, dialer)
        return refusalOf(applied)
      }
    } catch (error) {
      groups.removeEndpoint(id, url, dialer)
      throw error
    } finally {
      this.#opening.delete(id)
    }
    let opened = { ...wish, units }
    this.#open.set(id, opened)
    this.#parts.expected.delete(id)
    const close = async () => {
      try {
        if (this.#open.get(id) === opened) this.#open.delete(id)
        groups.removeEndpoint(id, url, dialer)
        await own.drop(id)
      } catch (error) {
        failed(error)
      }
    }
    const share = async (agents: number) => {
      try {
        const shared = sharing(opened.units, agents)
        if (this.#open.get(id) !== opened || shared === undefined) return
        opened = { ...opened, units: shared }
        this.#open.set(id, opened)
        await own.put(id, shared)
      } catch (error) {
        failed(error)
      }
    }
    return { url, shares: (agents) => void share(agents), close: () => void close() }
  }
}

/** Returns the units with another share in their pool; undefined if that is their share already. */
function sharing(units: ReadonlyMap<string, Unit>, agents: number): ReadonlyMap<string, Unit> | undefined {
  let changed = false
  const shared = new Map<string, Unit>()
  for (const [key, unit] of units) {
    const isEdge = (unit.kind === 'edge' || unit.kind === 'tcp_edge') && unit.pool !== undefined && unit.pool !== agents
    changed ||= isEdge
    shared.set(key, isEdge ? { ...unit, pool: agents } : unit)
  }
  return changed ? shared : undefined
}

/** Returns the text of the endpoint's policy without surrounding space; '' without one. */
function policyIn({ units }: HandedEndpoint): string {
  for (const [, unit] of units) if (unit.kind === 'policy') return unit.text.trim()
  return ''
}

function findProto({ protocol, passthrough }: CompiledEdge): string {
  return passthrough === true ? 'tls' : protocol
}

/** Returns what a refusal says of pooling, if the two could have shared the URL. */
function pooling({ pool, id }: CompiledEdge, { pooled }: Wish): string {
  if (!isCloudEndpoint(id) || (pooled && pool !== undefined)) return ''
  return '; both share a URL only with pooling enabled'
}

/** A port that cannot be opened. */
interface PortDenied extends BindDenied {
  readonly port: number
}

function refusalOf({ problems, ports }: Extract<Applied, { ok: false }>): BindDenied | PortDenied {
  const [port] = ports
  if (port !== undefined) return { refused: `port ${port.port} cannot be opened: ${port.reason}`, port: port.port }
  const problem = problems.flatMap((unit) => unit.problems).find(({ severity }) => severity === 'error')
  if (problem === undefined) return { refused: 'the endpoint cannot be opened' }
  const { line, column, code, message } = problem
  return { refused: `the traffic policy has an error at ${line}:${column}: ${message} (${code})` }
}

function internal(host: string): BindDenied {
  return { refused: `${host} is internal: only policies lead there` }
}

type At = { readonly host: string; readonly port: number }

function httpUnits(id: string, proto: 'http' | 'https', host: string, wish: Wish): ReadonlyMap<string, Unit> {
  const { units, modules, upstream, pool } = commonUnits(id, wish, {})
  const hosts = [{ host, port: PORTS[proto] }]
  const plain = proto === 'http' ? { protocol: proto } : {}
  units.set(`edge:${id}`, { kind: 'edge', id, hosts, yields: true, ...plain, ...pool })
  units.set(`route:${id}`, { kind: 'route', id, edge: id, match: 'prefix', path: '/', upstream, modules })
  return units
}

function tlsUnits(id: string, host: string, wish: Wish): ReadonlyMap<string, Unit> {
  const { units, modules, upstream, pool } = commonUnits(id, wish, { carrier: 'tcp' })
  const hosts = [{ host, port: PORTS.tls }]
  units.set(`edge:${id}`, { kind: 'edge', id, hosts, yields: true, passthrough: true, ...pool })
  units.set(`tcp_edge:${id}`, { kind: 'tcp_edge', id, ports: [], upstream, modules })
  return units
}

function tcpUnits(id: string, at: At, wish: Wish): ReadonlyMap<string, Unit> {
  const { units, modules, upstream, pool } = commonUnits(id, wish, { carrier: 'tcp' })
  units.set(`tcp_edge:${id}`, { kind: 'tcp_edge', id, ports: [at], upstream, modules, ...pool })
  return units
}

function commonUnits(id: string, wish: Wish, carried: { readonly carrier?: 'tcp' }) {
  const { trafficPolicy: policy, pooled } = wish
  const units = new Map<string, Unit>()
  const [upstream, policyKey] = [`upstream:${id}`, `policy:${id}`]
  const pool = pooled ? { pool: 1 } : {}
  units.set(upstream, { kind: 'upstream', form: 'tunnels', id, labels: endpointLabels(id) })
  if (policy.trim() === '') return { units, upstream, modules: {}, pool }
  units.set(policyKey, { kind: 'policy', owner: id, text: policy, source: id, author: 'agent', ...carried })
  return { units, upstream, modules: { traffic_policy: { policy: policyKey } }, pool }
}

function within(port: number, range: PortRange | undefined): boolean {
  return range === undefined || (port >= range.from && port <= range.to)
}

/** Returns a free port. Another process may bind it first; then the caller retries. */
async function freePort(host: string): Promise<number> {
  const server = createServer()
  const { port } = await bind(server, { host, port: 0 })
  await new Promise((resolve) => server.close(resolve))
  return port
}
