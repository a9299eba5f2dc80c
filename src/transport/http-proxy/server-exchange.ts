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

/** How an answer is framed. */
interface AnswerShape {
  /** HEAD, 204, 304: the head alone. */
  readonly bodiless: boolean
  /** What content-length says, if it is written. */
  readonly length: number | undefined
  readonly chunked: boolean
  readonly close: boolean
}

/** `list` without the fields of the engine, with those that `shape` asks for. */
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

/** Settles the head of `response`. False: no final answer has this status. */
function writeHead(response: ServerResponse, head: ResponseHead, fields: string[]): boolean {
  if (!Number.isInteger(head.status) || head.status < 200 || head.status > 999) return false
  const reason = writableReason(head.reason) ?? STATUS_CODES[head.status] ?? ''
  try {
    response.writeHead(head.status, reason, fields)
  } catch {
    // A name or value that cannot be written; nothing was. The check of all fields is made only now, on the rare path.
    response.writeHead(head.status, reason, writableFields(fields) as string[])
  }
  return true
}

/** A 1xx head as text; `extra` is a finished field line. */
function interimHead(head: ResponseHead, extra = ''): string {
  let text = `HTTP/1.1 ${head.status} ${writableReason(head.reason) ?? STATUS_CODES[head.status] ?? ''}\r\n${extra}`
  const fields = writableFields(head.headers)
  for (let i = 0; i < fields.length; i += 2) {
    if (!isEngineField(fields[i] as string)) text += `${fields[i]}: ${fields[i + 1]}\r\n`
  }
  return `${text}\r\n`
}

/** What of an early-answered request is read and thrown away before the connection is given up instead. */
export const DISCARD_LIMIT = 65_536

/** The connection that an exchange came on, as far as the exchange uses it. */
interface ExchangeConnection {
  readonly facts: SocketFacts
  readonly scheme: 'http' | 'https'
  readonly socket: Socket
  readonly clock: Clock
  /** Why the connection was cut; undefined: it was not. */
  readonly cutBy: Failure | undefined
  /** Something happened: the idle time begins anew. */
  touch(): void
  /** Gives pipes their places and limits. */
  readonly host: PipeHost
  becomePipe(other: BytePipe): Buffer[]
  linger(): void
  /** The response has ended. */
  answered(): void
  /** Must the response that is about to begin be the last? `discardable`: bytes of the request that may still be dropped. */
  endsAfterAnswer(discardable: number): boolean
  counts(): { bytesIn: number; bytesOut: number }
}

/** One request on a node:http connection, with its answer. */
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
    // An expectation needs a body that it can hold back (RFC 9110 10.1.1).
    const bodiless = head.framing.kind === 'none' || (head.framing.kind === 'length' && head.framing.bytes === 0)
    this.#expectsContinue = head.expectsContinue && !bodiless
    // node:http would close the connection behind an answer without a 100, even where no body is due.
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

  /** Bytes of the answer have left or are about to. */
  get begun(): boolean {
    return this.#firstByteAt !== 0
  }

  /** The whole answer has been handed to the socket. */
  get written(): boolean {
    return this.#response.writableEnded
  }

  /** The answer has begun, and is a stream of events. */
  get streamsEvents(): boolean {
    return this.#answerFields !== undefined && isOfType(this.#answerFields, 'text/event-stream')
  }

  /** The client is expected to send its body now. */
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
    // The connection itself knows where the message ends.
  }

  abandoned(): void {
    // What is not read is counted and discarded by the connection, after the answer.
  }

  inform(head: ResponseHead): void {
    if (this.#sent !== undefined || this.#ended || this.request.version === '1.0') return
    // A client that does not read needs no news of progress, which would wait in memory.
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

  /** Ends the exchange before a complete answer; what happens to the socket is the caller's business. */
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

  /** The head does not wait for a body that may be long in coming; what is there already goes with it. */
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
