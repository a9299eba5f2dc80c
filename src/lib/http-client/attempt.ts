import type { ClientRequest, IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { ByteQueue } from '../byte-queue.js'
import { codeOf } from '../errors.js'
import { isPublicAddress } from './addresses.js'
import type { OutboundFailure, OutboundResponse } from './answer.js'

/** What came of it; `STALE`: the server had closed the idle connection that was taken up again. */
export type AttemptOutcome = Omit<OutboundResponse, 'ok' | 'timeMs'> | OutboundFailure | 'stale'

/** One request on one connection. `settle` is called once. */
export class OutboundAttempt {
  readonly #sending: ClientRequest
  readonly #settle: (outcome: AttemptOutcome) => void
  readonly #secure: boolean
  readonly #limit: number
  #connected = false
  #answered = false
  #ended = false

  constructor(
    sending: ClientRequest,
    secure: boolean,
    limit: number,
    allowPrivate: boolean,
    settle: (outcome: AttemptOutcome) => void
  ) {
    this.#sending = sending
    this.#secure = secure
    this.#limit = limit
    this.#settle = settle
    sending.on('socket', (socket) => this.#guard(socket, allowPrivate))
    sending.on('response', (response) => this.#read(response))
    sending.on('error', (error) => this.end(this.#failureOf(error)))
    sending.on('close', () => this.end('BROKEN'))
  }

  end(outcome: AttemptOutcome): void {
    if (this.#ended) return
    this.#ended = true
    if (typeof outcome === 'string') this.#sending.destroy()
    this.#settle(outcome)
  }

  #guard(socket: Socket, allowPrivate: boolean): void {
    const ready = (): void => {
      this.#connected = true
    }
    const connected = (): void => {
      if (!allowPrivate && !isPublicAddress(socket.remoteAddress ?? '')) {
        this.end('ADDRESS_REFUSED')
        return
      }
      if (!this.#secure) ready()
    }
    if (!socket.connecting) {
      connected()
      ready()
      return
    }
    // Before what waits to be written.
    socket.prependOnceListener('connect', connected)
    if (this.#secure) socket.once('secureConnect', ready)
  }

  #read(response: IncomingMessage): void {
    this.#answered = true
    const waiting = new ByteQueue()
    const address = response.socket.remoteAddress ?? ''
    response.on('data', (chunk: Buffer) => {
      waiting.push(chunk)
      if (waiting.length > this.#limit) this.end('RESPONSE_TOO_LARGE')
    })
    response.on('end', () => {
      if (!response.complete) return
      const { statusCode = 0, rawHeaders } = response
      this.end({ status: statusCode, headers: rawHeaders, body: waiting.takeAll(), address })
    })
    response.on('error', (error) => this.end(this.#failureOf(error)))
    response.on('close', () => this.end('BROKEN'))
  }

  #failureOf(error: Error): OutboundFailure | 'stale' {
    const code = codeOf(error) ?? ''
    if (code.startsWith('HPE_')) return 'RESPONSE_MALFORMED'
    if (this.#connected) {
      const stale = this.#sending.reusedSocket && !this.#answered && (code === 'ECONNRESET' || code === 'EPIPE')
      return stale ? 'stale' : 'BROKEN'
    }
    const { socket } = this.#sending
    return this.#secure && socket !== null && !socket.connecting && socket.remoteAddress !== undefined
      ? 'TLS_FAILED'
      : connectFailure(code, this.#secure)
  }
}

/** Errors of the system say that there was no connection; all others of a secure one are TLS's. */
function connectFailure(code: string, secure: boolean): OutboundFailure {
  return secure && !/^E(?!PROTO|RR_)[A-Z]+$/.test(code) ? 'TLS_FAILED' : 'CONNECT_FAILED'
}
