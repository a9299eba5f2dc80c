import type { Http2Stream } from 'node:http2'
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { TLSSocket } from 'node:tls'
import type { BytePipe, Failure } from '../flow/exchange.js'
import { ignore } from './copy.js'

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

/** Lets a reset of `secure` reach the TCP connection below, because TLS has none of its own. */
export function resetBelow(secure: TLSSocket, below: Socket): void {
  secure.resetAndDestroy = () => {
    if (shutting(secure)) below.destroy()
    else below.resetAndDestroy()
    return secure
  }
}

/** Ends a stream so that its peer cannot take the end for a clean one: RST where there is TCP, RST_STREAM on HTTP/2. */
export function cut(stream: Duplex): void {
  if (stream.destroyed) return
  if (stream instanceof Socket && (!('encrypted' in stream) || Object.hasOwn(stream, 'resetAndDestroy'))) {
    if (shutting(stream)) stream.destroy()
    else stream.resetAndDestroy()
  } else if ('rstCode' in stream) resetStream(stream as Http2Stream)
  else stream.destroy()
}

/**
 * Its FIN is handed over but has not left. The system takes no reset then, and node forgets the open handle with the refusal:
 * the connection would stay for ever. A plain end says no more than the FIN does.
 */
function shutting(socket: Socket): boolean {
  return socket.writableEnded && !socket.writableFinished && socket.writableLength === 0
}

/**
 * RST_STREAM with INTERNAL_ERROR. `Http2Stream.close` ends the writable side first, so that a message without a length looks
 * complete to the client; of all the ways to end a stream only one with an error sends no END_STREAM.
 */
export function resetStream(stream: Http2Stream): void {
  if (stream.destroyed) return
  stream.on('error', ignore)
  stream.destroy(new Error('the stream is given up'))
}
