import type { BytePipe, Failure } from '../../../flow/exchange.js'
import { addTo, removeFrom } from '../../../lib/lists.js'
import type { LiveTunnel, TunnelFollower, TunnelGroups } from '../../../proxy/unit-servers.js'
import type { TunnelUpstream } from '../../../runtime/plan.js'
import { DialError, type Dialer } from '../../../transport/contract.js'
import { type PipeMessage, ThreadPipe } from '../../../transport/thread-pipe.js'
import type { FromServing, ToServing, TunnelFacts } from './protocol.js'

type Labels = TunnelUpstream['labels']
type Why = Parameters<Dialer['open']>[0]
type Opened = Extract<ToServing, { kind: 'pipe-opened' }>
type Post = (message: FromServing, transfer?: readonly ArrayBuffer[]) => void

const NO_TUNNELS: readonly RelayedTunnel[] = []

/** A tunnel whose agent is connected to another thread. */
class RelayedTunnel implements LiveTunnel {
  readonly facts: TunnelFacts
  /** Capacity is checked where the tunnel is opened, with a fallback to another one. */
  readonly ready = true
  over = false

  constructor(facts: TunnelFacts) {
    this.facts = facts
  }

  get id(): string {
    return this.facts.id
  }

  get startedAt(): number {
    return this.facts.startedAt
  }
}

/** The tunnels of the process in a thread that holds none: it knows which there are, and reaches them by pipes between threads. */
export class RelayedTunnels implements TunnelGroups {
  readonly #post: Post
  readonly #tunnels = new Map<number, RelayedTunnel>()
  readonly #byLabel = new Map<string, Set<RelayedTunnel>>()
  readonly #found = new WeakMap<Labels, { readonly version: number; readonly tunnels: readonly RelayedTunnel[] }>()
  readonly #pipes = new Map<number, ThreadPipe>()
  readonly #opening = new Map<number, (opened: Opened) => void>()
  /** Pipes that lead elsewhere than they were opened for. */
  readonly #moved = new Set<number>()
  readonly #followers = new Set<TunnelFollower>()
  #version = 0
  #numbers = 0

  constructor(post: Post) {
    this.#post = post
  }

