import { type Flow, type FlowRequest, type FlowResponse, flowSlot } from '../../flow/flow.js'
import { ofInteger, type VariableDefinition } from './definition.js'
import {
  type ContentType,
  contentType,
  type Derived,
  derive,
  headerMap,
  listHeader,
  requestCookies,
  requestFields,
  requestOf,
  responseCookies,
  responseFields,
  responseOf,
  trailerMap
} from './message.js'

const VERSIONS = { '1.0': 'HTTP/1.0', '1.1': 'HTTP/1.1', '2': 'HTTP/2.0' } as const

const requestTypes = flowSlot<Derived<string, ContentType>>('req.content_type')
const responseTypes = flowSlot<Derived<string, ContentType>>('res.content_type')

function requestType(flow: Flow) {
  return derive(flow, requestTypes, requestOf(flow).headers.get('content-type') ?? '', contentType)
}

/** Bytes of the body where they are known from the head. */
function requestBodyLength({ body }: FlowRequest): number | undefined {
  if (body instanceof Uint8Array) return body.length
  return body.framing.kind === 'length' ? body.framing.bytes : undefined
}

/** The target as it came, as a URL. */
function rawUrl({ head }: FlowRequest): string {
  return head.target.startsWith('/') ? `${head.scheme}://${head.authority}${head.target}` : head.target
}

function rawPath({ head }: FlowRequest): string {
  const path = head.target.replace(/^[a-z]+:\/\/[^/?]*/i, '')
  const mark = path.indexOf('?')
  return mark === -1 ? path : path.slice(0, mark)
}

const HEADERS = 'map<string, list<string>>'
const COOKIES = 'map<string, list<map<string, dyn>>>'

const requestLines: readonly VariableDefinition[] = [
  {
    path: 'req.content_encoding',
    type: 'list<string>',
    read: (flow) => listHeader(requestOf(flow).headers, 'content-encoding')
  },
  {
    path: 'req.content_length',
    type: 'int',
    optional: true,
    ...ofInteger((flow) => requestBodyLength(requestOf(flow)))
  },
  { path: 'req.content_type', type: 'string', read: (flow) => requestType(flow).mediaType },
  { path: 'req.content_type.parameters', type: 'map<string, string>', read: (flow) => requestType(flow).parameters },
  { path: 'req.content_type.raw', type: 'string', read: (flow) => requestType(flow).raw },
  { path: 'req.cookies', type: COOKIES, read: requestCookies },
  {
    path: 'req.headers',
    type: HEADERS,
    read: (flow) => headerMap(flow, requestFields, requestOf(flow).headers),
    walked: (flow) => requestOf(flow).headers.byName,
    entry: (flow, key) => requestOf(flow).headers.entry(key)
  },
  {
    path: 'req.trailers',
    type: HEADERS,
    read: (flow) => {
      const { body } = requestOf(flow)
      return trailerMap(body instanceof Uint8Array ? undefined : body.trailers)
    }
  },
  {
    path: 'req.host',
    type: 'string',
    read: (flow) => requestOf(flow).headers.get('host') ?? requestOf(flow).target.authority
  },
  { path: 'req.location', type: 'string', read: (flow) => requestOf(flow).headers.get('location') ?? '' },
  { path: 'req.method', type: 'string', read: (flow) => requestOf(flow).method },
  { path: 'req.version', type: 'string', read: (flow) => VERSIONS[requestOf(flow).version] },
  { path: 'req.ts.header_received', type: 'timestamp', read: (flow) => new Date(requestOf(flow).receivedAt) },
  // The body stays in the engine and is not waited for, so the instant of its end is not known to a policy.
  { path: 'req.ts.body_received', type: 'timestamp', optional: true, read: () => undefined },
  { path: 'req.url', type: 'string', read: (flow) => requestOf(flow).target.url },
  { path: 'req.url.authority', type: 'string', read: (flow) => requestOf(flow).target.authority },
  { path: 'req.url.host', type: 'string', read: (flow) => requestOf(flow).target.host },
  { path: 'req.url.path', type: 'string', read: (flow) => requestOf(flow).target.path },
  {
    path: 'req.url.port',
    type: 'int',
    optional: true,
    ...ofInteger((flow) => requestOf(flow).target.port)
  },
  { path: 'req.url.query', type: 'string', read: (flow) => requestOf(flow).target.query ?? '' },
  { path: 'req.url.query_params', type: HEADERS, read: (flow) => requestOf(flow).target.parameters },
  { path: 'req.url.raw', type: 'string', read: (flow) => rawUrl(requestOf(flow)) },
  { path: 'req.url.raw_path', type: 'string', read: (flow) => rawPath(requestOf(flow)) },
  { path: 'req.url.scheme', type: 'string', read: (flow) => requestOf(flow).target.scheme },
  { path: 'req.url.uri', type: 'string', read: (flow) => requestOf(flow).target.uri },
  // A target with userinfo is refused before any policy runs.
  { path: 'req.url.user_password', type: 'string', read: () => '' }
]

