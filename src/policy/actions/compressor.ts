import type { Flow, FlowResponse } from '../../flow/flow.js'
import type { HeaderFields } from '../../flow/headers.js'
import { negotiate } from './accept-encoding.js'
import { forbidsTransform, isCompressible, isEncoded, lengthOfContent } from './compressible.js'
import { type Coding, type Encoder, encoder } from './encoders.js'

/** Negotiated codings remembered by one compressor; browsers send few different values. */
const REMEMBERED = 256

/** Digests of the bytes before the coding: wrong afterwards (RFC 9530 2, RFC 9110 8.8 for the entity tag). */
const DROPPED = ['content-length', 'accept-ranges', 'content-md5', 'digest', 'content-digest', 'repr-digest']

export interface Compression {
  /** The response had a coding when it came. */
  readonly already: boolean
  /** The coding that it gets on its way out; undefined: it stays as it is. */
  readonly coding: Coding | undefined
}

/** What compression came to in one exchange, as far as the response has gone. */
export interface Saving {
  /** Undefined: the response stayed as it was. */
  readonly coding: Coding | undefined
  /** Bytes of the body before the coding, less those after it; negative when it has grown. */
  readonly bytesSaved: number
}

const SLOT = 'policy.compression'

/** Undefined when no compression looked at the response. */
export function savingOf({ derived }: Flow): Saving | undefined {
  return derived[SLOT] as Saving | undefined
}

/** Compresses responses with the codings of `offered`, the preferred first, where client and response allow it. */
export class Compressor {
  readonly #coded: (header: string) => Coding | undefined
  readonly #offers: boolean
  readonly #withCookies: boolean

  /** `withCookies`: responses to requests with cookies too. */
  constructor(offered: readonly Coding[], { withCookies }: { withCookies: boolean }) {
    this.#coded = negotiation(offered)
    this.#offers = offered.length > 0
    this.#withCookies = withCookies
  }

  /** undefined: there is no response to look at. */
  compress(flow: Flow): Compression | undefined {
    const { request, response } = flow
    if (request === undefined || response === undefined) return undefined
    flow.derived[SLOT] ??= { coding: undefined, bytesSaved: 0 } satisfies Saving
    const already = isEncoded(response.headers)
    if (already || !this.#offers || !isCompressible(flow, response)) return { already, coding: undefined }
    const live = lengthOfContent(flow, response) === undefined
    const coding = this.#codingFor(request.headers, live)
    if (coding !== undefined) flow.derived[SLOT] = apply(response, coding, live)
    // A cache must not take for the answer to everybody what stays as it is for this one (RFC 9110 12.5.5).
    else varyByEncoding(response.headers)
    return { already, coding }
  }

  #codingFor(asked: HeaderFields, live: boolean): Coding | undefined {
    if (forbidsTransform(asked) || (!this.#withCookies && asked.has('cookie'))) return undefined
    const coding = this.#coded(asked.values('accept-encoding').join(','))
    return live && coding === 'compress' ? undefined : coding
  }
}

/** Remembers outcomes by header text; what clients make up does not grow it without bound. */
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
    // node:zlib counts what goes in, not what comes out; a stream in between would cost a copy of every chunk.
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
