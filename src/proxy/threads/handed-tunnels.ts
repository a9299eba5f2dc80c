import { DialError, type Dialer } from '../../transport/contract.js'
import type { PipeMessage } from '../../transport/thread-pipe.js'
import type { LiveTunnel } from '../unit-servers.js'
import type { FromServing, ToServing, TunnelFacts } from './protocol.js'
import { RelayedTunnels } from './relayed-tunnels.js'
import type { HeldTunnels } from './tunnel-outlet.js'

type Labels = TunnelFacts['labels']
type Why = Parameters<Dialer['open']>[0]
type Follower = Parameters<HeldTunnels['follow']>[0]

/** How long visitors wait for an agent that has left the other process and has not come back. Milliseconds. */
const COMING = 5_000

/** What the process that held the tunnels says of them. */
export type FromHolder = Extract<ToServing, { kind: 'tunnels' | 'pipe-opened' | 'pipe-moved' }> | PipeMessage

/** A tunnel whose agent is, or just was, connected to another process. */
class HandedTunnel implements LiveTunnel {
  readonly facts: TunnelFacts
  readonly ready = true
  /** Its agent has left the other process. */
  coming: NodeJS.Timeout | undefined

  constructor(facts: TunnelFacts) {
    this.facts = facts
  }

  get id(): string {
    return this.facts.id
  }

  get http2(): boolean {
    return this.facts.http2
  }

  get startedAt(): number {
    return this.facts.startedAt
  }

  carries(labels: Labels): boolean {
    return Object.entries(labels).every(([name, value]) => this.facts.labels[name] === value)
  }
}

/**
 * The tunnels of a process that takes the place of another one, whose agents are still connected there: visitors reach them through that
 * process, until the agents have connected here. In the moment between, visitors wait.
 */
export class HandedTunnels implements HeldTunnels {
  readonly #own: HeldTunnels
  readonly #relayed: RelayedTunnels
  readonly #handed = new Map<number, HandedTunnel>()
  readonly #found = new WeakMap<Labels, { readonly version: number; readonly tunnels: readonly HandedTunnel[] }>()
  readonly #followers = new Set<Follower>()
  /** Called when an agent has connected here. */
  readonly #waiting = new Set<() => void>()
  #version = 0

  /** `own`: of this process. `post` sends to the process that holds the others. */
  constructor(own: HeldTunnels, post: (message: FromServing) => void) {
    this.#own = own
    this.#relayed = new RelayedTunnels(post)
    own.follow({
      begins: (tunnel) => this.#arrived(tunnel.id),
      ends: () => undefined
    })
  }

  members(labels: Labels): readonly LiveTunnel[] {
    const own = this.#own.members(labels)
    return own.length > 0 || this.#handed.size === 0 ? own : this.#matching(labels)
  }

  dialer(key: string, labels: Labels, tunnel: LiveTunnel): Dialer {
    if (!(tunnel instanceof HandedTunnel)) return this.#own.dialer(key, labels, tunnel)
    // A connection that waited in the pool for another request would keep the agent where it is.
    return { key, reusable: false, http2: tunnel.http2, open: (why) => this.#open(key, labels, tunnel, why) }
  }

  follow(follower: Follower): () => void {
    this.#followers.add(follower)
    const unfollow = this.#own.follow(follower)
    for (const tunnel of this.#handed.values()) follower.begins(tunnel, tunnel.facts.labels)
    return () => {
      this.#followers.delete(follower)
      unfollow()
    }
  }

  /** Takes what the other process says. */
  receive(message: FromHolder): void {
    if (message.kind !== 'tunnels') {
      this.#relayed.receive(message)
      return
    }
    this.#relayed.receive(message)
    this.#version++
    for (const facts of message.begun) {
      const tunnel = new HandedTunnel(facts)
      this.#handed.set(facts.number, tunnel)
      for (const follower of this.#followers) follower.begins(tunnel, facts.labels)
    }
    for (const number of message.ended) this.#leaves(number)
  }

  /** The other process is gone, and its agents are on their way. */
  lost(): void {
    this.#relayed.lost()
    for (const number of this.#handed.keys()) this.#leaves(number)
  }

  #leaves(number: number): void {
    const tunnel = this.#handed.get(number)
    if (tunnel !== undefined) tunnel.coming ??= setTimeout(() => this.#forget(number), COMING).unref()
  }

  #arrived(id: string): void {
    for (const [number, tunnel] of this.#handed) if (tunnel.id === id) this.#forget(number)
    for (const look of [...this.#waiting]) look()
  }

  #forget(number: number): void {
    const tunnel = this.#handed.get(number)
    if (tunnel === undefined) return
    clearTimeout(tunnel.coming)
    this.#handed.delete(number)
    this.#version++
    for (const follower of this.#followers) follower.ends(tunnel)
  }

  #matching(labels: Labels): readonly HandedTunnel[] {
    const known = this.#found.get(labels)
    if (known?.version === this.#version) return known.tunnels
    const tunnels = [...this.#handed.values()].filter((tunnel) => tunnel.carries(labels))
    this.#found.set(labels, { version: this.#version, tunnels })
    return tunnels
  }

  async #open(key: string, labels: Labels, tunnel: HandedTunnel, why: Why): ReturnType<Dialer['open']> {
    if (tunnel.coming === undefined) {
      const relayed = this.#relayed
        .members(tunnel.facts.labels)
        .find(({ facts }) => facts.number === tunnel.facts.number)
      try {
        if (relayed !== undefined) return await this.#relayed.dialer(key, labels, relayed).open(why)
      } catch (error) {
        if (!(error instanceof DialError && error.failure === 'no-tunnel')) throw error
        // Its agent has left in this very moment.
      }
    }
    const own = await this.#ownFor(labels, why)
    return await this.#own.dialer(key, labels, own).open(why)
  }

  /** A tunnel of this process, which is waited for. Rejects with `no-tunnel` when none comes in time. */
  async #ownFor(labels: Labels, { deadline, signal }: Why): Promise<LiveTunnel> {
    const [there] = this.#own.members(labels)
    if (there !== undefined) return there
    return await new Promise((resolve, reject) => {
      const end = () => {
        clearTimeout(late)
        unheard()
        this.#waiting.delete(look)
      }
      const fail = (failure: DialError['failure'], message: string) => {
        end()
        reject(new DialError(failure, message))
      }
      const look = () => {
        const [own] = this.#own.members(labels)
        if (own === undefined) return
        end()
        resolve(own)
      }
      const most = deadline > 0 ? Math.min(deadline, COMING) : COMING
      const late = setTimeout(() => fail('no-tunnel', 'its agent has not connected again'), most)
      const unheard = signal.onAbort((failure) => fail(failure, 'given up'))
      this.#waiting.add(look)
    })
  }
}
