import type { Duplex } from 'node:stream'
import { promisify } from 'node:util'
import zlib from 'node:zlib'
import { codeOf } from '../lib/errors.js'
import type { HeaderFields, HeaderList } from './headers.js'

/** Maximum number of nested codings; honest peers do not send more. */
const MAX_CODINGS = 3

const gunzip = promisify(zlib.gunzip)
const inflate = promisify(zlib.inflate)
const inflateRaw = promisify(zlib.inflateRaw)
const brotli = promisify(zlib.brotliDecompress)

/** Decodes one coding within `maxOutputLength` bytes; rejects with a coded error. */
type Decode = (bytes: Uint8Array, options: { readonly maxOutputLength: number }) => Promise<Buffer>

const DECODERS: ReadonlyMap<string, Decode> = new Map<string, Decode>([
  ['gzip', gunzip],
  ['x-gzip', gunzip],
  ['br', brotli],
  // RFC 9110 8.4.1.2 specifies the zlib format; some servers send raw deflate, which every client accepts.
  ['deflate', (bytes, options) => (isZlib(bytes) ? inflate(bytes, options) : inflateRaw(bytes, options))]
])

const STREAMS: ReadonlyMap<string, () => Duplex> = new Map<string, () => Duplex>([
  ['gzip', zlib.createGunzip],
  ['x-gzip', zlib.createGunzip],
  ['br', zlib.createBrotliDecompress],
  ['deflate', zlib.createInflate]
])

/** Returns whether this coding is supported. `coding` is in lower case. */
function canDecode(coding: string): boolean {
  return DECODERS.has(coding)
}

/** Returns the content codings of a message in the order of their application, without `identity`. */
export function codingsOf(headers: HeaderFields): string[] {
  return headers
    .values('content-encoding')
    .flatMap((value) => value.split(','))
    .map((coding) => coding.trim().toLowerCase())
    .filter((coding) => coding !== '' && coding !== 'identity')
}

/**
 * Decodes `bytes` to at most `limit` bytes: a few compressed bytes can expand to gigabytes. `unknown`: unsupported coding. `malformed`:
 * invalid content for its coding.
 */
export async function decoded(
  bytes: Uint8Array,
  codings: readonly string[],
  limit: number
): Promise<Uint8Array | 'too-large' | 'unknown' | 'malformed'> {
  if (codings.length > MAX_CODINGS) return 'unknown'
  let content = bytes
  for (const coding of [...codings].reverse()) {
    const decode = DECODERS.get(coding)
    if (decode === undefined) return 'unknown'
    if (content.length === 0) return content
    try {
      content = await decode(content, { maxOutputLength: limit })
    } catch (error) {
      return codeOf(error) === 'ERR_BUFFER_TOO_LARGE' ? 'too-large' : 'malformed'
    }
  }
  return content
}

/** Returns streams that decode `codings` in sequence with minimal delay; undefined if one is unknown. */
export function decoders(codings: readonly string[]): (() => Duplex)[] | undefined {
  if (codings.length > MAX_CODINGS) return undefined
  const streams: (() => Duplex)[] = []
  for (const coding of [...codings].reverse()) {
    const stream = STREAMS.get(coding)
    if (stream === undefined) return undefined
    streams.push(() => stream())
  }
  return streams
}

/** RFC 1950: the low half of the first byte is the method 8, and 31 divides the first two bytes. */
function isZlib(bytes: Uint8Array): boolean {
  const [first = 0, second = 0] = bytes
  return (first & 0x0f) === 8 && (first * 256 + second) % 31 === 0
}

/** Media types below `application/` with compressed content. */
export const PACKED_MEDIA: readonly string[] = [
  'application/zip',
  'application/gzip',
  'application/x-gzip',
  'application/x-bzip2',
  'application/x-xz',
  'application/zstd',
  'application/x-7z-compressed',
  'application/x-rar-compressed',
  'application/vnd.rar',
  'application/java-archive',
  'application/epub+zip',
  'application/pdf',
  'application/font-woff'
]

