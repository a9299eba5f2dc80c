import { Socket } from 'node:net'
import { constants } from 'node:os'
import type { Duplex, Readable, Writable } from 'node:stream'
import type { TLSSocket } from 'node:tls'
import type { BytePipe, Failure } from '../flow/exchange.js'
import { lostBytesOf } from './broken-writes.js'

/** Result of a copy: complete (`true`), or the source failed or the sink closed early. Called once. */
type Copied = (complete: boolean) => void

/**
 * Copies bytes from `source` to `sink` with back-pressure and constant memory; leaves both open, because their owners decide how they end
 * (trailers, half-close, abort). Returns a function that stops, which detaches and pauses the source without a report.
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
    // The end is a reset, which must not overtake earlier data.
    else sink.write('', () => done(false))
  }
  const onBreak = (): void => {
    detach()
    // An error without a listener would crash the process; it has been reported.
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
  // A paused source does not resume by adding a listener.
  else source.resume()
  return () => {
    detach()
    source.pause()
  }
}

/** Listener for 'error' events that are handled elsewhere. */
export function ignore(): void {
  // Prevents an 'error' event from being thrown; readers that need the end of the stream listen to 'close'.
}

/** Adapts any duplex stream to a `BytePipe`. */
export class StreamPipe implements BytePipe {
  readonly duplex: Duplex
  readonly idle: number

  /** `idle`: see `BytePipe`. */
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

/** Default reason of an `unreached` pipe. */
export const TURNED_AWAY = { failure: 'dial-refused', message: 'turned away unread' } as const

/** Forwards a reset of `secure` to the TCP connection below, because TLS has none. */
export function resetBelow(secure: TLSSocket, below: Socket): void {
  secure.resetAndDestroy = () => {
    if (shutting(secure)) below.destroy()
    else below.resetAndDestroy()
    return secure
  }
}

/** Ends a stream so that its peer does not see a clean end: RST on TCP; an HTTP/2 stream sends RST_STREAM itself. */
export function cut(stream: Duplex): void {
  if (stream.destroyed) return
  if (stream instanceof Socket && (!('encrypted' in stream) || Object.hasOwn(stream, 'resetAndDestroy'))) {
    if (shutting(stream)) stream.destroy()
    else stream.resetAndDestroy()
  } else stream.destroy()
}

/** A stream that represents a socket without owning it. */
interface Carried {
  readonly carrier: Duplex
}

/** Returns the stream whose handle is the connection of `stream`: itself, unless it represents another one. */
export function carrierOf(stream: Duplex): Duplex {
  return (stream as Partial<Carried>).carrier ?? stream
}

/**
 * Returns whether the peer has reset this socket's TCP connection. Node reports a reset only while reading, and does not read after a FIN
 * or while paused; the system reports that the connection has no peer. False for streams without a TCP connection.
 */
export function isReset(socket: Duplex): boolean {
  const { _handle: handle } = socket as unknown as { _handle?: { getpeername?(out: object): number } | null }
  return handle?.getpeername !== undefined && handle.getpeername({}) === -constants.errno.ENOTCONN
}

/** Enables TCP keep-alive, to detect a vanished peer. `delay`: idle time in milliseconds; 0 for no probes. */
export function keepAlive(socket: Socket, delay = 0): void {
  if (delay > 0) socket.setKeepAlive(true, delay)
}

/**
 * Returns whether a FIN is queued but not sent. The system then accepts no reset, and node loses the open handle: the connection would
 * remain forever. A plain end has the same effect as the FIN.
 */
function shutting(socket: Socket): boolean {
  return socket.writableEnded && !socket.writableFinished && socket.writableLength === 0
}

/**
 * Reads the start of a paused socket: passes chunks to `take` until it has enough; bytes for the next reader are put back (`unshift`).
 * `ended`: the client's direction ended before. Returns a function that stops.
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
