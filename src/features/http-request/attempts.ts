import { EvaluationError, type Expression } from '../../expression/expression.js'
import { engineValue } from '../../expression/values.js'
import { showAttempts } from '../../expression/variables/http.js'
import { codingsOf, decoded, mediaTypeOf } from '../../flow/content-coding.js'
import { internalRequestErrors } from '../../flow/error-codes.js'
import { type Flow, type InternalAnswer, type InternalRequests, isInternal } from '../../flow/flow.js'
import { HeaderFields } from '../../flow/headers.js'
import { messageOf } from '../../lib/errors.js'
import type { OutboundRequest } from '../../lib/http-client/answer.js'
import { type Followed, follow } from '../../lib/http-client/redirects.js'
import type { Scope } from '../../policy/action.js'
import { readText } from '../../policy/body-text.js'
import type { PolicyServices } from '../../policy/services.js'
import { compileHeaders } from '../../policy/values.js'

/** Maximum size of a response, before and after decoding (bytes). */
const MAX_RESPONSE = 256 * 1024
/** Maximum number of retries. */
const MAX_RETRIES = 3

interface RequestingParts {
  readonly services: Pick<PolicyServices, 'outbound' | 'clock'>
  /** Requests to internal endpoints; undefined if there are none. */
  readonly internal: InternalRequests | undefined
  /** Timeout of all attempts (ms). */
  readonly timeout: number
  readonly redirects: number
  /** Retry condition; no retry if undefined. */
  readonly retry: Expression | undefined
  /** Internal host written in the policy; undefined for none. */
  readonly inside: string | undefined
}

/** Attempt as seen by expressions; has either `res` or `error`. */
interface Attempt {
  readonly req: {
    readonly method: string
    readonly url: string
    readonly header: ReadonlyMap<string, readonly string[]>
    readonly body: string
  }
  readonly res?: {
    readonly resolved_ip: string
    readonly status_code: number
    readonly time_ms: number
    readonly header: ReadonlyMap<string, readonly string[]>
    readonly body: string
  }
  readonly error?: { readonly code: string; readonly message: string }
}

type Refused = Exclude<InternalAnswer, { readonly ok: true }>

interface Client {
  request(request: OutboundRequest): Promise<InternalAnswer>
}

/**
 * Sends a request, repeats it while the condition is true, and publishes the result. Returns the code of the last failure, of the attempt
 * or the condition; undefined after a response.
 */
export function requesting(parts: RequestingParts): (message: Message, flow: Flow) => Promise<string | undefined> {
  const {
    services: { clock },
    timeout
  } = parts
  return async (message, flow) => {
    const end = clock.monotonic() + timeout
    const attempts: Attempt[] = []
    for (;;) {
      const attempt = await attemptOf(message, Math.max(0, end - clock.monotonic()), flow, parts)
      attempts.push(attempt)
      publish(flow, attempts, attempt)
      const left = flow.signal.aborted !== undefined
      const over = left || attempts.length > MAX_RETRIES || end - clock.monotonic() <= 0
      const wanted = over ? 'no' : wantsMore(parts.retry, attempts.length, attempt, flow)
      if (wanted instanceof EvaluationError) {
        const error = { code: 'RETRY_CONDITION_FAILED', message: `retry_condition has no value: ${wanted.message}` }
        publish(flow, attempts, { ...attempt, error })
        return error.code
      }
      if (wanted === 'no') return attempt.error?.code
    }
  }
}

async function attemptOf(message: Message, deadline: number, flow: Flow, parts: RequestingParts): Promise<Attempt> {
  const { services, redirects } = parts
  const cut = new AbortController()
  const stop = flow.signal.onAbort(() => cut.abort())
  const request = { ...message, deadline, maxResponseBytes: MAX_RESPONSE, signal: cut.signal }
  const followed = await follow(clientFor(message.url, flow, parts), request, redirects, services.clock)
  stop()
  const req = {
    method: followed.method,
    url: followed.url,
    header: new HeaderFields(message.headers).byName,
    body: message.body === undefined ? '' : Buffer.from(message.body).toString('utf8')
  }
  return { req, ...(await answerOf(followed)) }
}

const UNNAMED: Refused = {
  ok: false,
  code: internalRequestErrors.ENDPOINT_UNNAMED.code,
  message: messageOf(internalRequestErrors.ENDPOINT_UNNAMED),
  timeMs: 0
}

/**
 * Returns the client for a URL. Only the internal host written in the policy itself, and redirects of its endpoint, are sent inside:
 * neither a client whose input is in the URL nor an external server can choose one.
 */
function clientFor(url: string, flow: Flow, { services: { outbound }, internal, inside }: RequestingParts): Client {
  const host = hostOf(url)
  if (internal === undefined || !isInternal(host)) return outbound
  if (host !== inside) return { request: async () => UNNAMED }
  return {
    request: (request) =>
      isInternal(hostOf(request.url)) ? internal.request(flow, request) : outbound.request(request)
  }
}

function hostOf(url: string): string {
  return URL.canParse(url) ? comparedHost(new URL(url).hostname) : ''
}

