import type { ConnectionFacts } from '../flow/exchange.js'
import type { Flow } from '../flow/flow.js'
import type { LineWriter } from './access-log.js'
import { redact } from './redaction.js'

/** Everything that one line tells. */
export interface ConnectionRecord {
  readonly connection: ConnectionFacts
  readonly flow: Flow
  readonly edge: string
  /** Why it was refused or broke off; undefined when it ran to its end. */
  readonly code: string | undefined
  readonly revision: number
  /** Milliseconds. */
  readonly duration: number
}

/** One structured line for each connection to a TCP edge, written when it ends. */
export class ConnectionLog {
  readonly #log: LineWriter

  constructor(log: LineWriter) {
    this.#log = log
  }

  write({ connection, flow, edge, code, revision, duration }: ConnectionRecord): void {
    const { startedAt, tls } = connection
    this.#log.info(
      {
        connection: connection.id,
        listener: connection.listener,
        client: flow.clientAddress,
        edge,
        port: flow.entry.port,
        ...(tls === undefined ? undefined : { tls: tls.version, sni: tls.sni }),
        ...(code === undefined ? undefined : { code }),
        rule: flow.decidedBy?.rule,
        action: flow.decidedBy?.action,
        bytes_in: connection.bytesIn,
        bytes_out: connection.bytesOut,
        started: new Date(startedAt).toISOString(),
        ended: new Date(startedAt + duration).toISOString(),
        duration_ms: Math.round(duration * 1_000) / 1_000,
        revision,
        ...(flow.logs === undefined ? undefined : { logs: flow.logs.map((entry) => redact(entry, 0)) })
      },
      'connection'
    )
  }
}
