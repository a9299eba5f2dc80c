import type { OutgoingMessage } from 'node:http'
import type { Writable } from 'node:stream'
import type { HeaderList } from '../flow/headers.js'
import { pairs } from './fields.js'

/** Where the body of a message goes whose head is settled. */
export interface MessageSink {
  readonly stream: Writable
  /** Ends the message after `last`; `trailers` follow where its framing has room for them. */
  finish(trailers: HeaderList | undefined, last?: Uint8Array): void
  /** Hears of the bytes of the body that were given to `stream`. */
  readonly carried?: (bytes: number) => void
}

/** A message of node:http, which is a writable stream in all but its type. */
export function httpSink(message: OutgoingMessage): MessageSink {
  return {
    stream: message as unknown as Writable,
    finish(trailers, last) {
      if (trailers !== undefined && trailers.length > 0) {
        // The first byte settles the framing; only then is it known whether trailers have a place.
        if (last !== undefined && last.length > 0) message.write(last)
        if (message.chunkedEncoding) message.addTrailers(pairs(trailers))
        message.end()
      } else if (last !== undefined && last.length > 0) message.end(last)
      else message.end()
    }
  }
}
