import type { FastifyReply } from 'fastify'

/** An answer of the API that is an error. `word` is stable; `details` holds strings only and no secret. */
export class ApiError extends Error {
  readonly status: number
  readonly word: string
  readonly details: Readonly<Record<string, string>>
  readonly headers: Readonly<Record<string, string>>

  constructor(
    status: number,
    word: string,
    message: string,
    details: Readonly<Record<string, string>> = {},
    headers: Readonly<Record<string, string>> = {}
  ) {
    super(message)
    this.status = status
    this.word = word
    this.details = details
    this.headers = headers
  }
}

/** Sends the one form of all errors; `details.operation_id` is the id that the answer's `Service-Operation-Id` has too. */
export function sendError(reply: FastifyReply, error: ApiError): FastifyReply {
  return reply
    .code(error.status)
    .header('service-operation-id', reply.request.id)
    .headers(error.headers)
    .type('application/json; charset=utf-8')
    .send(errorBody(error, reply.request.id))
}

/** The body as text, for answers that no handler gives. */
export function errorBody({ status, word, message, details }: ApiError, operationId: string): string {
  return JSON.stringify({
    error_code: `ERR_SLUICE_${word}`,
    status_code: status,
    msg: message,
    details: { operation_id: operationId, ...details }
  })
}

/** What the framework refused, in our words. Undefined: a fault of ours. */
export function frameworkError(code: string | undefined, status: number | undefined): ApiError | undefined {
  switch (code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return new ApiError(413, 'BODY_TOO_LARGE', 'The body is larger than 1 MiB.')
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
    case 'FST_ERR_CTP_INVALID_CONTENT_TYPE':
      return new ApiError(415, 'CONTENT_TYPE_UNSUPPORTED', 'The body must be application/json.')
    case 'FST_ERR_CTP_EMPTY_JSON_BODY':
    case 'FST_ERR_CTP_INVALID_JSON_BODY':
      return new ApiError(400, 'BODY_INVALID', 'The body is not valid JSON.')
    case 'FST_ERR_BAD_URL':
      return new ApiError(400, 'PATH_INVALID', 'The path is not a valid URL path.')
    default:
      return status !== undefined && status >= 400 && status < 500
        ? new ApiError(status, 'REQUEST_INVALID', 'The request could not be understood.')
        : undefined
  }
}
