import type { Flow, FlowResponse } from '../../flow/flow.js'
import type { HeaderFields } from '../../flow/headers.js'
import { PACKED_MEDIA } from './packed-media.js'

/** Below this length a coding costs more than it saves. */
const MIN_BYTES = 1024

/** Media types whose content is compressed already, so that another coding only costs time. */
const COMPRESSED = new Set([...PACKED_MEDIA, 'font/woff', 'font/woff2'])
const PLAIN_IMAGES = new Set(['image/svg+xml', 'image/bmp', 'image/x-icon', 'image/vnd.microsoft.icon'])

/** Does the response carry a content coding? */
export function isEncoded(headers: HeaderFields): boolean {
  return headers.values('content-encoding').some((value) => {
    const coding = value.trim().toLowerCase()
    return coding !== '' && coding !== 'identity'
  })
}

/**
 * May this response be compressed at all, whatever its request says? Not: parts (206), messages without content,
 * what forbids transformation (RFC 9111 5.2.2.6), event streams, compressed media, and short bodies of known length. An
 * answer to HEAD is judged as that to GET would be (RFC 9110 9.3.2).
 */
export function isCompressible(flow: Flow, response: FlowResponse): boolean {
  const { status, headers, body } = response
  if (body === undefined) return false
  if (status < 200 || status === 204 || status === 205 || status === 206 || status === 304) return false
  if (headers.has('content-range') || forbidsTransform(headers)) return false
  return (lengthOfContent(flow, response) ?? MIN_BYTES) >= MIN_BYTES && mediaCompresses(headers.get('content-type'))
}

/** Bytes of the content; for HEAD those that the answer to GET would have, as far as its head says. */
export function lengthOfContent({ request }: Flow, { headers, body }: FlowResponse): number | undefined {
  if (request?.method !== 'HEAD' || body instanceof Uint8Array) return knownLength(body)
  const length = headers.get('content-length')
  return length === undefined ? undefined : Number(length)
}

/** Bytes of the body, where they are known before it is read. */
function knownLength(body: FlowResponse['body']): number | undefined {
  if (body === undefined) return 0
  if (body instanceof Uint8Array) return body.length
  if (!('framing' in body)) return undefined
  return body.framing.kind === 'length' ? body.framing.bytes : body.framing.kind === 'none' ? 0 : undefined
}

/** Does this message forbid that its content, or that of its answer, is changed (RFC 9111 5.2.1.6, 5.2.2.6)? */
export function forbidsTransform(headers: HeaderFields): boolean {
  return headers
    .values('cache-control')
    .some((value) => value.split(',').some((directive) => directive.trim().toLowerCase() === 'no-transform'))
}

function mediaCompresses(contentType: string | undefined): boolean {
  if (contentType === undefined) return true
  const type = (contentType.split(';')[0] as string).trim().toLowerCase()
  if (type.startsWith('image/')) return PLAIN_IMAGES.has(type)
  return !(
    type.startsWith('audio/') ||
    type.startsWith('video/') ||
    COMPRESSED.has(type) ||
    type === 'text/event-stream'
  )
}
