import type { ConnectionFacts, RequestHead } from '../../flow/exchange.js'
import type { RulesVersion } from '../../flow/firewall.js'
import { type EndpointFacts, type EntryFacts, Flow, flowSlot } from '../../flow/flow.js'
import { HeaderFields, type HeaderList } from '../../flow/headers.js'
import { type PathForm, RequestTarget } from '../../flow/target.js'
import { canonicalAddress } from '../../lib/ip.js'
import type { ShownFirewallResult } from '../../telemetry/firewall.js'
import { redact, redactPairs, redactUrl } from '../../telemetry/redaction.js'
import type { Explanation } from '../explain/answers.js'
import { redactedFields, withoutTexts } from '../explain/explanation-of.js'
import { decisionText } from '../explain/explanation-text.js'
import type { ShownDecision } from '../shadow/answers.js'
import type { Aspect } from '../shadow/decision.js'
import type { ExchangeSummary, ExchangeView, ShownBody } from './answers.js'

/** Bytes of a body that are kept, up to a limit. */
export interface RecordedBody {
  /** base64 */
  readonly content: string
  /** Bytes that went through. */
  readonly bytes: number
  /** Is all of it here? */
  readonly whole: boolean
}

/** A different decision by a shadow. */
export interface ShadowedDecision {
  /** Id of the shadow. */
  readonly id: string
  readonly decision: ShownDecision
  /** Parts that differ. */
  readonly differs: readonly Aspect[]
  /** Redacted explanation; null if there was no room for it. */
  readonly explanation: Explanation | null
}

/** The connection of an exchange, as policies see it. */
interface RecordedConnection extends Omit<ConnectionFacts, 'tls' | 'via'> {
  readonly tls?: Omit<NonNullable<ConnectionFacts['tls']>, 'clientCertificate' | 'serverCertificate'> & {
    /** DER, base64. */
    readonly clientCertificate?: string
  }
}

/**
 * One recorded exchange: the fields that policies can read, and its outcome. It is plain data and contains secrets; only
 * `shownExchange` may leave the process. Times are milliseconds.
 */
export interface RecordedExchange {
  readonly id: string
  /** `x-request-id`; undefined if the request was not admitted, or an earlier version recorded it. */
  readonly requestId?: string | undefined
  /** Id of its trace; undefined if it belongs to none. */
  readonly traceId?: string | undefined
  /** Wall time. */
  readonly at: number
  readonly revision: number
  readonly entry: EntryFacts
  readonly endpoint: EndpointFacts
  readonly connection: RecordedConnection
  /** Behind trusted proxies the one that they vouch for. */
  readonly client: { readonly address: string; readonly port: number }
  readonly request: Omit<RequestHead, 'body'>
  /** Fields as policies see them first; null where the request was refused at its head. */
  readonly fields: HeaderList | null
  readonly pathForm: PathForm
  /** Name of the site whose host the request has; null if there is none. */
  readonly site: string | null
  readonly edge: string | null
  readonly route: string | null
  /** Name of the route. */
  readonly routeName: string | null
  readonly decision: Explanation['decision']
  /** Forwarded request and its server; null if none. */
  readonly upstream: (NonNullable<Explanation['upstream']> & { readonly server: string | null }) | null
  /** The tries to reach an upstream, as logs show them. */
  readonly tries: readonly unknown[]
  /** Response of the upstream, before any policy. */
  readonly answer: { readonly status: number; readonly headers: HeaderList } | null
  /** Response to the client; null if none. */
  readonly response: { readonly status: number; readonly headers: HeaderList } | null
  readonly durationMs: number
  readonly upstreamMs: number | null
  readonly bytesIn: number
  readonly bytesOut: number
  /** The request came with a body. */
  readonly hasBody: boolean
  /** Output of `log` actions, redacted. */
  readonly logs: readonly unknown[]
  readonly bodies: { readonly request: RecordedBody | null; readonly response: RecordedBody | null }
  /** Results of the web application firewall, redacted; undefined in records of earlier versions. */
  readonly waf?: readonly ShownFirewallResult[]
  /** A certificate or the policy has verified who the client is. */
  readonly signedIn?: boolean
  /** Redacted explanation; null if not requested. */
  readonly explanation: Explanation | null
  /** Rules of the firewall that have examined it; undefined if none have, or an earlier version recorded it. */
  readonly rules?: RulesVersion | undefined
  /** Different decision of a shadow; null if there was no shadow, or it agreed. */
  readonly shadow: ShadowedDecision | null
  /** Id of the exchange that this one repeats. */
  readonly repeats: string | null
  /** Vault values in the sent request; they are hidden. */
  readonly hidden: readonly string[]
}

