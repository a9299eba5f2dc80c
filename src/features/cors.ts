import Type from 'typebox'
import type { Flow } from '../flow/flow.js'
import { respond } from '../flow/verdict.js'
import { parseAuthority } from '../lib/host.js'
import { parseDuration } from '../lib/units.js'
import { defineAction } from '../policy/action.js'
import { wordLike } from '../policy/editor.js'
import { config, duration, flag, text } from '../policy/fields.js'
import { policyErrors } from '../policy/problems.js'
import { defineFeature } from './contract.js'

const ORIGIN_PATTERN = '^https?://(?:\\*\\.)?[^*/?#@\\s]+$'
const ORIGIN = new RegExp(ORIGIN_PATTERN, 'i')
const TOKEN_PATTERN = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"
const TOKEN = new RegExp(TOKEN_PATTERN)
/** Methods that a page may use without being allowed to (Fetch, CORS-safelisted method). */
const SAFE_METHODS = new Set(['GET', 'HEAD', 'POST'])
/** Fields of this protocol in answers; those of the upstream give way to the policy's. */
const ANSWER_FIELDS = [
  'access-control-allow-origin',
  'access-control-allow-credentials',
  'access-control-allow-methods',
  'access-control-allow-headers',
  'access-control-expose-headers',
  'access-control-max-age'
]
const HOUR = 3_600_000
/** What may stand for the star of `*.host`: one label or more. */
const LABELS = /^[a-z0-9-]+(?:\.[a-z0-9-]+)*$/
/** What the answer to a preflight request depends on. */
const PREFLIGHT_VARY = ['Vary', 'Origin, Access-Control-Request-Method, Access-Control-Request-Headers']

const words = (description: string, item: string, max: number) =>
  Type.Optional(
    Type.Array(text({ description: item, minLength: 1, maxLength: 256, editor: wordLike(TOKEN_PATTERN) }), {
      description,
      maxItems: max,
      uniqueItems: true
    })
  )

/**
 * Cross-origin requests by the CORS protocol of the Fetch standard (https://fetch.spec.whatwg.org/#http-cors-protocol):
 * answers preflight requests itself with 204, and adds the fields that let pages of `origins` read the answer to every
 * other request, whatever makes that answer. Fields of the protocol that an upstream sends are replaced. An origin that is
 * not allowed gets no such field, which makes the browser refuse; the request itself goes on, as it could come without a
 * browser just as well.
 */
