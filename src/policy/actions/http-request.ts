import Type from 'typebox'
import { defineUnavailable } from '../action.js'
import { choice, config, duration, headerMap, template, text, whole } from '../fields.js'
import { checkUrl } from './absolute-url.js'
import { compileHeaders } from './header-writing.js'

const SECOND = 1_000
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const

const parameter = config({
  key: template({ description: 'Name of the parameter.', minLength: 1, maxLength: 128 }),
  value: template({ description: 'Its value.', maxLength: 8192 })
})

/** Makes a request of its own and publishes the answer. */
export const httpRequest = defineUnavailable({
  type: 'http-request',
  phases: ['on_http_request', 'on_http_response'],
  config: config({
    url: template({ description: 'Where to.', minLength: 1 }),
    method: Type.Optional(choice(METHODS, { description: 'Method of the request.', default: 'GET' })),
    query_params: Type.Optional(Type.Array(parameter, { description: 'Added to the URL.', maxItems: 32 })),
    headers: Type.Optional(headerMap({ description: 'Fields of the request.', max: 10 })),
    body: Type.Optional(template({ description: 'Body of the request.' })),
    max_redirects: Type.Optional(whole({ description: 'Redirects to follow.', min: 0, max: 100 })),
    timeout: Type.Optional(
      duration({ description: 'For all attempts and redirects', min: SECOND, max: 30 * SECOND, default: '3s' })
    ),
    // It reads `attempts` and `last_attempt`, which no other expression knows, so it is not compiled here.
    retry_condition: Type.Optional(
      text({ description: 'CEL over attempts and last_attempt; true tries again.', default: 'false' })
    ),
    on_error: Type.Optional(
      choice(['continue', 'halt'], { description: 'What follows a failure.', default: 'continue' })
    )
  }),
  configOptional: false,
  terminates: 'sometimes',
  results: {
    name: 'http_request',
    fields: {
      'error.code': 'string',
      'error.message': 'string',
      attempts: 'list<dyn>',
      'req.method': 'string',
      'req.url': 'string',
      'req.header': 'map<string, list<string>>',
      'req.body': 'string',
      'res.resolved_ip': 'string',
      'res.status_code': 'int',
      'res.time_ms': 'int',
      'res.header': 'map<string, list<string>>',
      'res.body': 'string'
    }
  },
  check({ url, headers = {} }, scope) {
    compileHeaders(headers, ['headers'], scope)
    checkUrl(url, /^https?:\/\/[^\s/]/i, 'an absolute http or https URL', ['url'], scope)
  }
})
