import type { Body, Outgoing } from '../../flow/exchange.js'
import { type RulesVersion, rulesVersionSlot } from '../../flow/firewall.js'
import { type EntryFacts, type Flow, flowSlot } from '../../flow/flow.js'
import { HeaderFields, type HeaderList } from '../../flow/headers.js'
import { ByteQueue } from '../../lib/byte-queue.js'
import { newId } from '../../lib/id.js'
import { canonicalAddress } from '../../lib/ip.js'
import { toMicroseconds } from '../../lib/units.js'
import type { AdmittedFlow } from '../../proxy/admission.js'
import { upstreamKey } from '../../runtime/plan.js'
import { Snapshot } from '../../runtime/snapshot.js'
import type { ExchangeRecord } from '../../telemetry/access-log.js'
import { shownFirewall } from '../../telemetry/firewall.js'
import { reasonOf } from '../../telemetry/reason.js'
import { redact } from '../../telemetry/redaction.js'
import type { Explanation } from '../explain/answers.js'
import type { ExplanationRecorder } from '../explain/explanation.js'
import { explanationOf, type SentUpstream, withoutTexts } from '../explain/explanation-of.js'
import { EXPLAIN_HEADER } from './explain-keys.js'
import { base64, type RecordedBody, type RecordedExchange, recordedConnection, urlOf } from './recorded-exchange.js'

/** Notes on a running exchange. */
export interface Noted {
  /** Id in the response; undefined if there is none. */
  readonly id: string | undefined
  readonly at: number
  readonly fields: HeaderList
  readonly explainer: ExplanationRecorder | undefined
  readonly repeats: string | null
  readonly hasBody: boolean
  answer: RecordedExchange['answer']
  /** Set when it has ended. */
  record: ExchangeRecord | undefined
  /** Id in the ring. */
  kept: string | undefined
  shadow: RecordedExchange['shadow']
  requestBody: KeptBody | undefined
  responseBody: KeptBody | undefined
}

const NO_SECRETS: ReadonlySet<string> = new Set()
const NO_BODIES = { request: null, response: null }

/** Returns the record of an ended exchange. `now`: wall time (ms); `bodies`: maximum number of kept bytes of each body. */
export function recordedExchange(
  record: ExchangeRecord,
  noted: Noted | undefined,
  { now, bodies }: { readonly now: number; readonly bodies: number }
): RecordedExchange {
  const { connection, flow, route, status, code, sent, tries } = record
  const { method, target, authority, scheme, version } = record.request
  const request = { method, target, authority, scheme, version, headers: withoutKey(record.request.headers) }
  const sentUpstream = upstreamOf(record, noted)
  const { response } = flow ?? {}
  const answered = status !== 0
  const read = flow?.secretsRead ?? NO_SECRETS
  const at = noted?.at ?? now - record.duration
  const recorded: RecordedExchange = {
    id: noted?.kept ?? noted?.id ?? newId('exch', at),
    requestId: flow?.requestId,
    traceId: flow?.trace?.traceId,
    at,
    revision: record.revision,
    entry: flow?.entry ?? entryOf(record),
    endpoint: flow?.endpoint ?? entryOf(record),
    connection: recordedConnection(connection),
    client: clientOf(flow, record),
    request,
    fields: fieldsIn(flow, noted),
    pathForm: flow?.request?.pathForm ?? 'lenient',
    site: record.site ?? null,
    edge: route?.edge ?? null,
    route: route?.id ?? null,
    routeName: record.routeName ?? null,
    decision: {
      outcome: sentUpstream !== undefined ? 'forwarded' : answered ? 'answered' : 'closed',
      status,
      code: code ?? null,
      reason: reasonOf(record) ?? null,
      by: flow?.decidedBy ?? null
    },
    upstream: sentUpstream === undefined ? null : { ...sentUpstream, server: tries?.last?.server ?? null },
    tries: tries?.shown ?? [],
    answer: noted?.answer ?? null,
    response: answered ? { status, headers: response?.headers.list ?? [] } : null,
    durationMs: toMicroseconds(record.duration),
    upstreamMs: record.upstreamDuration === undefined ? null : toMicroseconds(record.upstreamDuration),
    bytesIn: sent.bytesIn,
    bytesOut: sent.bytesOut,
    hasBody: noted?.hasBody ?? hasBody(flow),
    logs: (flow?.logs ?? []).map((entry) => redact(entry, 0)),
    bodies: noted === undefined || bodies === 0 ? NO_BODIES : bodiesOf(noted, response?.body, bodies),
    explanation: null,
    waf: shownFirewall(flow),
    signedIn: isSignedIn(flow, connection),
    rules: rulesVersion(flow),
    shadow: noted?.shadow ?? null,
    repeats: noted?.repeats ?? null,
    hidden: [...read].filter((text) => text !== '')
  }
  if (noted?.explainer === undefined || flow === undefined) return recorded
  return { ...recorded, explanation: explanationIn(recorded, record, noted.explainer, sentUpstream) }
}

/** Returns the version as plain data; the flow holds all rules. */
function rulesVersion(flow: Flow | undefined): RulesVersion | undefined {
  const rules = flow?.get(rulesVersionSlot)
  return rules === undefined ? undefined : { signature: rules.signature, digest: rules.digest }
}

function bodiesOf({ requestBody, responseBody }: Noted, body: Outgoing, limit: number): RecordedExchange['bodies'] {
  const own = body instanceof Uint8Array ? keptOf(body, limit) : undefined
  return { request: requestBody?.recorded ?? null, response: own ?? responseBody?.recorded ?? null }
}