  members(labels: Labels): readonly RelayedTunnel[] {
    const known = this.#found.get(labels)
    if (known?.version === this.#version) return known.tunnels
    const now = this.#matching(labels)
    const same = known !== undefined && known.tunnels.length === now.length
    const tunnels = same && known.tunnels.every((one, place) => one === now[place]) ? known.tunnels : now
    this.#found.set(labels, { version: this.#version, tunnels })
    return tunnels
  }

  dialer(key: string, labels: Labels, tunnel: LiveTunnel): Dialer {
    const { facts } = tunnel as RelayedTunnel
    return {
      key,
      reusable: facts.reusable,
      http2: facts.http2,
      open: (why) => this.#open(labels, tunnel as RelayedTunnel, why)
    }
  }

  follow(follower: TunnelFollower): () => void {
    this.#followers.add(follower)
    for (const tunnel of this.#tunnels.values()) follower.begins(tunnel, tunnel.facts.labels)
    return () => void this.#followers.delete(follower)
  }

  /** Handles a message of the thread that holds the tunnels. */
  receive(message: Extract<ToServing, { kind: 'tunnels' | 'pipe-opened' | 'pipe-moved' }> | PipeMessage): void {
    switch (message.kind) {
      case 'tunnels':
        this.#follow(message.begun, message.ended)
        return
      case 'pipe-opened':
        this.#opening.get(message.pipe)?.(message)
        return
      case 'pipe-moved':
        if (this.#pipes.has(message.pipe)) this.#moved.add(message.pipe)
        return
      default:
        this.#pipes.get(message.pipe)?.receive(message)
    }
  }

  /** Closes all tunnels after the end of their holder. */
  lost(): void {
    this.#follow([], [...this.#tunnels.keys()])
    const refused = { failure: 'no-tunnel', message: 'the holder of the tunnel has gone' } as const
    for (const [pipe, opened] of [...this.#opening]) opened({ kind: 'pipe-opened', pipe, refused })
    for (const pipe of [...this.#pipes.values()]) pipe.breakOff()
  }

  #follow(begun: readonly TunnelFacts[], ended: readonly number[]): void {
    this.#version++
    for (const facts of begun) {
      const tunnel = new RelayedTunnel(facts)
      this.#tunnels.set(facts.number, tunnel)
      for (const label of textsOf(facts.labels)) addTo(this.#byLabel, label, tunnel)
      for (const follower of this.#followers) follower.begins(tunnel, facts.labels)
    }
    for (const number of ended) {
      const tunnel = this.#tunnels.get(number)
      if (tunnel === undefined) continue
      tunnel.over = true
      this.#tunnels.delete(number)
      for (const label of textsOf(tunnel.facts.labels)) removeFrom(this.#byLabel, label, tunnel)
      for (const follower of this.#followers) follower.ends(tunnel)
    }
  }

  #matching(labels: Labels): readonly RelayedTunnel[] {
    let fewest: ReadonlySet<RelayedTunnel> | undefined
    for (const label of textsOf(labels)) {
      const carriers = this.#byLabel.get(label)
      if (carriers === undefined) return NO_TUNNELS
      if (fewest === undefined || carriers.size < fewest.size) fewest = carriers
    }
    const wanted = Object.entries(labels)
    return [...(fewest ?? [])]
      .filter(({ facts }) => wanted.every(([name, value]) => facts.labels[name] === value))
      .sort(byId)
  }

  async #open(labels: Labels, tunnel: RelayedTunnel, why: Why): Promise<RelayedPipe> {
    const { client, deadline, signal, bytes = false, http2 = false } = why
    if (signal.aborted !== undefined) throw new DialError(signal.aborted, 'given up')
    const { peer, local, listener, passed } = client
    const visitor = { peer, local, listener, ...(passed === undefined ? {} : { passed }) }
    const number = ++this.#numbers
    const pipe = new ThreadPipe({
      number,
      post: this.#post,
      over: () => {
        this.#pipes.delete(number)
        this.#moved.delete(number)
      }
    })
    this.#pipes.set(number, pipe)
    const about = { tunnel: tunnel.facts.number, labels, client: visitor, bytes, http2 }
    const opened = await new Promise<Opened | { readonly refused: Refusal }>((resolve) => {
      const late = { failure: 'dial-timeout', message: 'no stream in time' } as const
      const timer = deadline > 0 ? setTimeout(() => resolve({ refused: late }), deadline) : undefined
      const unheard = signal.onAbort((failure) => resolve({ refused: { failure, message: 'given up' } }))
      this.#opening.set(number, (answer) => {
        clearTimeout(timer)
        unheard()
        resolve(answer)
      })
      this.#post({ kind: 'open-tunnel', pipe: number, ...about })
    })
    this.#opening.delete(number)
    if (opened.refused !== undefined) {
      pipe.destroy()
      throw new DialError(opened.refused.failure, opened.refused.message)
    }
    return new RelayedPipe(pipe, () => tunnel.over || this.#moved.has(number))
  }
}

interface Refusal {
  readonly failure: Failure
  readonly message: string
}

class RelayedPipe implements BytePipe {
  readonly duplex: ThreadPipe
  readonly #isStale: () => boolean

  constructor(duplex: ThreadPipe, isStale: () => boolean) {
    this.duplex = duplex
    this.#isStale = isStale
  }

  get stale(): boolean {
    return this.#isStale()
  }

  get unreached(): boolean {
    return this.duplex.unreached
  }

  end(): void {
    this.duplex.end()
  }

  destroy(_why: Failure): void {
    this.duplex.destroy()
  }
}

/** Key and value in one text that no other pair has. */
function textsOf(labels: Labels): string[] {
  return Object.entries(labels).map((pair) => JSON.stringify(pair))
}

/** The one that came last before a former self of the same id. */
function byId(a: RelayedTunnel, b: RelayedTunnel): number {
  return a.id === b.id ? b.startedAt - a.startedAt : a.id < b.id ? -1 : 1
}
