import type { Socket } from 'node:net'

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