/** Literal host at the start of a URL template, before a port, path, query, `${…}` or the end. */
const WRITTEN = /^https?:\/\/([^\s/?#@$\\:]+)(?=[/?#:]|\$\{|$)/i

/** Returns the literal host at the start of a URL template, '' for none. Whether it is the complete host is known only with the URL. */
export function writtenHost(url: string): string {
  return comparedHost(WRITTEN.exec(url)?.[1] ?? '')
}

/** Normalizes the host of a URL for comparison. */
function comparedHost(host: string): string {
  return host.toLowerCase().replace(/\.$/, '')
}

async function answerOf({ outcome }: Followed<Refused>): Promise<Pick<Attempt, 'res' | 'error'>> {
  if (!outcome.ok) return { error: { code: outcome.code, message: outcome.message } }
  const headers = new HeaderFields(outcome.headers)
  const content = await decoded(outcome.body, codingsOf(headers), MAX_RESPONSE)
  if (content === 'too-large') {
    return { error: { code: 'RESPONSE_TOO_LARGE', message: 'the content of the response is too large' } }
  }
  if (!(content instanceof Uint8Array)) {
    return { error: { code: 'RESPONSE_MALFORMED', message: 'the content coding of the response cannot be undone' } }
  }
  const { status, address, timeMs } = outcome
  const { text: body } = await readText(content, headers.get('content-type'))
  return {
    res: { resolved_ip: address, status_code: status, time_ms: Math.round(timeMs), header: headers.byName, body }
  }
}

function publish(flow: Flow, attempts: readonly Attempt[], { req, res, error }: Attempt): void {
  flow.publish('http_request', {
    req,
    ...(res === undefined ? {} : { res }),
    error: error ?? { code: '', message: '' },
    attempts: attempts.map(({ res: answer, error: failure }) => ({
      resolved_ip: answer?.resolved_ip ?? '',
      response_status_code: answer?.status_code ?? 0,
      response_time_ms: answer?.time_ms ?? 0,
      response_header: answer?.header ?? new Map(),
      error_code: failure?.code ?? ''
    }))
  })
}

/** Evaluates the retry condition; fails if it has no value, except for a missing one. */
function wantsMore(
  retry: Expression | undefined,
  count: number,
  { req, res, error }: Attempt,
  flow: Flow
): 'yes' | 'no' | EvaluationError {
  if (retry === undefined) return 'no'
  const last = new Map<string, unknown>([['req', engineValue(req)]])
  // Published examples use this name besides that of the results.
  if (res !== undefined) last.set('res', engineValue({ ...res, statusCode: res.status_code }))
  if (error !== undefined) last.set('error', engineValue(error))
  showAttempts(flow, { count: BigInt(count), last })
  try {
    const value = retry.evaluate(flow)
    if (typeof value === 'boolean') return value ? 'yes' : 'no'
    return new EvaluationError('failed', 'it is not true or false')
  } catch (failed) {
    if (!(failed instanceof EvaluationError)) throw failed
    // As in a rule, a missing value does not match.
    return failed.kind === 'absent' ? 'no' : failed
  }
}

const MAX_KEY = 128
const MAX_VALUE = 8192
/** Maximum size of a request body (bytes). */
const MAX_BODY = 256 * 1024

/** Request to send. */
interface Message {
  readonly method: string
  readonly url: string
  /** Flat list: name, value, name, value… */
  readonly headers: readonly string[]
  readonly body: Uint8Array | undefined
}

interface MessageConfig {
  readonly url: string
  readonly method?: string
  readonly query_params?: readonly { readonly key: string; readonly value: string }[]
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

/** Compiles a request. The result throws `EvaluationError` if a part has no value or is too long. */
export function compileMessage(settings: MessageConfig, scope: Scope): (flow: Flow) => Message {
  const { method = 'GET', query_params = [], headers = {}, body } = settings
  const url = scope.template(settings.url, ['url'])
  const parameters = query_params.map(({ key, value }, i) => ({
    key: scope.template(key, ['query_params', i, 'key']),
    value: scope.template(value, ['query_params', i, 'value'])
  }))
  const writing = compileHeaders(headers, ['headers'], scope)
  const content = body === undefined ? undefined : scope.template(body, ['body'])
  const own = ownHeaders(writing.names, body)
  return (flow) => ({
    method,
    url: withParameters(
      url.text(flow),
      parameters.map(({ key, value }) => [limited(key.text(flow), MAX_KEY), limited(value.text(flow), MAX_VALUE)])
    ),
    headers: [...writing.fields(flow), ...own, 'x-forwarded-for', flow.clientAddress],
    body: content === undefined ? undefined : bodyOf(content.text(flow))
  })
}

/** Returns the default headers that the configuration does not set. */
function ownHeaders(written: readonly string[], body: string | undefined): string[] {
  const own = ['user-agent', 'Sluice', 'accept-encoding', 'identity']
  if (body !== undefined) own.push('content-type', mediaTypeOf(body))
  return own.filter((_, i) => !written.includes(own[i - (i % 2)] as string))
}

/** Adds query parameters; an invalid URL is unchanged, and the client reports it. */
function withParameters(text: string, parameters: readonly (readonly [string, string])[]): string {
  if (parameters.length === 0 || !URL.canParse(text)) return text
  const url = new URL(text)
  for (const [key, value] of parameters) url.searchParams.append(key, value)
  return url.href
}

function limited(text: string, length: number): string {
  if (text.length > length) throw new EvaluationError('failed', `a query parameter is longer than ${length} characters`)
  return text
}

function bodyOf(text: string): Uint8Array {
  const bytes = Buffer.from(text, 'utf8')
  if (bytes.length > MAX_BODY) throw new EvaluationError('failed', `the body is longer than ${MAX_BODY} bytes`)
  return bytes
}
