import Type from 'typebox'
import { defineUnavailable } from '../action.js'
import { choice, config, template } from '../fields.js'
import { checkUrl } from './absolute-url.js'

const ENDPOINT = /^(?:https?|tcp|tls):\/\/[^\s/]+\/?$/i

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
    checkUrl(url, ENDPOINT, 'scheme://host[:port] with the scheme http, https, tcp or tls', ['url'], scope)
  }
})
