import type { FastifyReply, FastifyRequest } from 'fastify'
import { ControlError, controlErrors, RETRY_AFTER } from '../control/errors.js'
import { type Coded, codeOf, defineErrors, type ErrorRow, type NgrokCode } from '../lib/errors.js'
import { isObject } from '../lib/json.js'
import { fieldErrors } from '../schema/errors.js'
import type { Problem } from '../schema/field.js'

/** Codes of requests that the API refuses before they reach the control plane. */
export const apiErrors = defineErrors({
  AUTH_MISSING: { status: 401, text: 'The request has no API key.', help: 'Send Authorization: Bearer with a key.' },
  AUTH_MALFORMED: {
    status: 401,
    text: 'The field Authorization has another form than Bearer with a key.',
    help: 'Send Authorization: Bearer with a key.'
  },
  AUTH_INVALID: {
    status: 401,
    text: 'The API key is not valid.',
    help: 'Use a key that exists; sluice api-key create makes one.'
  },
  AUTH_WRONG_KIND: {
    status: 401,
    text: 'What was given is the secret of something else, such as a token of an agent.',
    help: 'Use an API key.'
  },
  VERSION_MISSING: {
    status: 400,
    text: 'The request does not say which version of the API it means.',
    help: 'Send Service-Version: 2.'
  },
  VERSION_UNSUPPORTED: {
    status: 400,
    text: 'The request asks for a version of the API that does not exist.',
    help: 'Send Service-Version: 2.'
  },
  IP_NOT_ALLOWED: {
    status: 403,
    text: 'The IP restriction of the API excludes the address of the client.',
    help: 'Add the address to an IP policy of the restriction if it should have access.'
  },
  HOST_NOT_ALLOWED: {
    status: 403,
    text: 'The Host of the request is not a name of the API.',
    help: 'Use a name of the API, or add it with api.public_url or api.allowed_hosts.'
  },
  ORIGIN_NOT_ALLOWED: {
    status: 403,
    text: 'The Origin of the request is not a name of the API.',
    help: 'Add the origin with api.cors_origins if its pages should have access.'
  },
  SESSION_ENDED: {
    status: 401,
    text: 'The session of the dashboard has ended.',
    help: 'Sign in again.'
  },
  SESSION_FOREIGN: {
    status: 403,
    text: 'A page of another origin has used the session of the dashboard.',
    help: 'Scripts and other pages send Authorization: Bearer with a key.'
  },
  RATE_LIMITED: {
    status: 429,
    text: 'The owner of the key has sent too many requests.',
    help: 'Wait as many seconds as retry-after says, or raise api.rate_limit.'
  },
  STREAMS_LIMITED: {
    status: 429,
    text: 'The caller has as many streams open as it may.',
    help: 'Close one of them; a stream serves as many readers as share its connection.'
  },
  METHOD_NOT_ALLOWED: {
    status: 405,
    text: 'The path does not have this method.',
    help: 'Use a method that the field Allow names.'
  },
  PATH_INVALID: { status: 400, text: 'The path is not a valid URL path.', help: 'Correct its escapes.' },
  QUERY_MALFORMED: { status: 400, text: 'The query is not percent-encoded UTF-8.', help: 'Encode the query.' },
  QUERY_UNKNOWN: {
    status: 400,
    text: 'The query has a parameter that is not known.',
    help: 'Remove it; the message lists the parameters.'
  },
  QUERY_REPEATED: { status: 400, text: 'A parameter of the query stands twice.', help: 'Give it once.' },
  PAGE_LIMIT: { status: 400, text: 'The size of a page is out of bounds.', help: 'Ask for 1 to 100 records.' },
  PRECONDITION_INVALID: {
    status: 400,
    text: 'The field If-Match or If-None-Match has a wrong form.',
    help: 'Send the ETag of an answer as it is, in double quotes.'
  },
  CONTENT_TYPE_MISSING: {
    status: 400,
    text: 'A request with a body does not say what it is.',
    help: 'Send Content-Type: application/json.'
  },
  CONTENT_TYPE_UNSUPPORTED: {
    status: 415,
    text: 'The body is not JSON in UTF-8, or it is compressed.',
    help: 'Send application/json without a content coding.'
  },
  BODY_INVALID: { status: 400, text: 'The body is missing or is no JSON object.', help: 'Send a JSON object.' },
  BODY_UNREADABLE: {
    status: 400,
    text: 'The body is not UTF-8 or ended before its announced length.',
    help: 'Send the whole body in UTF-8.'
  },
  BODY_TOO_LARGE: {
    status: 413,
    text: 'The body is larger than 1 MiB, or 4 MiB of a site file.',
    help: 'Send less in one request.'
  },
  BODY_UNEXPECTED: { status: 400, text: 'A request of this kind has no body.', help: 'Send it without a body.' },
  HEADERS_TOO_LARGE: { status: 431, text: 'The header fields are too large.', help: 'Send fewer or shorter fields.' },
  REQUEST_TIMEOUT: {
    status: 408,
    text: 'The request did not arrive in time.',
    help: 'Send it again on a better connection.'
  },
  REQUEST_INVALID: {
    status: 400,
    text: 'The request could not be understood.',
    help: 'Correct the client: the request does not follow RFC 9112.'
  }
})

