import type { MuxSession } from '../protocol/session.js'
import { readCall } from '../server/call.js'
import type { Fields } from '../server/json-object.js'
import { CALL } from '../server/limits.js'
import { typed } from '../server/stream-type.js'

/** Makes one call and waits for its answer; undefined: there is none. */
export async function call(session: MuxSession, type: number, request: object): Promise<Fields | undefined> {
  const stream = session.openStream(typed(type, Buffer.from(JSON.stringify(request))))
  if (stream === undefined) return undefined
  const answer = await readCall(stream, CALL)
  if (!stream.destroyed) stream.end()
  return answer
}
