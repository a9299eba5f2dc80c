import type { FlowResponse } from '../flow/flow.js'
import { HeaderFields, type HeaderList } from '../flow/headers.js'

/** Codes of gRPC by the status of an answer of ours; 429 alone differs from gRPC's http-grpc-status-mapping. */
const CODES: ReadonlyMap<number, number> = new Map([
  [400, 13],
  [401, 16],
  [403, 7],
  [404, 12],
  [429, 8],
  [502, 14],
  [503, 14],
  [504, 14]
])
const UNKNOWN = 2

const GRPC = /^application\/grpc(?:$|[+;])/i
/** Fields of the content that is left out. */
const OF_CONTENT: ReadonlySet<string> = new Set([
  'content-type',
  'content-encoding',
  'content-language',
  'grpc-status',
  'grpc-message'
])

/** Is this the request of a call of gRPC? */
export function isGrpc(headers: HeaderList): boolean {
  for (let i = 0; i < headers.length; i += 2) {
    if ((headers[i] as string).toLowerCase() === 'content-type') return GRPC.test(headers[i + 1] as string)
  }
  return false
}

/**
 * An answer of ours as a client of gRPC reads it: status 200 and fields that end the stream, with the code of gRPC that the
 * status means ("Trailers-Only" of its protocol over HTTP/2). Answers with status 200 stay as they are.
 */
export function grpcRefusal(response: FlowResponse): FlowResponse {
  const { status, reason, headers } = response
  if (status === 200) return response
  const fields = ['content-type', 'application/grpc', 'grpc-status', String(CODES.get(status) ?? UNKNOWN)]
  const message = headers.get('sluice-error-code') ?? reason
  fields.push('grpc-message', messageOf(message === '' ? `HTTP status ${status}` : message))
  const { list } = headers
  for (let i = 0; i < list.length; i += 2) {
    if (!OF_CONTENT.has((list[i] as string).toLowerCase())) fields.push(list[i] as string, list[i + 1] as string)
  }
  return { ...response, status: 200, reason: 'OK', headers: new HeaderFields(fields), body: undefined, transforms: [] }
}

/** Percent-encodes what is not printable ASCII, and the per cent sign. */
function messageOf(text: string): string {
  let message = ''
  for (const byte of Buffer.from(text, 'utf8')) {
    const plain = byte >= 0x20 && byte <= 0x7e && byte !== 0x25
    message += plain ? String.fromCharCode(byte) : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
  }
  return message
}
