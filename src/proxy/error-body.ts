import { STATUS_CODES } from 'node:http'
import type { Exchange } from '../flow/exchange.js'
import type { Flow, FlowResponse } from '../flow/flow.js'
import { HeaderFields, type HeaderList } from '../flow/headers.js'
import { escapeHtml } from '../lib/printable.js'
import { grpcRefusal, isGrpc } from './grpc.js'

/** Maximum length of an Accept field; longer ones get text. */
const MAX_ACCEPT = 1_024

/** Maximum length of a code or request id in a body. */
const MAX_WORD = 200

/** Lowest status with an error body. */
const FIRST_ERROR = 400

type Form = 'text' | 'html' | 'json'

/** Content of an error body. */
interface ErrorFacts {
  readonly status: number
  /** Reason phrase of the status. */
  readonly title: string
  readonly code: string
  /** Id of the request; undefined if it failed before it had one. */
  readonly requestId: string | undefined
}

/** Media types by form. All bodies are UTF-8. */
const TYPES: Readonly<Record<Form, string>> = {
  text: 'text/plain; charset=utf-8',
  html: 'text/html; charset=utf-8',
  json: 'application/json'
}

const RENDER: Readonly<Record<Form, (facts: ErrorFacts) => string>> = {
  text: ({ status, title, code, requestId }) =>
    `${status} ${title}\ncode: ${code}\n${requestId === undefined ? '' : `request: ${requestId}\n`}`,
  html: ({ status, title, code, requestId }) =>
    '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<meta name="viewport" content="width=device-width">\n' +
    `<title>${status} ${escapeHtml(title)}</title>\n<h1>${status} ${escapeHtml(title)}</h1>\n` +
    `<p>Code: ${escapeHtml(code)}</p>\n${requestId === undefined ? '' : `<p>Request: ${escapeHtml(requestId)}</p>\n`}</html>\n`,
  json: ({ status, title, code, requestId }) =>
    `${JSON.stringify({ status, title, code, ...(requestId === undefined ? {} : { request_id: requestId }) })}\n`
}

/** Context of a response from this process. */
interface Asking {
  readonly exchange: Pick<Exchange, 'request'>
  /** Flow of the request; undefined if it failed before it had an id. */
  readonly flow: Pick<Flow, 'requestId'> | undefined
}

/** Returns `clientAnswer` for an exchange. */
export function ownAnswer(
  response: FlowResponse,
  { exchange, flow }: Asking,
  { errorBodies }: { readonly errorBodies?: boolean }
): FlowResponse {
  return clientAnswer(response, exchange.request.headers, flow?.requestId, errorBodies === true)
}

/**
 * Returns the final form of a response from this process. gRPC clients get a gRPC status; with `bodies` every other error without a body
 * gets one with title, code and request id, in the form that Accept prefers.
 */
export function clientAnswer(
  response: FlowResponse,
  request: HeaderList,
  requestId: string | undefined,
  bodies: boolean
): FlowResponse {
  if (isGrpc(request)) return grpcRefusal(response)
  const { status, body, headers, trailers } = response
  const code = headers.get('sluice-error-code')
  if (!bodies || code === undefined || body !== undefined || trailers !== undefined || status < FIRST_ERROR)
    return response
  const form = preferredForm(request)
  const title = STATUS_CODES[status] ?? 'Error'
  const facts = { status, title, code: code.slice(0, MAX_WORD), requestId: requestId?.slice(0, MAX_WORD) }
  const fields = new HeaderFields(headers.list)
  for (const name of ['content-type', 'content-length', 'content-encoding']) fields.delete(name)
  fields.append('content-type', TYPES[form])
  fields.append('x-content-type-options', 'nosniff')
  return { ...response, headers: fields, body: Buffer.from(RENDER[form](facts)), transforms: [] }
}

/** Returns the preferred form of the Accept fields (RFC 9110 12.5.1); text if there is no clear preference. */
export function preferredForm(request: HeaderList): Form {
  let accept = ''
  for (let i = 0; i < request.length; i += 2)
    if ((request[i] as string).toLowerCase() === 'accept') accept += `${accept === '' ? '' : ','}${request[i + 1]}`
  if (accept === '' || accept.length > MAX_ACCEPT) return 'text'
  const weights = new Map<string, number>()
  for (const range of accept.split(',')) {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase())
    const q = parameters.find((one) => one.startsWith('q='))
    const weight = q === undefined ? 1 : Number(q.slice(2))
    if (Number.isFinite(weight)) weights.set(type, Math.max(weight, weights.get(type) ?? 0))
  }
  const weightOf = (...ranges: readonly string[]) => {
    for (const range of ranges) {
      const weight = weights.get(range)
      if (weight !== undefined) return weight
    }
    return 0
  }
  const any = weightOf('*/*')
  const candidates: [Form, number][] = [
    ['text', weightOf('text/plain', 'text/*', '*/*')],
    ['html', weightOf('text/html', 'text/*', '*/*')],
    [
      'json',
      Math.max(weightOf('application/json'), weightOf('application/problem+json'), weightOf('application/*', '*/*'))
    ]
  ]
  let best: [Form, number] = ['text', any]
  for (const one of candidates) if (one[1] > best[1]) best = one
  return best[0]
}
