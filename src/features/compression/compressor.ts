import type { Duplex } from 'node:stream'
import zlib from 'node:zlib'
import { PACKED_MEDIA } from '../../flow/content-coding.js'
import { type Flow, type FlowResponse, flowSlot } from '../../flow/flow.js'
import type { HeaderFields } from '../../flow/headers.js'

const QUALITY = /^(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/

/**
 * Returns the coding for a client that sent `header` (RFC 9110 12.5.3); undefined for none.
 *
 * The highest quality wins; between equals the first of `offered`. `*` applies to unnamed codings, and quality zero excludes one. If
 * `identity` has a higher quality than every coding, none is used. Elements with an invalid quality are ignored.
 */
export function negotiate<C extends string>(header: string, offered: readonly C[]): C | undefined {
  const qualities = qualitiesOf(header)
  const others = qualities.get('*')
  let best: C | undefined
  let bestQuality = qualities.get('identity') ?? 0
  for (const coding of offered) {
    const quality = qualities.get(coding) ?? others ?? 0
    if (quality > 0 && (best === undefined ? quality >= bestQuality : quality > bestQuality)) {
      best = coding
      bestQuality = quality
    }
  }
  return best
}

function qualitiesOf(header: string): Map<string, number> {
  const qualities = new Map<string, number>()
  for (const element of header.split(',')) {
    const [name = '', ...parameters] = element.split(';')
    const coding = name.trim().toLowerCase()
    const quality = qualityOf(parameters)
    if (coding !== '' && quality !== undefined) qualities.set(coding === 'x-gzip' ? 'gzip' : coding, quality)
  }
  return qualities
}

/** Returns the quality: 1 without a parameter `q`; undefined if invalid. */
function qualityOf(parameters: readonly string[]): number | undefined {
  for (const parameter of parameters) {
    const [name = '', value = ''] = parameter.split('=')
    if (name.trim().toLowerCase() !== 'q') continue
    return QUALITY.test(value.trim()) ? Number(value) : undefined
  }
  return 1
}

/** Minimum size for compression (bytes); smaller content is not worth it. */
const MIN_BYTES = 1024

/** Media types that are already compressed. */
const COMPRESSED = new Set([...PACKED_MEDIA, 'font/woff', 'font/woff2'])
/** Image types worth compressing. */
const PLAIN_IMAGES = new Set(['image/svg+xml', 'image/bmp', 'image/x-icon', 'image/vnd.microsoft.icon'])

/** Returns true if the response has a content coding. */
function isEncoded(headers: HeaderFields): boolean {
  return headers.values('content-encoding').some((value) => {
    const coding = value.trim().toLowerCase()
    return coding !== '' && coding !== 'identity'
  })
}

/**
 * Returns true if the response may be compressed, whatever the request. Excluded: parts (206), messages without content, no-transform (RFC
 * 9111 5.2.2.6), event streams, compressed media, and short bodies of known length. A response to HEAD is treated like that to GET (RFC
 * 9110 9.3.2).
 */
function isCompressible(flow: Flow, response: FlowResponse): boolean {
  const { status, headers, body } = response
  if (body === undefined) return false
  if (status < 200 || status === 204 || status === 205 || status === 206 || status === 304) return false
  if (headers.has('content-range') || forbidsTransform(headers)) return false
  return (lengthOfContent(flow, response) ?? MIN_BYTES) >= MIN_BYTES && mediaCompresses(headers.get('content-type'))
}

/** Returns true if the response of this 304 might be compressed, by its header. */
function mayVary({ headers }: FlowResponse): boolean {
  const type = headers.get('content-type')
  return !forbidsTransform(headers) && (type === undefined || mediaCompresses(type))
}

/** Returns the content length; for HEAD the length that GET would have, by its header. */
function lengthOfContent({ request }: Flow, { headers, body }: FlowResponse): number | undefined {
  if (request?.method !== 'HEAD' || body instanceof Uint8Array) return knownLength(body)
  const length = headers.get('content-length')
  return length === undefined ? undefined : Number(length)
}

/** Returns the body length if it is known in advance. */
function knownLength(body: FlowResponse['body']): number | undefined {
  if (body === undefined) return 0
  if (body instanceof Uint8Array) return body.length
  if (!('framing' in body)) return undefined
  return body.framing.kind === 'length' ? body.framing.bytes : body.framing.kind === 'none' ? 0 : undefined
}

/** Returns true if the message has no-transform (RFC 9111 5.2.1.6, 5.2.2.6). */
function forbidsTransform(headers: HeaderFields): boolean {
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

/** Supported codings, in order of preference for equal quality. */
const CODINGS = ['br', 'zstd', 'gzip', 'deflate'] as const
export type Coding = (typeof CODINGS)[number]

/** Stream of node:zlib. */
type Encoder = Duplex & {
  /** Bytes written to it. */
  readonly bytesWritten: number
}

/** Missing in Node 20 and in the type definitions. */
const { createZstdCompress } = zlib as { createZstdCompress?: (options: object) => Encoder }
const { constants } = zlib
const ZSTD_FLUSH = 1

/** Codings supported by this Node version. */
export const availableCodings: readonly Coding[] = CODINGS.filter(
  (coding) => coding !== 'zstd' || createZstdCompress !== undefined
)

/**
 * Creates an encoding stream. `live`: flushes every write, so that streams are not delayed; otherwise buffers for better compression.
 * Windows are small enough for thousands of streams.
 */
function encoder(coding: Coding, live: boolean): Encoder {
  switch (coding) {
    case 'br':
      return zlib.createBrotliCompress({
        flush: live ? constants.BROTLI_OPERATION_FLUSH : constants.BROTLI_OPERATION_PROCESS,
        params: { [constants.BROTLI_PARAM_QUALITY]: 4, [constants.BROTLI_PARAM_LGWIN]: 18 }
      })
    case 'gzip':
      return zlib.createGzip({ flush: live ? constants.Z_SYNC_FLUSH : constants.Z_NO_FLUSH })
    case 'deflate':
      // The coding "deflate" is the zlib format (RFC 9110 8.4.1.2), not raw deflate.
      return zlib.createDeflate({ flush: live ? constants.Z_SYNC_FLUSH : constants.Z_NO_FLUSH })
    case 'zstd':
      if (createZstdCompress === undefined) throw new Error('zstd is not part of this Node version')
      return createZstdCompress(live ? { flush: ZSTD_FLUSH } : {})
  }
}

/** Maximum number of cached negotiations of a compressor; browsers send few different values. */
const REMEMBERED = 256

/** Fields about the uncompressed bytes, which become invalid (RFC 9530 2, RFC 9110 8.8 for the entity tag). */
const DROPPED = ['content-length', 'accept-ranges', 'content-md5', 'digest', 'content-digest', 'repr-digest']

interface Compression {
  /** The response already had a coding. */
  readonly already: boolean
  /** Coding applied by Sluice; undefined for none. */
  readonly coding: Coding | undefined
}

/** Result of compression in one exchange so far. */
interface Saving {
  /** Applied coding; undefined if the response is unchanged. */
  readonly coding: Coding | undefined
  /** Bytes saved; negative if the body grew. */
  readonly bytesSaved: number
}

const saving = flowSlot<Saving>('compression.saving')

/** Returns the result; undefined if no compression handled the response. */
export function savingOf(flow: Flow): Saving | undefined {
  return flow.get(saving)
}

/** Compresses responses with the codings of `offered`, in order of preference, if client and response allow it. */
export class Compressor {
  readonly #coded: (header: string) => Coding | undefined
  readonly #offers: boolean
  readonly #withCookies: boolean

  /** `withCookies`: also responses to requests with cookies. */
  constructor(offered: readonly Coding[], { withCookies }: { withCookies: boolean }) {
    this.#coded = negotiation(offered)
    this.#offers = offered.length > 0
    this.#withCookies = withCookies
  }

  /** Compresses the response; undefined if there is none. */
  compress(flow: Flow): Compression | undefined {
    const { request, response } = flow
    if (request === undefined || response === undefined) return undefined
    if (flow.get(saving) === undefined) flow.set(saving, { coding: undefined, bytesSaved: 0 })
    const already = isEncoded(response.headers)
    // A 304 has the Vary of the 200 (RFC 9110 15.4.5).
    if (response.status === 304 && !already && this.#offers && mayVary(response)) varyByEncoding(response.headers)
    if (already || !this.#offers || !isCompressible(flow, response)) return { already, coding: undefined }
    const live = lengthOfContent(flow, response) === undefined
    const coding = this.#codingFor(request.headers)
    if (coding !== undefined) flow.set(saving, apply(response, coding, live))
    // A cache must not reuse the uncompressed response for every client (RFC 9110 12.5.5).
    else varyByEncoding(response.headers)
    return { already, coding }
  }

  #codingFor(asked: HeaderFields): Coding | undefined {
    if (forbidsTransform(asked) || (!this.#withCookies && asked.has('cookie'))) return undefined
    return this.#coded(asked.values('accept-encoding').join(','))
  }
}

/** Returns a negotiation with a bounded cache by header text. */
function negotiation(offered: readonly Coding[]): (header: string) => Coding | undefined {
  const known = new Map<string, Coding | undefined>()
  return (header) => {
    if (header === '') return undefined
    if (known.has(header)) return known.get(header)
    const coding = negotiate(header, offered)
    if (known.size < REMEMBERED && header.length <= 128) known.set(header, coding)
    return coding
  }
}

function apply(response: FlowResponse, coding: Coding, live: boolean): Saving {
  const { headers } = response
  for (const name of DROPPED) headers.delete(name)
  headers.set('content-encoding', coding)
  varyByEncoding(headers)
  const tag = headers.get('etag')
  if (tag?.startsWith('"')) headers.set('etag', `W/${tag}`)
  const count = new Count(coding)
  response.transforms.push(() => count.of(encoder(coding, live)))
  return count
}

class Count implements Saving {
  readonly coding: Coding
  #encoder: Encoder | undefined
  #bytesOut = 0

  constructor(coding: Coding) {
    this.coding = coding
  }

  get bytesSaved(): number {
    return (this.#encoder?.bytesWritten ?? 0) - this.#bytesOut
  }

  of(encoder: Encoder): Encoder {
    this.#encoder = encoder
    // node:zlib counts input bytes, not output; a stream in between would copy every chunk.
    const push = encoder.push.bind(encoder)
    encoder.push = (chunk: Uint8Array | null, encoding) => {
      this.#bytesOut += chunk?.length ?? 0
      return push(chunk, encoding)
    }
    return encoder
  }
}

function varyByEncoding(headers: HeaderFields): void {
  const names = headers.values('vary').flatMap((value) => value.split(',').map((name) => name.trim().toLowerCase()))
  if (!names.includes('*') && !names.includes('accept-encoding')) headers.append('vary', 'Accept-Encoding')
}