/** Fields of a request as policies see them first, where the exchange has no notes. */
const firstFields = flowSlot<HeaderList>('first fields')

/** Keeps the fields of a request that is recorded only if it is refused, fails or is part of a sample. */
export function keepFields(flow: AdmittedFlow): void {
  flow.set(firstFields, flow.request.headers.list)
}

function fieldsIn(flow: Flow | undefined, noted: Noted | undefined): HeaderList | null {
  const fields = noted?.fields ?? flow?.get(firstFields)
  return fields === undefined ? null : withoutKey(fields)
}

function hasBody(flow: Flow | undefined): boolean {
  const body = flow?.request?.body
  return body instanceof Uint8Array ? body.length > 0 : body !== undefined && body.framing.kind !== 'none'
}

const hasNoError = (values: Readonly<Record<string, unknown>>) => (values['error.code'] ?? '') === ''

/** Results of actions and modules that verify who the client is; true if it is known. */
const IDENTITY: Readonly<Record<string, (values: Readonly<Record<string, unknown>>) => boolean>> = {
  basic_auth: (values) => values['credentials.authorized'] === true,
  jwt_validation: hasNoError,
  oauth: hasNoError,
  oidc: hasNoError,
  saml: hasNoError
}

/** Returns whether a certificate or the policy has verified who the client is. */
function isSignedIn(flow: Flow | undefined, { tls }: ExchangeRecord['connection']): boolean {
  if (tls?.clientCertificate !== undefined) return true
  for (const [name, values] of flow?.results ?? []) if (IDENTITY[name]?.(values) === true) return true
  return false
}

/** Removes the explanation key, which is still valid. */
function withoutKey(headers: HeaderList): HeaderList {
  const fields = new HeaderFields(headers)
  fields.delete(EXPLAIN_HEADER)
  return fields.list
}

/** Returns the request to the upstream; undefined if no upstream was contacted. */
function upstreamOf({ flow, tries, code }: ExchangeRecord, noted: Noted | undefined): SentUpstream | undefined {
  const { request, units } = flow ?? {}
  const isAnswered = noted === undefined ? flow?.response?.local === false : noted.answer !== null
  if (request === undefined || !isAnswered) return undefined
  // Without a try, the response was fixed, or there was no backend.
  if ((tries?.count ?? 0) === 0 && code !== undefined) return undefined
  const backend = tries?.last?.backend ?? 'response'
  const unit = units instanceof Snapshot ? units.upstream(upstreamKey(backend)) : undefined
  const { method, target, headers } = request
  return {
    backend,
    name: unit?.name ?? backend,
    form: unit?.form ?? 'response',
    method,
    uri: target.uri,
    headers: headers.list
  }
}

function clientOf(flow: Flow | undefined, { connection }: ExchangeRecord): RecordedExchange['client'] {
  if (flow !== undefined) return { address: flow.clientAddress, port: flow.clientPort }
  return { address: canonicalAddress(connection.peer.address), port: connection.peer.port }
}

/** Returns the listener of an exchange that was rejected before its entry was determined. */
function entryOf({ connection, request }: ExchangeRecord): EntryFacts {
  const { listener, local } = connection
  return { id: listener, protocol: request.scheme, host: local.address, port: local.port, region: '' }
}

function explanationIn(
  { at, request, response, decision, connection, client }: RecordedExchange,
  record: ExchangeRecord,
  recorder: ExplanationRecorder,
  sent: SentUpstream | undefined
): Explanation | null {
  const { flow } = record
  if (flow === undefined || !(flow.units instanceof Snapshot)) return null
  const answer =
    response === null ? undefined : { status: decision.status, headers: response.headers, body: new Uint8Array(0) }
  const explanation = explanationOf({
    at,
    snapshot: flow.units,
    request: {
      method: request.method,
      url: urlOf({ request, connection }),
      headers: request.headers,
      clientAddress: client.address
    },
    entry: flow.entry,
    recorder,
    reveal: false,
    record,
    sent,
    answer,
    connectDecision: undefined
  })
  return withoutTexts(explanation, flow.secretsRead ?? NO_SECRETS)
}

/** Keeps the first bytes of a body. */
class KeptBody {
  readonly #limit: number
  readonly #body: Body
  readonly #queue = new ByteQueue()

  constructor(body: Body, limit: number) {
    this.#body = body
    this.#limit = limit
    body.watch((chunk) => {
      const room = this.#limit - this.#queue.length
      // The bytes are valid only now.
      if (room > 0) this.#queue.push(Buffer.from(chunk.subarray(0, room)))
    })
  }

  get recorded(): RecordedBody {
    const content = this.#queue.takeAll()
    const { bytes, framing } = this.#body
    const expected = framing.kind === 'length' ? framing.bytes : bytes
    return { content: base64(content), bytes, whole: content.length === bytes && bytes >= expected }
  }
}

/** Keeps the first bytes of a body that its transport carries; undefined if there is no body. */
export function watched(body: Outgoing, limit: number): KeptBody | undefined {
  if (body === undefined || body instanceof Uint8Array || !('framing' in body)) return undefined
  return body.framing.kind === 'none' ? undefined : new KeptBody(body, limit)
}

function keptOf(content: Uint8Array, limit: number): RecordedBody {
  const kept = content.subarray(0, limit)
  return { content: base64(kept), bytes: content.length, whole: kept.length === content.length }
}
