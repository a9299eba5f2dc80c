import { Transform, type TransformCallback } from 'node:stream'
import type { Flow } from '../flow/flow.js'
import type { HeaderList } from '../flow/headers.js'
import { refuse, type Verdict } from '../flow/verdict.js'
import { defineErrors } from '../lib/errors.js'
import { defineFeature, defineModule } from './contract.js'

/** Error codes of the module grpc_web. */
const grpcWebErrors = defineErrors({
  GRPC_WEB_REQUIRED: {
    status: 415,
    text: 'The route serves calls of gRPC and gRPC-Web only.',
    help: 'Call it with a client of gRPC-Web, or of gRPC.'
  }
})

const REQUIRED = refuse(grpcWebErrors.GRPC_WEB_REQUIRED)
/**
 * `application/grpc-web`, `application/grpc-web-text`, optionally with a format such as `+proto`; and gRPC itself, which is passed through.
 */
const MEDIA_TYPE = /^application\/grpc(-web(-text)?)?(?:$|[+;])/i
/** Flag of a trailer frame (PROTOCOL-WEB.md of gRPC: the most significant bit of the flags). */
const TRAILERS = 0x80
/** Length of a frame header (bytes). */
const FRAME_HEAD = 5

/**
 * Lets web pages call gRPC servers: converts a gRPC-Web call to gRPC for the backend and its response back, with the trailers as the last
 * frame of the body (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-WEB.md). gRPC calls are unchanged.
 */
const routeModule = defineModule({
  name: 'grpc_web',
  description:
    'Translates calls of gRPC-Web, as pages make them, to gRPC for a backend that speaks HTTP/2. Calls of gRPC pass; other requests get 415.',
  on: ['https'],
  fields: {},
  compile: () => ({
    request(flow: Flow): Verdict | undefined {
      const { request } = flow
      if (request === undefined) return undefined
      const type = request.headers.get('content-type') ?? ''
      const read = MEDIA_TYPE.exec(type)
      if (read === null) return REQUIRED
      const [, web, text] = read
      if (web === undefined) return undefined
      request.headers.set('content-type', type.replace(/-web(-text)?/i, ''))
      request.headers.delete('x-grpc-web')
      if (text !== undefined) decodeBody(flow)
      flow.onForwarded(() => translate(flow, text !== undefined))
      return undefined
    }
  })
})

/** Decodes a base64 request body, whose decoded length is unknown in advance. */
function decodeBody({ request }: Flow): void {
  if (request === undefined) return
  request.headers.delete('content-length')
  const { body } = request
  if (body instanceof Uint8Array) request.body = Buffer.from(Buffer.from(body).toString('latin1'), 'base64')
  else body.through(() => new Base64Decoder())
}

/** Converts the response to gRPC-Web; a response that is not gRPC is unchanged. */
function translate({ response }: Flow, text: boolean): void {
  const type = response?.headers.get('content-type') ?? ''
  if (response === undefined || !/^application\/grpc(?:$|[+;])/i.test(type)) return
  response.headers.set('content-type', type.replace(/grpc/i, text ? 'grpc-web-text' : 'grpc-web'))
  const { trailers } = response
  response.trailers = undefined
  if (trailers === undefined || response.body === undefined) return
  response.headers.delete('content-length')
  response.transforms.push(() => new WebFrames(trailers, text))
}

/** Appends the trailers of a message to its body as a frame. */
class WebFrames extends Transform {
  readonly #trailers: () => HeaderList
  readonly #text: boolean

  constructor(trailers: () => HeaderList, text: boolean) {
    super()
    this.#trailers = trailers
    this.#text = text
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    done(null, this.#written(chunk))
  }

  override _flush(done: TransformCallback): void {
    const list = this.#trailers()
    let fields = ''
    for (let i = 0; i < list.length; i += 2) fields += `${(list[i] as string).toLowerCase()}: ${list[i + 1]}\r\n`
    if (fields === '') {
      done()
      return
    }
    const content = Buffer.from(fields, 'latin1')
    const frame = Buffer.alloc(FRAME_HEAD + content.length)
    frame[0] = TRAILERS
    frame.writeUInt32BE(content.length, 1)
    content.copy(frame, FRAME_HEAD)
    done(null, this.#written(frame))
  }

  /** Encodes each piece completely, with padding, because clients decode four characters at a time. */
  #written(chunk: Buffer): Buffer {
    return this.#text ? Buffer.from(chunk.toString('base64'), 'latin1') : chunk
  }
}

const MALFORMED = 'a body of gRPC-Web is not base64'
const GROUP = /^[A-Za-z0-9+/]{4}$|^[A-Za-z0-9+/]{3}=$|^[A-Za-z0-9+/]{2}==$/

/** Decodes base64 in pieces, each of which may end with padding. */
class Base64Decoder extends Transform {
  #rest = ''

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    const text = this.#rest + chunk.toString('latin1')
    const whole = text.length - (text.length % 4)
    this.#rest = text.slice(whole)
    const decoded = decode(text.slice(0, whole))
    if (decoded === undefined) done(new Error(MALFORMED))
    else done(null, decoded)
  }

  override _flush(done: TransformCallback): void {
    if (this.#rest === '') done()
    else done(new Error(MALFORMED))
  }
}

/** Decodes groups of four characters; undefined if invalid. */
function decode(text: string): Buffer | undefined {
  const parts: Buffer[] = []
  for (let from = 0; from < text.length; ) {
    const padding = text.indexOf('=', from)
    const end = padding === -1 ? text.length : padding - (padding % 4) + 4
    const piece = text.slice(from, end)
    const body = piece.slice(0, -4)
    if (!/^[A-Za-z0-9+/]*$/.test(body) || (piece !== '' && !GROUP.test(piece.slice(-4)))) return undefined
    parts.push(Buffer.from(piece, 'base64'))
    from = end
  }
  return Buffer.concat(parts)
}

/** Feature: gRPC-Web. */
export const grpcWeb = defineFeature({
  name: 'grpc-web',
  summary: 'Translates calls of gRPC-Web to gRPC.',
  modules: [routeModule],
  errors: [grpcWebErrors]
})
