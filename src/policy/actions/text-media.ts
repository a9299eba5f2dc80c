import { PACKED_MEDIA } from './packed-media.js'

/** Media types below `application/` whose content is no text. */
const BINARY = new Set([
  ...PACKED_MEDIA,
  'application/x-tar',
  'application/wasm',
  'application/grpc',
  'application/vnd.ms-fontobject'
])
const BINARY_KINDS = ['image/', 'audio/', 'video/', 'font/', 'application/grpc+']

/**
 * May content of this type be text that is worth a search? A type that says nothing (absent, `octet-stream`) may. An event
 * stream is not: it has no end.
 */
export function isTextMedia(contentType: string | undefined): boolean {
  const type = ((contentType ?? '').split(';')[0] as string).trim().toLowerCase()
  if (type === 'image/svg+xml') return true
  return type !== 'text/event-stream' && !BINARY.has(type) && !BINARY_KINDS.some((kind) => type.startsWith(kind))
}
