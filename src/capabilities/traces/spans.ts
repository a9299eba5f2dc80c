import { shorten } from '../../lib/printable.js'
import { shownQueryOf } from '../../telemetry/redaction.js'
import {
  addAttribute,
  attributesOf,
  type KeyValue,
  KIND,
  nanoseconds,
  type Span,
  STATUS_ERROR
} from './otlp/messages.js'
import { FLAGS } from './trace-context.js'
import type { TracedExchange, TracedTry } from './traced-exchange.js'

/*
 * Spans after the stable semantic conventions of OpenTelemetry for HTTP (semconv 1.23 and later).
 */

/** Known methods; others are shown as `_OTHER`, because a client could create arbitrarily many span groups with its own names. */
const METHODS = new Set(['CONNECT', 'DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT', 'TRACE'])
/** Name that replaces an unknown method. */
const OTHER = '_OTHER'
/** Name of a span with an unknown method. */
const UNNAMED = 'HTTP'

/** Span flag: the location of the parent is known (opentelemetry-proto, SpanFlags). */
const HAS_IS_REMOTE = 0x100
/** Span flag: the parent is in another process (opentelemetry-proto, SpanFlags). */
const IS_REMOTE = 0x200

/** Codes of gRPC that are the server's fault (semantic conventions for gRPC). */
const GRPC_SERVER_FAULTS = new Set([2, 4, 12, 13, 14, 15])
/** Maximum length of an attribute value (characters). */
const LONGEST_TEXT = 1_024

/** The server span of an exchange, and a client span for each try to reach an upstream. */
export function spansOf(traced: TracedExchange): Span[] {
  return [serverSpan(traced), ...traced.tries.map((one, index) => clientSpan(traced, one, index))]
}

function addMethod(list: KeyValue[], method: string): void {
  const known = METHODS.has(method)
  addAttribute(list, 'http.request.method', known ? method : OTHER)
  if (!known) addAttribute(list, 'http.request.method_original', short(method))
}

function serverSpan(traced: TracedExchange): Span {
  const { traceId, spanId, parentSpanId, traceState, method, route, begun, ended, events, eventsDropped } = traced
  const known = METHODS.has(method) ? method : UNNAMED
  const error = serverError(traced)
  return {
    traceId,
    spanId,
    ...(traceState === '' ? {} : { traceState }),
    ...(parentSpanId === '' ? {} : { parentSpanId }),
    flags: FLAGS.sampled | HAS_IS_REMOTE | (parentSpanId === '' ? 0 : IS_REMOTE),
    name: route === undefined ? known : `${known} ${route}`,
    kind: KIND.server,
    startTimeUnixNano: nanoseconds(begun),
    endTimeUnixNano: nanoseconds(ended),
    attributes: serverAttributes(traced, error),
    ...(events.length === 0
      ? {}
      : {
          events: events.map(({ at, name, attributes }) => ({
            timeUnixNano: nanoseconds(at),
            name,
            attributes: attributesOf(attributes)
          }))
        }),
    ...(eventsDropped === 0 ? {} : { droppedEventsCount: eventsDropped }),
    ...(error === undefined ? {} : { status: { code: STATUS_ERROR } })
  }
}

/** One by one: an object with all of them would cost more than the span. */
function serverAttributes(traced: TracedExchange, error: string | undefined): KeyValue[] {
  const { query, ownPath, host, userAgent, status } = traced
  const list: KeyValue[] = []
  const add = (key: string, value: string | number | undefined) => addAttribute(list, key, value)
  addMethod(list, traced.method)
  add('url.scheme', traced.scheme)
  add('url.path', short(traced.path))
  if (query !== undefined && query !== '') add('url.query', short(shownQueryOf(query, ownPath)))
  add('http.route', traced.route)
  if (host !== '') add('server.address', host)
  add('server.port', traced.port)
  add('client.address', traced.clientAddress)
  add('network.peer.address', traced.peerAddress)
  add('network.peer.port', traced.peerPort)
  add('network.protocol.version', traced.version)
  if (userAgent !== undefined) add('user_agent.original', short(userAgent))
  if (status !== 0) add('http.response.status_code', status)
  add('error.type', error)
  addGrpc(list, traced)
  add('sluice.request_id', traced.requestId)
  add('sluice.listener', traced.listener)
  add('sluice.edge', traced.edge)
  if (traced.site !== undefined) add('sluice.site', short(traced.site))
  add('sluice.route', traced.routeId)
  if (traced.routeName !== undefined) add('sluice.route_name', short(traced.routeName))
  add('sluice.revision', traced.revision)
  add('sluice.code', traced.code)
  add('sluice.failure', traced.failure)
  add('sluice.rule', traced.rule)
  add('sluice.action', traced.action)
  add('sluice.bytes_in', traced.bytesIn)
  add('sluice.bytes_out', traced.bytesOut)
  return list
}

