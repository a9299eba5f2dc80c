import type { Slices } from '../../lib/slices.js'
import type { ShownFirewallResult } from '../../telemetry/firewall.js'
import { REDACTED, redactUrl } from '../../telemetry/redaction.js'
import type { Explanation } from '../explain/answers.js'
import { decisionText } from '../explain/explanation-text.js'
import type { ImaginedRequest } from '../explain/imagined-exchange.js'
import type { Repeated, RepeatedRequest, UpstreamStub } from '../explain/lab.js'
import type { Comparison, ComparisonExample, RefusalCounts } from './answers.js'
import type { ArchivedExchange } from './har.js'
import { bytesOf, connectionOf, type RecordedExchange, urlOf } from './recorded-exchange.js'

/** An exchange that was, to be decided again. */
export interface PastExchange {
  /** Id; null if it was not recorded here. */
  readonly id: string | null
  /** Wall time, milliseconds. */
  readonly at: number
  /** Request as its transport delivered it, or would have. */
  readonly request: RepeatedRequest | ImaginedRequest
  /** Response of the upstream; undefined if no upstream was contacted. */
  readonly answer: UpstreamStub | undefined
  /** Status of the response of the upstream, also where the response itself is unknown; undefined if no upstream was contacted. */
  readonly upstreamStatus: number | undefined
  /** It had a body, which is not known. */
  readonly isBodyMissing: boolean
  /** Secrets of it are not known. */
  readonly isRedacted: boolean
  /** The recorded decision; undefined if unknown. */
  readonly decided: string | undefined
  /** Recorded results of the firewall. */
  readonly waf: readonly ShownFirewallResult[]
  /** A certificate or the policy had verified who the client is. */
  readonly isSignedIn: boolean
}

/** An exchange of the recorder. */
export function pastOf(recorded: RecordedExchange): PastExchange {
  const { id, at, entry, request, answer, bodies, hasBody, decision, client } = recorded
  const body = bytesOf(bodies.request)
  const connection = connectionOf(recorded)
  return {
    id,
    at,
    request: { connection, entry, head: request, body, clientAddress: client.address, url: urlOf(recorded) },
    answer: answer === null ? undefined : { ...answer, body: bytesOf(bodies.response) },
    upstreamStatus: answer?.status ?? (recorded.upstream === null ? undefined : recorded.response?.status),
    isBodyMissing: hasBody && body === undefined,
    isRedacted: false,
    decided: decisionText(decision),
    waf: recorded.waf ?? [],
    isSignedIn: recorded.signedIn ?? false
  }
}

/** An exchange of an archive. Without a client it comes from `127.0.0.1`. */
export function pastOfArchive(archived: ArchivedExchange): PastExchange {
  const { id = null, at, method, url, headers, version, status, responseHeaders, decided, body } = archived
  const { clientAddress = '127.0.0.1' } = archived
  const asked = { method, url, headers, version, clientAddress, clientPort: 0 }
  const isForwarded = decided === undefined || decided === 'forwarded'
  return {
    id,
    at,
    request: body === undefined ? asked : { ...asked, body },
    answer: isForwarded && status !== 0 ? { status, headers: responseHeaders, body: undefined } : undefined,
    upstreamStatus: isForwarded && status !== 0 ? status : undefined,
    isBodyMissing: false,
    isRedacted: true,
    decided,
    waf: archived.waf,
    isSignedIn: archived.isSignedIn
  }
}

/** Decision of one side on an exchange. */
export interface Judgement {
  /** `decisionText`, or `not judged`. */
  readonly decision: string
  /** Reason why it is not judged. */
  readonly reason: string | null
  readonly rule: string | null
  readonly isRefused: boolean
}

/** Decides exchanges in sequence, with its own counters. */
export type Judge = (past: PastExchange) => Promise<Judgement>

/** Decision on an exchange with missing data. */
const NOT_JUDGED = 'not judged'

/** Judges a repeated exchange without guessing missing data. `notAsked`: servers that it would have called. */
export function judgementOf(
  past: PastExchange,
  { explanation, readsBody }: Repeated,
  notAsked: readonly string[]
): Judgement {
  const reason = unknownIn(past, explanation, readsBody, notAsked)
  const rule = explanation.decision.by?.rule ?? null
  if (reason !== undefined) return { decision: NOT_JUDGED, reason, rule: null, isRefused: false }
  const { outcome, status } = explanation.decision
  const isRefused = outcome === 'closed' || (outcome === 'answered' && status >= 400)
  return { decision: decisionText(explanation.decision), reason: null, rule, isRefused }
}

