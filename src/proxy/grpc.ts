import type { FlowResponse } from '../flow/flow.js'
import { HeaderFields, type HeaderList } from '../flow/headers.js'

/** gRPC codes by the status of a response from Sluice; only 429 differs from gRPC's http-grpc-status-mapping. */
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
/** Content fields that are removed. */
const OF_CONTENT: ReadonlySet<string> = new Set([
  'content-type',
  'content-encoding',
  'content-language',
  'grpc-status',
  'grpc-message'
])

/** Returns true if the request is a gRPC call. */
export function isGrpc(headers: HeaderList): boolean {
  for (let i = 0; i < headers.length; i += 2) {
    if ((headers[i] as string).toLowerCase() === 'content-type') return GRPC.test(headers[i + 1] as string)
  }
  return false
}

/**
 * Converts a response from Sluice for a gRPC client: status 200 and trailer fields with the gRPC code ("Trailers-Only" of its protocol over
 * HTTP/2). Responses with status 200 are unchanged.
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

/** Percent-encodes the percent sign and everything except printable ASCII. */
function messageOf(text: string): string {
  let message = ''
  for (const byte of Buffer.from(text, 'utf8')) {
    const plain = byte >= 0x20 && byte <= 0x7e && byte !== 0x25
    message += plain ? String.fromCharCode(byte) : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
  }
  return message
}