/** One of several things that are wrong with a body: `error_code`, `msg`, and the `details` that it alone would have. */
export type ShownProblem = Readonly<Record<string, string>>

/** Status of a refusal that is no row of a table of the API: a problem of a policy document. */
const BAD_REQUEST = 400

/** An error response of the API. `word` is stable; `details` contains strings only and no secret. */
export class ApiError extends Error {
  readonly status: number
  readonly word: string
  readonly details: Readonly<Record<string, string>>
  readonly headers: Readonly<Record<string, string>>
  /** All that is wrong, this error first, where there are several. */
  readonly problems: readonly ShownProblem[]

  /** The status is that of the row. */
  constructor(
    { code, status = BAD_REQUEST }: Coded & { readonly status?: number | undefined },
    message: string,
    details: Readonly<Record<string, string>> = {},
    headers: Readonly<Record<string, string>> = {},
    problems: readonly ShownProblem[] = []
  ) {
    super(message)
    this.status = status
    this.word = code
    this.details = details
    this.headers = headers
    this.problems = problems
  }
}

/** Sends an error in the common form; `details.operation_id` equals the response's `Service-Operation-Id`. */
export function sendError(reply: FastifyReply, error: ApiError): FastifyReply {
  const { request } = reply
  // Otherwise the rest of the body would be read to its end, or parsed as the next request.
  if (!request.raw.complete) reply.header('connection', 'close')
  reply.code(error.status).header('service-operation-id', request.id).headers(error.headers)
  return isForPeople(request)
    ? reply.type('text/html; charset=utf-8').send(errorPage(error, request.id))
    : reply.type('application/json; charset=utf-8').send(errorBody(error, request.id, ngrokCodeFor(error, request)))
}

/** Does a browser ask for one of the pages? */
function isForPeople({ found, headers }: FastifyRequest): boolean {
  return found?.config.entrance === 'dashboard' && headers.accept?.includes('text/html') === true
}

/** Builds an error page. Its messages contain no data of the request, so escaping is not needed. */
function errorPage({ status, word, message }: ApiError, operationId: string): string {
  return `<!doctype html>
<html lang="en">
  <head><meta charset="utf-8"><title>${status}</title></head>
  <body><h1>${status}</h1><p>${message}</p><p>ERR_SLUICE_${word}, operation ${operationId}</p></body>
</html>
`
}

/** Rows with codes of ngrok, by their own codes. */
const NGROK_CODES: ReadonlyMap<string, readonly NgrokCode[]> = new Map(
  [controlErrors, fieldErrors]
    .flatMap((table) => Object.values<ErrorRow>(table))
    .map(({ code, ngrok = [] }) => [code, ngrok] as const)
)

/** Is the caller a client of ngrok? Those send `Ngrok-Version`. */
export function isNgrokClient({ headers }: Pick<FastifyRequest, 'headers'>): boolean {
  return headers['ngrok-version'] !== undefined && headers['service-version'] === undefined
}

