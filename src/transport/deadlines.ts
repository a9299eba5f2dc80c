import type { Socket } from 'node:net'
import type { AbortSignalLike, Exchange, Failure, RequestHead } from '../flow/exchange.js'
import type { HeaderList } from '../flow/headers.js'
import type { ListenLimits } from './contract.js'
import type { MalformedMessage } from './message-scanner.js'

/** Time for the client to close its end, so that RST does not overtake the last response (ms). */
export const LINGER = 1000
/** Response to a request that does not arrive in time. */
export const OVERTIME: MalformedMessage = { status: 408, why: 'client-timeout' }

type Run = (why: Failure) => void

const nothing = (): void => undefined

const CONTENT_TYPE = 'content-type'

/**
 * Maximum silence in both directions while bytes of the client are due (ms; 0 for no limit): before the response begins, the upload
 * timeout. gRPC streams may wait from their beginning. Undefined for the rest of a request with a complete response.
 */
export function silenceAllowed(
  exchange: { readonly begun: boolean; readonly request: Pick<RequestHead, 'headers'> } | undefined,
  { bodyIdle, streamIdle = bodyIdle }: Pick<ListenLimits, 'bodyIdle' | 'streamIdle'>
): number {
  if (exchange === undefined) return bodyIdle
  return exchange.begun || isOfType(exchange.request.headers, 'application/grpc') ? streamIdle : bodyIdle
}

/**
 * Returns whether a client has closed its direction after a complete request and waits for the response, as `nc -N` and load balancers do.
 * Over TLS, closing ends the connection (RFC 5246 7.2.1), a pipe needs both directions, and a client that reads events closes when it
 * leaves.
 */
export function awaitsAnswer(
  exchange: Pick<Exchange, 'connection' | 'upgrade'> & { readonly streamsEvents: boolean },
  { abortOnClose }: Pick<ListenLimits, 'abortOnClose'>
): boolean {
  const { connection, upgrade, streamsEvents } = exchange
  return connection.tls === undefined && upgrade === undefined && !streamsEvents && abortOnClose !== true
}

/**
 * Returns whether a client that has closed its direction has been silent for too long: until something is written, a disconnected client
 * looks the same.
 */
export function isAbandoned(silence: number, { halfClosed = 0 }: Pick<ListenLimits, 'halfClosed'>): boolean {
  return halfClosed > 0 && silence > halfClosed
}

/** Returns whether the content type of a head begins with this text, in lower case. */
export function isOfType(headers: HeaderList, type: string): boolean {
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] as string
    if (name.length === CONTENT_TYPE.length && name.toLowerCase() === CONTENT_TYPE)
      return (headers[i + 1] as string).toLowerCase().startsWith(type)
  }
  return false
}

/** Detects a peer that does not read: bytes are pending and none is accepted. */
export class WriteWatch {
  #taken = 0
  #since = -1
  #written = 0

  /** Returns whether anything was written since the last call. `written`: total bytes. */
  moved(written: number): boolean {
    const moved = written !== this.#written
    this.#written = written
    return moved
  }

  /**
   * Returns whether no pending byte was accepted for more than `allowed` milliseconds (0: never), and nothing was received since `heardAt`.
   * Times of the monotonic clock.
   */
  stuck(socket: Pick<Socket, 'bytesWritten' | 'writableLength'>, now: number, allowed: number, heardAt = 0): boolean {
    const waiting = socket.writableLength
    if (waiting === 0 || allowed === 0) {
      this.#since = -1
      return false
    }
    const taken = socket.bytesWritten - waiting
    if (taken !== this.#taken || this.#since === -1) {
      this.#taken = taken
      this.#since = now
      return false
    }
    return now - Math.max(this.#since, heardAt) > allowed
  }
}

/** List of abort listeners: costs one object per exchange, and a set only for a second listener. */
export class AbortList implements AbortSignalLike {
  #aborted: Failure | undefined = undefined
  #first: Run | undefined = undefined
  #others: Set<Run> | undefined = undefined

  get aborted(): Failure | undefined {
    return this.#aborted
  }

  onAbort(run: Run): () => void {
    if (this.#aborted !== undefined) {
      run(this.#aborted)
      return nothing
    }
    if (this.#first === undefined) this.#first = run
    else {
      this.#others ??= new Set()
      this.#others.add(run)
    }
    return () => {
      if (this.#first === run) this.#first = undefined
      else this.#others?.delete(run)
    }
  }

  /** Fires once; further calls have no effect. */
  abort(why: Failure): void {
    if (this.#aborted !== undefined) return
    this.#aborted = why
    const first = this.#first
    const others = this.#others
    this.#first = this.#others = undefined
    first?.(why)
    if (others !== undefined) for (const run of others) run(why)
  }
}
