import { pipeline } from 'node:stream'
import type { MuxStream } from '../protocol/stream.js'
import { JsonObjectReader } from '../server/json-object.js'
import { readBytes } from '../server/stream-type.js'
import { connectTarget, type Target } from './target.js'

const LENGTH_BYTES = 8
const MOST_HEADER = 65_536

/** A visitor's connection on its way to a target. */
export interface VisitorHead {
  readonly tunnelId: string
  /** ip:port. */
  readonly from: string
  /** Does it speak HTTP? Else its bytes are anything. */
  readonly http: boolean
}

/** Reads the head of a visitor's stream whose type has been read; a malformed one is refused. */
export function readVisitor(stream: MuxStream, found: (head: VisitorHead) => void): void {
  readBytes(stream, LENGTH_BYTES, (bytes) => {
    const length = bytes.readBigInt64LE(0)
    if (length < 2n || length > MOST_HEADER) {
      stream.refuse()
      return
    }
    readBytes(stream, Number(length), (text) => {
      const head = new JsonObjectReader(MOST_HEADER).read(text)
      if (typeof head === 'string' || typeof head.Id !== 'string') stream.refuse()
      else {
        const from = typeof head.ClientAddr === 'string' ? head.ClientAddr : ''
        found({ tunnelId: head.Id, from, http: head.Proto === 'http' || head.Proto === 'https' })
      }
    })
  })
}

/**
 * Joins a visitor's stream and a new connection to the target, both ways with back-pressure and half-close. A target
 * that cannot be reached is told to `failed` and refuses the stream unread, so that the server may try another agent.
 */
export function forwardVisitor(stream: MuxStream, target: Target, failed: (why: string) => void): void {
  const { socket, ready } = connectTarget(target)
  const giveUp = (): void => {
    socket.destroy()
  }
  const refuse = (error: NodeJS.ErrnoException): void => {
    stream.removeListener('close', giveUp)
    if (stream.destroyed) return
    failed(error.code ?? error.message)
    stream.refuse()
  }
  socket.once('error', refuse)
  stream.once('close', giveUp)
  socket.once(ready, () => {
    socket.removeListener('error', refuse)
    stream.removeListener('close', giveUp)
    // A break of one destroys the other; nobody else waits for it.
    pipeline(stream, socket, ended)
    pipeline(socket, stream, ended)
  })
}

function ended(): void {
  // Both pipelines clean up after themselves.
}
