import { constants } from 'node:http2'

/** What nghttp2 calls what a client did wrong → how HTTP/2 says it (RFC 9113 7). */
const CODES: ReadonlyMap<unknown, number> = new Map([
  // NGHTTP2_ERR_PROTO, _STREAM_CLOSED, _FRAME_SIZE_ERROR, _HEADER_COMP, _FLOW_CONTROL
  [-505, constants.NGHTTP2_PROTOCOL_ERROR],
  [-510, constants.NGHTTP2_STREAM_CLOSED],
  [-522, constants.NGHTTP2_FRAME_SIZE_ERROR],
  [-523, constants.NGHTTP2_COMPRESSION_ERROR],
  [-524, constants.NGHTTP2_FLOW_CONTROL_ERROR]
])

/** The code for GOAWAY of an error that ends a session; undefined when it says nothing of the client. */
export function errorCode(error: unknown): number | undefined {
  return error instanceof Error ? CODES.get((error as NodeJS.ErrnoException).errno) : undefined
}
