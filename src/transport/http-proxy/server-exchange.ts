import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type {
  BytePipe,
  ConnectionFacts,
  Exchange,
  Failure,
  Outgoing,
  RequestHead,
  ResponseHead,
  Sent
} from '../../flow/exchange.js'
import type { HeaderList } from '../../flow/headers.js'
import type { Clock } from '../../lib/clock.js'
import type { SocketFacts } from '../connection-facts.js'
import { AbortList, isOfType } from '../deadlines.js'
import { isEngineField, writableFields, writableReason } from '../fields.js'
import { join, joinLimits, type PipeHost } from '../join.js'
import { type BodyOwner, httpSink, MessageBody } from '../message-body.js'
import { answerFraming, drop, failureOf, send, sendHead } from '../outgoing.js'
import { cut, ignore } from '../pipes.js'
import type { HeadFacts } from './request-head.js'

/** Framing of a response. */
interface AnswerShape {
  /** HEAD, 204, 304: no body. */
  readonly bodiless: boolean
  /** Value of content-length, if present. */
  readonly length: number | undefined
  readonly chunked: boolean
  readonly close: boolean
}

/** Replaces the fields of the engine in `list` by those for `shape`. */
function answerFields(list: HeaderList, shape: AnswerShape): string[] {
  const fields: string[] = []
  for (let i = 0; i < list.length; i += 2) {
    const name = list[i] as string
    if (isEngineField(name) || (!shape.chunked && name.length === 7 && name.toLowerCase() === 'trailer')) continue
    fields.push(name, list[i + 1] as string)
  }
  if (shape.length !== undefined) fields.push('content-length', String(shape.length))
  else if (shape.chunked) fields.push('transfer-encoding', 'chunked')
  if (shape.close) fields.push('connection', 'close')
  return fields
}

/** Sets the head of `response`. Returns false for a status that is not final. */
function writeHead(response: ServerResponse, head: ResponseHead, fields: string[]): boolean {
  if (!Number.isInteger(head.status) || head.status < 200 || head.status > 999) return false
  const reason = writableReason(head.reason) ?? STATUS_CODES[head.status] ?? ''
  try {
    response.writeHead(head.status, reason, fields)
  } catch {
    // An invalid name or value; nothing was written. All fields are checked only in this rare case.
    response.writeHead(head.status, reason, writableFields(fields) as string[])
  }
  return true
}

/** Formats a 1xx head; `extra` is a complete field line. */
function interimHead(head: ResponseHead, extra = ''): string {
  let text = `HTTP/1.1 ${head.status} ${writableReason(head.reason) ?? STATUS_CODES[head.status] ?? ''}\r\n${extra}`
  const fields = writableFields(head.headers)
  for (let i = 0; i < fields.length; i += 2) {
    if (!isEngineField(fields[i] as string)) text += `${fields[i]}: ${fields[i + 1]}\r\n`
  }
  return `${text}\r\n`
}

/** Maximum bytes of an early-answered request to read and discard (bytes); beyond this the connection is closed. */
export const DISCARD_LIMIT = 65_536

/** The connection of an exchange, reduced to what the exchange uses. */
interface ExchangeConnection {
  readonly facts: SocketFacts
  readonly scheme: 'http' | 'https'
  readonly socket: Socket
  readonly clock: Clock
  /** Reason why the connection was cut; undefined otherwise. */
  readonly cutBy: Failure | undefined
  /** Restarts the idle timeout. */
  touch(): void
  /** Limits of pipes. */
  readonly host: PipeHost
  becomePipe(other: BytePipe): Buffer[]
  linger(): void
  /** Called after the end of the response. */
  answered(): void
  /** Returns whether the response about to begin must be the last. `discardable`: bytes of the request that may still be discarded. */
  endsAfterAnswer(discardable: number): boolean
  counts(): { bytesIn: number; bytesOut: number }
}

