import type { MuxStream } from '../protocol/stream.js'
import { Fields, JsonObjectReader } from './json-object.js'

/** Reads the one JSON object of a call from a stream whose type has been read. Undefined: it is none, or the stream is over. */
export function readCall(stream: MuxStream, most: number): Promise<Fields | undefined> {
  const reader = new JsonObjectReader(most)
  return new Promise((resolve) => {
    const finish = (fields: Fields | undefined): void => {
      stream.removeListener('data', onData)
      stream.removeListener('close', onEnd)
      stream.removeListener('end', onEnd)
      // What else comes on a call is nothing to wait for.
      if (!stream.destroyed) stream.resume()
      resolve(fields)
    }
    const onData = (chunk: Buffer): void => {
      const object = reader.read(chunk)
      if (object === 'invalid') finish(undefined)
      else if (object !== 'more') finish(new Fields(object))
    }
    const onEnd = (): void => finish(undefined)
    stream.on('data', onData)
    stream.on('close', onEnd)
    stream.on('end', onEnd)
  })
}

/** Answers a call and ends the stream: some agents read until its end. */
export function answerCall(stream: MuxStream, answer: object): void {
  if (stream.destroyed || stream.writableEnded) return
  stream.end(JSON.stringify(answer))
}
