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

/** Names of the fields in which a socket keeps the options `onread`. */
const FIELDS = ['kBuffer', 'kBufferCb', 'kBufferGen'] as const

/**
 * Makes a TLS socket read into buffers of `onread`: otherwise Node allocates 16 KiB for each record, and a stream carries it. Node makes no
 * server's TLS socket with `onread`, so this uses undocumented fields of `node:net`. False, and the socket is unchanged: it is another stream, has
 * ended, holds bytes that were read, would close at its end with bytes unread (see `LateReads`), or this Node has no such fields.
 */
export function readsIntoOwn(pipe: Duplex, { buffer, callback }: OnReadOpts & { buffer: () => Uint8Array }): boolean {
  if (!(pipe instanceof Socket && 'encrypted' in pipe) || !pipe.allowHalfOpen) return false
  if (pipe.destroyed || pipe.readableLength > 0 || pipe.readableEnded) return false
  const { _handle: handle } = pipe as unknown as { _handle: { useUserBuffer?(buffer: Uint8Array): void } | null }
  const symbols = Object.getOwnPropertySymbols(pipe)
  const [first, onRead, next] = FIELDS.map((name) => symbols.find(({ description }) => description === name))
  if (first === undefined || onRead === undefined || next === undefined) return false
  if (typeof handle?.useUserBuffer !== 'function') return false
  const bytes = buffer()
  Object.assign(pipe, { [first]: bytes, [onRead]: callback, [next]: buffer })
  handle.useUserBuffer(bytes)
  return true
}

/**
 * Records of TLS that were decrypted after the reader had paused: OpenSSL gives all of one read of the socket. They are passed on after it
 * resumes, before the end and the close that follow them.
 */
export class LateReads {
  readonly #pieces: Buffer[] = []
  /** The end follows the pieces. */
  ended = false
  /** The close follows the end. */
  closed = false

  /** Copies bytes that are valid only now. */
  push(chunk: Buffer, length: number): void {
    this.#pieces.push(Buffer.from(chunk.subarray(0, length)))
  }

  /** Removes and returns the next piece; undefined after the last one. */
  shift(): Buffer | undefined {
    return this.#pieces.shift()
  }

  get pending(): boolean {
    return this.#pieces.length > 0
  }
}