/** Returns the number of ngrok's code for the error, if the caller is a client of ngrok and its tools decide by that code. */
function ngrokCodeFor({ word, details }: ApiError, request: FastifyRequest): number | undefined {
  if (!isNgrokClient(request)) return undefined
  const resource = request.found?.config.resource
  const field = details.field?.replace(/\[\d+\]$/, '')
  const found = NGROK_CODES.get(word)?.find(
    (one) =>
      (one.resource ?? resource) === resource &&
      (one.field ?? field) === field &&
      (one.sent === undefined || (isObject(request.body) && request.body[one.sent] === true))
  )
  return found?.number
}

/** Returns the body as text. `ngrok`: number of the code that stands in place of ours, which the details then name. */
export function errorBody(
  { status, word, message, details, problems }: ApiError,
  operationId: string,
  ngrok?: number
): string {
  const own = `ERR_SLUICE_${word}`
  return JSON.stringify({
    error_code: ngrok === undefined ? own : `ERR_NGROK_${ngrok}`,
    status_code: status,
    msg: message,
    details: { operation_id: operationId, ...(ngrok === undefined ? {} : { code: own }), ...details },
    ...(problems.length > 1 ? { problems } : {})
  })
}

/** Converts an error into an error of the API; undefined for an internal error. */
export function apiErrorOf(error: unknown): ApiError | undefined {
  if (error instanceof ApiError) return error
  if (error instanceof ControlError) return refusal(error)
  const status =
    typeof error === 'object' && error !== null && 'statusCode' in error ? Number(error.statusCode) : undefined
  return frameworkError(codeOf(error), status)
}

function refusal(error: ControlError): ApiError {
  const { code, message, details, problems } = error
  const others = problems.slice(1)
  const more = others.length === 0 ? details : { ...details, also: others.map(shown).join('; ') }
  const rows: Readonly<Record<string, ErrorRow | undefined>> = controlErrors
  const wait = details[RETRY_AFTER]
  const headers: Readonly<Record<string, string>> = wait === undefined ? {} : { 'retry-after': wait }
  return new ApiError(
    { code, status: error.status ?? rows[code]?.status },
    message,
    more,
    headers,
    problems.map(asShown)
  )
}

function asShown({ field, code, message, details }: Problem): ShownProblem {
  return { error_code: `ERR_SLUICE_${code}`, msg: message, ...(field === '' ? {} : { field }), ...details }
}

/** Formats a problem, with its position in a policy document. */
function shown({ field, message, details }: Problem): string {
  const place = details?.line === undefined ? '' : `line ${details.line}, column ${details.column}: `
  return field === '' ? `${place}${message}` : `${field} ${place}${message}`
}

/** Converts an error of the framework. */
function frameworkError(code: string | undefined, status: number | undefined): ApiError | undefined {
  switch (code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return bodyTooLarge()
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
    case 'FST_ERR_CTP_INVALID_CONTENT_TYPE':
      return new ApiError(apiErrors.CONTENT_TYPE_UNSUPPORTED, 'The body must be application/json in UTF-8.')
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return new ApiError(apiErrors.BODY_UNREADABLE, 'The body ended before its announced length.')
    case 'FST_ERR_MAX_PARAM_LENGTH':
    case 'FST_ERR_ROUTE_MAX_PARAM_LENGTH':
      return nothingThere()
    case 'FST_ERR_BAD_URL':
      return new ApiError(apiErrors.PATH_INVALID, 'The path is not a valid URL path.')
    default:
      return status !== undefined && status >= 400 && status < 500
        ? new ApiError({ ...apiErrors.REQUEST_INVALID, status }, 'The request could not be understood.')
        : undefined
  }
}

export function bodyTooLarge(): ApiError {
  return new ApiError(apiErrors.BODY_TOO_LARGE, 'The body is larger than its path allows.')
}

/** Returns the error for an unknown path. */
export function nothingThere(): ApiError {
  return new ApiError(controlErrors.NOT_FOUND, 'There is nothing under this path.')
}
