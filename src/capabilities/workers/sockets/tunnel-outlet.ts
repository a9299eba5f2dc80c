import type { BytePipe, ConnectionFacts } from '../../../flow/exchange.js'
import type { LiveTunnel, TunnelGroups } from '../../../proxy/unit-servers.js'
import { DialError } from '../../../transport/contract.js'
import { join } from '../../../transport/join.js'
import { type PipeMessage, ThreadPipe } from '../../../transport/thread-pipe.js'
import type { FromServing, ToServing, TunnelFacts } from './protocol.js'

/** A live tunnel with its data for other threads. */
type HeldTunnel = LiveTunnel & Pick<TunnelFacts, 'http2'> & Partial<Pick<TunnelFacts, 'reusable'>>

/** The live tunnels of this thread, for threads that hold none. */
export interface HeldTunnels extends TunnelGroups {
  follow(follower: { begins(tunnel: HeldTunnel, labels: Labels): void; ends(tunnel: LiveTunnel): void }): () => void
}

type Labels = TunnelFacts['labels']

/** Gives tunnels their numbers, and sends them to threads. */
export class TunnelDirectory {
  readonly groups: HeldTunnels
  readonly #numbers = new Map<LiveTunnel, number>()
  readonly #tunnels = new Map<number, { readonly tunnel: HeldTunnel; readonly labels: Labels }>()
  readonly #send: (message: ToServing) => void
  readonly #paused = new Map<LiveTunnel, Labels>()
  #count = 0
  /** Stops sending. */
  readonly close: () => void

  /** `send`: to all threads that there are. */
  constructor(groups: HeldTunnels, send: (message: ToServing) => void) {
    this.groups = groups
    this.#send = send
    this.close = groups.follow({ begins: (...began) => this.#begins(...began), ends: (tunnel) => this.#ends(tunnel) })
  }

  /** For a thread that begins. */
  all(): ToServing {
    const begun = [...this.#tunnels].map(([number, { tunnel, labels }]) => factsOf(number, tunnel, labels))
    return { kind: 'tunnels', begun, ended: [] }
  }

  tunnel(number: number): LiveTunnel | undefined {
    return this.#tunnels.get(number)?.tunnel
  }

  /** Reports a tunnel as ended to its receivers, until `resume`. */
  pause(tunnel: LiveTunnel): void {
    const labels = this.#tunnels.get(this.#numbers.get(tunnel) ?? 0)?.labels
    if (labels === undefined) return
    this.#ends(tunnel)
    this.#paused.set(tunnel, labels)
  }

  resume(tunnel: HeldTunnel): void {
    const labels = this.#paused.get(tunnel)
    if (labels !== undefined) this.#begins(tunnel, labels)
  }

  #begins(tunnel: HeldTunnel, labels: Labels): void {
    const number = ++this.#count
    this.#paused.delete(tunnel)
    this.#numbers.set(tunnel, number)
    this.#tunnels.set(number, { tunnel, labels })
    this.#send({ kind: 'tunnels', begun: [factsOf(number, tunnel, labels)], ended: [] })
  }

  #ends(tunnel: LiveTunnel): void {
    const number = this.#numbers.get(tunnel)
    this.#paused.delete(tunnel)
    if (number === undefined) return
    this.#numbers.delete(tunnel)
    this.#tunnels.delete(number)
    this.#send({ kind: 'tunnels', begun: [], ended: [number] })
  }
}

function factsOf(number: number, tunnel: HeldTunnel, labels: Labels): TunnelFacts {
  const { id, http2, startedAt, reusable = true } = tunnel
  return { number, id, labels, http2, reusable, startedAt }
}

/** Opens streams of tunnels for one other thread, and joins each with a pipe to it. */
export class TunnelOutlet {
  readonly #directory: TunnelDirectory
  readonly #post: (message: ToServing, transfer?: readonly ArrayBuffer[]) => void
  readonly #pipes = new Map<number, ThreadPipe>()
  /** Pipes that were given up before they were open. */
  readonly #given = new Set<number>()

  constructor(directory: TunnelDirectory, post: (message: ToServing, transfer?: readonly ArrayBuffer[]) => void) {
    this.#directory = directory
    this.#post = post
  }

  receive(message: Extract<FromServing, { kind: 'open-tunnel' }> | PipeMessage): void {
    if (message.kind === 'open-tunnel') void this.#open(message)
    else if (message.kind === 'pipe-broken' && !this.#pipes.has(message.pipe)) this.#given.add(message.pipe)
    else this.#pipes.get(message.pipe)?.receive(message)
  }

  /** Closes the pipes of an ended worker. */
  close(): void {
    for (const pipe of [...this.#pipes.values()]) pipe.breakOff()
  }

  async #open(wanted: Extract<FromServing, { kind: 'open-tunnel' }>): Promise<void> {
    const { pipe: number } = wanted
    let opened: BytePipe
    try {
      opened = await this.#dial(wanted)
    } catch (error) {
      const failure = error instanceof DialError ? error.failure : 'dial-refused'
      this.#post({ kind: 'pipe-opened', pipe: number, refused: { failure, message: String(error) } })
      return
    }
    if (this.#given.delete(number)) {
      opened.destroy('client-gone')
      return
    }
    const near = new ThreadPipe({
      number,
      post: this.#post,
      unreached: () => opened.unreached === true,
      over: () => this.#pipes.delete(number)
    })
    this.#pipes.set(number, near)
    opened.duplex.on('moved', () => {
      if (opened.stale === true) this.#post({ kind: 'pipe-moved', pipe: number })
    })
    this.#post({ kind: 'pipe-opened', pipe: number })
    join(opened.duplex, near, undefined, () => undefined)
  }

  async #dial({ tunnel, labels, client, bytes, http2 }: Extract<FromServing, { kind: 'open-tunnel' }>) {
    const { groups } = this.#directory
    const first = this.#directory.tunnel(tunnel) ?? groups.members(labels)[0]
    if (first === undefined) throw new DialError('no-tunnel', 'the tunnel has gone')
    const dialer = groups.dialer(`relayed ${tunnel}`, labels, first)
    const signal = { aborted: undefined, onAbort: () => () => undefined }
    return await dialer.open({ client: client as ConnectionFacts, deadline: 0, signal, bytes, http2 })
  }
}
