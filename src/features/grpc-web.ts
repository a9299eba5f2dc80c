import { Transform, type TransformCallback } from 'node:stream'
import type { Flow } from '../flow/flow.js'
import type { HeaderList } from '../flow/headers.js'
import { refuse, type Verdict } from '../flow/verdict.js'
import { defineErrors } from '../lib/errors.js'
import { defineFeature, defineModule } from './contract.js'

/** Codes of the module grpc_web. */
const grpcWebErrors = defineErrors({
  GRPC_WEB_REQUIRED: {
    status: 415,
    text: 'The route serves calls of gRPC and gRPC-Web only.',
    help: 'Call it with a client of gRPC-Web, or of gRPC.'
  }
})

const REQUIRED = refuse(grpcWebErrors.GRPC_WEB_REQUIRED)
/** `application/grpc-web`, `application/grpc-web-text`, with a format such as `+proto` behind it; and gRPC itself, which passes. */
const MEDIA_TYPE = /^application\/grpc(-web(-text)?)?(?:$|[+;])/i
/** Marks a frame of trailers (PROTOCOL-WEB.md of gRPC: the most significant bit of the flags). */
const TRAILERS = 0x80
const FRAME_HEAD = 5

/**
 * Lets pages call servers of gRPC: a call of gRPC-Web becomes one of gRPC on its way to the backend, and its answer one of gRPC-Web, whose
 * trailers are the last frame of its body (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-WEB.md). Calls of gRPC pass
 * as they are.
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

/** The body of a request in base64 becomes its bytes, whose number is not known before. */
function decodeBody({ request }: Flow): void {
  if (request === undefined) return
  request.headers.delete('content-length')
  const { body } = request
  if (body instanceof Uint8Array) request.body = Buffer.from(Buffer.from(body).toString('latin1'), 'base64')
  else body.through(() => new Base64Decoder())
}

/** The upstream's answer becomes one of gRPC-Web; an answer that is no call of gRPC stays as it is. */
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

/** Puts the trailers of a message behind its body as a frame. */
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

  /** In base64 each piece is whole, with its padding: clients decode four characters at a time. */
  #written(chunk: Buffer): Buffer {
    return this.#text ? Buffer.from(chunk.toString('base64'), 'latin1') : chunk
  }
}

const MALFORMED = 'a body of gRPC-Web is not base64'
const GROUP = /^[A-Za-z0-9+/]{4}$|^[A-Za-z0-9+/]{3}=$|^[A-Za-z0-9+/]{2}==$/

/** Decodes base64 that comes in pieces, each of which may end with padding. */
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

/** Whole groups of four characters; undefined when they are no base64. */
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

/** Lets pages call servers of gRPC. */
export const grpcWeb = defineFeature({
  name: 'grpc-web',
  summary: 'Translates calls of gRPC-Web to gRPC.',
  modules: [routeModule],
  errors: [grpcWebErrors]
})
