import type { Socket } from 'node:net'
import { FAILURES, flowErrors, MOST_HOPS, requestErrors } from '../flow/error-codes.js'
import type { BytePipe, Failure } from '../flow/exchange.js'
import { type EntryFacts, Flow, offerTermination } from '../flow/flow.js'
import { closeConnection, type Verdict } from '../flow/verdict.js'
import type { Clock } from '../lib/clock.js'
import type { DeadlineTimer } from '../lib/deadline-timer.js'
import { canonicalAddress } from '../lib/ip.js'
import type { AddressFilter } from '../runtime/address-filter.js'
import type { Snapshot, SnapshotHolder } from '../runtime/snapshot.js'
import type { CompiledTcpEdge } from '../runtime/tcp-edges.js'
import type { ConnectionLog } from '../telemetry/access-log.js'
import type { TrafficEventSource } from '../telemetry/event-fields.js'
import type { Metrics } from '../telemetry/metrics.js'
import type { RateOutcome } from '../telemetry/traffic-rates.js'
import { UpstreamTries } from '../telemetry/upstream-tries.js'
import type { SocketFacts } from '../transport/connection-facts.js'
import { DialError } from '../transport/contract.js'
import { AbortList } from '../transport/deadlines.js'
import { cut, ignore } from '../transport/pipes.js'
import type { Server } from './server.js'
import { type PipeEnd, TcpPipe } from './tcp-pipe.js'
import type { TcpTermination } from './tcp-termination.js'
import { absence, type Upstreams, type UpstreamTarget } from './upstreams.js'

export interface TcpConnectionParts {
  readonly holder: SnapshotHolder
  readonly clock: Clock
  readonly metrics: Metrics
  readonly endpoints: AddressFilter
  readonly upstreams: Upstreams
  readonly termination: TcpTermination
  /** Read buffer of all pipes. */
  readonly shared: Buffer
  /** No access log if undefined. */
  readonly lines: ConnectionLog | undefined
  readonly events: TrafficEventSource
  readonly log: { warn(fields: object, message: string): void; error(fields: object, message: string): void }
  /** Milliseconds; 0: no limit. */
  readonly timeouts: {
    readonly headers: number
    readonly connect: number
    readonly idle: number
    readonly half_closed: number
    readonly drain: number
  }
}

/** Maximum number of upstreams tried for one connection. */
const ATTEMPTS = 3

/** TCP edge of a connection. */
interface Entrance {
  readonly edge: string
  readonly entry: EntryFacts
  readonly deadlineTimer: DeadlineTimer
}

/**
 * Connection to a TCP edge: restriction of all endpoints → modules → upstream → bytes in both directions → log. One snapshot serves all
 * steps.
 */
export class TcpConnection {
  /** Resolves when the connection has ended. Never rejects. */
  readonly ended: Promise<void>
  readonly #parts: TcpConnectionParts
  readonly #facts: SocketFacts
  readonly #snapshot: Snapshot
  readonly #edge: string
  readonly #flow: Flow
  readonly #deadlineTimer: DeadlineTimer
  readonly #gone = new AbortList()
  /** Client side: its socket, after a handshake the TLS socket. */
  #client: Socket
  #pipe: TcpPipe | undefined
  #code: string | undefined
  #tries: UpstreamTries | undefined
  /** Internal edges that policies forwarded it to. */
  #inner: readonly string[] = []
  readonly #left = (): void => this.#gone.abort('client-gone')

