import type { Socket } from 'node:net'
import type { EntryFacts } from '../flow/flow.js'
import { DeadlineTimer } from '../lib/deadline-timer.js'
import { Passes, Slices, type Steps } from '../lib/slices.js'
import type { EdgeAt } from '../runtime/http-edges.js'
import type { Snapshot } from '../runtime/snapshot.js'
import { SocketFacts } from '../transport/connection-facts.js'
import type { CarriedConnection, TlsPassthrough } from '../transport/contract.js'
import { shorterLimit } from '../transport/join.js'
import { TcpConnection, type TcpConnectionParts } from './tcp-connection.js'
import { checkPeriod, endConnections } from './tcp-listener.js'

/** Active connection with the name that selected its edge. */
interface Live {
  readonly connection: CarriedConnection
  readonly edge: string
  /** Name in the ClientHello; without one the dialled address. */
  readonly name: string
  readonly publicPort: number | undefined
  readonly port: number
}

/**
 * Carries connections of TLS listeners to edges with TLS passthrough (RFC 6066 3). Each is a connection of the TCP edge with the same id:
 * its modules, upstream, timeouts, log and metrics.
 */
export class TlsPassthroughs {
  readonly #parts: TcpConnectionParts
  readonly #deadlineTimer: DeadlineTimer
  readonly #live = new Set<Live>()
  #edges: Snapshot['tables']['edges'] | undefined

  constructor(parts: TcpConnectionParts) {
    const { clock, timeouts } = parts
    this.#parts = parts
    this.#deadlineTimer = new DeadlineTimer(clock, checkPeriod(shorterLimit(timeouts.idle, timeouts.half_closed)))
  }

  /** Number of active connections. */
  get open(): number {
    return this.#live.size
  }

  /** Returns the handler for a connection to the passthrough edge `found`. `address`: dialled by the client. */
  of(found: EdgeAt, listener: EntryFacts, sni: string | undefined, address: string): TlsPassthrough {
    const { id } = found.edge
    const { publicPort, port, region } = listener
    const at = found.endpoint ?? listener
    const entry: EntryFacts = { id, protocol: 'tls', host: at.host, port: at.port, region }
    return {
      carry: (socket, accepted) => {
        const facts = factsOf(socket, accepted, id, sni)
        const connection = new TcpConnection(
          socket,
          facts,
          { edge: id, entry, deadlineTimer: this.#deadlineTimer },
          this.#parts
        )
        const live: Live = { connection, edge: id, name: sni ?? address, publicPort, port }
        this.#live.add(live)
        void connection.ended.then(() => this.#live.delete(live))
        return connection
      }
    }
  }

  /** Drains connections whose name no longer belongs to their edge in the new snapshot. Resolves once they are found. */
  async serves(snapshot: Snapshot): Promise<void> {
    if (this.#edges === snapshot.tables.edges) return
    this.#edges = snapshot.tables.edges
    if (this.#live.size === 0) return
    const left = await new Slices().run(lost(this.#live, snapshot))
    for (const live of left) this.#live.delete(live)
    void endConnections(
      left.map(({ connection }) => connection),
      this.#parts.timeouts.drain
    )
  }
}

/** Finds connections whose name belongs to another edge in `snapshot`, in steps. */
function* lost(all: ReadonlySet<Live>, snapshot: Snapshot): Steps<readonly Live[]> {
  const found: Live[] = []
  const passes = new Passes()
  for (const live of [...all]) {
    if (passes.due()) yield
    const at = snapshot.edgeAt(live.name, live.publicPort, live.port)
    const members = at === undefined ? [] : (at.pool?.members ?? [at])
    if (!members.some(({ edge }) => edge.id === live.edge && edge.passthrough === true)) found.push(live)
  }
  return found
}

/** Returns the facts of the connection for the TCP edge `edge`. */
function factsOf(socket: Socket, accepted: SocketFacts, edge: string, sni: string | undefined): SocketFacts {
  const facts = new SocketFacts(accepted.id, edge, socket, accepted.startedAt)
  facts.peer = accepted.peer
  facts.local = accepted.local
  if (accepted.via !== undefined) facts.via = accepted.via
  facts.passed = sni === undefined ? {} : { sni }
  return facts
}
