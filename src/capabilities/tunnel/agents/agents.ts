import type { OwnUnits } from '../../../control/apply.js'
import { everyRecord } from '../../../control/records.js'
import { secretLabels } from '../../../control/vault-reach.js'
import type { TurnedAway } from '../../../lib/client-limits.js'
import type { Clock } from '../../../lib/clock.js'
import { CodedError, codeOf } from '../../../lib/errors.js'
import { formatAuthority } from '../../../lib/host.js'
import { atOnce, type Steps } from '../../../lib/slices.js'
import { agentHosts, agentIngress } from '../../../resources/domains.js'
import type { RecordOf } from '../../../resources/resource.js'
import { AddressFilter, type AddressFilterCounts, refuses, sameAddressRules } from '../../../runtime/address-filter.js'
import type { Snapshot, SnapshotHolder } from '../../../runtime/snapshot.js'
import type { StoreReader } from '../../../store/store.js'
import type { HandshakeFailure } from '../../../transport/contract.js'
import type { CredentialGrant } from '../server/authority.js'
import { TunnelListener } from '../server/listener.js'
import type { Gate } from '../server/move.js'
import { Registry, type TunnelWatch } from '../server/registry.js'
import { CredentialAuthority, CredentialWatch } from './credentials.js'
import { EphemeralEndpoints, type HandedEndpoint, type Overtaken, type PortRange } from './ephemeral-endpoints.js'
import { agentListenerErrors, ListenerIdentity, openNamesSecret } from './listener-identity.js'
import { AgentListener, type AgentListenerLimits, SharedPortAgents } from './listeners.js'
import { LiveAgents, watching } from './live-agents.js'
import { LiveTunnelGroups } from './tunnel-groups.js'

interface Log {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

interface Place {
  readonly host: string
  readonly port: number
}

export interface AgentsParts {
  readonly holder: SnapshotHolder
  readonly clock: Clock
  readonly log: Log
  readonly zone: string
  readonly regions: readonly string[]
  readonly requireReserved: boolean
  readonly tcp: { readonly host: string; readonly ports: PortRange | undefined }
  /** Returns the listening address for an address: the same one, or an open socket. */
  readonly socketAt: (at: Place) => Place | { readonly fd: number }
  /** Version of this program, which agents display. */
  readonly version: string
  /** Folder for persistent data; undefined for none. */
  readonly folder: string | undefined
  /** Paths of the operator's certificate and key (PEM). @default a certificate of the own authority */
  readonly certificate: { readonly certificate: string; readonly key: string } | undefined
  readonly limits: AgentListenerLimits
  /** Milliseconds for a handshake. */
  readonly handshakeTimeout: number
  readonly turnedAway: TurnedAway
  readonly handshakeFailed: (why: HandshakeFailure) => void
  /** Called for sessions and tunnels. Must not throw. */
  readonly watch: TunnelWatch<CredentialGrant>
}

/** Address for agents, and its certificate authority. */
export interface AgentsAddress {
  readonly host: string
  readonly port: number
  /** File of the authority that agents must trust; undefined for the operator's certificate, or an authority in memory. */
  readonly caFile: string | undefined
}

export interface AgentStatistics {
  readonly sessions: number
  readonly tunnels: number
  readonly streams: number
}

/** Parts of the listener while it is open. */
interface Serving {
  readonly handler: AgentListener | SharedPortAgents
  readonly listener: TunnelListener<CredentialGrant>
  readonly identity: ListenerIdentity
  readonly watch: CredentialWatch
  readonly endpoints: EphemeralEndpoints
}

/** Grace period for the shutdown notice (ms). */
const GOODBYE = 500

/**
 * The agents of this process and their tunnels: upstreams of the data plane, live entries of the API, and the listener.
 * Before `open` there are no agents.
 */
export class Agents {
  /** For the upstreams of the data plane. */
  readonly groups: LiveTunnelGroups
  /** For the API. */
  readonly live: LiveAgents
  /** Handler for a TLS listener at the address of the agents. */
  readonly shared = new SharedPortAgents()
  readonly #parts: AgentsParts
  readonly #registry: Registry<CredentialGrant>
  readonly #addresses: AddressFilter
  readonly #expected = new Map<string, HandedEndpoint>()
  #gate: Gate | undefined
  #serving: Serving | undefined
  /** The snapshot against which the addresses of sessions were last checked. */
  #judged: Snapshot | undefined
  /** The tables of the snapshot by which it was last seen where secrets of vaults go. */
  #followed: readonly unknown[] = []

