import type { Readable, Writable } from 'node:stream'

/** How a copy ended: all of it (`true`), or the source broke or the sink closed before. Called once. */
export type Copied = (complete: boolean) => void

/**
 * Moves bytes from `source` to `sink` with back-pressure and constant memory; leaves both open at the end, because
 * who owns them decides how they end (trailers, half-close, abort). Returns the way to stop, which detaches
 * and pauses the source without a report.
 */
export function copy(
  source: Readable,
  sink: Writable,
  carried: ((bytes: number) => void) | undefined,
  done: Copied
): () => void {
  const onData = (chunk: Uint8Array): void => {
    carried?.(chunk.length)
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
  // A source that somebody paused does not flow again by a listener alone.
  else source.resume()
  return () => {
    detach()
    source.pause()
  }
}

export function ignore(): void {
  // Listens so that an 'error' event is not thrown; who needs the end of the stream hears 'close'.
}
