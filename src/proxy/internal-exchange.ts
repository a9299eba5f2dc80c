import { Readable } from 'node:stream'
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
import type { HeaderList } from '../flow/headers.js'
import { ByteQueue } from '../lib/byte-queue.js'
import type { Clock } from '../lib/clock.js'
import { AbortList } from '../transport/deadlines.js'
import { MessageBody } from '../transport/message-body.js'
import { drop } from '../transport/outgoing.js'

/** Complete response, or why there is none. */
type Gathered =
  | { readonly status: number; readonly headers: HeaderList; readonly body: Uint8Array }
  | 'RESPONSE_TOO_LARGE'
  | 'BROKEN'

const nothing = (): void => undefined
/** Body callbacks of a request from this process, whose body is complete from the start. */
const UNWATCHED = { wanted: nothing, settled: nothing, abandoned: nothing }

/** Request made by this process. The response is buffered in memory, up to `limit` bytes. */
export class InternalExchange implements Exchange {
  readonly connection: ConnectionFacts
  readonly request: Exchange['request']
  readonly upgrade = undefined
  readonly signal = new AbortList()
  /** Never rejects. */
  readonly answer: Promise<Gathered>
  readonly #clock: Clock
  readonly #limit: number
  readonly #body: MessageBody
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
    this.#body = body
    this.request = { ...head, body }
    this.answer = new Promise((resolve) => {
      this.#settle = resolve
    })
  }

  /** True once the body of the request was requested. */
  get isBodyWanted(): boolean {
    return this.#body.wanted
  }

  /** Aborts; the response is no longer needed. */
  abort(): void {
    this.signal.abort('client-gone')
  }

  inform(): void {
    // Policies ignore interim responses.
  }

  respond(head: ResponseHead, body?: Outgoing): Promise<Sent> {
    if (this.#sent === undefined) this.#sent = this.#gather(head, body)
    else drop(body)
    return this.#sent
  }

  /** Never called: our requests do not switch protocols. */
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
      // The stream reports an aborted message, whatever the cause.
      return 'BROKEN'
    } finally {
      stop()
    }
  }
}

function lengthOf({ length }: Uint8Array): { readonly kind: 'length'; readonly bytes: number } {
  return { kind: 'length', bytes: length }
}
