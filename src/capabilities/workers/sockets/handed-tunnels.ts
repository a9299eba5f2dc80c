import type { LiveTunnel } from '../../../proxy/unit-servers.js'
import { DialError, type Dialer } from '../../../transport/contract.js'
import type { PipeMessage } from '../../../transport/thread-pipe.js'
import type { FromServing, ToServing, TunnelFacts } from './protocol.js'
import { RelayedTunnels } from './relayed-tunnels.js'
import type { HeldTunnels } from './tunnel-outlet.js'

type Labels = TunnelFacts['labels']
type Why = Parameters<Dialer['open']>[0]
type Follower = Parameters<HeldTunnels['follow']>[0]

/** Maximum time that visitors wait for an agent which has disconnected from the other process to reconnect (ms). */
const COMING = 5_000
/** Time for an agent to process the response to its offer; until then it rejects visitors (ms). */
const SETTLING = 50

/** Messages about tunnels from the process that holds them. */
export type FromHolder = Extract<ToServing, { kind: 'tunnels' | 'pipe-opened' | 'pipe-moved' }> | PipeMessage

/** A tunnel whose agent is, or just was, connected to another process. */
class HandedTunnel implements LiveTunnel {
  readonly facts: TunnelFacts
  readonly ready = true
  /** A connection kept for further requests would keep the agent in the other process. */
  readonly reusable = false
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
 * Tunnels of a predecessor process to which agents are still connected: visitors reach them through that process, until the
 * agents have connected here. In between, visitors wait.
 */
export class HandedTunnels implements HeldTunnels {
  readonly #own: HeldTunnels
  readonly #relayed: RelayedTunnels
  readonly #handed = new Map<number, HandedTunnel>()
  readonly #found = new WeakMap<Labels, { readonly version: number; readonly tunnels: readonly HandedTunnel[] }>()
  readonly #followers = new Set<Follower>()
  /** Called when there are other tunnels than before. */
  readonly #waiting = new Set<() => void>()
  /** Tunnels that have just come back, by their ids. */
  readonly #settling = new Set<string>()
  #version = 0

  /** `own`: tunnels of this process. `post` sends to the process with the others. */
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
    if (this.#handed.size === 0 || own.some((tunnel) => !this.#settling.has(tunnel.id))) return own
    const handed = this.#matching(labels)
    return handed.length > 0 ? handed : own
  }

  dialer(key: string, labels: Labels, tunnel: LiveTunnel): Dialer {
    if (!(tunnel instanceof HandedTunnel)) return this.#own.dialer(key, labels, tunnel)
    const { reusable, http2 } = tunnel
    return { key, reusable, http2, open: (why) => this.#open(key, labels, why) }
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

  /** Handles a message of the other process. */
  receive(message: FromHolder): void {
    this.#relayed.receive(message)
    if (message.kind !== 'tunnels') return
    this.#version++
    for (const facts of message.begun) {
      // It was paused for a moment.
      for (const [number, { id, coming }] of this.#handed)
        if (id === facts.id && coming !== undefined) this.#forget(number)
      const tunnel = new HandedTunnel(facts)
      this.#handed.set(facts.number, tunnel)
      for (const follower of this.#followers) follower.begins(tunnel, facts.labels)
    }
    for (const number of message.ended) this.#leaves(number)
    this.#changed()
  }

  /** Handles the end of the other process, whose agents are reconnecting. */
  lost(): void {
    this.#relayed.lost()
    for (const number of this.#handed.keys()) this.#leaves(number)
  }

  #leaves(number: number): void {
    const tunnel = this.#handed.get(number)
    if (tunnel !== undefined) tunnel.coming ??= setTimeout(() => this.#forget(number), COMING).unref()
  }

  #arrived(id: string): void {
    const former = [...this.#handed].filter(([, tunnel]) => tunnel.id === id)
    if (former.length === 0) return
    this.#settling.add(id)
    setTimeout(() => {
      this.#settling.delete(id)
      for (const [number] of former) this.#forget(number)
      this.#changed()
    }, SETTLING)
  }

  #changed(): void {
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

  async #open(key: string, labels: Labels, { deadline, ...why }: Why): ReturnType<Dialer['open']> {
    const end = performance.now() + Math.min(deadline > 0 ? deadline : COMING, COMING)
    for (;;) {
      const left = deadline === 0 ? 0 : Math.max(1, end - performance.now())
      const own = this.#own.members(labels).find(({ id }) => !this.#settling.has(id))
      if (own !== undefined) return await this.#own.dialer(key, labels, own).open({ ...why, deadline: left })
      const relayed = this.#relayed.members(labels)[0]
      const changed = this.#change(why.signal, end)
      try {
        if (relayed !== undefined) {
          const opened = await this.#relayed.dialer(key, labels, relayed).open({ ...why, deadline: left })
          changed.end()
          return opened
        }
      } catch (error) {
        // Its agent may have left in this very moment.
        if (!(error instanceof DialError && error.failure === 'no-tunnel')) {
          changed.end()
          throw error
        }
      }
      await changed.promise
    }
  }

  /** Resolves when there are other tunnels than before. Rejects with `no-tunnel` when that takes too long. */
  #change(signal: Why['signal'], end: number): { readonly promise: Promise<void>; end(): void } {
    let over: () => void = () => undefined
    const promise = new Promise<void>((resolve, reject) => {
      const fail = (failure: DialError['failure'], message: string) => {
        over()
        reject(new DialError(failure, message))
      }
      const look = () => {
        over()
        resolve()
      }
      const late = setTimeout(() => fail('no-tunnel', 'its agent has not connected again'), end - performance.now())
      const unheard = signal.onAbort((failure) => fail(failure, 'given up'))
      over = () => {
        clearTimeout(late)
        unheard()
        this.#waiting.delete(look)
      }
      this.#waiting.add(look)
    })
    // The waiter may be gone when this rejects.
    promise.catch(() => undefined)
    return { promise, end: () => over() }
  }
}
