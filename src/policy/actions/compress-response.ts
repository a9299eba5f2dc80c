import Type from 'typebox'
import type { FlowResponse } from '../../exchange/flow.js'
import type { HeaderFields } from '../../exchange/headers.js'
import { defineAction, type Scope } from '../action.js'
import { choice, config } from '../fields.js'
import { negotiate } from './accept-encoding.js'
import { isCompressible, isEncoded, knownLength } from './compressible.js'
import { availableCodings, type Coding, encoder } from './encoders.js'

/** Negotiated codings remembered for one action; browsers send few different values. */
const REMEMBERED = 256

/** Digests of the bytes before the coding: wrong afterwards (RFC 9530 2, RFC 9110 8.8 for the entity tag). */
const DROPPED = ['content-length', 'accept-ranges', 'content-md5', 'digest', 'content-digest', 'repr-digest']

/**
 * Compresses responses for clients that accept it.
 *
 * A response to a request with cookies is left alone unless `algorithms` is written out: when a page repeats what a
 * third party can send and holds a secret of the user, its compressed length gives the secret away (the attack called
 * BREACH). Whoever names the algorithms has asked for it.
 */
export const compressResponse = defineAction({
  type: 'compress-response',
  phases: ['on_http_response'],
  config: config({
    algorithms: Type.Optional(
      Type.Array(choice(['gzip', 'br', 'deflate', 'zstd', 'compress'], { description: 'A content coding.' }), {
        description:
          'Codings to offer, the preferred first; all when left out. Written out, it also allows them on responses to requests with cookies.',
        minItems: 1,
        uniqueItems: true
      })
    )
  }),
  configOptional: true,
  terminates: 'never',
  results: { name: 'compress', fields: { already_compressed: 'bool', negotiated_algorithm: 'string' } },
  compile({ algorithms }, scope) {
    const offered = algorithms === undefined ? availableCodings : offeredOf(algorithms, scope)
    const coded = negotiation(offered)
    return (flow) => {
      const { request, response } = flow
      if (request === undefined || response === undefined) return undefined
      const already = isEncoded(response.headers)
      let coding: Coding | undefined
      if (!already && isCompressible(flow, response) && (algorithms !== undefined || !request.headers.has('cookie'))) {
        coding = coded(request.headers.values('accept-encoding').join(','))
      }
      if (coding !== undefined) apply(response, coding)
      flow.publish('compress', { already_compressed: already, negotiated_algorithm: coding ?? '' })
      return undefined
    }
  }
})

function offeredOf(algorithms: readonly string[], scope: Scope): readonly Coding[] {
  const offered: Coding[] = []
  for (const [i, algorithm] of algorithms.entries()) {
    const coding = availableCodings.find((known) => known === algorithm)
    if (coding !== undefined) offered.push(coding)
    else {
      const why =
        algorithm === 'compress' ? 'no current client asks for "compress"' : `this Node version has no ${algorithm}`
      scope.warn(['algorithms', i], 'CONFIG_UNUSED', `${why}; it is accepted and never used`)
    }
  }
  return offered
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

function apply(response: FlowResponse, coding: Coding): void {
  const { headers } = response
  const live = knownLength(response.body) === undefined
  for (const name of DROPPED) headers.delete(name)
  headers.set('content-encoding', coding)
  varyByEncoding(headers)
  const tag = headers.get('etag')
  if (tag?.startsWith('"')) headers.set('etag', `W/${tag}`)
  response.transforms.push(() => encoder(coding, live))
}

function varyByEncoding(headers: HeaderFields): void {
  const names = headers.values('vary').flatMap((value) => value.split(',').map((name) => name.trim().toLowerCase()))
  if (!names.includes('*') && !names.includes('accept-encoding')) headers.append('vary', 'Accept-Encoding')
}
