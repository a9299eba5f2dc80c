import type { Duplex, Readable } from 'node:stream'

/** Errors of a write to a closed peer. Earlier data of the peer may still wait in the kernel. */
const CLOSED_BY_PEER: ReadonlySet<string | undefined> = new Set(['EPIPE', 'ECONNRESET', 'ECONNABORTED'])

type Done = (error?: Error | null) => void
type Written = { chunk: Uint8Array; encoding: BufferEncoding }[]

interface ReadableAfterReset {
  lostBytes?: number
}

/**
 * Returns the number of bytes written to `stream` after its peer had reset the connection. Above 0, the end of reading is a reset and not a
 * clean end: the failed write has consumed the socket's error, so that the read side ends with EOF.
 */
export function lostBytesOf(stream: Readable): number {
  return (stream as ReadableAfterReset).lostBytes ?? 0
}

/** Returns whether `readAfterReset` was called for the stream. */
export function readsAfterReset(stream: Duplex): boolean {
  return (stream as ReadableAfterReset).lostBytes !== undefined
}

/**
 * Keeps `stream` open for reading if its peer closes while we still write: node destroys a socket whose write fails, together with an
 * unread response. Later writes are discarded and counted (`lostBytesOf`); the stream ends when its read side does. Linux keeps received
 * bytes readable after a reset.
 */
export function readAfterReset(stream: Duplex): void {
  const target = stream as Duplex & ReadableAfterReset & { _writev?: (chunks: Written, done: Done) => void }
  if (target.lostBytes !== undefined) return
  target.lostBytes = 0
  const { _write: write, _writev: writeAll } = target
  let reset = false
  let size = 0
  let done: Done | undefined
  const settle = (error?: Error | null): void => {
    const settled = done as Done
    if (error && CLOSED_BY_PEER.has((error as NodeJS.ErrnoException).code)) {
      reset = true
      discard(size, settled)
    } else settled(error)
  }
  const discard = (bytes: number, settled: Done): void => {
    target.lostBytes = (target.lostBytes ?? 0) + bytes
    settled()
  }
  // A stream writes one piece at a time, so that one callback suffices.
  target._write = (chunk: Uint8Array, encoding, settled) => {
    if (reset) return discard(chunk.length, settled)
    size = chunk.length
    done = settled
    return write.call(stream, chunk, encoding, settle)
  }
  if (typeof writeAll !== 'function') return
  target._writev = (chunks, settled) => {
    let bytes = 0
    for (const { chunk } of chunks) bytes += chunk.length
    if (reset) return discard(bytes, settled)
    size = bytes
    done = settled
    return writeAll.call(stream, chunks, settle)
  }
}
