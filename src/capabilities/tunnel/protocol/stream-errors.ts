import { CodedError, defineErrors } from '../../../lib/errors.js'
import { MuxCode } from './frame.js'

/** Why a stream of a tunnel broke. */
export const streamErrors = defineErrors({
  TUNNEL_STREAM_RESET: { text: 'The other side gave the stream up.', help: 'Look into the log of the other side.' },
  TUNNEL_SESSION_ENDED: { text: 'The connection of the tunnel ended.', help: 'Nothing: the agent connects again.' },
  TUNNEL_FLOW_CONTROL: {
    text: 'The other side sent more than it was allowed to.',
    help: 'Report it: one of the two programs is faulty.'
  }
})

type StreamCode = keyof typeof streamErrors

/** Why a stream broke: `TUNNEL_STREAM_RESET` (by the peer), `TUNNEL_SESSION_ENDED`, `TUNNEL_FLOW_CONTROL`. */
export class StreamError extends CodedError {
  /** The peer's code of a reset. */
  readonly reset: number | undefined

  constructor(code: StreamCode, message: string, reset?: number) {
    super(streamErrors[code], message)
    this.reset = reset
  }
}

/** Codes by which a peer reports that it has not read a stream. */
export const refusalCodes: ReadonlySet<number | undefined> = new Set([
  MuxCode.refused,
  MuxCode.acceptQueueFull,
  MuxCode.remoteGoneAway,
  MuxCode.streamsExhausted
])
