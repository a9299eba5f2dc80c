import type { ExchangeRecord } from './access-log.js'
import { CONNECTION_FIELDS } from './connection-fields.js'
import type { ConnectionRecord } from './connection-log.js'
import { EXCHANGE_FIELDS } from './exchange-fields.js'

const EXCHANGE = 'http_request_complete.v0'
const CONNECTION = 'tcp_connection_closed.v0'

/** Takes the events of traffic. Must not throw or block. */
export interface EventSink {
  /** Does anybody subscribe to this type? */
  wants(type: string): boolean
  /** `read` answers the value of a field by its dotted path; null or undefined when it has none, and goes on to answer the same. */
  put(type: string, read: (path: string) => unknown): void
}

/** Says what went through, to whom subscribes to it. While nobody does, it gathers nothing. */
export class TrafficEvents {
  readonly #sink: EventSink

  constructor(sink: EventSink) {
    this.#sink = sink
  }

  exchange(record: ExchangeRecord): void {
    if (this.#sink.wants(EXCHANGE)) this.#sink.put(EXCHANGE, (path) => EXCHANGE_FIELDS[path]?.(record))
  }

  connection(record: ConnectionRecord): void {
    if (this.#sink.wants(CONNECTION)) this.#sink.put(CONNECTION, (path) => CONNECTION_FIELDS[path]?.(record))
  }
}
