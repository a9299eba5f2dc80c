import { Socket } from 'node:net'
import { constants } from 'node:os'
import type { Duplex, Readable, Writable } from 'node:stream'
import type { TLSSocket } from 'node:tls'
import type { BytePipe, Failure } from '../flow/exchange.js'
import { lostBytesOf } from './broken-writes.js'

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
    if (lostBytesOf(source) === 0) done(true)
    // The end is a reset, which must not overtake what was read before it.
    else sink.write('', () => done(false))
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
  readonly idle: number

  /** `idle`: as in `BytePipe`. */
  constructor(duplex: Duplex, idle = 0) {
    this.duplex = duplex
    this.idle = idle
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

/** A stream that stands for a socket which it does not own as a stream. */
interface Carried {
  readonly carrier: Duplex
}

/** The stream whose handle is the connection of `stream`: itself, unless it stands for another one. */
export function carrierOf(stream: Duplex): Duplex {
  return (stream as Partial<Carried>).carrier ?? stream
}

/**
 * Has the peer reset the TCP connection of this socket? Node reports a reset only while it reads, and it does not read behind a FIN or
 * while the socket is paused; the system says that the connection has no peer any more. False for streams without a TCP connection.
 */
export function isReset(socket: Duplex): boolean {
  const { _handle: handle } = socket as unknown as { _handle?: { getpeername?(out: object): number } | null }
  return handle?.getpeername !== undefined && handle.getpeername({}) === -constants.errno.ENOTCONN
}

/** Lets the system probe a silent connection, so that a peer that has vanished is noticed. `delay`: milliseconds of silence; 0: no probes. */
export function keepAlive(socket: Socket, delay = 0): void {
  if (delay > 0) socket.setKeepAlive(true, delay)
}

/**
 * Its FIN is handed over but has not left. The system takes no reset then, and node forgets the open handle with the refusal:
 * the connection would stay for ever. A plain end says no more than the FIN does.
 */
function shutting(socket: Socket): boolean {
  return socket.writableEnded && !socket.writableFinished && socket.writableLength === 0
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
