import type { Socket } from 'node:net'
import type { AbortSignalLike, Exchange, Failure, RequestHead } from '../flow/exchange.js'
import type { HeaderList } from '../flow/headers.js'
import type { ListenLimits } from './contract.js'
import type { MalformedMessage } from './message-scanner.js'

/** How long a closed direction waits for the client's own end, so that RST does not overtake the last answer. Milliseconds. */
export const LINGER = 1000
/** Answers a request that does not come in time. */
export const OVERTIME: MalformedMessage = { status: 408, why: 'client-timeout' }

type Run = (why: Failure) => void

const nothing = (): void => undefined

const CONTENT_TYPE = 'content-type'

/**
 * How long an exchange may be silent in both directions while bytes of its client are due: before its answer begins that is the time
 * of an upload. Streams of gRPC may wait from their beginning. Undefined: what is left of a request that has its answer. Milliseconds; 0: for ever.
 */
export function silenceAllowed(
  exchange: { readonly begun: boolean; readonly request: Pick<RequestHead, 'headers'> } | undefined,
  { bodyIdle, streamIdle = bodyIdle }: Pick<ListenLimits, 'bodyIdle' | 'streamIdle'>
): number {
  if (exchange === undefined) return bodyIdle
  return exchange.begun || isOfType(exchange.request.headers, 'application/grpc') ? streamIdle : bodyIdle
}

/**
 * True for a client that has ended its direction behind a whole request and waits for the answer, as `nc -N` and load balancers do it. Over TLS such
 * an end is that of the connection (RFC 5246 7.2.1), a client that asks for a pipe needs both directions, and one that reads events ends its own when it leaves.
 */
export function awaitsAnswer(
  exchange: Pick<Exchange, 'connection' | 'upgrade'> & { readonly streamsEvents: boolean },
  { abortOnClose }: Pick<ListenLimits, 'abortOnClose'>
): boolean {
  const { connection, upgrade, streamsEvents } = exchange
  return connection.tls === undefined && upgrade === undefined && !streamsEvents && abortOnClose !== true
}

/** True when a client that has ended its direction has waited in silence for too long: until something is written, one that has closed looks the same. */
export function isAbandoned(silence: number, { halfClosed = 0 }: Pick<ListenLimits, 'halfClosed'>): boolean {
  return halfClosed > 0 && silence > halfClosed
}

/** Does a head say that its content is of a type that begins with this text, in lower case? */
export function isOfType(headers: HeaderList, type: string): boolean {
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] as string
    if (name.length === CONTENT_TYPE.length && name.toLowerCase() === CONTENT_TYPE)
      return (headers[i + 1] as string).toLowerCase().startsWith(type)
  }
  return false
}

/** Notices a peer that does not read: bytes wait for it and none of them is taken. */
export class WriteWatch {
  #taken = 0
  #since = -1
  #written = 0

  /** Has anything been written since the last call? `written`: bytes in all. */
  moved(written: number): boolean {
    const moved = written !== this.#written
    this.#written = written
    return moved
  }

  /**
   * True when nothing of what waits was taken for more than `allowed` milliseconds (0: never), nor came after `heardAt`. Times are of the
   * monotonic clock.
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

/** The list behind `AbortSignalLike`: costs one object per exchange, and a set only for a second listener. */
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

  /** Fires once; a second call changes nothing. */
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
