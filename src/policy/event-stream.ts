import { EventStreamTransform } from '../flow/event-stream.js'
import type { Flow } from '../flow/flow.js'
import { refuse, type Verdict } from '../flow/verdict.js'
import type { BodyBuffers } from './body-buffers.js'
import { codingsOf, decoders } from './content-coding.js'
import { type CompiledPhase, runPhase } from './run.js'

/** Of the bytes before the rules changed them; a stream is not fetched in parts either. */
const DROPPED = ['content-encoding', 'content-length', 'content-md5', 'digest', 'content-digest', 'repr-digest']

/** Answers when the stream came in a content coding that cannot be undone. */
const ENCODING = refuse(502, 'RESPONSE_ENCODING')

/**
 * Has the rules of `on_event_stream_message` run on each message of the response, while it streams. Does nothing when the
 * response is no event stream. A verdict of the rules ends the stream in a way that no client takes for its end.
 *
 * Called once, when the response steps of a policy are done: what comes after sees the stream without a content coding.
 */
export function watchEventStream(phase: CompiledPhase, flow: Flow, bodies: BodyBuffers): Verdict | undefined {
  const { response } = flow
  if (response?.body === undefined || !isEventStream(response.headers.get('content-type'))) return undefined
  if (response.status === 204 || response.status === 304 || flow.request?.method === 'HEAD') return undefined
  const undo = decoders(codingsOf(response.headers))
  if (undo === undefined) return ENCODING
  for (const name of DROPPED) response.headers.delete(name)
  response.transforms.push(...undo, () => messages(phase, flow, bodies))
  return undefined
}

function messages(phase: CompiledPhase, flow: Flow, bodies: BodyBuffers): EventStreamTransform {
  return new EventStreamTransform({
    maxMessage: bodies.each,
    each(message) {
      flow.message = message
      const verdict = runPhase(phase, flow)
      return verdict instanceof Promise ? verdict.then((late) => late === undefined) : verdict === undefined
    },
    hold(difference) {
      if (difference > 0) return bodies.reserve(flow, difference) === undefined
      bodies.release(flow, -difference)
      return true
    }
  })
}

function isEventStream(contentType: string | undefined): boolean {
  return ((contentType ?? '').split(';')[0] as string).trim().toLowerCase() === 'text/event-stream'
}