/** The recorded exchange of a flow, for conditions on recorded exchanges. */
export const recordedSlot = flowSlot<RecordedExchange>('recorded exchange')

/** The exchange as expressions read it when it has ended: the request as it came, the response as the client got it. */
export function flowOf(recorded: RecordedExchange): Flow {
  const { connection, entry, client, request, response, fields, pathForm } = recorded
  const flow = new Flow(connectionOf(recorded), entry, client.address, client.port)
  flow.endpoint = recorded.endpoint
  flow.set(recordedSlot, recorded)
  const authority = request.authority === '' ? connection.local.address : request.authority
  const headers = new HeaderFields(fields ?? request.headers)
  // Set by this process: the claim of an untrusted peer was removed before the fields were recorded.
  const claimed = fields === null ? undefined : headers.get('x-forwarded-proto')
  const scheme = claimed === 'https' ? 'https' : request.scheme
  const asked = RequestTarget.fromRequestLine(request.method, request.target, authority, request.scheme)
  const target = asked?.in(pathForm, scheme)
  if (target !== undefined && typeof target !== 'string') {
    flow.request = {
      head: request,
      version: request.version,
      scheme,
      authority: target.authority,
      method: request.method,
      target,
      pathForm,
      headers,
      body: bytesOf(recorded.bodies.request) ?? new Uint8Array(0),
      receivedAt: recorded.at
    }
  }
  if (response !== null) {
    flow.response = {
      status: response.status,
      reason: '',
      headers: new HeaderFields(response.headers),
      body: bytesOf(recorded.bodies.response),
      local: recorded.upstream === null,
      transforms: [],
      trailers: undefined
    }
  }
  return flow
}

/** The facts of the connection, as its transport gave them. */
export function connectionOf({ connection }: RecordedExchange): ConnectionFacts {
  const { tls, ...facts } = connection
  if (tls === undefined) return facts
  const { clientCertificate, ...rest } = tls
  const certificate =
    clientCertificate === undefined ? {} : { clientCertificate: Buffer.from(clientCertificate, 'base64') }
  return { ...facts, tls: { ...rest, ...certificate } }
}

/** Returns the connection as data, with its current counters. */
export function recordedConnection({
  id,
  listener,
  peer,
  local,
  startedAt,
  bytesIn,
  bytesOut,
  tls
}: ConnectionFacts): RecordedConnection {
  const facts = { id, listener, peer, local, startedAt, bytesIn, bytesOut }
  if (tls === undefined) return facts
  const { clientCertificate, serverCertificate: _, ...rest } = tls
  return {
    ...facts,
    tls: {
      ...rest,
      ...(clientCertificate === undefined ? {} : { clientCertificate: base64(clientCertificate) })
    }
  }
}

/** The bytes of a body that is whole; undefined otherwise. */
export function bytesOf(body: RecordedBody | null): Uint8Array | undefined {
  return body?.whole === true ? Buffer.from(body.content, 'base64') : undefined
}

export function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')
}

