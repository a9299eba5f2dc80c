import { STATUS_CODES } from 'node:http'
import { Readable } from 'node:stream'
import type { FailureAnswer } from '../flow/error-codes.js'
import type { BytePipe, Exchange, Outgoing, Sent } from '../flow/exchange.js'
import { type Flow, type FlowResponse, REQUEST_ID } from '../flow/flow.js'
import { HeaderFields } from '../flow/headers.js'
import { TRACE_ID } from '../flow/trace.js'
import type { Verdict } from '../flow/verdict.js'
import type { ResponseUpstream } from '../runtime/answering-upstreams.js'

type Respond = Extract<Verdict, { kind: 'respond' }>

/** Returns the response of a verdict. */
export function responseOf(verdict: Respond): FlowResponse {
  const response = localResponse(verdict.status, [...verdict.headers], verdict.body, verdict.code)
  return verdict.close === true ? { ...response, close: true } : response
}

/** Returns the response for a failed exchange. */
export function failureResponse({ status, code }: FailureAnswer): FlowResponse {
  return localResponse(status, [], undefined, code)
}

/** Returns a response from Sluice; `headers`: name, value, name, value… */
export function localResponse(status: number, headers: string[], body?: Uint8Array, code?: string): FlowResponse {
  if (code !== undefined) headers.push('sluice-error-code', code)
  return {
    status,
    reason: STATUS_CODES[status] ?? '',
    headers: new HeaderFields(headers),
    body,
    local: true,
    transforms: [],
    trailers: undefined
  }
}

/** Adds the request id and trace id to an error response. */
export function nameTo({ headers }: FlowResponse, { requestId, trace }: Flow): void {
  headers.set(REQUEST_ID, requestId)
  if (trace !== undefined) headers.set(TRACE_ID, trace.traceId)
}

/** Sends a response with its body through the requested transforms. */
export function send(exchange: Exchange, response: FlowResponse, close = false): Sent | Promise<Sent> {
  const head = { status: response.status, reason: response.reason, headers: response.headers.list, close }
  return exchange.respond(head, transformed(response), response.trailers)
}

/** Adds fields (name, value, name, value…) and Strict-Transport-Security. */
export function addFields(
  { headers }: FlowResponse,
  fields: readonly string[] | undefined,
  hsts: string | undefined
): void {
  // Replaces the upstream's: browsers read only the first one (RFC 6797 8.1).
  if (hsts !== undefined) headers.set('Strict-Transport-Security', hsts)
  if (fields === undefined) return
  for (let i = 0; i < fields.length; i += 2) headers.append(fields[i] as string, fields[i + 1] as string)
}

/** Sends the header of a protocol switch and joins both pipes. `refuse` responds if no pipe is free. */
export function splice(
  exchange: Exchange,
  { status, reason, headers }: FlowResponse,
  pipe: BytePipe,
  refuse: () => Sent | Promise<Sent>
): Sent | Promise<Sent> {
  const admitted = exchange.admitsPipe?.() ?? true
  const joined = (free: boolean): Sent | Promise<Sent> => {
    if (free) return exchange.splice({ status, reason, headers: headers.list }, pipe)
    pipe.destroy('overloaded')
    return refuse()
  }
  return admitted instanceof Promise ? admitted.then(joined) : joined(admitted)
}

function transformed({ body, transforms }: FlowResponse): Outgoing {
  if (transforms.length === 0 || body === undefined) return body
  if (isEngineBody(body)) {
    for (const transform of transforms) body.through(transform)
    return body
  }
  let stream: Readable = body instanceof Uint8Array ? Readable.from([body]) : body
  for (const transform of transforms) {
    const next = transform()
    const source = stream
    source.once('error', (error) => next.destroy(error))
    next.once('close', () => source.destroy())
    stream = source.pipe(next)
  }
  return stream
}

/** Releases a body that will not be sent. */
export function discard(response: FlowResponse): void {
  const { body } = response
  if (body === undefined || body instanceof Uint8Array) return
  if (isEngineBody(body)) body.discard()
  else body.destroy()
}

function isEngineBody(
  body: Exclude<Outgoing, undefined>
): body is Exclude<Outgoing, undefined | Uint8Array | Readable> {
  return 'framing' in body
}

/** Returns the response of a fixed-response backend. */
export function fixedResponse({ status, headers, body }: ResponseUpstream): FlowResponse {
  const fields = Object.entries(headers).flat()
  return responseOf({ kind: 'respond', status, headers: fields, ...(body === '' ? {} : { body: Buffer.from(body) }) })
}
