import Type from 'typebox'
import { defineUnavailable } from '../action.js'
import { choice, config, template } from '../fields.js'

/** Hands the exchange or the connection to an internal endpoint. */
export const forwardInternal = defineUnavailable({
  type: 'forward-internal',
  phases: ['on_tcp_connect', 'on_http_request'],
  config: config({
    url: template({ description: 'scheme://host[:port] of an internal endpoint.', minLength: 1 }),
    on_error: Type.Optional(
      choice(['halt', 'continue'], {
        description: 'What follows when the endpoint cannot be reached.',
        default: 'halt'
      })
    )
  }),
  configOptional: false,
  // With `on_error: continue` the actions behind it run.
  terminates: 'sometimes',
  results: { name: 'forward_internal', fields: { url: 'string', 'error.code': 'string', 'error.message': 'string' } },
  check({ url }, scope) {
    if (!url.includes('${') && !/^(?:https?|tcp|tls):\/\/[^\s/]+\/?$/i.test(url)) {
      scope.problem(
        ['url'],
        'CONFIG_INVALID',
        `"${url}" is no scheme://host[:port]; schemes are http, https, tcp and tls`
      )
    }
  }
})
