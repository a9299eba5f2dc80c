import { Socket } from 'node:net'
import type { Duplex, Readable, Writable } from 'node:stream'
import type { TLSSocket } from 'node:tls'
import type { BytePipe, Failure } from '../flow/exchange.js'

/** How a copy ended: all of it (`true`), or the source broke or the sink closed before. Called once. */
type Copied = (complete: boolean) => void

/**
 * Moves bytes from `source` to `sink` with back-pressure and constant memory; leaves both open at the end, because
 * who owns them decides how they end (trailers, half-close, abort). Returns the way to stop, which detaches
 * and pauses the source without a report.
 */
export function copy(
  source: Readable,
  sink: Writable,
  carried: ((bytes: number, chunk: Uint8Array) => void) | undefined,
  done: Copied
): () => void {
  const onData = (chunk: Uint8Array): void => {
    carried?.(chunk.length, chunk)
    if (!sink.write(chunk)) source.pause()
  }
  const onDrain = (): void => {
    source.resume()
  }
  const detach = (): void => {
    source.removeListener('data', onData)
    source.removeListener('end', onEnd)
    source.removeListener('close', onBreak)
    source.removeListener('error', onBreak)
    sink.removeListener('drain', onDrain)
    sink.removeListener('close', onBreak)
  }
  const onEnd = (): void => {
    detach()
    done(true)
  }
  const onBreak = (): void => {
    detach()
    // An error without a listener would end the process; the report is already made.
    source.on('error', ignore)
    done(false)
  }
  source.on('data', onData)
  source.on('end', onEnd)
  source.on('close', onBreak)
  source.on('error', onBreak)
  sink.on('drain', onDrain)
  sink.on('close', onBreak)
  if (source.destroyed && !source.readableEnded) process.nextTick(onBreak)
  // A source that was paused does not flow again by a listener alone.
  else source.resume()
  return () => {
    detach()
    source.pause()
  }
}

/** A listener for 'error' events that others handle. */
export function ignore(): void {
  // Listens so that an 'error' event is not thrown; the readers that need the end of the stream listen to 'close'.
}

/** Any duplex stream as a `BytePipe`. */
export class StreamPipe implements BytePipe {
  readonly duplex: Duplex

  constructor(duplex: Duplex) {
    this.duplex = duplex
  }

  end(): void {
    this.duplex.end()
  }

  destroy(_why: Failure): void {
    cut(this.duplex)
  }
}

/** Why a pipe was `unreached` whose carrier says no more. */
export const TURNED_AWAY = { failure: 'dial-refused', message: 'turned away unread' } as const

/** Lets a reset of `secure` reach the TCP connection below, because TLS has none of its own. */
export function resetBelow(secure: TLSSocket, below: Socket): void {
  secure.resetAndDestroy = () => {
    if (shutting(secure)) below.destroy()
    else below.resetAndDestroy()
    return secure
  }
}

/** Ends a stream so that its peer cannot take the end for a clean one: RST where there is TCP; one of HTTP/2 sends RST_STREAM itself. */
export function cut(stream: Duplex): void {
  if (stream.destroyed) return
  if (stream instanceof Socket && (!('encrypted' in stream) || Object.hasOwn(stream, 'resetAndDestroy'))) {
    if (shutting(stream)) stream.destroy()
    else stream.resetAndDestroy()
  } else stream.destroy()
}

/**
 * Its FIN is handed over but has not left. The system takes no reset then, and node forgets the open handle with the refusal:
 * the connection would stay for ever. A plain end says no more than the FIN does.
 */
function shutting(socket: Socket): boolean {
  return socket.writableEnded && !socket.writableFinished && socket.writableLength === 0
}

/** Called for the bytes of each direction. */
interface Counted {
  readonly fromA: (bytes: number) => void
  readonly fromB: (bytes: number) => void
}

/**
 * Joins two byte streams both ways with back-pressure. The end of one direction is passed on as a half-close; a break
 * in either cuts both. `done(clean)` once, when nothing can flow any more.
 */
export function join(a: Duplex, b: Duplex, done: (clean: boolean) => void, counted?: Counted): void {
  let open = 2
  let over = false
  const finish = (clean: boolean): void => {
    if (over) return
    over = true
    a.on('error', ignore)
    b.on('error', ignore)
    if (!clean) {
      cut(a)
      cut(b)
    }
    done(clean)
  }
  const direction = (from: Duplex, to: Duplex, carried: ((bytes: number) => void) | undefined): void => {
    copy(from, to, carried, (complete) => {
      if (over) return
      // A sink that closed after it had sent its own end takes nothing more; that is a break too.
      if (!complete) return finish(false)
      to.end()
      open--
      if (open === 0) finish(true)
      return undefined
    })
  }
  direction(a, b, counted?.fromA)
  direction(b, a, counted?.fromB)
}

/**
 * Reads the beginning of a paused socket: `take` gets each chunk as it comes, until it says that it has enough; what
 * belongs to the next reader it puts back (`unshift`). `ended`: the client's direction ended before. Returns the way to stop.
 */
export function readAhead(socket: Socket, take: (chunk: Buffer) => 'more' | 'enough', ended: () => void): () => void {
  const stop = (): void => {
    socket.removeListener('readable', onReadable)
    socket.removeListener('end', ended)
  }
  const onReadable = (): void => {
    for (;;) {
      const chunk = socket.read() as Buffer | null
      if (chunk === null) return
      if (take(chunk) === 'enough') {
        stop()
        return
      }
    }
  }
  socket.on('end', ended)
  socket.on('readable', onReadable)
  return stop
}
