import type { Front, Handler, Listening, ListenLimits } from '../engine/contract.js'
import type { EntryFacts } from '../exchange/flow.js'
import type { ListenerUnit } from '../plan/plan.js'
import { ConnectionGate, type ConnectionGateParts } from './connection-gate.js'
import { plainAddress } from './forwarded.js'
import type { Pipeline } from './pipeline.js'

export interface HttpListenerParts extends ConnectionGateParts {
  readonly front: Front
  readonly pipeline: Pipeline
  readonly limits: ListenLimits
  readonly region: string
  /** Are refused requests written to the access log? */
  readonly logRefused: boolean
}

/** Opens a listening socket and hands its connections to the gate and its exchanges to the pipeline. */
export async function openHttpListener(unit: ListenerUnit, parts: HttpListenerParts): Promise<Listening> {
  const entry: EntryFacts = { id: unit.name, protocol: 'http', host: unit.host, port: unit.port, region: parts.region }
  const gate = new ConnectionGate(entry, parts)
  const handler: Handler = {
    connection: (facts) => gate.admit(facts),
    closed: (facts) => gate.closed(facts),
    exchange: (exchange) => parts.pipeline.serve(exchange, entry, gate.results(exchange.connection.id)),
    refused(facts, status, why) {
      parts.metrics.malformed(status, why)
      if (!parts.logRefused) return
      const client = plainAddress(facts.peer.address)
      parts.log.info({ connection: facts.id, listener: facts.listener, client, status, failure: why }, 'refused')
    }
  }
  return parts.front.listen({ host: unit.host, port: unit.port }, { name: unit.name, limits: parts.limits }, handler)
}
