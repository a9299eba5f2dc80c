import type { OutgoingMessage } from 'node:http'
import { Readable } from 'node:stream'
import type { Body, Exchange, Failure, Framing, Outgoing } from '../flow/exchange.js'
import type { HeaderList } from '../flow/headers.js'
import type { ForwardOptions } from './contract.js'
import { hasToken } from './http1/serialise.js'
import { MessageBody, type MessageSink } from './message-body.js'
import { copy, ignore } from './pipes.js'

const NONE: Framing = { kind: 'none' }
const OPEN: Framing = { kind: 'open' }

/** Returns the framing that `body` will have when sent. */
export function framingOf(body: Outgoing): Framing {
  if (body === undefined) return NONE
  if (body instanceof Uint8Array) return { kind: 'length', bytes: body.length }
  return body instanceof Readable ? OPEN : body.framing
}

/**
 * Returns the framing of a response on HTTP/1.1, where trailers need the chunked coding: responses of the proxy are framed for them, and
 * received ones with a length and possible trailers if the request asks for trailers (RFC 9110 6.5.1).
 */
export function answerFraming(body: Outgoing, trailers: (() => HeaderList) | undefined, request: HeaderList): Framing {
  const framing = framingOf(body)
  if (trailers === undefined || framing.kind !== 'length') return framing
  return body instanceof Uint8Array || (framing.trailers === true && takesTrailers(request)) ? OPEN : framing
}

/** Returns whether the request accepts trailers (RFC 9110 10.1.4). */
function takesTrailers(request: HeaderList): boolean {
  for (let i = 0; i < request.length; i += 2) {
    const name = request[i] as string
    if (name.length === 2 && name.toLowerCase() === 'te' && hasToken(request[i + 1] as string, 'trailers')) return true
  }
  return false
}

/** Returns whether the upstream may switch to another protocol. */
export function asksUpgrade({ upgrade }: Exchange, options: ForwardOptions): boolean {
  return upgrade === 'websocket' || options.upgrade === true
}

/** Returns whether the sender of `body` waits for 100 Continue. */
export function awaitsContinue(body: Outgoing): boolean {
  return isBody(body) && body.awaitsContinue === true
}

/** Returns the reason why `body` failed. */
export function failureOf(body: Outgoing): Failure {
  return (isBody(body) ? body.failure : undefined) ?? 'upstream-gone'
}

function isBody(body: Outgoing): body is Body {
  return body !== undefined && !(body instanceof Uint8Array || body instanceof Readable)
}

/**
 * Sends the complete head of a node:http message before a slow body. The empty string sets the encoding; flushHeaders() would write
 * obs-text of field values as UTF-8.
 */
export function sendHead(message: OutgoingMessage): void {
  message.write('', 'latin1')
}

/** Sends a head that expects a 100: node:http sends it on creation, as text without encoding. */
export function sendExpectingHead(message: OutgoingMessage): void {
  const raw = message as unknown as { _send(data: unknown, encoding?: unknown, ...rest: unknown[]): boolean }
  const send = raw._send
  raw._send = (data, encoding, ...rest) => send.call(message, data, data === '' ? 'latin1' : encoding, ...rest)
  sendHead(message)
}

/** Discards `body` without sending it. */
export function drop(body: Outgoing): void {
  if (body === undefined || body instanceof Uint8Array) return
  if (body instanceof Readable) giveUp(body)
  else body.discard()
}

function giveUp(stream: Readable): void {
  stream.on('error', ignore)
  stream.destroy()
}

/**
 * Writes `body` to `sink`, whose head is complete, and finishes it. `done(false)`: the body failed and the message was not ended. Returns a
 * function that stops early.
 */
export function send(
  body: Outgoing,
  sink: MessageSink,
  trailers: (() => HeaderList) | undefined,
  done: (complete: boolean) => void
): () => void {
  if (body instanceof MessageBody) return body.sendTo(sink, trailers, done)
  if (body === undefined || body instanceof Uint8Array) {
    sink.finish(trailers?.(), body)
    done(true)
    return ignore
  }
  const stream = body instanceof Readable ? body : body.claim()
  const arrived = body instanceof Readable ? undefined : body
  const stop = copy(stream, sink.stream, sink.carried, (complete) => {
    if (complete) sink.finish(trailers === undefined ? arrived?.trailers : trailers())
    else giveUp(stream)
    done(complete)
  })
  return () => {
    stop()
    giveUp(stream)
  }
}