  constructor(socket: Socket, facts: SocketFacts, { edge, entry, deadlineTimer }: Entrance, parts: TcpConnectionParts) {
    this.#parts = parts
    this.#facts = facts
    this.#edge = edge
    this.#deadlineTimer = deadlineTimer
    this.#client = socket
    this.#snapshot = parts.holder.current()
    this.#flow = new Flow(facts, entry, canonicalAddress(facts.peer.address), facts.peer.port)
    this.#flow.units = this.#snapshot
    this.#flow.signal = this.#gone
    socket.on('error', ignore)
    socket.once('close', this.#left)
    this.ended = this.#run()
  }

  /** Sends FIN after the pending bytes; closes if no bytes flow yet. */
  finish(): void {
    if (this.#pipe === undefined) this.reset()
    else this.#pipe.finish()
  }

  reset(): void {
    if (this.#pipe === undefined) cut(this.#client)
    else this.#pipe.reset('drained')
  }

  async #run(): Promise<void> {
    const { metrics, clock, log } = this.#parts
    const begun = clock.monotonic()
    metrics.connections.inc()
    try {
      const edge = this.#snapshot.tables.tcpEdges.get(this.#edge)
      const admitted = edge === undefined ? this.#refuse(requestErrors.route.code) : await this.#admit(edge)
      if ('kind' in admitted) {
        this.#count('refused')
        this.#close(admitted)
      } else await this.#carry(admitted)
    } catch (error) {
      log.error({ err: error, connection: this.#facts.id, edge: this.#edge }, 'a connection failed inside the proxy')
      this.#code = requestErrors.internal.code
      cut(this.#client)
    } finally {
      metrics.connections.dec()
      this.#flow.end()
      this.#record(clock.monotonic() - begun)
    }
  }

  /** Returns the edge whose upstream gets the connection, after forwarding by policies, or a verdict to refuse it. */
  async #admit(edge: CompiledTcpEdge): Promise<CompiledTcpEdge | Verdict> {
    const flow = this.#flow
    if (!this.#parts.endpoints.admits(this.#snapshot, flow.clientAddress, { listener: this.#facts.listener })) {
      return this.#refuse(requestErrors.restricted.code)
    }
    offerTermination(flow, async (how) => {
      const { timeouts, termination } = this.#parts
      const result = await termination.end(this.#client, this.#facts, how, this.#snapshot, timeouts.headers)
      if (result.kind === 'failed') {
        const { why, detail } = result
        this.#parts.metrics.handshakeFailed(why)
        if (why !== 'overloaded') this.#parts.lines?.handshakeFailed(this.#facts, flow, why, detail)
        return { kind: 'failed', why: detail.cause === undefined ? why : `${why}: ${detail.cause}` }
      }
      this.#client = result.secure
      this.#facts.tls = result.tls
      this.#facts.passed = undefined
      return { kind: 'secure', tls: result.tls }
    })
    let current = edge
    for (let hops = 0; ; hops++) {
      const verdict = await this.#steps(current)
      if (verdict === undefined) return current
      if (verdict.kind !== 'forward') return this.#refuse(refusalCode(verdict), verdict)
      if (hops === MOST_HOPS) return this.#refuse(requestErrors.hops.code)
      const next = this.#snapshot.internalTcpEdge(verdict.host, verdict.port)
      if (next === undefined) return this.#refuse(requestErrors.internalEntry.code)
      flow.endpoint = { id: next.id, protocol: 'tcp', host: verdict.host, port: verdict.port ?? 0 }
      current = next
      this.#inner = [...this.#inner, next.id]
    }
  }

  async #steps({ modules }: CompiledTcpEdge): Promise<Verdict | undefined> {
    for (const { connect } of modules ?? []) {
      const verdict = await connect?.(this.#flow, this.#snapshot)
      if (verdict !== undefined) return verdict
    }
    return undefined
  }

  async #carry(edge: CompiledTcpEdge): Promise<void> {
    const found = await this.#dial(edge)
    this.#count(found === undefined ? 'failed' : 'served')
    if (found === undefined) {
      cut(this.#client)
      return
    }
    const { pipe: upstream, idle, done } = found
    if (this.#client.destroyed) {
      upstream.destroy('client-gone')
      done()
      return
    }
    this.#client.removeListener('close', this.#left)
    const { timeouts, shared } = this.#parts
    const counted = this.#facts.counts === this.#client
    const pipe = new TcpPipe(this.#client, upstream, { idle, halfClosed: timeouts.half_closed }, shared)
    this.#client = pipe.client
    // The pipe's socket replaces the one whose bytes were counted.
    if (counted) this.#facts.counts = pipe.client
    this.#pipe = pipe
    this.#deadlineTimer.add(pipe)
    const end = await pipe.ended
    this.#deadlineTimer.delete(pipe)
    done()
    this.#code = ENDS[end]
  }

  /** Returns a pipe to the first upstream that connects; undefined if none did. */
  async #dial({
    upstream: key
  }: CompiledTcpEdge): Promise<{ pipe: BytePipe; idle: number; done: () => void } | undefined> {
    const { upstreams, timeouts, clock, lines, events } = this.#parts
    if (lines !== undefined || events.wantsConnections) this.#tries = new UpstreamTries()
    const one = { firstByte: undefined, status: undefined }
    const tried = new Set<Server>()
    this.#code = absence(this.#snapshot, key).code
    let led: UpstreamTarget | undefined
    let attempts = 0
    while (key !== undefined && attempts < ATTEMPTS) {
      const target: UpstreamTarget | undefined = led ?? upstreams.choose(this.#snapshot, key, tried, this.#flow)
      led = undefined
      // A fixed response is HTTP and cannot be sent on a plain connection.
      if (target === undefined || target.kind === 'response') return undefined
      const { server, dialer, backend, name } = target
      tried.add(server)
      const done = server.places.state === 'free' ? server.begin() : await inTurn(server, this.#gone)
      if (typeof done === 'string') {
        this.#tries?.add({ ...one, backend, name, server: server.name, connect: undefined, failure: done })
        this.#code = FAILURES[done].code
        return undefined
      }
      const begun = clock.monotonic()
      try {
        const why = {
          client: this.#facts,
          deadline: server.settings.timeouts?.connect ?? timeouts.connect,
          signal: this.#gone
        }
        const pipe = await dialer.open(why)
        server.succeeded()
        const connect = clock.monotonic() - begun
        this.#tries?.add({ ...one, backend, name, server: server.name, connect, failure: undefined })
        this.#code = undefined
        return { pipe, idle: server.settings.timeouts?.idle ?? timeouts.idle, done }
      } catch (error) {
        done()
        if (!(error instanceof DialError)) throw error
        const { failure } = error
        if (failure === 'dial-outrun' && server.successor !== undefined && !tried.has(server.successor))
          led = { ...target, server: server.successor, dialer: server.successor.dialer }
        else attempts++
        this.#tries?.add({ ...one, backend, name, server: server.name, connect: undefined, failure })
        if (led === undefined && !this.#failed(server, error.failure, error.message)) return undefined
      }
    }
    return undefined
  }

  /** Returns true if another upstream may be tried. */
  #failed(server: Server, failure: Failure, detail: string): boolean {
    this.#code = FAILURES[failure].code
    if (this.#gone.aborted !== undefined) return false
    server.failed(failure)
    this.#parts.log.warn({ failure, detail, upstream: server.name, edge: this.#edge }, 'upstream failed')
    return true
  }

  #refuse(code: string, verdict: Verdict = closeConnection): Verdict {
    this.#code = code
    return verdict
  }

  #close(verdict: Verdict): void {
    if (verdict.kind === 'close' && verdict.how === 'reset') cut(this.#client)
    else this.#client.destroy()
  }

  /** Counts the connection at its start, because it may last for hours. */
  #count(outcome: RateOutcome): void {
    const { metrics, clock } = this.#parts
    const { revision } = this.#snapshot
    const about = { route: undefined, inner: undefined, host: undefined, revision, outcome, at: clock.monotonic() }
    metrics.rates.count({ ...about, edge: this.#edge, inside: false })
    for (const edge of this.#inner) metrics.rates.count({ ...about, edge, inside: true })
  }

  #record(duration: number): void {
    const { metrics, lines, events } = this.#parts
    const { bytesIn, bytesOut } = this.#facts
    metrics.connectionEnded(this.#edge, this.#code, duration)
    metrics.transferred(bytesIn, bytesOut)
    const record = {
      connection: this.#facts,
      flow: this.#flow,
      edge: this.#edge,
      site: this.#snapshot.tables.tcpEdges.get(this.#edge)?.name,
      code: this.#code,
      revision: this.#snapshot.revision,
      duration,
      tries: this.#tries
    }
    lines?.write(record)
    events.connection(record)
  }
}

/** Waits for a place at the server: returns the function that releases it, or why there is none. */
function inTurn(server: Server, signal: AbortList): Promise<(() => void) | Failure> {
  return new Promise((resolve) => {
    const { places } = server
    places.wait(
      signal,
      () => resolve(server.begin()),
      ({ failure }) => resolve(failure)
    )
  })
}

const ENDS: Readonly<Record<PipeEnd, string | undefined>> = {
  complete: undefined,
  broken: flowErrors.CONNECTION_BROKEN.code,
  idle: flowErrors.IDLE.code,
  drained: flowErrors.DRAINING.code
}

function refusalCode(verdict: Verdict): string {
  return (verdict.kind === 'respond' ? verdict.code : undefined) ?? flowErrors.CONNECTION_REFUSED.code
}
