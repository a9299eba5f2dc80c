import type { Expression } from '../../expression/expression.js'
import { expressionErrors } from '../../expression/problems.js'
import { httpAttemptVariables } from '../../expression/variables/http.js'
import { type InternalRequests, isInternal } from '../../flow/flow.js'
import { NEVER_WRITTEN } from '../../flow/headers.js'
import { refuse } from '../../flow/verdict.js'
import { defineErrors } from '../../lib/errors.js'
import { parseDuration } from '../../lib/units.js'
import { defineAction, ERROR_RESULTS, type Scope } from '../../policy/action.js'
import { config, headerMap } from '../../policy/fields.js'
import { policyErrors } from '../../policy/problems.js'
import { serviceKey } from '../../policy/services.js'
import { checkUrl } from '../../policy/values.js'
import { policyWarnings } from '../../policy/warnings/codes.js'
import { valueLike, WEB_URL } from '../../schema/editor.js'
import { choice, duration, integer, list, object, optional, template, text } from '../../schema/values.js'
import { defineFeature } from '../contract.js'
import { compileMessage, requesting, writtenHost } from './attempts.js'

/** Error codes of the action http-request. */
const httpRequestErrors = defineErrors({
  HTTP_REQUEST_TIMEOUT: {
    status: 504,
    text: 'A request of the policy got no answer in time.',
    help: 'Find out why its receiver is slow, raise timeout, or set on_error to continue.'
  },
  HTTP_REQUEST_FAILED: {
    status: 502,
    text: 'A request of the policy failed.',
    help: 'Look at error.code of the results, or set on_error to continue.'
  },
  RETRY_CONDITION_FAILED: { text: 'The retry_condition has no value.', help: 'Correct the expression.' }
})

/** Problem codes of the action http-request. */
const httpRequestProblems = defineErrors({
  INTERNAL_DYNAMIC: {
    text: 'The host of the url is only known with a request, so it reaches no internal endpoint.',
    help: 'Write the host of an internal endpoint as a constant.'
  }
})

/** Requests of policies to internal endpoints. Undefined if there are none: then internal names are ordinary ones. */
export const internalRequests = serviceKey<InternalRequests | undefined>('internal_requests', () => undefined)

const SECOND = 1_000
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const
const HEADERS = 'map<string, list<string>>'

const parameter = object(
  {
    key: template({ description: 'Name of the parameter.', min: 1, max: 128 }),
    value: template({ description: 'Its value.', max: 8192 })
  },
  { description: 'A parameter of the URL.' }
)

/**
 * Sends a request and publishes the response.
 *
 * No response is a failure: later rules can read `res.status_code`. Without `max_redirects` a redirect is an ordinary response. An internal
 * name is sent to that endpoint, whose modules and policy run; it must be written in the document, so that no client or server can choose
 * it. Private addresses are refused unless the operator allows them, for each redirect again and whatever the source of the name. The request is
 * aborted when the client disconnects.
 */
