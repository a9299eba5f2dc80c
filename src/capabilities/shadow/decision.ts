import { flowErrors } from '../../flow/error-codes.js'
import { type Flow, type FlowResponse, REQUEST_ID } from '../../flow/flow.js'
import type { HeaderList } from '../../flow/headers.js'

/** Decision on an exchange, one word of a closed set. */
export type DecisionWord = 'forwarded' | 'answered' | 'redirected' | 'denied' | 'limited' | 'refused' | 'closed'

/** Missing data because of which a candidate is not judged on an exchange. */
export type Unknown =
  | 'body'
  | 'circuit_breaker'
  | 'client_gone'
  | 'defect'
  | 'http_request'
  | 'keys'
  | 'limit_of_all_clients'
  | 'login'
  | 'random'
  | 'reconfigured'
  | 'response_body'
  | 'too_many_buckets'

/** Part in which two decisions differ: the decision itself, the request to the upstream, or the response to the client. */
export type Aspect = 'decision' | 'request' | 'response'

/** A forwarded request. */
export interface ForwardedRequest {
  /** Key of the unit; undefined if the route has none. */
  readonly upstream: string | undefined
  readonly method: string
  readonly uri: string
  readonly headers: HeaderList
}

/** Head of the final response. */
export interface FinalAnswer {
  readonly status: number
  readonly code: string | undefined
  readonly headers: HeaderList
  /** Set if this process created the body. */
  readonly body: Uint8Array | undefined
  /** Is it a different response than that of forwarding? */
  readonly own: boolean
}

/** Result of an exchange, live or by a candidate. */
export interface Outcome {
  readonly forwarded: ForwardedRequest | undefined
  /** `closed`: no response. `unknown`: the response of an upstream that was not contacted. */
  readonly answer: FinalAnswer | 'closed' | 'unknown'
  readonly by: Flow['decidedBy']
}

/** Returns the current response of a flow. `of`: response of forwarding. */
export function finalAnswer(
  flow: Flow | undefined,
  of: FlowResponse | undefined,
  status: number,
  code: string | undefined
): FinalAnswer {
  const response = flow?.response
  const body = response?.body instanceof Uint8Array ? response.body : undefined
  return {
    status,
    code,
    headers: response?.headers.list ?? [],
    body,
    // A route without an upstream rejects requests, as an explicit action would.
    own: response === undefined || response !== of || code === flowErrors.NO_UPSTREAM.code
  }
}

/** The word for an outcome. */
export function wordOf({ forwarded, answer }: Outcome): DecisionWord {
  if (answer === 'closed') return 'closed'
  if (answer === 'unknown' || (forwarded !== undefined && !answer.own)) return 'forwarded'
  const { status, code } = answer
  if (status === 429) return 'limited'
  if (status === 401 || status === 403) return 'denied'
  if (status >= 300 && status < 400) return 'redirected'
  return code !== undefined || status >= 400 ? 'refused' : 'answered'
}

/** Returns the parts in which two outcomes differ visibly for the client or the upstream. */
export function differencesOf(old: Outcome, candidate: Outcome): Aspect[] {
  const aspects: Aspect[] = []
  if (wordOf(old) !== wordOf(candidate)) return ['decision']
  if (old.forwarded !== undefined && candidate.forwarded !== undefined) {
    if (!sameRequest(old.forwarded, candidate.forwarded)) aspects.push('request')
  }
  if (typeof old.answer !== 'string' && typeof candidate.answer !== 'string') {
    if (!sameAnswer(old.answer, candidate.answer)) aspects.push('response')
  }
  return aspects
}

function sameRequest(a: ForwardedRequest, b: ForwardedRequest): boolean {
  return a.upstream === b.upstream && a.method === b.method && a.uri === b.uri && sameFields(a.headers, b.headers)
}

function sameAnswer(a: FinalAnswer, b: FinalAnswer): boolean {
  if (a.status !== b.status || a.code !== b.code || !sameFields(a.headers, b.headers)) return false
  if (a.body === undefined || b.body === undefined || a.body === b.body) return true
  return Buffer.compare(a.body, b.body) === 0
}

/** Compares header fields without request ids: each side creates its own id when it forwards or rejects, or has none yet. */
function sameFields(a: HeaderList, b: HeaderList): boolean {
  for (let i = 0, j = 0; ; i += 2, j += 2) {
    if (isId(a[i])) i += 2
    if (isId(b[j])) j += 2
    if (i >= a.length || j >= b.length) return i >= a.length && j >= b.length
    if (a[i] !== b[j] || a[i + 1] !== b[j + 1]) return false
  }
}

function isId(name: string | undefined): boolean {
  return name?.length === REQUEST_ID.length && name.toLowerCase() === REQUEST_ID
}
