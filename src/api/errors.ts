import type { FastifyReply, FastifyRequest } from 'fastify'
import { ControlError, controlErrors } from '../control/errors.js'
import { codeOf } from '../lib/errors.js'
import type { Problem } from '../schema/field.js'

/** One of several things that are wrong with a body: `error_code`, `msg`, and the `details` that it alone would have. */
export type ShownProblem = Readonly<Record<string, string>>

/** An answer of the API that is an error. `word` is stable; `details` holds strings only and no secret. */
export class ApiError extends Error {
  readonly status: number
  readonly word: string
  readonly details: Readonly<Record<string, string>>
  readonly headers: Readonly<Record<string, string>>
  /** All that is wrong, this error first, where there are several. */
  readonly problems: readonly ShownProblem[]

  constructor(
    status: number,
    word: string,
    message: string,
    details: Readonly<Record<string, string>> = {},
    headers: Readonly<Record<string, string>> = {},
    problems: readonly ShownProblem[] = []
  ) {
    super(message)
    this.status = status
    this.word = word
    this.details = details
    this.headers = headers
    this.problems = problems
  }
}

/** Sends the one form of all errors; `details.operation_id` is the id that the answer's `Service-Operation-Id` has too. */
export function sendError(reply: FastifyReply, error: ApiError): FastifyReply {
  const { request } = reply
  // What is left of the body would be read to its end, or stand where the next request is expected.
  if (!request.raw.complete) reply.header('connection', 'close')
  reply.code(error.status).header('service-operation-id', request.id).headers(error.headers)
  return isForPeople(request)
    ? reply.type('text/html; charset=utf-8').send(errorPage(error, request.id))
    : reply.type('application/json; charset=utf-8').send(errorBody(error, request.id))
}

/** Does a browser ask for one of the pages? */
function isForPeople({ headers, routeOptions }: FastifyRequest): boolean {
  return routeOptions.config?.entrance === 'dashboard' && headers.accept?.includes('text/html') === true
}

/** Messages are ours and hold nothing of the request, so there is nothing to escape. */
function errorPage({ status, word, message }: ApiError, operationId: string): string {
  return `<!doctype html>
<html lang="en">
  <head><meta charset="utf-8"><title>${status}</title></head>
  <body><h1>${status}</h1><p>${message}</p><p>ERR_SLUICE_${word}, operation ${operationId}</p></body>
</html>
`
}

/** The body as text, for answers that no handler gives. */
export function errorBody({ status, word, message, details, problems }: ApiError, operationId: string): string {
  return JSON.stringify({
    error_code: `ERR_SLUICE_${word}`,
    status_code: status,
    msg: message,
    details: { operation_id: operationId, ...details },
    ...(problems.length > 1 ? { problems } : {})
  })
}

/** What was refused, in the words of this API. Undefined: a fault of ours. */
export function apiErrorOf(error: unknown): ApiError | undefined {
  if (error instanceof ApiError) return error
  if (error instanceof ControlError) return refusal(error)
  const status =
    typeof error === 'object' && error !== null && 'statusCode' in error ? Number(error.statusCode) : undefined
  return frameworkError(codeOf(error), status)
}

/** Status of a refusal whose row names none. */
const BAD_REQUEST = 400

function refusal({ code, message, details, problems }: ControlError): ApiError {
  const others = problems.slice(1)
  const more = others.length === 0 ? details : { ...details, also: others.map(shown).join('; ') }
  return new ApiError(controlErrors[code]?.status ?? BAD_REQUEST, code, message, more, {}, problems.map(asShown))
}

function asShown({ field, code, message, details }: Problem): ShownProblem {
  return { error_code: `ERR_SLUICE_${code}`, msg: message, ...(field === '' ? {} : { field }), ...details }
}

/** With its place when it is one in a policy document. */
function shown({ field, message, details }: Problem): string {
  const place = details?.line === undefined ? '' : `line ${details.line}, column ${details.column}: `
  return field === '' ? `${place}${message}` : `${field} ${place}${message}`
}

/** What the framework refused, in our words. */
function frameworkError(code: string | undefined, status: number | undefined): ApiError | undefined {
  switch (code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return bodyTooLarge()
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
    case 'FST_ERR_CTP_INVALID_CONTENT_TYPE':
      return new ApiError(415, 'CONTENT_TYPE_UNSUPPORTED', 'The body must be application/json in UTF-8.')
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return new ApiError(400, 'BODY_UNREADABLE', 'The body ended before its announced length.')
    case 'FST_ERR_MAX_PARAM_LENGTH':
    case 'FST_ERR_ROUTE_MAX_PARAM_LENGTH':
      return nothingThere()
    case 'FST_ERR_BAD_URL':
      return new ApiError(400, 'PATH_INVALID', 'The path is not a valid URL path.')
    default:
      return status !== undefined && status >= 400 && status < 500
        ? new ApiError(status, 'REQUEST_INVALID', 'The request could not be understood.')
        : undefined
  }
}

export function bodyTooLarge(): ApiError {
  return new ApiError(413, 'BODY_TOO_LARGE', 'The body is larger than 1 MiB.')
}

/** There is nothing at this path. */
export function nothingThere(): ApiError {
  return new ApiError(404, 'NOT_FOUND', 'There is nothing under this path.')
}
