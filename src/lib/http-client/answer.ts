import { defineErrors, messageOf } from '../errors.js'

/** Error codes of outbound requests. */
export const outboundErrors = defineErrors({
  URL_INVALID: {
    text: 'The URL is no absolute http or https URL.',
    help: 'Write the whole URL, without a user and a password.'
  },
  NAME_UNRESOLVED: {
    text: 'The name of the host has no address.',
    help: 'Correct the name, or look at the DNS servers.'
  },
  ADDRESS_REFUSED: {
    text: 'The address of the host is not public, and outbound.allow_private does not allow it.',
    help: 'Name the network in outbound.allow_private if it should be reached.'
  },
  CONNECT_FAILED: {
    text: 'No connection could be made.',
    help: 'Look whether the receiver runs and whether a firewall is between.'
  },
  TLS_FAILED: {
    text: 'The TLS handshake failed.',
    help: 'Look at the certificate of the receiver; an authority of your own is named in outbound.ca.'
  },
  TIMEOUT: {
    text: 'The time ran out.',
    help: 'Find out why the receiver is slow, or allow more time where it can be set.'
  },
  RESPONSE_TOO_LARGE: { text: 'The response is too large.', help: 'Let the receiver answer with less.' },
  RESPONSE_MALFORMED: {
    text: 'The response is no valid HTTP message.',
    help: 'Correct the receiver, or look whether the URL names the right port.'
  },
  BROKEN: {
    text: 'The connection ended before the response did.',
    help: 'Look into the log of the receiver.'
  },
  ABORTED: {
    text: 'The request was given up.',
    help: 'Nothing: the client has disconnected, or the process is stopping.'
  }
})

/** Code of a failed outbound request. */
export type OutboundFailure = keyof typeof outboundErrors

/** An outbound request of the proxy itself. */
export interface OutboundRequest {
  readonly method: string
  readonly url: string
  /** Flat list of names and values. The client adds Host, unless present, and the framing fields. */
  readonly headers?: readonly string[]
  readonly body?: Uint8Array | undefined
  /** Timeout for the whole response (ms). */
  readonly deadline: number
  readonly maxResponseBytes: number
  /** Safe to repeat, although its method does not imply it: may use an existing connection. */
  readonly repeatable?: boolean
  readonly signal?: AbortSignal
}

/** The complete response. */
export interface OutboundResponse {
  readonly ok: true
  readonly status: number
  /** Flat list of names and values, as received. */
  readonly headers: readonly string[]
  readonly body: Uint8Array
  /** Remote address of the connection. */
  readonly address: string
  readonly timeMs: number
}

/** A failed request. */
export interface OutboundError {
  readonly ok: false
  readonly code: OutboundFailure
  /** One sentence without data of the exchange. */
  readonly message: string
  readonly timeMs: number
}

/** Creates the failure of a request after `timeMs` milliseconds. */
export function outboundError(code: OutboundFailure, timeMs: number): OutboundError {
  return { ok: false, code, message: messageOf(outboundErrors[code]), timeMs }
}
/** Cancellation of a request by its deadline (milliseconds from now) or its signal. */
export class OutboundCut {
  /** Resolves on cancellation; otherwise stays pending. */
  readonly happened: Promise<'TIMEOUT' | 'ABORTED'>
  readonly #timer: NodeJS.Timeout
  readonly #signal: AbortSignal | undefined
  readonly #abort = (): void => this.#cut('ABORTED')
  #resolve: (why: 'TIMEOUT' | 'ABORTED') => void = () => undefined
  #why: 'TIMEOUT' | 'ABORTED' | undefined
  #run: ((why: 'TIMEOUT' | 'ABORTED') => void) | undefined

  constructor(deadline: number, signal: AbortSignal | undefined) {
    this.happened = new Promise((resolve) => {
      this.#resolve = resolve
    })
    this.#signal = signal
    this.#timer = setTimeout(() => this.#cut('TIMEOUT'), Math.max(0, deadline))
    if (signal?.aborted === true) this.#abort()
    else signal?.addEventListener('abort', this.#abort)
  }

  /** Sets the callback, replacing the previous one. */
  onCut(run: (why: 'TIMEOUT' | 'ABORTED') => void): void {
    this.#run = run
    if (this.#why !== undefined) run(this.#why)
  }

  over(): void {
    clearTimeout(this.#timer)
    this.#signal?.removeEventListener('abort', this.#abort)
  }

  #cut(why: 'TIMEOUT' | 'ABORTED'): void {
    this.#why = why
    this.#resolve(why)
    this.#run?.(why)
  }
}
