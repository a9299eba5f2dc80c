import { addTo, removeFrom } from '../../../lib/lists.js'
import type { AgentCommand } from './agent-calls.js'
import type { AgentFacts, Grant, Labels } from './authority.js'
import type { Tunnel, TunnelCarrier } from './tunnel.js'

/** The session of an agent that has authenticated. */
export interface RegisteredSession<G extends Grant = Grant> extends TunnelCarrier {
  readonly id: string
  /** Address of the agent. */
  readonly ip: string
  readonly grant: G
  readonly facts: AgentFacts
  /** Number among the agent's connections. */
  readonly leg: number
  /** Wall clock, milliseconds since the epoch. */
  readonly startedAt: number
  /** Resolves with undefined, or with why the agent does not do it. */
  command(command: AgentCommand, version?: string): Promise<string | undefined>
  /** Ends a tunnel with a message that the agent shows to its user. Returns false if the session has no such tunnel. */
  endTunnel(id: string, message: string): boolean
  /** Disconnects the agent, which reconnects immediately. */
  close(detail: string): void
  /** A tunnel that came back on another connection takes no visitors here. */
  releaseTunnel(id: string): void
}

/** Called when sessions and tunnels begin and end; must not throw. */
export interface TunnelWatch<G extends Grant = Grant> {
  sessionStarted?(session: RegisteredSession<G>): void
  sessionEnded?(session: RegisteredSession<G>, why: string): void
  tunnelStarted?(tunnel: Tunnel): void
  tunnelEnded?(tunnel: Tunnel): void
  /** Called when the agent's description of the tunnel has changed. */
  tunnelChanged?(tunnel: Tunnel): void
}

/**
 * The sessions and tunnels of this process. A reconnecting agent has its former ids, often before its former connection is
 * known to be dead: an id may occur twice, and each instance removes only itself.
 */
export class Registry<G extends Grant = Grant> {
  readonly #watch: TunnelWatch<G>
  readonly #sessions = new Set<RegisteredSession<G>>()
  readonly #tunnels = new Set<Tunnel>()
  readonly #byLabel = new Map<string, Set<Tunnel>>()
  /** Tunnels with labels that take HTTP/2. */
  #http2 = 0
  #version = 0

  constructor(watch: TunnelWatch<G> = {}) {
    this.#watch = watch
  }

  sessions(): Iterable<RegisteredSession<G>> {
    return this.#sessions
  }

  tunnels(): Iterable<Tunnel> {
    return this.#tunnels
  }

  session(id: string): RegisteredSession<G> | undefined {
    let found: RegisteredSession<G> | undefined
    for (const session of this.#sessions) if (session.id === id) found = session
    return found
  }

  /** Another one after each change of the tunnels. */
  get version(): number {
    return this.#version
  }

  /** Tunnels that carry all of `labels`, the one with the fewest streams first. */
  select(labels: Labels): Tunnel[] {
    return this.#matching(labels).sort((a, b) => a.active - b.active)
  }

  /**
   * The tunnel with the fewest streams that carries all of `labels`, can take one more and is not in `without`. `http2`: whether its
   * agent must take HTTP/2 or HTTP/1.1; left out: either.
   */
  leastBusy(labels: Labels, without?: ReadonlySet<Tunnel>, http2?: boolean): Tunnel | undefined {
    const matching = this.#matching(labels)
    return leastBusy(http2 === undefined ? matching : matching.filter((tunnel) => tunnel.http2 === http2), without)
  }

  /** Does the next agent support HTTP/2? */
  takesHttp2(labels: Labels): boolean {
    if (this.#http2 === 0) return false
    const matching = this.#matching(labels)
    // Where none takes another stream, those that are open may carry a request yet.
    return (leastBusy(matching) ?? matching[0])?.http2 === true
  }

  addSession(session: RegisteredSession<G>): void {
    this.#sessions.add(session)
    this.#watch.sessionStarted?.(session)
  }

  removeSession(session: RegisteredSession<G>, why: string): void {
    if (this.#sessions.delete(session)) this.#watch.sessionEnded?.(session, why)
  }

  add(tunnel: Tunnel): void {
    this.#tunnels.add(tunnel)
    if (isHttp2Group(tunnel)) this.#http2++
    for (const label of entries(tunnel.labels)) addTo(this.#byLabel, label, tunnel)
    this.#version++
    this.#watch.tunnelStarted?.(tunnel)
  }

  /** A tunnel is called or described otherwise. */
  changed(tunnel: Tunnel): void {
    this.#watch.tunnelChanged?.(tunnel)
  }

  remove(tunnel: Tunnel): void {
    if (!this.#tunnels.delete(tunnel)) return
    if (isHttp2Group(tunnel)) this.#http2--
    for (const label of entries(tunnel.labels)) removeFrom(this.#byLabel, label, tunnel)
    this.#version++
    this.#watch.tunnelEnded?.(tunnel)
  }

  #matching(labels: Labels): Tunnel[] {
    let smallest: ReadonlySet<Tunnel> | undefined
    for (const label of entries(labels)) {
      const carriers = this.#byLabel.get(label)
      if (carriers === undefined) return []
      if (smallest === undefined || carriers.size < smallest.size) smallest = carriers
    }
    const wanted = Object.entries(labels)
    return [...(smallest ?? [])].filter((tunnel) => wanted.every(([key, value]) => tunnel.labels?.[key] === value))
  }
}

export function leastBusy(tunnels: Iterable<Tunnel>, without?: ReadonlySet<Tunnel>): Tunnel | undefined {
  let best: Tunnel | undefined
  for (const tunnel of tunnels) {
    if (!tunnel.ready || without?.has(tunnel) === true) continue
    if (best === undefined || isBetter(tunnel, best)) best = tunnel
  }
  return best
}

/** Has the agent not stopped, as the other one may have, or else fewer streams? */
function isBetter(tunnel: Tunnel, best: Tunnel): boolean {
  return tunnel.late === best.late ? tunnel.active < best.active : best.late
}

function isHttp2Group({ http2, labels }: Tunnel): boolean {
  return http2 && labels !== undefined
}

/** Key and value in one text that no other pair has. */
function entries(labels: Labels | undefined): string[] {
  return labels === undefined ? [] : Object.entries(labels).map((pair) => JSON.stringify(pair))
}