const action = defineAction({
  type: 'cors',
  summary: 'Answers preflight requests and lets pages of other origins read responses.',
  phases: ['on_http_request'],
  config: config({
    origins: Type.Array(
      text({
        description: 'scheme://host[:port], scheme://*.host[:port] for every name below a host, or * for every origin.',
        minLength: 1,
        maxLength: 300,
        editor: wordLike('^\\*$', ORIGIN_PATTERN)
      }),
      { description: 'Origins whose pages may read answers.', minItems: 1, maxItems: 100, uniqueItems: true }
    ),
    methods: words('Methods beside GET, HEAD and POST; * for all.', 'A method, in upper case as pages send it.', 20),
    headers: words(
      'Header fields that pages may send beside the safe ones; * for all but Authorization.',
      'A header name.',
      50
    ),
    expose_headers: words('Header fields of answers that pages may read; * for all.', 'A header name.', 50),
    credentials: Type.Optional(
      flag({ description: 'Whether requests with cookies or client certificates are allowed.', default: false })
    ),
    max_age: Type.Optional(
      duration({ description: 'How long browsers keep the answer to a preflight request', min: 0, max: 24 * HOUR })
    )
  }),
  configOptional: false,
  terminates: 'sometimes',
  results: { name: 'cors', fields: { origin: 'string', allowed: 'bool', preflight: 'bool' } },
  compile({ origins, methods = [], headers = [], expose_headers = [], credentials = false, max_age }, scope) {
    const allows = compileOrigins(origins, (i, message) =>
      scope.problem(['origins', i], policyErrors.CONFIG_INVALID, message)
    )
    for (const [field, list] of Object.entries({ origins, methods, headers, expose_headers })) {
      for (const [i, word] of list.entries()) {
        if (field !== 'origins' && !TOKEN.test(word))
          scope.problem([field, i], policyErrors.CONFIG_INVALID, `"${word}" is no name of a method or header field`)
        // Browsers take the star for a plain name when credentials are sent (Fetch, CORS protocol and credentials).
        if (word === '*' && credentials)
          scope.problem(
            [field, i],
            policyErrors.CONFIG_INVALID,
            '* does not go with credentials: true; name what is allowed'
          )
      }
    }
    const anyMethod = methods.includes('*')
    const methodSet = new Set([...SAFE_METHODS, ...methods])
    const anyHeader = headers.includes('*')
    const headerSet = new Set(headers.map((name) => name.toLowerCase()))
    const open = origins.includes('*')
    const vary = open ? [] : ['Vary', 'Origin']
    const shared = credentials ? ['Access-Control-Allow-Credentials', 'true'] : []
    const readable = [
      ...shared,
      ...(expose_headers.length > 0 ? ['Access-Control-Expose-Headers', expose_headers.join(', ')] : [])
    ]
    const preflight = [
      ...shared,
      ...(methods.length > 0 ? ['Access-Control-Allow-Methods', methods.join(', ')] : []),
      ...(headers.length > 0 ? ['Access-Control-Allow-Headers', headers.join(', ')] : []),
      ...(max_age === undefined ? [] : ['Access-Control-Max-Age', String(seconds(max_age))])
    ]
    const refusal = respond(204, PREFLIGHT_VARY)
    const allowedHeaders = (wanted: string): boolean =>
      wanted.split(',').every((part) => {
        const name = part.trim().toLowerCase()
        return name === '' || headerSet.has(name) || (anyHeader && name !== 'authorization')
      })

    return (flow) => {
      const { request } = flow
      if (request === undefined) return undefined
      const origin = request.headers.get('origin')
      const allowed = origin !== undefined && allows(origin)
      const granted = allowed ? ['Access-Control-Allow-Origin', open ? '*' : origin] : []
      const wantedMethod = request.headers.get('access-control-request-method')
      if (origin !== undefined && request.head.method === 'OPTIONS' && wantedMethod !== undefined) {
        const fits =
          allowed &&
          (anyMethod || methodSet.has(wantedMethod)) &&
          allowedHeaders(request.headers.values('access-control-request-headers').join(','))
        flow.publish('cors', { origin, allowed: fits, preflight: true })
        return fits ? respond(204, [...granted, ...preflight, ...PREFLIGHT_VARY]) : refusal
      }
      flow.publish('cors', { origin: origin ?? '', allowed, preflight: false })
      flow.onForwarded(() => dropUpstreamFields(flow))
      flow.responseFields ??= []
      if (allowed) flow.responseFields.push(...granted, ...readable)
      flow.responseFields.push(...vary)
      return undefined
    }
  }
})

function dropUpstreamFields({ response }: Flow): void {
  if (response === undefined) return
  for (const name of ANSWER_FIELDS) response.headers.delete(name)
}

/** Compiles origins to one test of the field's value. Origins are compared as browsers serialise them: lower-case, no default port. */
function compileOrigins(
  origins: readonly string[],
  problem: (index: number, message: string) => void
): (origin: string) => boolean {
  const exact = new Set<string>()
  const below: { readonly scheme: string; readonly suffix: string }[] = []
  for (const [i, written] of origins.entries()) {
    if (written === '*') continue
    const [scheme = '', name = ''] = ORIGIN.test(written) ? written.toLowerCase().split('://') : []
    const wild = name.startsWith('*.')
    const parsed = parseAuthority(wild ? name.slice(2) : name)
    if (parsed === undefined) {
      problem(i, `"${written}" is no origin; write https://app.example.com, https://*.example.com or *`)
      continue
    }
    const usual = scheme === 'https' ? 443 : 80
    const port = parsed.port === undefined || parsed.port === usual ? '' : `:${parsed.port}`
    const host = parsed.host.includes(':') ? `[${parsed.host}]` : parsed.host
    if (wild) below.push({ scheme: `${scheme}://`, suffix: `.${host}${port}` })
    else exact.add(`${scheme}://${host}${port}`)
  }
  const any = origins.includes('*')
  return (origin) =>
    any ||
    exact.has(origin) ||
    below.some(
      ({ scheme, suffix }) =>
        origin.startsWith(scheme) && origin.endsWith(suffix) && LABELS.test(origin.slice(scheme.length, -suffix.length))
    )
}

/** The schema has refused what is no duration. */
function seconds(written: string): number {
  return Math.floor((parseDuration(written) ?? 0) / 1_000)
}

export const cors = defineFeature({ name: 'cors', actions: [action] })
