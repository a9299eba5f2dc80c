import { styleText } from 'node:util'
import { type AccessFlags, type ApiAccess, accessFor, askApi, printApiError, sendTo } from '../../cli/api-client.js'
import { ExitCode } from '../../cli/process.js'
import { type ReportStyle, styleFor } from '../../cli/report.js'
import { isObject } from '../../lib/json.js'
import { printable } from '../../lib/printable.js'
import type { Explanation } from '../explain/answers.js'
import { decisionText, explanationText, wafLines } from '../explain/explanation-text.js'
import type { ExchangeList, ExchangeSummary, ExchangeView } from './answers.js'
import type { ExchangeCriteria } from './exchanges.js'
import { recordedRequest } from './explained-again.js'

/** The criteria of the API that the command line takes. */
const CRITERIA = [
  'where',
  'host',
  'status',
  'method',
  'rule',
  'action',
  'client',
  'site',
  'route',
  'since',
  'until',
  'text'
] as const satisfies readonly (keyof ExchangeCriteria)[]

/** Options that select exchanges. */
export type CriteriaFlags = { readonly [Name in (typeof CRITERIA)[number]]?: string }

export interface LogFlags extends AccessFlags, CriteriaFlags {
  readonly follow?: boolean
  readonly explain?: boolean
  readonly limit: string
  readonly json?: boolean
  readonly har?: boolean
}

/** The criteria of a command line as the API takes them. */
export function criteriaOf(flags: CriteriaFlags): Record<string, string> {
  return Object.fromEntries(CRITERIA.flatMap((name) => (flags[name] === undefined ? [] : [[name, flags[name]]])))
}

/** Shows exchanges that a running process has recorded, or one of them, or all as they end. Resolves with the exit code. */
export async function log(id: string | undefined, flags: LogFlags): Promise<number> {
  const access = accessFor('log', flags)
  if (typeof access === 'number') return access
  if (id !== undefined) return await showOne(access, id, flags)
  const limit = Number(flags.limit)
  if (!Number.isInteger(limit) || limit < 1 || limit > 10_000) {
    process.stderr.write('error: --limit: a number from 1 to 10000\n')
    return ExitCode.usage
  }
  if (flags.har === true) return await printArchive(access, flags, limit)
  return flags.follow === true ? await follow(access, flags) : await list(access, flags, limit)
}

async function showOne(access: ApiAccess, id: string, { json, explain }: LogFlags): Promise<number> {
  const { status, body } = await askApi(access, `/exchanges/${encodeURIComponent(id)}`)
  if (status !== 200) return printApiError(body)
  const exchange = body as unknown as ExchangeView
  let again: Explanation | undefined
  if (explain === true && exchange.explanation === null) {
    const explained = await askApi(access, '/explain', { method: 'POST', body: recordedRequest(exchange) })
    if (explained.status !== 200) return printApiError(explained.body)
    again = (explained.body as unknown as { readonly explanations: readonly Explanation[] }).explanations[0]
  }
  if (json === true) {
    const shown = again === undefined ? exchange : { ...exchange, explained_again: again }
    process.stdout.write(`${JSON.stringify(shown)}\n`)
    return ExitCode.ok
  }
  printExchange(exchange, styleFor(process.stdout, process.env), again)
  return ExitCode.ok
}

const PAGE = 100

/** The newest ones, the newest of them last. */
async function list(access: ApiAccess, flags: LogFlags, limit: number): Promise<number> {
  const found: ExchangeSummary[] = []
  let before: string | undefined
  do {
    const query = new URLSearchParams({ ...criteriaOf(flags), limit: String(Math.min(PAGE, limit - found.length)) })
    if (before !== undefined) query.set('before_id', before)
    const { status, body } = await askApi(access, `/exchanges?${query}`)
    if (status !== 200) return printApiError(body)
    const page = (body as unknown as ExchangeList).exchanges
    found.push(...page)
    before = body.next_page_uri === null ? undefined : page.at(-1)?.id
    if (before === undefined && found.length === 0) explainEmpty(body)
  } while (before !== undefined && found.length < limit)
  const style = styleFor(process.stdout, process.env)
  for (const one of found.reverse())
    process.stdout.write(flags.json === true ? `${JSON.stringify(one)}\n` : `${lineOf(one, style)}\n`)
  return ExitCode.ok
}

/** Why there may be none. */
function explainEmpty(body: Readonly<Record<string, unknown>>): void {
  const { recorder } = body
  if (!isObject(recorder) || recorder.exchanges !== 0) return
  const hint = recorder.where === 'false' ? ': recorder.where is false; use --follow' : ' yet'
  process.stderr.write(`no recorded requests${hint}\n`)
}

async function printArchive(access: ApiAccess, flags: LogFlags, limit: number): Promise<number> {
  const query = new URLSearchParams({ ...criteriaOf(flags), limit: String(limit) })
  const { status, body } = await askApi(access, `/exchanges/har?${query}`)
  if (status !== 200) return printApiError(body)
  process.stdout.write(`${JSON.stringify(body, null, 2)}\n`)
  return ExitCode.ok
}