  constructor(parts: AgentsParts) {
    const { holder, regions, log, watch } = parts
    this.#parts = parts
    const watched = watching({ log, watch, changed: (...change) => this.live.changed(...change) })
    this.#registry = new Registry({
      ...watched,
      tunnelStarted: (tunnel) => {
        this.groups.began(tunnel)
        watched.tunnelStarted?.(tunnel)
      },
      tunnelEnded: (tunnel) => {
        this.groups.ended(tunnel)
        watched.tunnelEnded?.(tunnel)
      }
    })
    this.#addresses = new AddressFilter('agent', { log })
    this.groups = new LiveTunnelGroups(
      this.#registry,
      ({ listener }) => holder.current().tables.tcpEdges.get(listener) !== undefined
    )
    this.live = new LiveAgents(this.#registry, holder, regions[0] ?? '')
  }

  /** Connections of agents that have authenticated, their tunnels, and the visitors' streams through them, now. */
  get statistics(): AgentStatistics {
    let [sessions, tunnels, streams] = [0, 0, 0]
    for (const _ of this.#registry.sessions()) sessions++
    for (const { active } of this.#registry.tunnels()) {
      tunnels++
      streams += active
    }
    return { sessions, tunnels, streams }
  }

  /** Counters of the agents' IP restriction. */
  get addressCounts(): AddressFilterCounts {
    return this.#addresses.counts
  }

  /** Returns the endpoints that agents have opened, for a successor process. */
  handed(): readonly HandedEndpoint[] {
    return this.#serving?.endpoints.handed() ?? [...this.#expected.values()]
  }

  /** Adds endpoints of the predecessor process: `own` has them with the next change, and their agents may open them here. */
  expect(endpoints: readonly HandedEndpoint[], own: OwnUnits): void {
    for (const endpoint of endpoints) {
      this.#expected.set(endpoint.id, endpoint)
      own.stage(endpoint.id, { units: new Map(endpoint.units) })
    }
  }

  /** Drops expected endpoints whose agents have not reconnected. Rejects if that cannot be applied. */
  async expectNoMore(own: OwnUnits): Promise<void> {
    const left = [...this.#expected.keys()]
    this.#expected.clear()
    for (const id of left) await own.drop(id)
  }

  /**
   * Opens the listener, or where it is `shared` registers as a protocol handler on another listener. The stored
   * configuration must be served already. Endpoints that agents open are added to `own`. Rejects with a CodedError
   * `AGENTS_ADDRESS` and those of `ListenerIdentity` and `openNamesSecret`.
   */
  async open(
    at: { readonly host: string; readonly port: number },
    reader: StoreReader,
    own: OwnUnits,
    shared = false
  ): Promise<AgentsAddress> {
    const { holder, clock, log, zone, regions, requireReserved, tcp, version, folder } = this.#parts
    const failed = (error: unknown) => log.error({ err: error }, 'the agent listener failed')
    const place = await reader.placeOf(await reader.revision())
    const authority = new CredentialAuthority(reader)
    const endpoints = new EphemeralEndpoints({
      own,
      groups: this.groups,
      reader,
      holder,
      zone,
      requireReserved,
      tcp,
      expected: this.#expected,
      failed
    })
    const names = [...new Set([at.host, 'localhost', '127.0.0.1', '::1', ...agentHosts(zone, regions)])]
    const ingresses = async () => {
      const found = await ingressNames(reader, regions)
      this.shared.names([...names, ...found])
      return found
    }
    const given = this.#parts.certificate
    const identity = await ListenerIdentity.open(
      { given, folder, names: names.filter(nameable), holder, clock, log },
      await ingresses()
    )
    const listener = new TunnelListener<CredentialGrant>({
      authority,
      registry: this.#registry,
      opener: endpoints,
      secret: await openNamesSecret(folder),
      clock,
      zone,
      region: regions[0] ?? '',
      version,
      failed
    })
    const watch = new CredentialWatch(place, {
      reader,
      authority,
      registry: this.#registry,
      end: (credential, why) => listener.end(({ grant }) => grant.credential === credential, why),
      ingressesChanged: async () => await identity.names(await ingresses()),
      log
    })
    try {
      const { handshakeFailed, limits, handshakeTimeout: timeout, turnedAway } = this.#parts
      const admits = (address: string) => this.#addresses.admits(holder.current(), address)
      const parts = { admits, identity, listener, clock, limits, timeout, handshakeFailed, turnedAway, log }
      watch.secretsGoTo(atOnce(secretLabels(holder.current())))
      if (shared) this.shared.open({ ...parts, address: at })
      const handler = shared ? this.shared : await AgentListener.open(this.#parts.socketAt(at), parts)
      this.#serving = { handler, listener, identity, watch, endpoints }
      const { host, port } = handler.address
      // Writes since the start was read have notified no subscriber yet.
      watch.look()
      log.info({ host, port, ca: identity.caFile }, 'agents may connect')
      return { host, port, caFile: identity.caFile }
    } catch (error) {
      this.shared.shut()
      listener.close()
      identity.close()
      throw unopened(at, error)
    }
  }

  /** A revision of the store serves, whichever process wrote it. */
  written(): void {
    this.#serving?.watch.look()
  }

  /** Waits until sessions, tunnels and the names of the listener are as the last `written` wants them. Never rejects. */
  async followed(): Promise<void> {
    await this.#serving?.watch.followed()
  }

  /** Follows a snapshot that serves, in steps: tunnels that would get secrets of vaults which their owners may not use end. */
  *settling(snapshot: Snapshot): Steps<void> {
    const serving = this.#serving
    if (serving === undefined) return
    const { policies, upstreams, edges, tcpEdges, secrets } = snapshot.tables
    const followed = [policies, upstreams, edges, tcpEdges, secrets]
    if (followed.every((table, index) => table === this.#followed[index])) return
    serving.watch.secretsGoTo(yield* secretLabels(snapshot))
    this.#followed = followed
  }

  /** A snapshot serves: sessions that it does not admit and names that it gives to edges end. */
  serves(snapshot: Snapshot): void {
    const serving = this.#serving
    if (serving === undefined) return
    if (this.#judged === undefined || !sameAddressRules(this.#judged, snapshot)) {
      serving.listener.end(
        ({ ip }) => refuses(snapshot, 'agent', ip),
        'an IP restriction refuses the address of this agent'
      )
    }
    this.#judged = snapshot
    for (const overtaken of serving.endpoints.overtaken()) this.#endOvertaken(overtaken)
  }

  /** Takes no further agents and follows the store no longer. Those that are connected stay until `close`. */
  async shut(): Promise<void> {
    const serving = this.#serving
    serving?.handler.shut()
    await serving?.watch.stop()
  }

  /** Sets the gate for visitors that the successor process relays; undefined for none. */
  handsTo(gate: Gate | undefined): void {
    this.#gate = gate
  }

  /** Moves each agent to the successor process within this time (ms); see `moveSession`. */
  async move(within: number): Promise<void> {
    await this.shut()
    const gate: Gate = {
      pause: (tunnel) => this.#gate?.pause(tunnel),
      resume: (tunnel) => this.#gate?.resume(tunnel)
    }
    await this.#serving?.listener.move(gate, within)
    await this.#serving?.handler.emptied(GOODBYE)
  }

  /** Disconnects all agents, which reconnect immediately. */
  async close(): Promise<void> {
    await this.shut()
    const serving = this.#serving
    if (serving === undefined) return
    this.#serving = undefined
    serving.identity.close()
    serving.listener.close()
    await serving.handler.emptied(GOODBYE)
  }

  #endOvertaken({ url, edge }: Overtaken): void {
    for (const tunnel of [...this.#registry.tunnels()]) {
      if (tunnel.url !== url) continue
      const { id, session } = tunnel
      this.#parts.log.warn(
        { url, edge, tunnel: id, session: session.id },
        'an edge has taken the name of an agent, whose tunnel ends'
      )
      this.#registry.session(session.id)?.endTunnel(id, `${url} belongs to an edge now (${edge})`)
    }
  }
}

async function ingressNames(reader: StoreReader, regions: readonly string[]): Promise<string[]> {
  const found: string[] = []
  for await (const page of everyRecord(reader, agentIngress.name)) {
    for (const { body } of page) {
      const { domain } = body as unknown as RecordOf<typeof agentIngress>['body']
      found.push(...agentHosts(domain, regions))
    }
  }
  return found
}

/** The option is named, because the system's error knows only the address. */
function unopened({ host, port }: { readonly host: string; readonly port: number }, error: unknown): unknown {
  if (codeOf(error) === undefined) return error
  const message = `agents: cannot listen on ${formatAuthority(host, port)}`
  return new CodedError(agentListenerErrors.AGENTS_ADDRESS, message, { cause: error })
}

/** Wildcard addresses are in no certificate. */
function nameable(name: string): boolean {
  return name !== '0.0.0.0' && name !== '::'
}
