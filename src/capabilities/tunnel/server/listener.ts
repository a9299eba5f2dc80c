import type { Duplex } from 'node:stream'
import { AuthThrottle } from '../../../lib/auth-throttle.js'
import type { Clock } from '../../../lib/clock.js'
import { AgentSession } from './agent-session.js'
import { type Grant, Identities, type TunnelAuthority } from './authority.js'
import { BindThrottle } from './bind-throttle.js'
import { type EndpointOpener, Endpoints } from './binding.js'
import { type Gate, moveSession } from './move.js'
import type { RegisteredSession, Registry } from './registry.js'
import type { SessionHost } from './session-host.js'
import { DEFAULT_LIMITS, type TunnelLimits } from './tunnel.js'

const SWEEP = 1000

export interface TunnelListenerOptions<G extends Grant> {
  readonly authority: TunnelAuthority<G>
  readonly registry: Registry<G>
  readonly opener: EndpointOpener<G>
  /** At least 32 random bytes; the same after a restart, so that agents keep their names. */
  readonly secret: Uint8Array
  readonly clock: Clock
  /** Names that are made up lie below it. */
  readonly zone: string
  readonly region: string
  /** Version of this program, which agents display. */
  readonly version: string
  readonly limits?: Partial<TunnelLimits>
  /** An error that is ours, for the log. */
  failed(error: unknown): void
}

/** Serves agents on connections after the handshake. */
export class TunnelListener<G extends Grant = Grant> {
  readonly #host: SessionHost<G>
  readonly #sessions = new Set<AgentSession<G>>()
  readonly #unauthenticated = new Map<string, number>()
  readonly #timer: NodeJS.Timeout
  #waiting = 0
  #closed = false

  constructor(options: TunnelListenerOptions<G>) {
    const { authority, registry, opener, secret, clock, zone, region, version, failed } = options
    this.#host = {
      authority,
      registry,
      endpoints: new Endpoints(opener),
      identities: new Identities(secret),
      throttle: new AuthThrottle(clock),
      binds: new BindThrottle(clock),
      clock,
      limits: { ...DEFAULT_LIMITS, ...options.limits },
      zone,
      region,
      version,
      replaced: (session) => this.#replaced(session),
      authenticated: (session) => this.#endWaiting(session.ip),
      ended: (session) => this.#ended(session),
      failed
    }
    this.#timer = setInterval(() => this.sweep(), SWEEP)
    this.#timer.unref()
  }

  /** Connections of agents, authenticated or not. */
  get open(): number {
    return this.#sessions.size
  }

  /** Takes a connection over; destroys it when too many have not authenticated yet. */
  accept(secure: Duplex, from: { readonly ip: string; readonly serverName: string | undefined }): void {
    const { ip } = from
    const { limits } = this.#host
    const fromHere = this.#unauthenticated.get(ip) ?? 0
    const full = this.#waiting >= limits.unauthenticated || fromHere >= limits.unauthenticatedPerAddress
    if (this.#closed || full || secure.destroyed) {
      secure.destroy()
      return
    }
    this.#waiting++
    this.#unauthenticated.set(ip, fromHere + 1)
    this.#sessions.add(new AgentSession(secure, from, this.#host))
  }

  /** Ends the matching sessions immediately; `message` is shown to the users of their agents. Returns their number. */
  end(which: (session: AgentSession<G>) => boolean, message: string): number {
    const ended = [...this.#sessions].filter((session) => session.authenticated && which(session))
    for (const session of ended) session.revoke(message)
    return ended.length
  }

  /** Disconnects all agents, which reconnect immediately, and stops accepting. */
  close(): void {
    this.#closed = true
    clearInterval(this.#timer)
    for (const session of [...this.#sessions]) session.close('the server stops')
  }

  /** Moves all agents to the successor process; see `moveSession`. */
  async move(gate: Gate, within: number): Promise<void> {
    await Promise.all([...this.#sessions].map((session) => moveSession(session, gate, within)))
  }

  /** Ends timed-out sessions. A timer calls it every second. */
  sweep(): void {
    const now = this.#host.clock.monotonic()
    for (const session of [...this.#sessions]) session.sweep(now)
    this.#host.throttle.sweep()
  }

  #replaced(by: RegisteredSession<G>): void {
    for (const session of this.#sessions) {
      if (session !== by && session.id === by.id && session.leg === by.leg) session.replace()
    }
  }

  #ended(session: RegisteredSession<G>): void {
    // Only sessions that this listener has made report to it.
    if (!this.#sessions.delete(session as AgentSession<G>)) return
    if (session.id === '') this.#endWaiting(session.ip)
  }

  #endWaiting(ip: string): void {
    this.#waiting--
    const left = (this.#unauthenticated.get(ip) ?? 0) - 1
    if (left > 0) this.#unauthenticated.set(ip, left)
    else this.#unauthenticated.delete(ip)
  }
}