/** Returns the requested absolute URL, as far as the request has one. */
export function urlOf({ request, connection }: Pick<RecordedExchange, 'request' | 'connection'>): string {
  const { scheme, authority, target } = request
  if (/^https?:\/\//i.test(target)) return target
  const host = authority === '' ? `${connection.local.address}:${connection.local.port}` : authority
  return `${scheme}://${host}${target.startsWith('/') ? target : ''}`
}

/** An exchange in one line. `baseUrl`: that of the API. */
export function exchangeSummary(recorded: RecordedExchange, baseUrl: string): ExchangeSummary {
  const { id, at, revision, client, request, entry, site, edge, route, routeName, decision, upstream } = recorded
  return {
    id,
    uri: `${baseUrl}/exchanges/${id}`,
    request_id: recorded.requestId ?? null,
    trace_id: recorded.traceId ?? null,
    at: new Date(at).toISOString(),
    revision,
    client_ip: client.address,
    method: request.method,
    url: redactUrl(urlOf(recorded)),
    http_version: request.version,
    listener: entry.id,
    site,
    edge,
    route,
    route_name: routeName,
    decided: decisionText(decision),
    decision,
    upstream: upstream === null ? null : { backend: upstream.backend, name: upstream.name, server: upstream.server },
    duration_ms: recorded.durationMs,
    upstream_ms: recorded.upstreamMs,
    bytes_in: recorded.bytesIn,
    bytes_out: recorded.bytesOut,
    explained: recorded.explanation !== null,
    replay_of: recorded.repeats
  }
}

/** Returns the public form of an exchange: without values whose names look secret, and without vault values. */
export function shownExchange(recorded: RecordedExchange, baseUrl: string): ExchangeView {
  const { connection, client, request, upstream, response, tries, logs, bodies, explanation, hidden, rules, shadow } =
    recorded
  const { tls } = connection
  const shown = {
    ...exchangeSummary(recorded, baseUrl),
    connection: {
      id: connection.id,
      started_at: new Date(connection.startedAt).toISOString(),
      client: { ip: canonicalAddress(connection.peer.address), port: connection.peer.port },
      server: { ip: canonicalAddress(connection.local.address), port: connection.local.port },
      tls:
        tls === undefined
          ? null
          : { version: tls.version, cipher: tls.cipher, server_name: tls.sni ?? null, alpn: tls.alpn ?? null }
    },
    client: { ip: client.address, port: client.port },
    request: { headers: redactedFields(request.headers), body: shownBody(bodies.request, request.headers) },
    upstream:
      upstream === null
        ? null
        : { ...upstream, uri: redactUrl(upstream.uri), headers: redactedFields(upstream.headers) },
    tries,
    response:
      response === null
        ? null
        : {
            status: response.status,
            headers: redactedFields(response.headers),
            body: shownBody(bodies.response, response.headers)
          },
    logs,
    waf: recorded.waf ?? [],
    signed_in: recorded.signedIn ?? false,
    waf_rules: rules === undefined ? null : { rules: rules.signature, digest: rules.digest },
    explanation,
    shadow: shadow === null ? null : { ...shadow, uri: `${baseUrl}/shadows/${shadow.id}` }
  }
  return withoutTexts(shown, new Set(hidden))
}

const TEXTS = /^(?:text\/|application\/(?:[a-z0-9.+-]*\+)?(?:json|xml)\b|application\/x-www-form-urlencoded)/i

/** Formats a recorded body, as text if possible. Form and JSON fields whose names look secret are redacted. */
function shownBody(body: RecordedBody | null, headers: HeaderList): ShownBody {
  if (body === null) return null
  const { bytes, whole } = body
  const type = fieldOf(headers, 'content-type')
  const encoded = fieldOf(headers, 'content-encoding')
  const content = Buffer.from(body.content, 'base64')
  if (!TEXTS.test(type) || (encoded !== '' && encoded !== 'identity')) return { bytes, whole, base64: body.content }
  return { bytes, whole, text: redactedText(content.toString(), type) }
}

function redactedText(text: string, type: string): string {
  if (/x-www-form-urlencoded/i.test(type)) return redactUrl(`?${text}`).slice(1)
  if (!/json/i.test(type)) return text
  try {
    return JSON.stringify(redact(JSON.parse(text), 0))
  } catch {
    // Truncated or invalid JSON: secrets can only be found by name.
    return redactPairs(text)
  }
}

/** The first value of a field; '' without it. */
export function fieldOf(headers: HeaderList, name: string): string {
  return new HeaderFields(headers).get(name) ?? ''
}