async function follow(access: ApiAccess, flags: LogFlags): Promise<number> {
  const query = new URLSearchParams({
    ...criteriaOf(flags),
    ...(flags.explain === true ? { explain: 'true' } : {})
  })
  const answer = await sendTo(access, `/exchanges/stream?${query}`, { lasting: true })
  if (answer.status !== 200 || answer.body === null) {
    const body: unknown = await answer.json().catch(() => ({}))
    return printApiError(isObject(body) ? body : {})
  }
  const style = styleFor(process.stdout, process.env)
  for await (const { event, data } of eventsIn(answer.body)) {
    if (event === 'dropped')
      process.stderr.write(`${String(data.count)} requests were not shown: the output was too slow\n`)
    else if (event === 'exchange') printFollowed(data as unknown as ExchangeView, flags, style)
    else if (event === 'over') process.stderr.write('the process is stopping\n')
  }
  return ExitCode.ok
}

function printFollowed(exchange: ExchangeView, { json, explain }: LogFlags, style: ReportStyle): void {
  if (json === true) process.stdout.write(`${JSON.stringify(exchange)}\n`)
  else if (explain === true) printExchange(exchange, style)
  else process.stdout.write(`${lineOf(exchange, style)}\n`)
}

interface StreamEvent {
  readonly event: string
  readonly data: Readonly<Record<string, unknown>>
}

/** Yields the events of a stream (HTML 9.2.6), without comments. */
async function* eventsIn(stream: AsyncIterable<Uint8Array>): AsyncGenerator<StreamEvent> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of stream) {
    text += decoder.decode(chunk, { stream: true })
    for (let end = text.indexOf('\n\n'); end !== -1; end = text.indexOf('\n\n')) {
      const lines = text.slice(0, end).split('\n')
      text = text.slice(end + 2)
      const lineOfField = (name: string) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2)
      const data: unknown = JSON.parse(lineOfField('data') ?? 'null')
      if (isObject(data)) yield { event: lineOfField('event') ?? 'message', data }
    }
  }
}

/** Returns the rule or backend that served an exchange. */
function serverText(by: ExchangeSummary['decision']['by'], upstream: ExchangeSummary['upstream']): string {
  if (by !== null) return ` by ${by.action}, rule "${by.rule}"`
  if (upstream === null) return ''
  // The upstream of the options has no name that says more than its address.
  return ` by ${upstream.name === 'default' ? (upstream.server ?? upstream.name) : upstream.name}`
}

/** `12:30:05.123 203.0.113.9 GET http://shop/cart 429 by limit "per client": 60 of 60 in 60s; free again in 12s 0.5ms exch_…` */
function lineOf(exchange: ExchangeSummary, { colors }: ReportStyle): string {
  const { at, client_ip, method, url, decision, decided, upstream, duration_ms, id } = exchange
  const { status, by, reason } = decision
  const color = status === 0 || status >= 500 ? 'red' : status >= 400 ? 'yellow' : 'green'
  const shown = reason ?? (decided === 'forwarded' ? String(status) : decided)
  const who = reason === null ? serverText(by, upstream) : ''
  const painted = colors ? styleText(color, shown) : shown
  return `${at.slice(11, 23)} ${client_ip} ${printable(`${method} ${url}`)} ${painted}${printable(who)} ${duration_ms}ms ${id}`
}

/** Prints an exchange with its explanation: the recorded one, or that of the same request now. */
export function printExchange(exchange: ExchangeView, style: ReportStyle, again?: Explanation): void {
  process.stdout.write(`${lineOf(exchange, style)}\n`)
  for (const line of explanationLines(exchange, style, again)) process.stdout.write(`  ${line}\n`)
}

function explanationLines(exchange: ExchangeView, style: ReportStyle, again: Explanation | undefined): string[] {
  const { explanation, decided, id } = exchange
  const linesOf = (shown: Explanation) => explanationText(shown, 'policy', style).slice(1)
  if (explanation !== null) return linesOf(explanation)
  const recorded = deciderLines(exchange)
  if (again === undefined)
    return [
      ...recorded,
      ...exchange.waf.flatMap(wafLines),
      `rules and values are not recorded; explain the request now: sluice log ${id} --explain`
    ]
  const now = decisionText(again.decision)
  const compared = now === decided ? 'same decision as recorded' : `different decision: now ${now}, recorded ${decided}`
  const title = `explained now, by the running configuration and its current counters: ${compared}`
  return [...recorded, title, ...linesOf(again)]
}

/** Returns the site and route of an exchange, and the action and rule that decided it. */
function deciderLines({ site, route_name, decision: { by } }: ExchangeView): string[] {
  const place = `${site === null ? 'no site' : `site ${site}`}, ${route_name === null ? 'no route' : `route ${route_name}`}`
  const decider =
    by === null ? 'no policy rule decided it' : `decided by ${by.action}, rule "${by.rule}", in ${by.phase}`
  return [printable(place), printable(decider)]
}
