import { type EntryFacts, type Flow, isInternal } from '../../flow/flow.js'
import type { HeaderList } from '../../flow/headers.js'
import { hashOf } from '../../lib/seal.js'
import type { Route } from '../../runtime/http-edges.js'
import { policyKey } from '../../runtime/plan.js'
import type { Snapshot } from '../../runtime/snapshot.js'
import type { ExchangeRecord } from '../../telemetry/access-log.js'
import { shownFirewall } from '../../telemetry/firewall.js'
import { reasonOf } from '../../telemetry/reason.js'
import { isSensitive, REDACTED, redactUrl } from '../../telemetry/redaction.js'
import type { Explanation } from './answers.js'
import type { ExplanationRecorder } from './explanation.js'

/** Fields of a message: names and values by turns. */
type Fields = readonly string[]

/** The request as an upstream gets it; `backend`: its id, or the name of the option that says it. */
export type SentUpstream = NonNullable<Explanation['upstream']>

/** A route of the edge that did not take the request. */
type PassedRoute = Explanation['other_routes'][number]

interface AskedRequest {
  readonly method: string
  /** Absolute. */
  readonly url: string
  readonly headers: Fields
  readonly clientAddress: string
}

interface Found {
  /** Wall time, milliseconds. */
  readonly at: number
  readonly snapshot: Snapshot
  readonly request: AskedRequest
  readonly entry: EntryFacts
  readonly recorder: ExplanationRecorder
  readonly reveal: boolean
  readonly record: ExchangeRecord | undefined
  readonly sent: SentUpstream | undefined
  readonly answer: { readonly status: number; readonly headers: HeaderList; readonly body: Uint8Array } | undefined
  /** Rule by which `on_tcp_connect` closed the connection; null if no rule did; undefined if it was not closed. */
  readonly connectDecision: Flow['decidedBy'] | null
}

const MOST_ROUTES = 100
const MOST_BODY = 4_096

/** Assembles the explanation of an ended exchange. */
export function explanationOf(found: Found): Explanation {
  const { at, snapshot, request, entry, recorder, record, sent, answer, connectDecision, reveal } = found
  const shown = (headers: Fields) => (reveal ? [...headers] : redactedFields(headers))
  const flow = record?.flow
  const by = connectDecision === undefined ? flow?.decidedBy : connectDecision
  return {
    at: new Date(at).toISOString(),
    revision: snapshot.revision,
    request: {
      method: request.method,
      url: reveal ? request.url : redactUrl(request.url),
      client_ip: flow?.clientAddress ?? request.clientAddress,
      headers: shown(request.headers)
    },
    listener: entry.id,
    edge: edgeOf(record, flow),
    other_ports: otherPorts(flow, snapshot, entry),
    ...routesOf(record, flow, snapshot),
    steps: recorder.steps,
    policies: policiesOf(recorder, snapshot),
    decision: {
      outcome: sent === undefined ? (answer === undefined ? 'closed' : 'answered') : 'forwarded',
      status: answer?.status ?? 0,
      code: record?.code ?? null,
      reason: (record === undefined ? undefined : reasonOf(record)) ?? null,
      by: by ?? null
    },
    waf: shownFirewall(flow, reveal),
    upstream:
      sent === undefined
        ? null
        : { ...sent, headers: shown(sent.headers), uri: reveal ? sent.uri : redactUrl(sent.uri) },
    response: answer === undefined ? null : { ...answer, headers: shown(answer.headers), body: bodyText(answer.body) },
    omitted: recorder.omitted
  }
}

function policiesOf({ steps }: ExplanationRecorder, snapshot: Snapshot): Explanation['policies'] {
  const owners = new Set(steps.flatMap(({ phases }) => phases.map(({ owner }) => owner)))
  return [...owners].flatMap((owner) => {
    const found = snapshot.policySource(policyKey(owner))
    return found === undefined ? [] : [{ owner, source: found.source, digest: hashOf(found.text) }]
  })
}

function edgeOf(record: ExchangeRecord | undefined, flow: Flow | undefined): Explanation['edge'] {
  if (record?.route === undefined || flow === undefined) return null
  const { host, port } = flow.endpoint
  const { edge: id } = record.route
  return { id, name: record.site ?? id, host, port }
}

function otherPorts(flow: Flow | undefined, { tables }: Snapshot, { publicPort, port }: EntryFacts): readonly number[] {
  const { hosts } = tables.edges
  const host = flow?.request?.target.host
  if (host === undefined || isInternal(host) || hosts.at(host, publicPort, port)?.endpoint !== undefined) return []
  return hosts.portsOf(host)
}

function routesOf(
  record: ExchangeRecord | undefined,
  flow: Flow | undefined,
  { tables }: Snapshot
): Pick<Explanation, 'route' | 'other_routes'> {
  const taken = record?.route
  if (taken === undefined || flow?.request === undefined) return { route: null, other_routes: [] }
  const { path } = flow.request.target
  let route: Route | undefined
  const other: PassedRoute[] = []
  for (const edge of tables.edges) {
    if (edge.id !== taken.edge) continue
    for (const one of edge.routes) {
      if (one.id === taken.id) route = one
    }
    for (const one of edge.routes) {
      if (one.id === taken.id || other.length === MOST_ROUTES) continue
      other.push({ id: one.id, path: one.path, match: one.match, why: whyNot(one, path, route) })
    }
  }
  const shown =
    route === undefined
      ? null
      : { id: route.id, name: record?.routeName ?? route.id, path: route.path, match: route.match }
  return { route: shown, other_routes: other }
}

/** Why a route did not take a path. */
function whyNot({ match, path: own }: Route, path: string, taken: Route | undefined): string {
  if (match === 'exact') return path === own ? 'another route with this path came first' : 'its path is another one'
  const prefix = own.endsWith('/') ? own.slice(0, -1) : own
  if (path !== prefix && !path.startsWith(`${prefix}/`)) return 'the path does not begin with its path'
  if (taken?.match === 'exact') return 'the path of another route is exactly this one'
  return 'the path of another route is longer'
}

/** Fields of a message without the values of those that sound like secrets. */
export function redactedFields(headers: Fields): string[] {
  return headers.map((value, i) =>
    i % 2 === 1 ? (isSensitive(headers[i - 1] as string) ? REDACTED : redactUrl(value)) : value
  )
}

function bodyText(body: Uint8Array): string | null {
  if (body.length === 0) return null
  const text = Buffer.from(body.subarray(0, MOST_BODY)).toString()
  return body.length > MOST_BODY ? `${text}… (${body.length} bytes)` : text
}

/** Returns a copy of data with these vault values removed from every string: a policy may have written them into a field. */
export function withoutTexts<T>(data: T, texts: ReadonlySet<string>): T {
  const hidden = [...texts].filter((text) => text !== '').sort((a, b) => b.length - a.length)
  return hidden.length === 0 ? data : (hide(data, hidden) as T)
}

function hide(value: unknown, hidden: readonly string[]): unknown {
  if (typeof value === 'string') return hidden.reduce((text, one) => text.replaceAll(one, REDACTED), value)
  if (Array.isArray(value)) return value.map((item) => hide(item, hidden))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, hide(item, hidden)]))
}