/** Media types below `application/` with binary content. */
const BINARY = new Set([
  ...PACKED_MEDIA,
  'application/x-tar',
  'application/wasm',
  'application/grpc',
  'application/vnd.ms-fontobject'
])
const BINARY_KINDS = ['image/', 'audio/', 'video/', 'font/', 'application/grpc+']

/**
 * Returns whether content of this type may be searchable text. Unspecific types (none, `octet-stream`) count as text. Event streams do not,
 * because they are endless.
 */
export function isTextMedia(contentType: string | undefined): boolean {
  const type = ((contentType ?? '').split(';')[0] as string).trim().toLowerCase()
  if (type === 'image/svg+xml') return true
  return type !== 'text/event-stream' && !BINARY.has(type) && !BINARY_KINDS.some((kind) => type.startsWith(kind))
}

const HTML =
  /^<(?:!doctype\s+html|html|head|body|title|meta|div|span|p|h[1-6]|a|b|br|table|form|section|main|style|script|!--)\b/i
const XML = /^<(?:\?xml\b|[A-Za-z_][\w.-]*(?::[\w.-]+)?[\s/>])/

/**
 * Determines the media type of a body without a configured type, from its source text in the policy. Interpolated values are not examined:
 * a client that chooses the text must not make a browser read it as HTML.
 */
export function mediaTypeOf(source: string): string {
  const text = source.trim()
  if (looksLikeJson(text)) return 'application/json'
  if (HTML.test(text)) return 'text/html; charset=utf-8'
  if (XML.test(text) && text.endsWith('>')) return 'application/xml'
  return 'text/plain; charset=utf-8'
}

/** Text with `${…}` cannot be parsed in advance, so its brackets decide. */
function looksLikeJson(text: string): boolean {
  if (!(text.startsWith('{') && text.endsWith('}')) && !(text.startsWith('[') && text.endsWith(']'))) return false
  return text.includes('${') || isJson(text)
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch (error) {
    if (error instanceof SyntaxError) return false
    throw error
  }
}

/** Use of response content by a policy: while streaming (`stream`), or as a whole (`whole`). */
export type ResponseReading = 'stream' | 'whole'

/** Returns the stronger of two demands. */
export function greaterReading(a: ResponseReading | undefined, b: ResponseReading): ResponseReading {
  return a === 'whole' ? a : b
}

/**
 * Returns the request's header fields for a response that the proxy will read: `Accept-Encoding` without unsupported codings (RFC 9110
 * 12.5.3), and without `Range` if the whole is needed (it may be ignored, RFC 9110 14.2). The client's fields do not change, because its
 * response is negotiated by them.
 */
export function fieldsForReading(headers: HeaderFields, reading: ResponseReading): HeaderList {
  const list: string[] = []
  for (let i = 0; i < headers.list.length; i += 2) {
    const [name, value] = [headers.list[i] as string, headers.list[i + 1] as string]
    const lower = name.toLowerCase()
    if (reading === 'whole' && (lower === 'range' || lower === 'if-range')) continue
    list.push(name, lower === 'accept-encoding' ? narrowed(value) : value)
  }
  return list
}

/** `*` stands for unnamed codings, so only its refusal remains. */
function narrowed(value: string): string {
  const kept = value.split(',').filter((element) => {
    const [name = '', ...parameters] = element.split(';')
    const coding = name.trim().toLowerCase()
    return coding === '*' ? isRefusal(parameters) : coding === 'identity' || canDecode(coding)
  })
  const text = kept.map((element) => element.trim()).join(', ')
  return text === '' ? 'identity' : text
}

function isRefusal(parameters: readonly string[]): boolean {
  return parameters.some((parameter) => /^\s*q\s*=\s*0(?:\.0{0,3})?\s*$/i.test(parameter))
}
