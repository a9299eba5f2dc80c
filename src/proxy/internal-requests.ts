import { Readable } from 'node:stream'
import { internalRequestErrors } from '../flow/error-codes.js'
import type {
  BytePipe,
  ConnectionFacts,
  Exchange,
  Failure,
  Outgoing,
  RequestHead,
  ResponseHead,
  Sent
} from '../flow/exchange.js'
import type { Flow, InternalAnswer, InternalRequests } from '../flow/flow.js'
import type { HeaderList } from '../flow/headers.js'
import { ByteQueue } from '../lib/byte-queue.js'
import type { Clock } from '../lib/clock.js'
import { messageOf } from '../lib/errors.js'
import { type OutboundFailure, type OutboundRequest, outboundError } from '../lib/http-client/answer.js'
import { OutboundCut } from '../lib/http-client/cut.js'
import { Snapshot } from '../runtime/snapshot.js'
import { AbortList } from '../transport/deadlines.js'
import { MessageBody } from '../transport/message-body.js'
import { drop } from '../transport/outgoing.js'
import type { Pipeline } from './pipeline.js'

/** The whole answer, or why there is none. */
type Gathered =
  | { readonly status: number; readonly headers: HeaderList; readonly body: Uint8Array }
  | 'RESPONSE_TOO_LARGE'
  | 'BROKEN'

const nothing = (): void => undefined
/** The body of our own request is all there from the beginning. */
const UNWATCHED = { wanted: nothing, settled: nothing, abandoned: nothing }

/** A request that is made in this process. Its answer is gathered in memory, up to `limit` bytes. */
class InternalExchange implements Exchange {
  readonly connection: ConnectionFacts
  readonly request: Exchange['request']
  readonly upgrade = undefined
  readonly signal = new AbortList()
  /** Never rejects. */
  readonly answer: Promise<Gathered>
  readonly #clock: Clock
  readonly #limit: number
  #settle: (answer: Gathered) => void = nothing
  #sent: Promise<Sent> | undefined

  constructor(
    connection: ConnectionFacts,
    head: RequestHead,
    content: Uint8Array | undefined,
    limit: number,
    clock: Clock
  ) {
    this.connection = connection
    this.#limit = limit
    this.#clock = clock
    const framing = content === undefined ? ({ kind: 'none' } as const) : lengthOf(content)
    const source = Readable.from(content === undefined ? [] : [content], { objectMode: false })
    const body = new MessageBody(source, { complete: true, rawTrailers: [] }, framing, UNWATCHED, 'client-gone')
    this.request = { ...head, body }
    this.answer = new Promise((resolve) => {
      this.#settle = resolve
    })
  }

  /** The answer is no longer awaited. */
  abort(): void {
    this.signal.abort('client-gone')
  }

  inform(): void {
    // Interim answers say nothing to a policy.
  }

  respond(head: ResponseHead, body?: Outgoing): Promise<Sent> {
    if (this.#sent === undefined) this.#sent = this.#gather(head, body)
    else drop(body)
    return this.#sent
  }

  /** Never asked for: no request of ours wants another protocol. */
  splice(_head: ResponseHead, other: BytePipe): Promise<Sent> {
    other.destroy('internal')
    return this.respond({ status: 502, headers: [] })
  }

  close(): void {
    this.#settle('BROKEN')
  }

  async #gather({ status, headers }: ResponseHead, body: Outgoing): Promise<Sent> {
    const firstByteAt = this.#clock.monotonic()
    const bodiless = this.request.method === 'HEAD' || status === 204 || status === 304
    if (bodiless) drop(body)
    const content = bodiless ? new Uint8Array(0) : await this.#contentOf(body)
    const gathered = typeof content === 'string' ? content : { status, headers, body: content }
    this.#settle(gathered)
    const failure: Failure | undefined = content === 'BROKEN' ? (this.signal.aborted ?? 'upstream-gone') : undefined
    return {
      bytesIn: this.request.body.bytes,
      bytesOut: typeof content === 'string' ? 0 : content.length,
      firstByteAt,
      endedAt: this.#clock.monotonic(),
      ...(failure === undefined ? {} : { failure })
    }
  }

  async #contentOf(body: Outgoing): Promise<Uint8Array | 'RESPONSE_TOO_LARGE' | 'BROKEN'> {
    if (body === undefined) return new Uint8Array(0)
    if (body instanceof Uint8Array) return body.length > this.#limit ? 'RESPONSE_TOO_LARGE' : body
    const stream = body instanceof Readable ? body : body.claim()
    const stop = this.signal.onAbort(() => stream.destroy())
    const waiting = new ByteQueue()
    try {
      for await (const chunk of stream) {
        waiting.push(chunk as Buffer)
        // Leaving the loop destroys the stream.
        if (waiting.length > this.#limit) return 'RESPONSE_TOO_LARGE'
      }
      return waiting.takeAll()
    } catch {
      // A message that breaks off is told by its stream, whatever broke it.
      return 'BROKEN'
    } finally {
      stop()
    }
  }
}

function lengthOf({ length }: Uint8Array): { readonly kind: 'length'; readonly bytes: number } {
  return { kind: 'length', bytes: length }
}

/** Requests of policies inside requests of policies. */
const MOST_DEPTH = 3

/** Leads the requests of policies through the pipeline, on behalf of the client whose exchange the policy looks at. */
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

/** As if the client itself had come, so that the entry limits and logs the one for whom it works. */
function facts({ connection, clientAddress, clientPort }: Flow): ConnectionFacts {
  const { id, listener, local, startedAt } = connection
  return { id, listener, local, startedAt, peer: { address: clientAddress, port: clientPort }, bytesIn: 0, bytesOut: 0 }
}

/** Another Host than the URL's may stand among the fields; it is what the entry and its upstream see. */
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
