import { EvaluationError } from '../expression/expression.js'
import { expressionErrors } from '../expression/problems.js'
import { numeric } from '../expression/values.js'
import { mediaTypeOf } from '../flow/content-coding.js'
import type { Flow } from '../flow/flow.js'
import { NEVER_WRITTEN } from '../flow/headers.js'
import { respond as answerWith, closeConnection as close, closeConnection, refuse } from '../flow/verdict.js'
import { defineErrors } from '../lib/errors.js'
import { defineAction, type Scope } from '../policy/action.js'
import { config, headerMap } from '../policy/fields.js'
import { policyErrors } from '../policy/problems.js'
import { compileHeaders } from '../policy/values.js'
import { given, implies } from '../schema/editor.js'
import { either, expression, integer, optional, template } from '../schema/values.js'
import { defineFeature } from './contract.js'

/** Error codes of the action deny. */
const respondErrors = defineErrors({
  POLICY_DENIED: {
    status: 403,
    text: 'An action deny has refused the request; its config may set another status.',
    help: 'Look at the rules of the policy if the request should pass.'
  }
})

/** Refuses: a response without a body on HTTP, a closed connection on TCP. */
const deny = defineAction({
  type: 'deny',
  summary: 'Refuses the request or closes the connection.',
  example: {
    policy: `on_http_request:
  - expressions: ["req.url.path.startsWith('/internal/')"]
    actions:
      - type: deny
        config:
          status_code: 404
`,
    request: 'GET /internal/metrics',
    status: 404
  },
  phases: ['on_tcp_connect', 'on_http_request'],
  config: config({
    status_code: optional(
      integer({ description: 'Status of the answer, 403 when left out; HTTP only.', min: 400, max: 599 })
    )
  }),
  configOptional: true,
  terminates: 'always',
  denies: true,
  compile({ status_code }, scope) {
    if (scope.phase === 'on_tcp_connect') {
      if (status_code !== undefined) {
        const message = 'a TCP connection is closed without a status; leave it out'
        scope.unavailable(['status_code'], message, policyErrors.CONFIG_UNUSED)
      }
      return () => closeConnection
    }
    const verdict = refuse({ ...respondErrors.POLICY_DENIED, status: status_code ?? 403 })
    return () => verdict
  }
})

/** Closes the client's connection at once without a response. */
const closeConnectionAction = defineAction({
  type: 'close-connection',
  summary: 'Closes the connection without an answer.',
  example: {
    policy: `on_http_request:
  - expressions: ["req.url.path.startsWith('/wp-')"]
    actions:
      - type: close-connection
`,
    request: 'GET /wp-login.php',
    status: 0
  },
  phases: ['on_tcp_connect', 'on_http_request'],
  config: config({}),
  configOptional: true,
  terminates: 'always',
  denies: true,
  compile: () => () => close
})

/** Lowest status: a 1xx is not final, and a client would wait for the final response. */
const LOWEST = 200
/** Highest status. */
const HIGHEST = 599

/** Statuses of responses without content (RFC 9110 15.3.5, 15.3.6, 15.4.5). */
const WITHOUT_BODY = new Set([204, 205, 304])

const FILLED = { type: ['string', 'number', 'boolean'] }
const EMPTY = { maxLength: 0, type: ['string', 'null'] }
/** JSON schema for editors of the checks in `compile`. */
const ONE_BODY = {
  not: { required: ['body', 'content'], properties: { body: FILLED, content: FILLED } },
  ...implies(given('status_code', [...WITHOUT_BODY]), { properties: { body: EMPTY, content: EMPTY } })
}

