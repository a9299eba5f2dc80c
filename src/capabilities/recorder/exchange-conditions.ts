import type { Expression, ExpressionProblem, Expressions } from '../../expression/expression.js'
import { ofInteger, type VariableDefinition } from '../../expression/variables/definition.js'
import type { Flow } from '../../flow/flow.js'
import { CidrSet, parseCidr } from '../../lib/ip.js'
import type { AdmittedFlow } from '../../proxy/admission.js'
import { decisionText } from '../explain/explanation-text.js'
import { flowOf, type RecordedExchange, recordedSlot, shownExchange, urlOf } from './recorded-exchange.js'

function variable(path: string, type: string, read: (recorded: RecordedExchange) => unknown): VariableDefinition {
  return { path: `exchange.${path}`, type, optional: true, read: (flow) => read(of(flow)) ?? undefined }
}

function of(flow: Flow): RecordedExchange {
  return flow.get(recordedSlot) as RecordedExchange
}

/** Variables `exchange.*` of ended exchanges, beyond those of policies. */
const EXCHANGE_VARIABLES: readonly VariableDefinition[] = [
  variable('id', 'string', ({ id }) => id),
  variable('site', 'string', ({ site }) => site),
  variable('edge', 'string', ({ edge }) => edge),
  variable('route', 'string', ({ route }) => route),
  variable('route_name', 'string', ({ routeName }) => routeName),
  variable('reason', 'string', ({ decision }) => decision.reason),
  variable('outcome', 'string', ({ decision }) => decision.outcome),
  variable('decided', 'string', ({ decision }) => decisionText(decision)),
  variable('code', 'string', ({ decision }) => decision.code),
  variable('rule', 'string', ({ decision }) => decision.by?.rule),
  variable('action', 'string', ({ decision }) => decision.by?.action),
  variable('phase', 'string', ({ decision }) => decision.by?.phase),
  variable('backend', 'string', ({ upstream }) => upstream?.backend),
  variable('backend_name', 'string', ({ upstream }) => upstream?.name),
  variable('server', 'string', ({ upstream }) => upstream?.server),
  variable('shadow', 'string', ({ shadow }) => shadow?.id),
  variable('duration_ms', 'double', ({ durationMs }) => durationMs),
  variable('upstream_ms', 'double', ({ upstreamMs }) => upstreamMs),
  {
    path: 'exchange.waf_score',
    type: 'int',
    ...ofInteger((flow) => Math.max(0, ...(of(flow).waf ?? []).map(({ score }) => score)))
  },
  {
    path: 'exchange.waf_rules',
    type: 'list<int>',
    read: (flow) => (of(flow).waf ?? []).flatMap(({ rules }) => rules.map(({ id }) => BigInt(id)))
  },
  { path: 'exchange.revision', type: 'int', ...ofInteger((flow) => of(flow).revision) },
  { path: 'exchange.bytes_in', type: 'int', ...ofInteger((flow) => of(flow).bytesIn) },
  { path: 'exchange.bytes_out', type: 'int', ...ofInteger((flow) => of(flow).bytesOut) }
]

/** Returns true if an ended exchange matches. A condition that cannot be evaluated does not match. */
export type ExchangeCondition = (recorded: RecordedExchange) => boolean

/** Returns true if the exchange of a new request may match. */
export type RequestFilter = (flow: AdmittedFlow) => boolean

type Compiled<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly message: string }

/** Compiles a condition on ended exchanges, or returns the error with its position. */
export function exchangeCondition(expressions: Expressions, source: string): Compiled<ExchangeCondition> {
  const compiled = conditionOf(expressions.expression(source, 'on_http_response', EXCHANGE_VARIABLES), source)
  if (!compiled.ok) return compiled
  const expression = compiled.value
  return { ok: true, value: (recorded) => expression.outcome(flowOf(recorded)) === true }
}

/** Compiles a condition on requests that begin. */
export function requestCondition(expressions: Expressions, source: string): Compiled<(flow: Flow) => boolean> {
  const compiled = conditionOf(expressions.expression(source, 'on_http_request'), source)
  if (!compiled.ok) return compiled
  const expression = compiled.value
  return { ok: true, value: (flow) => expression.outcome(flow) === true }
}

function conditionOf(compiled: ReturnType<Expressions['expression']>, source: string): Compiled<Expression> {
  if (!compiled.ok) {
    const [first] = compiled.problems as readonly [ExpressionProblem]
    const { line, column } = placeIn(source, first.start)
    return { ok: false, message: `line ${line}, column ${column}: ${first.message}` }
  }
  const { type } = compiled.value
  if (type !== 'bool' && type !== 'dyn') return { ok: false, message: `is of type ${type}, not bool` }
  return compiled
}

function placeIn(source: string, offset: number): { readonly line: number; readonly column: number } {
  const before = source.slice(0, offset).split('\n')
  return { line: before.length, column: (before.at(-1)?.length ?? 0) + 1 }
}