/** `req.*` but the user agent. */
export const requestVariables: readonly VariableDefinition[] = requestLines.map((line) => ({ ...line, phases: 'http' }))

function responseType(flow: Flow) {
  return derive(flow, responseTypes, responseOf(flow).headers.get('content-type') ?? '', contentType)
}

/** Bytes of the body where they are known; a transform makes the length unknown. */
function responseBodyLength({ body, transforms }: FlowResponse): number | undefined {
  if (transforms.length > 0 || body === undefined) return undefined
  if (body instanceof Uint8Array) return body.length
  return 'framing' in body && body.framing.kind === 'length' ? body.framing.bytes : undefined
}

const responseLines: readonly VariableDefinition[] = [
  {
    path: 'res.content_encoding',
    type: 'list<string>',
    read: (flow) => listHeader(responseOf(flow).headers, 'content-encoding')
  },
  {
    path: 'res.content_length',
    type: 'int',
    optional: true,
    ...ofInteger((flow) => responseBodyLength(responseOf(flow)))
  },
  { path: 'res.content_type', type: 'string', read: (flow) => responseType(flow).mediaType },
  { path: 'res.content_type.parameters', type: 'map<string, string>', read: (flow) => responseType(flow).parameters },
  { path: 'res.content_type.raw', type: 'string', read: (flow) => responseType(flow).raw },
  { path: 'res.cookies', type: COOKIES, read: responseCookies },
  {
    path: 'res.headers',
    type: HEADERS,
    read: (flow) => headerMap(flow, responseFields, responseOf(flow).headers),
    walked: (flow) => responseOf(flow).headers.byName,
    entry: (flow, key) => responseOf(flow).headers.entry(key)
  },
  { path: 'res.trailers', type: HEADERS, read: (flow) => trailerMap(responseOf(flow).trailers?.()) },
  { path: 'res.location', type: 'string', read: (flow) => responseOf(flow).headers.get('location') ?? '' },
  { path: 'res.status_code', type: 'int', ...ofInteger((flow) => responseOf(flow).status) }
]

/** `res.*`. */
export const responseVariables: readonly VariableDefinition[] = responseLines.map((line) => ({
  ...line,
  phases: 'response'
}))

/** State of the attempts for `retry_condition` of http-request, in the representation of the expression layer. */
interface HttpAttempts {
  readonly count: bigint
  /** `req`, and `res` or `error`. */
  readonly last: ReadonlyMap<string, unknown>
}

const shownAttempts = flowSlot<HttpAttempts>('http_request.attempts')

/** Makes the attempts readable for the next evaluation. */
export function showAttempts(flow: Flow, attempts: HttpAttempts): void {
  flow.set(shownAttempts, attempts)
}

function shown(flow: Flow): HttpAttempts | undefined {
  return flow.get(shownAttempts)
}

/** `attempts` and `last_attempt`, which only `retry_condition` knows. */
export const httpAttemptVariables: readonly VariableDefinition[] = [
  { path: 'attempts', type: 'int', read: (flow) => shown(flow)?.count ?? 0n },
  { path: 'last_attempt', type: 'map<string, dyn>', optional: true, read: (flow) => shown(flow)?.last }
]
