import type { ConnectionFacts } from '../flow/exchange.js'
import { type EntryFacts, Flow } from '../flow/flow.js'
import { unmapIpv4 } from '../lib/ip.js'
import { runPhase } from '../policy/run.js'
import type { SnapshotHolder } from '../runtime/holder.js'
import type { Metrics } from '../telemetry/metrics.js'

export interface ConnectionGateParts {
  readonly holder: SnapshotHolder
  readonly metrics: Metrics
  readonly log: { info(fields: object, message: string): void }
}

/** Runs `on_tcp_connect` before the first byte of a connection and keeps what it published for its exchanges. */
export class ConnectionGate {
  readonly #entry: EntryFacts
  readonly #parts: ConnectionGateParts
  readonly #results = new Map<number, NonNullable<Flow['results']>>()

  constructor(entry: EntryFacts, parts: ConnectionGateParts) {
    this.#entry = entry
    this.#parts = parts
  }

  /** False: the connection is closed unread. */
  admit(facts: ConnectionFacts): boolean {
    const { holder, metrics } = this.#parts
    const phase = holder.current().connectPolicy()?.phases.on_tcp_connect
    if (phase) {
      const flow = new Flow(facts, this.#entry, unmapIpv4(facts.peer.address), facts.peer.port)
      flow.units = holder.current()
      const verdict = runPhase(phase, flow)
      const refused = verdict !== undefined
      if (refused) metrics.failed('CONNECTION_REFUSED')
      else if (flow.results !== undefined) this.#results.set(facts.id, flow.results)
      if (refused || flow.logs !== undefined) this.#log(facts, flow, refused)
      if (refused) return false
    }
    metrics.connections.inc()
    return true
  }

  /** Results of `on_tcp_connect` on this connection, for the flows of its exchanges. */
  results(connection: number): Flow['results'] {
    return this.#results.get(connection)
  }

  closed(facts: ConnectionFacts): void {
    this.#parts.metrics.connections.dec()
    this.#results.delete(facts.id)
  }

  #log(facts: ConnectionFacts, flow: Flow, refused: boolean): void {
    this.#parts.log.info(
      {
        connection: facts.id,
        listener: facts.listener,
        client: flow.clientAddress,
        refused,
        rule: flow.decidedBy?.rule,
        action: flow.decidedBy?.action,
        logs: flow.logs
      },
      'connection'
    )
  }
}
