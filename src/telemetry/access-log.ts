import { type ConnectionFacts, type RequestHead, type Sent, sniOf } from '../flow/exchange.js'
import type { Flow } from '../flow/flow.js'
import { toMicroseconds } from '../lib/units.js'
import { redact, shownQuery } from './redaction.js'
import type { UpstreamTries } from './upstream-tries.js'

/** The part of a pino logger that the access log needs. */
export interface LineWriter {
  info(fields: object, message: string): void
  /** An exchange with its request, where the line needs more of it than the fields. Left out: `info` takes it. */
  exchange?(fields: ExchangeFields, request: RequestHead): void
}

/** Fields of a line about an exchange, by name. */
export type ExchangeFields = Readonly<Record<string, unknown>>

/** Which exchanges get a line. */
export interface AccessSample {
  /** The share, 0 to 1. */
  readonly share: number
  /** Says of an exchange that has ended whether it is meant; undefined: all are. */
  readonly where: ((flow: Flow) => boolean) | undefined
}

/** The names of the fields of a line about an exchange, as `access_log_fields` may choose them. */
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
  'failure',
  'edge',
  'route',
  'rule',
  'action',
  'bytes_in',
  'bytes_out',
  'duration_ms',
  'upstream_ms',
  'upstream',
  'revision',
  'logs'
] as const

/** Everything that one line of the access log holds. Times in milliseconds. */
export interface ExchangeRecord {
  readonly connection: ConnectionFacts
  readonly request: RequestHead
  readonly flow: Flow | undefined
  /** Ids of the route and its edge; undefined when no route was found. */
  readonly route:
    | { readonly edge: string; readonly id: string; readonly path?: string; readonly match?: 'exact' | 'prefix' }
    | undefined
  readonly revision: number
  /** 0 when there was no answer. */
  readonly status: number
  readonly code: string | undefined
  readonly sent: Sent
  readonly duration: number
  readonly upstreamDuration: number | undefined
  /** Undefined without an ordinary answer of an upstream. */
  readonly reusedConnection: boolean | undefined
  /** What was tried to get an answer; undefined when nothing was forwarded. */
  readonly tries: UpstreamTries | undefined
}

/**
 * One structured line per exchange, written when it ends. Header values are never logged; values of query parameters
 * and of logged metadata whose name sounds like a secret are replaced.
 */
export class AccessLog {
  readonly #log: LineWriter
  readonly #sample: AccessSample
  #credit = 0

  /** `sample` is read at each exchange. Failed ones (status 0 or from 500) always get a line. */
  constructor(log: LineWriter, sample: AccessSample) {
    this.#log = log
    this.#sample = sample
  }

  write(record: ExchangeRecord): void {
    if (!this.#chosen(record)) return
    const { connection, request, flow, route, sent } = record
    const target = flow?.request?.target
    // All fields for every line, undefined where there is none: objects of one form are made and written several times faster.
    const fields = {
      request_id: flow?.requestId,
      trace_id: flow?.trace?.traceId,
      connection: connection.id,
      listener: connection.listener,
      client: flow?.clientAddress ?? connection.peer.address,
      method: request.method,
      host: request.authority,
      path: target?.path ?? pathOnly(request.target),
      query: shownQuery(flow),
      status: record.status,
      code: record.code,
      failure: sent.failure,
      edge: route?.edge,
      route: route?.id,
      rule: flow?.decidedBy?.rule,
      action: flow?.decidedBy?.action,
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

/** Who served: the last try, and all of them. Without a try nothing. */
function upstreamOf(tries: UpstreamTries | undefined): object | undefined {
  const last = tries?.last
  if (tries === undefined || last === undefined) return undefined
  const { backend, server } = last
  return { backend, server, try_count: tries.count, tries: tries.shown }
}

function pathOnly(target: string): string {
  const mark = target.indexOf('?')
  return mark === -1 ? target : target.slice(0, mark)
}

/** Everything that one line about a connection holds. */
export interface ConnectionRecord {
  readonly connection: ConnectionFacts
  readonly flow: Flow
  readonly edge: string
  /** Why it was refused or broke off; undefined when it ran to its end. */
  readonly code: string | undefined
  readonly revision: number
  /** Milliseconds. */
  readonly duration: number
  /** What was tried to get a connection; undefined when nothing was. */
  readonly tries: UpstreamTries | undefined
}

/** One structured line for each connection to a TCP edge, written when it ends. */
export class ConnectionLog {
  readonly #log: LineWriter

  constructor(log: LineWriter) {
    this.#log = log
  }

  /** Writes why a policy of the edge could not end TLS on a connection. */
  handshakeFailed(connection: ConnectionFacts, flow: Flow, why: string, detail: object): void {
    const { id, listener } = connection
    this.#log.info(
      { connection: id, listener, client: flow.clientAddress, failure: why, ...detail },
      'handshake failed'
    )
  }

  write({ connection, flow, edge, code, revision, duration, tries }: ConnectionRecord): void {
    const { startedAt, tls, passed } = connection
    this.#log.info(
      {
        connection: connection.id,
        listener: connection.listener,
        client: flow.clientAddress,
        edge,
        port: flow.entry.port,
        tls: passed === undefined ? tls?.version : 'passthrough',
        sni: sniOf(connection),
        code,
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