function unknownIn(
  { isBodyMissing, isRedacted, answer }: PastExchange,
  { steps, decision }: Explanation,
  readsBody: boolean,
  notAsked: readonly string[]
): string | undefined {
  const [origin] = notAsked
  if (origin !== undefined) return `it asks ${origin === '' ? 'another server' : origin}`
  const unjudged = steps.find(({ outcome }) => outcome === 'not_judged')
  if (unjudged !== undefined) return `${unjudged.module}: ${unjudged.reason ?? 'its state is that of real traffic'}`
  if (readsBody && isBodyMissing) return 'the body of the request was not recorded'
  if (answer === undefined && decision.by?.phase === 'on_http_response')
    return 'the answer of the upstream is not known'
  if (isRedacted && JSON.stringify(steps).includes(REDACTED)) return 'it reads what was redacted'
  return undefined
}

interface Cell {
  readonly old: string
  readonly new: string
  count: number
  readonly clients: Set<string>
  readonly examples: ComparisonExample[]
}

/** Numbers of exchanges and of their clients. */
interface Tally {
  exchanges: number
  readonly clients: Set<string>
}

/**
 * Both sides decide the exchanges in the order in which they began, each in its own virtual time. `sides`: the old one and the
 * new one.
 */
export async function compare(
  exchanges: readonly PastExchange[],
  [oldSide, newSide]: readonly [Judge, Judge],
  { examples, slices }: { readonly examples: number; readonly slices: Slices }
): Promise<Comparison> {
  const cells = new Map<string, Cell>()
  const clients = new Set<string>()
  const refused = { old: tally(), new: tally() }
  const recorded = { same: 0, other: 0 }
  const counts = { same: 0, changed: 0, not_judged: 0 }
  for (const past of exchanges) {
    const [before, after] = [await oldSide(past), await newSide(past)]
    const client = past.request.clientAddress
    clients.add(client)
    if (before.isRefused) add(refused.old, client)
    if (after.isRefused) add(refused.new, client)
    if (past.decided !== undefined && before.decision !== NOT_JUDGED)
      recorded[past.decided === before.decision ? 'same' : 'other']++
    counts[kindOf(before, after)]++
    const key = `${before.decision}\n${after.decision}`
    const cell = cells.get(key) ?? {
      old: before.decision,
      new: after.decision,
      count: 0,
      clients: new Set(),
      examples: []
    }
    cells.set(key, cell)
    cell.count++
    cell.clients.add(client)
    if (cell.old !== cell.new && cell.examples.length < examples) cell.examples.push(exampleOf(past, before, after))
    if (slices.due) await slices.rest()
  }
  const [first, last] = [exchanges[0], exchanges.at(-1)]
  return {
    exchanges: exchanges.length,
    clients: clients.size,
    from: first === undefined ? null : new Date(first.at).toISOString(),
    to: last === undefined ? null : new Date(last.at).toISOString(),
    ...counts,
    matrix: [...cells.values()]
      .sort((a, b) => b.count - a.count || (a.old < b.old ? -1 : 1))
      .map((cell) => ({ ...cell, clients: cell.clients.size })),
    refused: { old: counted(refused.old), new: counted(refused.new) },
    recorded
  }
}

/** Counts the exchanges that one side rejects, and their clients. */
export async function refusals(
  exchanges: readonly PastExchange[],
  side: Judge,
  slices: Slices
): Promise<RefusalCounts> {
  const refused = tally()
  for (const past of exchanges) {
    if ((await side(past)).isRefused) add(refused, past.request.clientAddress)
    if (slices.due) await slices.rest()
  }
  return counted(refused)
}

function kindOf(before: Judgement, after: Judgement): 'same' | 'changed' | 'not_judged' {
  if (before.decision === NOT_JUDGED || after.decision === NOT_JUDGED) return 'not_judged'
  return before.decision === after.decision ? 'same' : 'changed'
}

function exampleOf({ id, at, request }: PastExchange, before: Judgement, after: Judgement): ComparisonExample {
  return {
    id,
    at: new Date(at).toISOString(),
    method: 'head' in request ? request.head.method : request.method,
    url: redactUrl(String(request.url)),
    client_ip: request.clientAddress,
    old_rule: before.rule,
    new_rule: after.rule,
    reason: before.reason ?? after.reason
  }
}

function tally(): Tally {
  return { exchanges: 0, clients: new Set() }
}

function add(to: Tally, client: string): void {
  to.exchanges++
  to.clients.add(client)
}

function counted({ exchanges, clients }: Tally): RefusalCounts {
  return { exchanges, clients: clients.size }
}
