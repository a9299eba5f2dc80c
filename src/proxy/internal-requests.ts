import { internalRequestErrors } from '../flow/error-codes.js'
import type { ConnectionFacts, RequestHead } from '../flow/exchange.js'
import type { Flow, InternalAnswer, InternalRequests } from '../flow/flow.js'
import type { Clock } from '../lib/clock.js'
import { messageOf } from '../lib/errors.js'
import { OutboundCut, type OutboundFailure, type OutboundRequest, outboundError } from '../lib/http-client/answer.js'
import { Snapshot } from '../runtime/snapshot.js'
import { InternalExchange } from './internal-exchange.js'
import type { Pipeline } from './pipeline.js'

/** Maximum nesting of requests of policies. */
const MOST_DEPTH = 3

/** Sends requests of policies through the pipeline on behalf of the client. */
export class PipelineRequests implements InternalRequests {
  readonly #pipeline: Pipeline
  readonly #clock: Clock

  constructor(pipeline: Pipeline, clock: Clock) {
    this.#pipeline = pipeline
    this.#clock = clock
  }

  async request(flow: Flow, request: OutboundRequest): Promise<InternalAnswer> {
    const begun = this.#clock.monotonic()
    const timeMs = () => this.#clock.monotonic() - begun
    const failed = (code: OutboundFailure) => outboundError(code, timeMs())
    const refused = (code: keyof typeof internalRequestErrors) =>
      ({ ok: false, code, message: messageOf(internalRequestErrors[code]), timeMs: timeMs() }) as const
    if (!URL.canParse(request.url)) return failed('URL_INVALID')
    const url = new URL(request.url)
    const host = url.hostname.replace(/\.$/, '')
    const { units: snapshot } = flow
    const port = url.port === '' ? undefined : Number(url.port)
    if (!(snapshot instanceof Snapshot) || snapshot.internalEdge(host, port) === undefined) {
      return refused('ENDPOINT_MISSING')
    }
    if (flow.depth >= MOST_DEPTH) return refused('LOOP')
    const { body, maxResponseBytes, deadline, signal } = request
    const exchange = new InternalExchange(facts(flow), headOf(request, url), body, maxResponseBytes, this.#clock)
    const cut = new OutboundCut(deadline, signal)
    cut.onCut(() => exchange.abort())
    const place = { snapshot, host, port, depth: flow.depth + 1 }
    const served = this.#pipeline.serveInside(exchange, flow.entry, place)
    try {
      const ended = served.then(() => 'BROKEN' as const)
      const answer = await Promise.race([exchange.answer, cut.happened, ended])
      if (typeof answer === 'string') return failed(answer)
      return { ok: true, ...answer, address: '', timeMs: timeMs() }
    } finally {
      cut.over()
    }
  }
}

/** Returns the connection facts of the client, so that the endpoint limits and logs that client. */
function facts({ connection, clientAddress, clientPort }: Flow): ConnectionFacts {
  const { id, listener, local, startedAt } = connection
  return { id, listener, local, startedAt, peer: { address: clientAddress, port: clientPort }, bytesIn: 0, bytesOut: 0 }
}

/** Returns the request header. A Host field may differ from the URL; the endpoint and its upstream see that field. */
function headOf({ method, headers = [], body }: OutboundRequest, url: URL): RequestHead {
  const fields: string[] = []
  let authority = url.host
  for (let i = 0; i < headers.length; i += 2) {
    const [name, value] = [headers[i] as string, headers[i + 1] as string]
    if (name.toLowerCase() === 'host') authority = value
    else fields.push(name, value)
  }
  if (body !== undefined) fields.push('Content-Length', String(body.length))
  return {
    method,
    target: `${url.pathname}${url.search}`,
    authority,
    scheme: url.protocol === 'https:' ? 'https' : 'http',
    version: '1.1',
    headers: ['Host', authority, ...fields]
  }
}