/** Responds instead of the upstream, or replaces the upstream's response. */
const customResponse = defineAction({
  type: 'custom-response',
  summary: 'Answers with a status, header fields and a body of its own.',
  example: {
    policy: `on_http_request:
  - expressions: ["req.url.path.startsWith('/shop')"]
    actions:
      - type: custom-response
        config:
          status_code: 503
          headers:
            retry-after: '600'
          body: Back in ten minutes, \${conn.client_ip}.
`,
    request: 'GET /shop/cart',
    status: 503
  },
  phases: ['on_http_request', 'on_http_response'],
  config: config(
    {
      status_code: optional(
        either(
          [
            integer({ description: 'Status of the answer.', min: LOWEST, max: HIGHEST, default: 200 }),
            expression({ description: 'CEL that says the status, with or without ${…}.' })
          ],
          { description: 'Status of the answer: a number from 200 to 599, or CEL that says it. Default 200.' }
        )
      ),
      body: optional(template({ description: 'Body of the answer.' })),
      content: optional(template({ description: 'Older name of body.' })),
      headers: optional(headerMap({ description: 'Fields of the answer.', refused: NEVER_WRITTEN, max: 10 }))
    },
    ONE_BODY
  ),
  configOptional: true,
  terminates: 'always',
  denies: ({ status_code = 200 }) => typeof status_code === 'string' || status_code >= 400,
  compile({ status_code = 200, body, content, headers = {} }, scope) {
    if (body !== undefined && content !== undefined) {
      scope.problem(['content'], policyErrors.CONFIG_INVALID, 'content is the older name of body; give one of them')
    }
    const source = body ?? content ?? ''
    const field = body === undefined ? 'content' : 'body'
    const statusOf = compileStatus(status_code, scope)
    if (source !== '' && typeof status_code === 'number' && WITHOUT_BODY.has(status_code)) {
      scope.problem([field], policyErrors.CONFIG_INVALID, `an answer with status ${status_code} has no body`)
    }
    const bytes = compileBody(source, field, scope)
    const writing = compileHeaders(headers, ['headers'], scope)
    const inferred =
      source === '' || writing.names.includes('content-type') ? [] : ['content-type', mediaTypeOf(source)]
    return (flow) => {
      const status = statusOf(flow)
      if (WITHOUT_BODY.has(status)) return answerWith(status, writing.fields(flow))
      return answerWith(status, [...inferred, ...writing.fields(flow)], bytes(flow))
    }
  }
})

/** CEL types that can be a status. */
const STATUS_TYPES: readonly string[] = ['int', 'uint', 'double', 'string', 'dyn']

/** Compiles the status. The result throws `EvaluationError` if an expression returns an invalid one. */
function compileStatus(written: number | string, scope: Scope): (flow: Flow) => number {
  if (typeof written === 'number') return () => written
  const at = ['status_code']
  const value = written.includes('${') ? scope.template(written, at) : scope.expression(written, at)
  if (!STATUS_TYPES.includes(value.type)) {
    const message = `\`status_code\` must be a whole number; this is of type ${value.type}`
    scope.problem(at, expressionErrors.EXPRESSION_TYPE, message)
  }
  return (flow) => {
    const given = 'evaluate' in value ? value.evaluate(flow) : value.value(flow)
    const status = typeof given === 'string' && /^\d{3}$/.test(given) ? Number(given) : numberOf(given)
    if (status === undefined || !(status >= LOWEST && status <= HIGHEST))
      throw new EvaluationError('failed', `status_code must be a whole number from ${LOWEST} to ${HIGHEST}`)
    return status
  }
}

function numberOf(value: unknown): number | undefined {
  const number = numeric(value)
  if (typeof number === 'bigint') return Number(number)
  return typeof number === 'number' && Number.isInteger(number) ? number : undefined
}

function compileBody(source: string, field: string, scope: Scope): (flow: Flow) => Uint8Array | undefined {
  if (source === '') return () => undefined
  const compiled = scope.template(source, [field])
  if (compiled.constant === undefined) return (flow) => Buffer.from(compiled.text(flow), 'utf8')
  const bytes = Buffer.from(compiled.constant, 'utf8')
  return () => bytes
}

export const respond = defineFeature({
  name: 'respond',
  summary: 'Answers requests itself, refuses them, or closes their connection.',
  actions: [deny, closeConnectionAction, customResponse],
  errors: [respondErrors]
})
