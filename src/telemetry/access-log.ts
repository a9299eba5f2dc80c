import { type ConnectionFacts, type RequestHead, type Sent, sniOf } from '../flow/exchange.js'
import type { Flow } from '../flow/flow.js'
import { withoutQuery } from '../flow/target.js'
import { toMicroseconds } from '../lib/units.js'
import { loggedFirewall } from './firewall.js'
import { reasonOf } from './reason.js'
import { redact, shownQuery } from './redaction.js'
import type { UpstreamTries } from './upstream-tries.js'

/** Part of a pino logger that the access log uses. */
export interface LineWriter {
  info(fields: object, message: string): void
  /** Writes an exchange whose line needs more of the request than the fields. @default `info` */
  exchange?(fields: ExchangeFields, request: RequestHead): void
}

/** Fields of a line about an exchange, by name. */
export type ExchangeFields = Readonly<Record<string, unknown>>

/** Selects the exchanges that are logged. */
export interface AccessSample {
  /** Share of exchanges, 0 to 1. */
  readonly share: number
  /** Returns true if the finished exchange is logged; undefined: all are. */
  readonly where: ((flow: Flow) => boolean) | undefined
}

/** Field names of exchange lines, for `access_log_fields`. */
export const ACCESS_FIELDS = [
  'time',
  'request_id',
  'trace_id',
  'connection',
  'listener',
  'client',
  'method',
  'host',
  'path',
  'query',
  'status',
  'code',
  'reason',
  'failure',
  'site',
  'edge',
  'route',
  'route_name',
  'rule',
  'action',
  'waf',
  'bytes_in',
  'bytes_out',
  'duration_ms',
  'upstream_ms',
  'upstream',
  'revision',
  'logs'
] as const

/** Data of one access log line. Times in milliseconds. */
export interface ExchangeRecord {
  readonly connection: ConnectionFacts
  readonly request: RequestHead
  readonly flow: Flow | undefined
  /** Ids of the route and its edge; undefined when no route was found. */
  readonly route:
    | { readonly edge: string; readonly id: string; readonly path?: string; readonly match?: 'exact' | 'prefix' }
    | undefined
  /** Name of the site whose host the request has; undefined if there is none. */
  readonly site: string | undefined
  /** Name of the route; undefined when no route was found. */
  readonly routeName: string | undefined
  readonly revision: number
  /** 0 if no response was sent. */
  readonly status: number
  readonly code: string | undefined
  readonly sent: Sent
  readonly duration: number
  readonly upstreamDuration: number | undefined
  /** True for a response over a reused connection; undefined if no upstream sent an ordinary response. */
  readonly reusedConnection: boolean | undefined
  /** Attempts at upstreams; undefined if nothing was forwarded. */
  readonly tries: UpstreamTries | undefined
}

/**
 * Writes one structured line per exchange when it finishes. Header values are never logged; values of query parameters and metadata with a
 * sensitive name are redacted.
 */
export class AccessLog {
  readonly #log: LineWriter
  readonly #sample: AccessSample
  #credit = 0

  /** `sample` is read at each exchange. Failed exchanges (status 0 or from 500) are always logged. */
  constructor(log: LineWriter, sample: AccessSample) {
    this.#log = log
    this.#sample = sample
  }

  write(record: ExchangeRecord): void {
    if (!this.#chosen(record)) return
    const { connection, request, flow, route, sent } = record
    const target = flow?.request?.target
    // Every line has all fields, undefined where they do not apply: objects of one shape are created and serialized several times faster.
    const fields = {
      request_id: flow?.requestId,
      trace_id: flow?.trace?.traceId,
      connection: connection.id,
      listener: connection.listener,
      client: flow?.clientAddress ?? connection.peer.address,
      method: request.method,
      host: request.authority,
      path: target?.path ?? withoutQuery(request.target),
      query: shownQuery(flow),
      status: record.status,
      code: record.code,
      reason: reasonOf(record),
      failure: sent.failure,
      site: record.site,
      edge: route?.edge,
      route: route?.id,
      route_name: record.routeName,
      rule: flow?.decidedBy?.rule,
      action: flow?.decidedBy?.action,
      waf: loggedFirewall(flow),
      bytes_in: sent.bytesIn,
      bytes_out: sent.bytesOut,
      duration_ms: toMicroseconds(record.duration),
      upstream_ms: record.upstreamDuration === undefined ? undefined : toMicroseconds(record.upstreamDuration),
      upstream: upstreamOf(record.tries),
      revision: record.revision,
      logs: flow?.logs?.map((entry) => redact(entry, 0))
    }
    if (this.#log.exchange === undefined) this.#log.info(fields, 'exchange')
    else this.#log.exchange(fields, request)
  }

  #chosen(record: ExchangeRecord): boolean {
    if (record.status === 0 || record.status >= 500) return true
    const { share, where } = this.#sample
    if (where !== undefined && record.flow !== undefined && !where(record.flow)) return false
    if (share >= 1) return true
    this.#credit += share
    if (this.#credit < 1) return false
    this.#credit -= 1
    return true
  }
}

/** Returns the fields of the last attempt and the list of all; nothing without an attempt. */
function upstreamOf(tries: UpstreamTries | undefined): object | undefined {
  const last = tries?.last
  if (tries === undefined || last === undefined) return undefined
  const { backend, name, server } = last
  return { backend, name, server, try_count: tries.count, tries: tries.shown }
}

/** Data of one line about a connection. */
export interface ConnectionRecord {
  readonly connection: ConnectionFacts
  readonly flow: Flow
  readonly edge: string
  /** Name of the edge; undefined if it is gone. */
  readonly site: string | undefined
  /** Reason for the refusal or failure; undefined if the connection completed. */
  readonly code: string | undefined
  readonly revision: number
  /** Milliseconds. */
  readonly duration: number
  /** Attempts to connect; undefined if none was made. */
  readonly tries: UpstreamTries | undefined
}

/** Writes one structured line for each connection to a TCP edge when it closes. */
export class ConnectionLog {
  readonly #log: LineWriter

  constructor(log: LineWriter) {
    this.#log = log
  }

  /** Logs why a policy of the edge could not terminate TLS on a connection. */
  handshakeFailed(connection: ConnectionFacts, flow: Flow, why: string, detail: object): void {
    const { id, listener } = connection
    this.#log.info(
      { connection: id, listener, client: flow.clientAddress, failure: why, ...detail },
      'handshake failed'
    )
  }

  write({ connection, flow, edge, site, code, revision, duration, tries }: ConnectionRecord): void {
    const { startedAt, tls, passed } = connection
    this.#log.info(
      {
        connection: connection.id,
        listener: connection.listener,
        client: flow.clientAddress,
        site,
        edge,
        port: flow.entry.port,
        // Without a try of a server, nothing was passed through.
        tls: passed === undefined ? tls?.version : tries === undefined ? undefined : 'passthrough',
        sni: sniOf(connection),
        code,
        reason: code === undefined ? undefined : reasonOf({ status: 0, code, flow, site, tries }),
        rule: flow.decidedBy?.rule,
        action: flow.decidedBy?.action,
        bytes_in: connection.bytesIn,
        bytes_out: connection.bytesOut,
        started: new Date(startedAt).toISOString(),
        ended: new Date(startedAt + duration).toISOString(),
        duration_ms: toMicroseconds(duration),
        upstream: upstreamOf(tries),
        revision,
        logs: flow.logs?.map((entry) => redact(entry, 0))
      },
      'connection'
    )
  }
}
