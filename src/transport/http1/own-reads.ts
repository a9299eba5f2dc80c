import { type OnReadOpts, Socket, type SocketConstructorOpts } from 'node:net'
import type { Duplex } from 'node:stream'
import { ignore } from '../pipes.js'

/**
 * Moves the connection of a TCP socket to a new socket that reads into buffers of `onread`. Node takes `onread` only when a socket is made, and
 * an accepted one is made by Node, so this uses the undocumented field `_handle` and option `handle` of `node:net`. Undefined, and the pipe is
 * unchanged: it is no plain TCP socket, has ended, or holds bytes that were read or wait to be written.
 */
export function withOwnReads(pipe: Duplex, onread: OnReadOpts): Socket | undefined {
  if (!(pipe instanceof Socket) || 'encrypted' in pipe) return undefined
  const holder = pipe as unknown as { _handle: object | null | undefined }
  const handle = holder._handle
  if (handle === null || handle === undefined || pipe.destroyed) return undefined
  if (pipe.readableLength > 0 || pipe.writableLength > 0 || pipe.readableEnded) return undefined
  holder._handle = null
  pipe.on('error', ignore)
  pipe.destroy()
  const options: SocketConstructorOpts & { handle: object; onread: OnReadOpts } = {
    handle,
    allowHalfOpen: true,
    onread
  }
  return new Socket(options)
}
