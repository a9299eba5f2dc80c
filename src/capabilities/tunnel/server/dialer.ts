import type { BytePipe, Failure } from '../../../flow/exchange.js'
import { DialError, type Dialer } from '../../../transport/contract.js'
import type { MuxStream } from '../protocol/stream.js'
import type { Labels } from './authority.js'
import { leastBusy, type Registry } from './registry.js'
import type { Tunnel, Visitor, VisitorKind } from './tunnel.js'

/** Gives the tunnel with the fewest streams that can take one more and is not in `without`. */
type Choose = (without?: ReadonlySet<Tunnel>) => Tunnel | undefined

/** Selection of tunnels for a dialer. */
interface Choice {
  /** Left out of `http2`: the protocol does not matter. */
  from(http2?: boolean): Choose
  /** Does the next agent support HTTP/2? */
  readonly http2: boolean
}

/**
 * Opens connections through the tunnels that carry all of `labels`; through `first` alone as long as it takes them. `key`: of the
 * pool; left out: one for these labels.
 */
export function labelDialer(
  registry: Registry,
  labels: Labels,
  kind: VisitorKind,
  { key, first }: { readonly key?: string; readonly first?: Tunnel } = {}
): Dialer {
  const sorted = Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1))
  return new TunnelDialer(key ?? `tunnels ${kind} ${JSON.stringify(sorted)}`, kind, first, {
    from: (http2) => (without) => registry.leastBusy(labels, without, http2),
    get http2() {
      return first === undefined ? registry.takesHttp2(labels) : first.http2
    }
  })
}

/** Opens connections through the tunnels of one endpoint, which all take HTTP/2 where `http2` is set. */
export interface EndpointDialer extends Dialer {
  readonly tunnels: ReadonlySet<Tunnel>
  /** Returns a dialer that uses `first` while it accepts connections, with its own pool. */
  through(key: string, first: Tunnel): Dialer
}

export function endpointDialer(
  url: string,
  tunnels: ReadonlySet<Tunnel>,
  kind: VisitorKind,
  http2 = false
): EndpointDialer {
  const choice: Choice = { from: () => (without) => leastBusy(tunnels, without), http2 }
  const any = new TunnelDialer(`tunnels ${url}`, kind, undefined, choice)
  return {
    key: any.key,
    reusable: any.reusable,
    http2,
    open: (why) => any.open(why),
    tunnels,
    through: (key, first) => new TunnelDialer(key, kind, first, choice)
  }
}

/**
 * Opens a byte pipe through one of several tunnels, without waiting: agents do not confirm streams. A stream that an agent
 * rejects unread moves to the next tunnel, transparently for the user of the pipe.
 */
class TunnelDialer implements Dialer {
  readonly key: string
  readonly reusable = true
  readonly #kind: VisitorKind
  readonly #first: Tunnel | undefined
  readonly #choice: Choice

  constructor(key: string, kind: VisitorKind, first: Tunnel | undefined, choice: Choice) {
    this.key = key
    this.#kind = kind
    this.#first = first
    this.#choice = choice
  }

  get http2(): boolean {
    return this.#choice.http2
  }

  async open({ client, signal, bytes, http2 = false }: Parameters<Dialer['open']>[0]): Promise<TunnelPipe> {
    const choose = this.#choice.from(bytes === true || this.#kind !== 'http' ? undefined : http2)
    if (signal.aborted !== undefined) throw new DialError(signal.aborted, 'given up')
    const visitor: Visitor = {
      kind: client.passed === undefined ? this.#kind : 'tls',
      from: client.peer,
      to: client.local
    }
    let tried: Set<Tunnel> | undefined
    for (;;) {
      const first = tried === undefined && this.#first?.ready === true && !this.#first.late ? this.#first : undefined
      const tunnel = first ?? choose(tried)
      if (tunnel === undefined) throw new DialError('no-tunnel', `no tunnel can take a connection (${this.key})`)
      const opened = tunnel.open(visitor)
      if (opened !== undefined) {
        const attempt = new Attempt({
          choose,
          visitor,
          tunnel,
          headerBytes: opened.headerBytes,
          tried,
          only: this.#first
        })
        attempt.watch(opened.stream)
        return new TunnelPipe(opened.stream, attempt)
      }
      tried ??= new Set()
      tried.add(tunnel)
    }
  }
}

interface AttemptParts {
  readonly choose: Choose
  readonly visitor: Visitor
  readonly tunnel: Tunnel
  readonly headerBytes: number
  readonly tried: Set<Tunnel> | undefined
  /** The only tunnel whose connections the dialer's pool holds; undefined for all tunnels. */
  readonly only: Tunnel | undefined
}

/** Current tunnel of a stream, which can move to another one while the agent has read only the header. */
class Attempt {
  readonly #choose: Choose
  readonly #visitor: Visitor
  #tunnel: Tunnel
  #headerBytes: number
  #tried: Set<Tunnel> | undefined
  /** Tunnel whose connections the dialer's pool holds; undefined for all tunnels. */
  readonly #only: Tunnel | undefined

  constructor({ choose, visitor, tunnel, headerBytes, tried, only }: AttemptParts) {
    this.#only = only
    this.#choose = choose
    this.#visitor = visitor
    this.#tunnel = tunnel
    this.#headerBytes = headerBytes
    this.#tried = tried
  }

  /** Is the tunnel ended or late, or a different one? Running requests may continue, but no new request should use the stream. */
  get stale(): boolean {
    return this.#tunnel.over || this.#tunnel.late || (this.#only !== undefined && this.#only !== this.#tunnel)
  }

  watch(stream: MuxStream): void {
    stream.refused = (refused, why) => {
      const former = this.#tunnel
      if (why === 'ended' && !this.#unread(refused)) return false
      this.#tried ??= new Set()
      this.#tried.add(former)
      for (;;) {
        const next = this.#choose(this.#tried)
        if (next === undefined) return false
        this.#tried.add(next)
        const headerBytes = next.take(refused, this.#visitor)
        if (headerBytes === undefined) continue
        former.release(refused)
        this.#tunnel = next
        this.#headerBytes = headerBytes
        return true
      }
    }
  }

  /** Only an agent that returns credit for each read reveals that it has read only the header. */
  #unread(stream: MuxStream): boolean {
    return this.#tunnel.session.creditsEachRead && stream.granted <= this.#headerBytes
  }
}

class TunnelPipe implements BytePipe {
  readonly duplex: MuxStream
  readonly #attempt: Attempt

  constructor(stream: MuxStream, attempt: Attempt) {
    this.duplex = stream
    this.#attempt = attempt
  }

  /** A pool must not give it out again. */
  get stale(): boolean {
    return this.#attempt.stale
  }

  /** The agent turned it away unread, and there was no other to take it. */
  get unreached(): boolean {
    return this.duplex.turnedAway
  }

  end(): void {
    this.duplex.end()
  }

  destroy(_why: Failure): void {
    this.duplex.destroy()
  }
}
