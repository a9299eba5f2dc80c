import { readCall } from '../call.js'
import type { Fields } from '../json-object.js'
import { CALL } from '../limits.js'
import type { MuxSession } from '../muxado/session.js'
import { typed } from '../stream-type.js'

/** Makes one call and waits for its answer; undefined: there is none. */
export async function call(session: MuxSession, type: number, request: object): Promise<Fields | undefined> {
  const stream = session.openStream(typed(type, Buffer.from(JSON.stringify(request))))
  if (stream === undefined) return undefined
  const answer = await readCall(stream, CALL)
  if (!stream.destroyed) stream.end()
  return answer
}