/** Returns the reason why the exchange is a server error; undefined if it is none. Client errors do not count. */
function serverError({ status, code, failure, grpcStatus }: TracedExchange): string | undefined {
  if (status >= 500) return code ?? String(status)
  if (failure !== undefined && !failure.startsWith('client-')) return failure
  return grpcStatus !== undefined && GRPC_SERVER_FAULTS.has(grpcStatus) ? String(grpcStatus) : undefined
}

function addGrpc(list: KeyValue[], { isGrpc, grpcStatus, path }: TracedExchange): void {
  if (!isGrpc) return
  const [, service, method] = /^\/([^/]+)\/([^/]+)$/.exec(path) ?? []
  addAttribute(list, 'rpc.system', 'grpc')
  addAttribute(list, 'rpc.service', service)
  addAttribute(list, 'rpc.method', method)
  addAttribute(list, 'rpc.grpc.status_code', grpcStatus)
}

function clientSpan(traced: TracedExchange, one: TracedTry, index: number): Span {
  const { traceId, traceState, spanId: parentSpanId } = traced
  const { origin, host, port } = serverOf(one.server, traced)
  const isLast = index === traced.tries.length - 1
  const grpcStatus = isLast && traced.isGrpc ? traced.grpcStatus : undefined
  const failed = one.failure ?? (one.status !== undefined && one.status >= 400 ? String(one.status) : undefined)
  // The response began, and was aborted because of the upstream.
  const broken = isLast && traced.failure?.startsWith('upstream-') === true ? traced.failure : undefined
  const gave = one.status === undefined && one.failure === undefined ? (traced.failure ?? OTHER) : undefined
  const refused = grpcStatus === undefined || grpcStatus === 0 ? undefined : String(grpcStatus)
  const error = failed ?? broken ?? gave ?? refused
  const attributes: KeyValue[] = []
  addMethod(attributes, one.method)
  addAttribute(attributes, 'url.full', short(`${origin}${shownTarget(one.target, traced.ownPath)}`))
  addAttribute(attributes, 'server.address', host)
  addAttribute(attributes, 'server.port', port)
  addAttribute(attributes, 'http.response.status_code', one.status)
  if (index > 0) addAttribute(attributes, 'http.request.resend_count', index)
  addAttribute(attributes, 'error.type', error)
  if (one.backend !== '') {
    addAttribute(attributes, 'sluice.backend', one.backend)
    addAttribute(attributes, 'sluice.backend_name', short(one.name))
  }
  if (grpcStatus !== undefined) {
    addAttribute(attributes, 'rpc.system', 'grpc')
    addAttribute(attributes, 'rpc.grpc.status_code', grpcStatus)
  }
  return {
    traceId,
    spanId: one.spanId,
    ...(traceState === '' ? {} : { traceState }),
    parentSpanId,
    flags: FLAGS.sampled | HAS_IS_REMOTE,
    name: METHODS.has(one.method) ? one.method : UNNAMED,
    kind: KIND.client,
    startTimeUnixNano: nanoseconds(one.begun),
    endTimeUnixNano: nanoseconds(one.ended),
    attributes,
    ...(error === undefined ? {} : { status: { code: STATUS_ERROR } })
  }
}

/** Parses the server's URL. Tunnels have none; then the name in the client's request is used. */
function serverOf(
  server: string,
  { scheme, host, port }: TracedExchange
): { readonly origin: string; readonly host: string; readonly port: number | undefined } {
  const parsed = /^(https?):\/\/(?:\[([^\]]+)\]|([^:/?#]+))(?::(\d+))?/.exec(server)
  if (parsed !== null) {
    const [origin, protocol, ipv6, name = '', written] = parsed
    return { origin, host: ipv6 ?? name, port: Number(written ?? (protocol === 'https' ? 443 : 80)) }
  }
  const shown = host.includes(':') ? `[${host}]` : host
  return {
    origin: `${scheme}://${shown}${port === undefined ? '' : `:${port}`}`,
    host: server === '' ? host : server,
    port: undefined
  }
}

function shownTarget(target: string, own: boolean): string {
  const mark = target.indexOf('?')
  return mark === -1 ? target : `${target.slice(0, mark)}?${shownQueryOf(target.slice(mark + 1), own)}`
}

const short = (text: string): string => shorten(text, LONGEST_TEXT)