/** Criteria for exchanges; all given ones must match. */
export interface ExchangeQuery {
  /** A name, or `*.` and a name. */
  readonly host?: string | undefined
  /** `429`, `4xx` or `400-499`; 0 for no response. */
  readonly status?: string | undefined
  readonly method?: string | undefined
  /** Name of the rule that ended it. */
  readonly rule?: string | undefined
  /** Type of its action. */
  readonly action?: string | undefined
  /** An IP address or a network. */
  readonly client?: string | undefined
  /** Name of a site. */
  readonly site?: string | undefined
  /** Id of an edge. */
  readonly edge?: string | undefined
  /** Name or id of a route. */
  readonly route?: string | undefined
  /** RFC 3339: it began then or later. */
  readonly since?: string | undefined
  /** RFC 3339: it began before. */
  readonly until?: string | undefined
  /** Text in the displayed exchange, case-insensitive. */
  readonly text?: string | undefined
  /** CEL. */
  readonly where?: string | undefined
}

type Field = keyof ExchangeQuery

/** Compiles a query, or says which field is wrong and why. */
export function exchangeFilter(
  expressions: Expressions,
  query: ExchangeQuery
):
  | { readonly ok: true; readonly filter: ExchangeCondition }
  | { readonly ok: false; readonly field: Field; readonly message: string } {
  const conditions: ExchangeCondition[] = []
  for (const [field, value] of Object.entries(query) as [Field, string | undefined][]) {
    if (value === undefined) continue
    const made = field === 'where' ? exchangeCondition(expressions, value) : FILTERS[field](value)
    if (typeof made === 'function') conditions.push(made)
    else if (typeof made === 'string') return { ok: false, field, message: made }
    else if (made.ok) conditions.push(made.value)
    else return { ok: false, field, message: made.message }
  }
  return { ok: true, filter: (recorded) => conditions.every((holds) => holds(recorded)) }
}

/** Returns the part of a compiled query that request heads decide; undefined if any request may match. */
export function requestFilter({ method, client }: ExchangeQuery): RequestFilter | undefined {
  const network = client === undefined ? undefined : parseCidr(client)
  if (method === undefined && network === undefined) return undefined
  const networks = network === undefined ? undefined : new CidrSet([network])
  return ({ request, clientAddress }) =>
    (method === undefined || request.method === method.toUpperCase()) &&
    (networks === undefined || networks.match(clientAddress) !== undefined)
}

/** Returns a condition, or the required form of the value. */
const FILTERS: Readonly<Record<Exclude<Field, 'where'>, (value: string) => ExchangeCondition | string>> = {
  host(value) {
    const host = value.toLowerCase()
    const suffix = host.startsWith('*.') ? host.slice(1) : undefined
    return (recorded) => {
      const asked = hostOf(recorded)
      return suffix === undefined ? asked === host : asked.endsWith(suffix) && asked.length > suffix.length
    }
  },
  status(value) {
    const found = /^(?:(\d{1,3})|([1-5])xx|(\d{1,3})-(\d{1,3}))$/.exec(value)
    if (found === null) return 'must be a status such as 429, 4xx or 400-499; 0 means no answer'
    const [, one, hundreds, from, to] = found
    const least = Number(one ?? from ?? Number(hundreds) * 100)
    const most = Number(one ?? to ?? Number(hundreds) * 100 + 99)
    return ({ decision }) => decision.status >= least && decision.status <= most
  },
  method: (value) => (recorded) => recorded.request.method === value.toUpperCase(),
  rule: (value) => (recorded) => recorded.decision.by?.rule === value,
  action: (value) => (recorded) => recorded.decision.by?.action === value,
  client(value) {
    const network = parseCidr(value)
    if (network === undefined) return 'must be an IP address or a network such as 203.0.113.0/24'
    const networks = new CidrSet([network])
    return ({ client }) => networks.match(client.address) !== undefined
  },
  site: (value) => (recorded) => recorded.site === value || recorded.edge === value,
  edge: (value) => (recorded) => recorded.edge === value,
  route: (value) => (recorded) =>
    recorded.route === value || recorded.routeName === value || recorded.routeName === `${value}/`,
  since: (value) => beginning(value, (at, bound) => at >= bound),
  until: (value) => beginning(value, (at, bound) => at < bound),
  text(value) {
    const wanted = value.toLowerCase()
    return (recorded) => JSON.stringify(shownExchange(recorded, '')).toLowerCase().includes(wanted)
  }
}

function beginning(value: string, holds: (at: number, bound: number) => boolean): ExchangeCondition | string {
  const bound = Date.parse(value)
  return Number.isNaN(bound) ? 'must be a time such as 2026-01-31T12:00:00Z' : ({ at }) => holds(at, bound)
}

/** Lower-case, without a port. */
function hostOf(recorded: RecordedExchange): string {
  const url = urlOf(recorded)
  return URL.canParse(url) ? new URL(url).hostname : recorded.request.authority.toLowerCase()
}