/** One request on a node:http connection, with its response. */
export class HttpExchange implements Exchange, BodyOwner {
  readonly connection: ConnectionFacts
  readonly request: RequestHead & { readonly body: MessageBody }
  readonly upgrade: 'websocket' | 'other' | undefined
  readonly signal = new AbortList()
  readonly #client: ExchangeConnection
  readonly #response: ServerResponse
  readonly #expectsContinue: boolean
  #continued = false
  #answerFields: HeaderList | undefined = undefined
  #ended = false
  #closeDelimited = false
  #failure: Failure | undefined = undefined
  #firstByteAt = 0
  #endedAt = 0
  #stop: () => void = ignore
  #sent: Promise<Sent> | undefined = undefined
  #report: ((sent: Sent) => void) | undefined = undefined

  constructor(client: ExchangeConnection, message: IncomingMessage, response: ServerResponse, head: HeadFacts) {
    this.connection = client.facts
    this.#client = client
    this.#response = response
    // An expectation needs a body that can be delayed (RFC 9110 10.1.1).
    const bodiless = head.framing.kind === 'none' || (head.framing.kind === 'length' && head.framing.bytes === 0)
    this.#expectsContinue = head.expectsContinue && !bodiless
    // node:http would close the connection after a response without a 100, even if no body is due.
    if (head.expectsContinue && bodiless)
      (response as unknown as { _expect_continue: boolean })._expect_continue = false
    this.upgrade = head.upgrade
    const body = new MessageBody(message, message, head.framing, this, 'client-gone')
    body.awaitsContinue = this.#expectsContinue
    this.request = {
      method: message.method as string,
      target: message.url as string,
      authority: head.authority,
      scheme: client.scheme,
      version: message.httpVersionMinor === 1 ? '1.1' : '1.0',
      headers: message.rawHeaders,
      body
    }
    response.on('finish', () => this.#complete())
  }

  /** True once bytes of the response are being sent. */
  get begun(): boolean {
    return this.#firstByteAt !== 0
  }

  /** True once the whole response has been written to the socket. */
  get written(): boolean {
    return this.#response.writableEnded
  }

  /** True once the response has begun as an event stream. */
  get streamsEvents(): boolean {
    return this.#answerFields !== undefined && isOfType(this.#answerFields, 'text/event-stream')
  }

  /** True if the client should send its body now. */
  get bodyDue(): boolean {
    return !this.#expectsContinue || this.#continued
  }

  wanted(): void {
    if (!this.request.body.awaitsContinue || this.#sent !== undefined || this.#ended) return
    this.#continued = true
    this.request.body.awaitsContinue = false
    this.#response.writeContinue()
    this.#client.touch()
  }

  settled(): void {
    // The connection itself finds the end of the message.
  }

  abandoned(): void {
    // The connection counts and discards unread bytes after the response.
  }

  inform(head: ResponseHead): void {
    if (this.#sent !== undefined || this.#ended || this.request.version === '1.0') return
    // A client that does not read gets no interim responses, which would accumulate in memory.
    if (head.status < 102 || head.status > 199 || this.#client.socket.writableNeedDrain) return
    this.#client.socket.write(interimHead(head), 'latin1')
  }

  respond(head: ResponseHead, body?: Outgoing, trailers?: () => HeaderList): Promise<Sent> {
    if (this.#sent !== undefined || this.#ended) {
      drop(body)
      return this.#sent ?? Promise.resolve(this.#account())
    }
    this.#sent = new Promise((resolve) => {
      this.#report = resolve
    })
    this.#answer(head, body, trailers)
    return this.#sent
  }

  admitsPipe(): boolean | Promise<boolean> {
    return this.#client.host.lasts(this.connection)
  }

  splice(head: ResponseHead, other: BytePipe): Promise<Sent> {
    if (this.#sent !== undefined || this.#ended) {
      other.duplex.on('error', ignore)
      other.destroy(this.#failure ?? 'client-gone')
      return this.#sent ?? Promise.resolve(this.#account())
    }
    this.#sent = new Promise((resolve) => {
      this.#report = resolve
    })
    this.#response.detachSocket(this.#client.socket)
    this.#firstByteAt = this.#client.clock.monotonic()
    const socket = this.#client.socket
    const held = this.#client.becomePipe(other)
    socket.write(interimHead(head, 'connection: Upgrade\r\n'), 'latin1')
    for (const chunk of held) other.duplex.write(chunk)
    join(socket, other.duplex, joinLimits(this.#client.host, other), (end) => {
      if (end === 'complete') this.#complete()
      else this.fail(end === 'idle' ? end : (this.#client.cutBy ?? 'client-gone'))
    })
    return this.#sent
  }

  close(how: 'fin' | 'reset'): void {
    if (this.#ended) return
    this.fail('client-gone')
    if (how === 'reset') cut(this.#client.socket)
    else this.#client.linger()
  }

  /** Ends the exchange before a complete response; the caller handles the socket. */
  fail(why: Failure): void {
    if (this.#ended) return
    this.#ended = true
    this.#failure = why
    this.request.body.failure = why
    this.#stop()
    this.signal.abort(why)
    this.#finish()
  }

  #answer(head: ResponseHead, body: Outgoing, trailers: (() => HeaderList) | undefined): void {
    this.#answerFields = head.headers
    const response = this.#response
    const shape = this.#shape(head, body, trailers)
    this.#closeDelimited = shape.close && !shape.chunked && shape.length === undefined && !shape.bodiless
    if (this.request.version === '1.0') response.useChunkedEncodingByDefault = false
    if (!shape.close) response.removeHeader('connection')
    this.#firstByteAt = this.#client.clock.monotonic()
    if (!writeHead(response, head, answerFields(head.headers, shape))) {
      writeHead(response, { status: 500, headers: [] }, ['content-length', '0', 'connection', 'close'])
      drop(body)
      response.end()
      return
    }
    if (shape.bodiless) {
      drop(body)
      response.end()
      return
    }
    this.#stop = send(body, httpSink(response), trailers, (complete) => {
      this.#stop = ignore
      if (!complete) this.#broke(body)
    })
    if (!response.writableEnded) this.#flushHead()
  }

  /** Sends the head without waiting for a slow body; available bytes are sent with it. */
  #flushHead(): void {
    const { socket } = this.#client
    socket.cork()
    sendHead(this.#response)
    process.nextTick(() => socket.uncork())
  }

  #shape({ status, close }: ResponseHead, body: Outgoing, trailers: (() => HeaderList) | undefined): AnswerShape {
    const head = this.request.method === 'HEAD'
    const bodiless = head || status === 204 || status === 304
    const framing = answerFraming(body, trailers, this.request.headers)
    const old = this.request.version === '1.0'
    let length: number | undefined
    if (framing.kind === 'length') length = framing.bytes
    else if (framing.kind === 'none' && status !== 304) length = 0
    if (status === 204) length = undefined
    return {
      bodiless,
      length,
      chunked: !bodiless && framing.kind === 'open' && !old,
      close:
        close === true ||
        old ||
        !this.#response.shouldKeepAlive ||
        !this.bodyDue ||
        this.#client.endsAfterAnswer(DISCARD_LIMIT)
    }
  }

  #broke(body: Outgoing): void {
    if (this.#ended) return
    const socket = this.#client.socket
    this.fail(failureOf(body))
    // A message that ends with its connection would look complete after a FIN.
    if (this.#closeDelimited) cut(socket)
    else socket.destroy()
  }

  #complete(): void {
    if (this.#ended) return
    this.#ended = true
    this.#finish()
    this.#client.answered()
  }

  #finish(): void {
    this.#endedAt = this.#client.clock.monotonic()
    const report = this.#report
    this.#report = undefined
    if (report !== undefined) report(this.#account())
  }

  #account(): Sent {
    const counts = this.#client.counts()
    const sent = {
      bytesIn: counts.bytesIn,
      bytesOut: counts.bytesOut,
      firstByteAt: this.#firstByteAt,
      endedAt: this.#endedAt
    }
    return this.#failure === undefined ? sent : { ...sent, failure: this.#failure }
  }
}
