import { internalRequestErrors } from '../flow/error-codes.js'
import { type Flow, isInternal } from '../flow/flow.js'
import { refuse, type Verdict } from '../flow/verdict.js'
import { defineErrors, messageOf } from '../lib/errors.js'
import { outboundErrors } from '../lib/http-client/answer.js'
import { defineAction, ERROR_RESULTS } from '../policy/action.js'
import { config } from '../policy/fields.js'
import { checkUrl } from '../policy/values.js'
import { anyCase, valueLike } from '../schema/editor.js'
import { choice, optional, template } from '../schema/values.js'
import { defineFeature } from './contract.js'

/** Error codes of the action forward-internal. */
const forwardErrors = defineErrors({
  INTERNAL_ENTRY_MISSING: {
    status: 503,
    text: 'The action names an internal endpoint that does not exist.',
    help: 'Create the endpoint, or correct the url.'
  }
})

/** Problem codes of the action forward-internal. */
const forwardProblems = defineErrors({
  SCHEME_MISMATCH: {
    text: 'The scheme of the url fits no endpoint of this phase.',
    help: 'Use the scheme that the message names.'
  },
  NOT_INTERNAL: { text: 'The host of the url is no internal name.', help: 'Use a name that ends with .internal.' }
})

const EXPECTED = 'scheme://name.internal[:port] with the scheme http or https for requests, tcp or tls for connections'
const ENDPOINT = /^(https?|tcp|tls):\/\/([^\s/:@?#]+)(?::(\d{1,5}))?\/?$/i

/** Internal endpoint in a URL. */
interface Place {
  readonly layer: 'http' | 'tcp'
  readonly host: string
  readonly port: number | undefined
}

/**
 * Forwards the exchange or connection to an internal endpoint: an edge whose host ends with `.internal`, unreachable for clients. Its
 * modules and policy run too.
 */
const action = defineAction({
  type: 'forward-internal',
  summary: 'Hands the request or connection to an internal endpoint.',
  example: {
    policy: `on_http_request:
  - expressions: ["req.url.path.startsWith('/api/')"]
    actions:
      - type: forward-internal
        config:
          url: https://api.internal
`
  },
  confined: { guest: 'the policy of an agent does not lead to internal endpoints' },
  phases: ['on_tcp_connect', 'on_http_request'],
  needs: 'edge',
  config: config({
    url: template({
      description: 'scheme://host[:port] of an internal endpoint.',
      min: 1,
      editor: valueLike(
        `^(?:${['http', 'https', 'tcp', 'tls'].map(anyCase).join('|')})://[^\\s/:@?#]+(?::\\d{1,5})?/?$`
      )
    }),
    binding: optional(
      choice(['internal'], { description: 'Kind of the endpoint, as other programs write it; always internal.' })
    ),
    on_error: optional(
      choice(['halt', 'continue'], {
        description: 'What follows when the endpoint cannot be reached.',
        default: 'halt'
      })
    )
  }),
  configOptional: false,
  // With `on_error: continue` later actions run.
  terminates: 'sometimes',
  alwaysEnds: ({ on_error = 'halt' }) => on_error === 'halt',
  // Publishes only failures.
  leaves: () => [],
  results: {
    name: 'forward_internal',
    fields: { url: ['string', 'Where the request or connection was handed to.'], ...ERROR_RESULTS }
  },
  compile({ url, on_error = 'halt' }, scope) {
    const layer = scope.phase === 'on_tcp_connect' ? 'tcp' : 'http'
    checkUrl(url, ENDPOINT, EXPECTED, ['url'], scope)
    const template = scope.template(url, ['url'])
    const constant = template.constant === undefined ? undefined : placeOf(template.constant)
    if (constant !== undefined && constant.layer !== layer) {
      scope.warn(['url'], forwardProblems.SCHEME_MISMATCH, `"${url}" leads nowhere in ${scope.phase}: ${EXPECTED}`)
    }
    if (constant !== undefined && !isInternal(constant.host)) {
      scope.warn(
        ['url'],
        forwardProblems.NOT_INTERNAL,
        `"${constant.host}" is no internal name: it must end with .internal`
      )
    }
    if (constant !== undefined && constant.layer === layer && isInternal(constant.host)) {
      scope.names({ kind: 'internal', ...constant }, ['url'])
    }
    scope.leadsTo({ by: 'forward', layer, host: constant?.host })
    let warned = false
    const gone =
      layer === 'tcp' ? ({ kind: 'close', how: 'fin' } as const) : refuse(forwardErrors.INTERNAL_ENTRY_MISSING)
    return (flow): Verdict | undefined => {
      const place = constant ?? placeOf(template.text(flow))
      if (place !== undefined && place.layer === layer && flow.units.hasInternal(layer, place.host, place.port)) {
        const { host, port } = place
        return { kind: 'forward', host, ...(port === undefined ? {} : { port }) }
      }
      if (constant !== undefined && !warned) {
        warned = true
        const { owner, rule, services } = scope
        services.log.warn({ owner, rule, url }, 'there is no such internal edge')
      }
      publish(flow, template.text(flow), place)
      return on_error === 'continue' ? undefined : gone
    }
  }
})

/** Parses the URL of an internal endpoint. A TCP endpoint has no default port. */
function placeOf(url: string): Place | undefined {
  const match = ENDPOINT.exec(url)
  if (match === null) return undefined
  const [, scheme = '', host = '', digits] = match
  const port = digits === undefined ? undefined : Number(digits)
  if (port !== undefined && (port < 1 || port > 65_535)) return undefined
  return { layer: /^http/i.test(scheme) ? 'http' : 'tcp', host: host.toLowerCase().replace(/\.$/, ''), port }
}

function publish(flow: Flow, url: string, place: Place | undefined): void {
  const [{ code }, message] =
    place === undefined
      ? [outboundErrors.URL_INVALID, 'the URL is not that of an internal endpoint']
      : [internalRequestErrors.ENDPOINT_MISSING, messageOf(internalRequestErrors.ENDPOINT_MISSING)]
  flow.publish('forward_internal', { url, 'error.code': code, 'error.message': message })
}

export const forwardInternal = defineFeature({
  name: 'forward-internal',
  summary: 'Hands requests and connections to an edge that clients cannot reach.',
  actions: [action],
  notInAgent: 'an agent has no internal endpoints',
  errors: [forwardErrors],
  problems: [forwardProblems]
})
