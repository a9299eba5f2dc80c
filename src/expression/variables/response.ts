import type { Flow, FlowResponse } from '../../flow/flow.js'
import { responseCookies } from './cookies.js'
import type { VariableDefinition } from './definition.js'
import { contentType, derive, headerMap, listHeader, responseOf, trailerMap } from './message.js'

function responseType(flow: Flow) {
  return derive(flow, 'expression.res.content_type', responseOf(flow).headers.get('content-type') ?? '', contentType)
}

/** Bytes of the body where they are known; a transform makes the length unknown. */
function responseBodyLength({ body, transforms }: FlowResponse): bigint | undefined {
  if (transforms.length > 0 || body === undefined) return undefined
  if (body instanceof Uint8Array) return BigInt(body.length)
  return 'framing' in body && body.framing.kind === 'length' ? BigInt(body.framing.bytes) : undefined
}

const HEADERS = 'map<string, list<string>>'
const COOKIES = 'map<string, list<map<string, dyn>>>'

const responseLines: readonly VariableDefinition[] = [
  {
    path: 'res.content_encoding',
    type: 'list<string>',
    read: (flow) => listHeader(responseOf(flow).headers, 'content-encoding')
  },
  { path: 'res.content_length', type: 'int', optional: true, read: (flow) => responseBodyLength(responseOf(flow)) },
  { path: 'res.content_type', type: 'string', read: (flow) => responseType(flow).mediaType },
  { path: 'res.content_type.parameters', type: 'map<string, string>', read: (flow) => responseType(flow).parameters },
  { path: 'res.content_type.raw', type: 'string', read: (flow) => responseType(flow).raw },
  { path: 'res.cookies', type: COOKIES, read: responseCookies },
  {
    path: 'res.headers',
    type: HEADERS,
    read: (flow) => headerMap(flow, 'expression.res.headers', responseOf(flow).headers),
    entry: (flow, key) => responseOf(flow).headers.byName.get(key)
  },
  { path: 'res.trailers', type: HEADERS, read: (flow) => trailerMap(responseOf(flow).trailers?.()) },
  { path: 'res.location', type: 'string', read: (flow) => responseOf(flow).headers.get('location') ?? '' },
  { path: 'res.status_code', type: 'int', read: (flow) => BigInt(responseOf(flow).status) }
]

/** `res.*`. */
export const responseVariables: readonly VariableDefinition[] = responseLines.map((line) => ({
  ...line,
  phases: 'response'
}))