const action = defineAction({
  type: 'http-request',
  summary: 'Makes an HTTP request and publishes its answer for later rules.',
  example: {
    policy: `on_http_request:
  - actions:
      - type: http-request
        config:
          url: https://auth.example.com/check
          headers:
            authorization: \${getReqHeader('authorization')[0]}
          timeout: 2s
          on_error: halt
`
  },
  confined: { guest: noInternalHost },
  phases: ['on_http_request', 'on_http_response'],
  config: config({
    url: template({ description: 'Where to.', min: 1, editor: valueLike(WEB_URL) }),
    method: optional(choice(METHODS, { description: 'Method of the request.', default: 'GET' })),
    query_params: optional(list(parameter, { description: 'Added to the URL.', max: 32 })),
    headers: optional(headerMap({ description: 'Fields of the request.', refused: NEVER_WRITTEN, max: 10 })),
    body: optional(template({ description: 'Body of the request.' })),
    max_redirects: optional(integer({ description: 'Redirects to follow; none when left out.', min: 0, max: 100 })),
    timeout: optional(
      duration({ description: 'For all attempts and redirects', min: SECOND, max: 30 * SECOND, default: '3s' })
    ),
    // Compiled separately: it uses `attempts` and `last_attempt`, which no other expression has.
    retry_condition: optional(
      text({ description: 'CEL over attempts and last_attempt; true tries again, up to 3 times.', default: 'false' })
    ),
    on_error: optional(choice(['continue', 'halt'], { description: 'What follows a failure.', default: 'continue' }))
  }),
  configOptional: false,
  terminates: 'sometimes',
  leaves: ({ on_error }) =>
    (on_error === 'halt' ? [''] : ['.req', '.error', '.attempts']).map(
      (field) => `actions.service.http_request${field}`
    ),
  results: {
    name: 'http_request',
    fields: {
      ...ERROR_RESULTS,
      attempts: [
        'list<dyn>',
        'The attempts: resolved_ip, response_status_code, response_time_ms, response_header and error_code of each.'
      ],
      'req.method': ['string', 'Method of the request that was sent.'],
      'req.url': ['string', 'URL of the request that was sent.'],
      'req.header': [HEADERS, 'Its header fields by lower-case name.'],
      'req.body': ['string', 'Its body as text.'],
      'res.resolved_ip': ['string', 'Address that the answer came from.'],
      'res.status_code': ['int', 'Status of the answer.'],
      'res.time_ms': ['int', 'Milliseconds until the answer was there.'],
      'res.header': [HEADERS, 'Header fields of the answer by lower-case name.'],
      'res.body': ['string', 'Body of the answer as text.']
    }
  },
  compile(settings, scope) {
    const { url, max_redirects = 0, timeout = '3s', retry_condition = 'false', on_error } = settings
    checkUrl(url, /^https?:\/\/[^\s/]/i, 'an absolute http or https URL', ['url'], scope)
    nameInternal(url, scope)
    const message = compileMessage(settings, scope)
    const host = writtenHost(url)
    if (host !== '') scope.leadsTo({ by: 'request', layer: 'http', host })
    const request = requesting({
      services: scope.services,
      internal: scope.service(internalRequests),
      timeout: parseDuration(timeout) ?? 3 * SECOND,
      redirects: max_redirects,
      retry: compileCondition(retry_condition, scope),
      inside: internalHost(url, scope)
    })
    return async (flow) => {
      const failure = await request(message(flow), flow)
      if (failure === undefined || on_error !== 'halt') return undefined
      return failure === 'TIMEOUT'
        ? refuse(httpRequestErrors.HTTP_REQUEST_TIMEOUT)
        : refuse(httpRequestErrors.HTTP_REQUEST_FAILED)
    }
  }
})

/** Returns the internal host written in the document; undefined for none. */
function internalHost(url: string, scope: Scope): string | undefined {
  const host = writtenHost(url)
  if (isInternal(host)) return host
  const [authority = ''] = /^[^/]*\/\/(?:\$\{[^}]*\}|[^/?#$])*/.exec(url) ?? []
  if (authority.includes('${') && /\.internal\b/i.test(authority)) {
    const message = 'an internal endpoint is only reached by a host that is written out, without ${…}'
    scope.warn(['url'], httpRequestProblems.INTERNAL_DYNAMIC, message)
  }
  return undefined
}

/** Declares an internal name that is literal in the text. */
function nameInternal(source: string, scope: Scope): void {
  if (source.includes('${') || !URL.canParse(source)) return
  const { hostname: host, port } = new URL(source)
  if (!isInternal(host)) return
  scope.names({ kind: 'internal', layer: 'http', host, port: port === '' ? undefined : Number(port) }, ['url'])
}

/** Compiles the condition; undefined: never. */
function compileCondition(source: string, scope: Scope): Expression | undefined {
  if (source.trim() === 'false') return undefined
  const at = ['retry_condition']
  const compiled = scope.services.expressions.expression(source, scope.phase, httpAttemptVariables)
  for (const found of compiled.ok ? compiled.warnings : compiled.problems) {
    if (found.severity === 'error') scope.problem(at, found, found.message)
    else scope.warn(at, found, found.message)
  }
  if (!compiled.ok) return undefined
  for (const { message } of compiled.literals ?? []) scope.warn(at, policyWarnings.LITERAL_NEVER_EQUAL, message)
  const { type } = compiled.value
  if (type !== 'bool' && type !== 'dyn') {
    scope.problem(
      at,
      expressionErrors.EXPRESSION_TYPE,
      `retry_condition must be true or false; this one is of type ${type}`
    )
  }
  return compiled.value
}

function noInternalHost({ url }: Readonly<Record<string, unknown>>, scope: Scope): void {
  const host = writtenHost(String(url))
  if (isInternal(host)) {
    scope.problem(
      ['url'],
      policyErrors.ACTION_UNSUPPORTED,
      `the policy of an agent does not lead to internal endpoints (${host})`
    )
  }
}

/** Feature: requests from policies. */
export const httpRequest = defineFeature({
  name: 'http-request',
  summary: 'Makes a request of its own and lets later rules read the answer.',
  actions: [action],
  errors: [httpRequestErrors],
  problems: [httpRequestProblems]
})
