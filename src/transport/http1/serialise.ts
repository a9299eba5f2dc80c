import { STATUS_CODES } from 'node:http'
import type { Framing, RequestHead, ResponseHead } from '../../flow/exchange.js'
import type { HeaderList } from '../../flow/headers.js'
import type { Clock } from '../../lib/clock.js'
import { consistsOf, TARGET, TOKEN, VALUE } from './grammar.js'
import { FIELD, type FieldNames } from './names.js'

/** How an answer is framed. */
export interface AnswerShape {
  /** What content-length says, if it is written. */
  readonly length: number | undefined
  readonly chunked: boolean
  readonly close: boolean
}

/** The date field line, made once a second. */
export class DateLine {
  readonly #clock: Clock
  #second = -1
  #line = ''

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get line(): string {
    const now = this.#clock.wall()
    const second = Math.floor(now / 1000)
    if (second !== this.#second) {
      this.#second = second
      this.#line = `Date: ${new Date(now).toUTCString()}\r\n`
    }
    return this.#line
  }
}

/** Writes heads as latin1 text. A field that cannot be written (RFC 9110 5.1, 5.5) is left out; the engine's own are its own. */
export class Serialiser {
  readonly #names: FieldNames
  readonly #date: DateLine
  /** Found in the list that `#fields` wrote last. */
  #host = false
  #dated = false

  constructor(names: FieldNames, date: DateLine) {
    this.#names = names
    this.#date = date
  }

  /** A final answer (RFC 9112 4). A missing Date is added, as RFC 9110 6.6.1 asks. */
  answer(head: ResponseHead, shape: AnswerShape): string {
    let text = statusLine(head) + this.#fields(head.headers, shape.chunked)
    if (shape.length !== undefined) text += `Content-Length: ${shape.length}\r\n`
    else if (shape.chunked) text += 'Transfer-Encoding: chunked\r\n'
    if (!this.#dated) text += this.#date.line
    return shape.close ? `${text}Connection: close\r\n\r\n` : `${text}\r\n`
  }

  /** A 1xx answer; `extra` is a finished field line. */
  interim(head: ResponseHead, extra = ''): string {
    return `${statusLine(head)}${extra}${this.#fields(head.headers, false)}\r\n`
  }

  /** A request (RFC 9112 3), or undefined when method or target cannot stand in a request line. */
  request(head: RequestHead, framing: Framing, upgrade: boolean, expects: boolean): string | undefined {
    const { method, target } = head
    if (method === '' || target === '' || !consistsOf(TOKEN, method) || !consistsOf(TARGET, target)) return undefined
    const fields = this.#fields(head.headers, framing.kind === 'open')
    let text = `${method} ${target} HTTP/1.1\r\n`
    if (!this.#host) text += `Host: ${consistsOf(VALUE, head.authority) ? head.authority : ''}\r\n`
    text += fields
    if (framing.kind === 'open') text += 'Transfer-Encoding: chunked\r\n'
    else if (framing.kind === 'length') text += `Content-Length: ${framing.bytes}\r\n`
    if (upgrade) text += 'Connection: Upgrade\r\n'
    return expects ? `${text}Expect: 100-continue\r\n\r\n` : `${text}\r\n`
  }

  /** Trailer fields as lines; they must have been filtered. */
  trailers(list: HeaderList): string {
    return this.#fields(list, false)
  }

  #fields(list: HeaderList, chunked: boolean): string {
    let text = ''
    let host = false
    let dated = false
    for (let i = 0; i < list.length; i += 2) {
      const name = list[i] as string
      const value = list[i + 1] as string
      switch (this.#names.of(name)) {
        case FIELD.plain:
        case FIELD.upgrade:
          break
        case FIELD.host:
          host = true
          break
        case FIELD.date:
          dated = true
          break
        case FIELD.trailer:
          if (chunked) break
          continue
        default:
          continue
      }
      if (consistsOf(VALUE, value)) text += `${name}: ${value}\r\n`
    }
    this.#host = host
    this.#dated = dated
    return text
  }
}

/** The answer of the engine itself to what became no exchange. */
export function bareAnswer(status: number): string {
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`
}

function statusLine({ status, reason }: ResponseHead): string {
  const phrase = reason !== undefined && reason !== '' && consistsOf(VALUE, reason) ? reason : STATUS_CODES[status]
  return `HTTP/1.1 ${status} ${phrase ?? ''}\r\n`
}
