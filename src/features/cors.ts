import type { Flow } from '../flow/flow.js'
import { respond, type Verdict } from '../flow/verdict.js'
import { parseAuthority } from '../lib/host.js'
import { parseDuration } from '../lib/units.js'
import { defineAction } from '../policy/action.js'
import { config } from '../policy/fields.js'
import { policyErrors } from '../policy/problems.js'
import { wordLike } from '../schema/editor.js'
import * as field from '../schema/fields.js'
import { duration, flag, list, optional, text } from '../schema/values.js'
import { defineFeature, defineModule } from './contract.js'

const ORIGIN_PATTERN = '^https?://(?:\\*\\.)?[^*/?#@\\s]+$'
const ORIGIN = new RegExp(ORIGIN_PATTERN, 'i')
const TOKEN_PATTERN = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"
const TOKEN = new RegExp(TOKEN_PATTERN)
/** Methods that need no permission (Fetch, CORS-safelisted method). */
const SAFE_METHODS = new Set(['GET', 'HEAD', 'POST'])
/** CORS response fields; those of the upstream are replaced. */
const ANSWER_FIELDS = [
  'access-control-allow-origin',
  'access-control-allow-credentials',
  'access-control-allow-methods',
  'access-control-allow-headers',
  'access-control-expose-headers',
  'access-control-max-age'
]
const HOUR = 3_600_000
/** One day in seconds. */
const DAY = 86_400
/** Browsers' default for Access-Control-Max-Age in seconds (Fetch, HTTP extensions). */
const DEFAULT_MAX_AGE = 5
/** Match for the star of `*.host`: one or more labels. */
const LABELS = /^[a-z0-9_-]+(?:\.[a-z0-9_-]+)*$/
/** Vary of preflight responses. */
const PREFLIGHT_VARY = ['Vary', 'Origin, Access-Control-Request-Method, Access-Control-Request-Headers']

const words = (description: string, item: string, max: number) =>
  optional(
    list(text({ description: item, min: 1, max: 256, editor: wordLike(TOKEN_PATTERN) }), {
      description,
      max: max,
      distinct: true
    })
  )

/**
 * CORS by the Fetch standard (https://fetch.spec.whatwg.org/#http-cors-protocol): responds to preflight requests with 204, and adds the
 * fields that let pages of `origins` read every other response, whatever its source. CORS fields of the upstream are replaced. Other
 * origins get no such field, so the browser refuses; the request itself is served, as a client without CORS could send it as well.
 */
const action = defineAction({
  type: 'cors',
  summary: 'Answers preflight requests and lets pages of other origins read responses.',
  example: {
    policy: `on_http_request:
  - actions:
      - type: cors
        config:
          origins: ['https://app.example.com']
          credentials: true
          max_age: 10m
`,
    request: 'OPTIONS /\norigin: https://app.example.com\naccess-control-request-method: GET',
    status: 204
  },
  phases: ['on_http_request'],
  config: config({
    origins: list(
      text({
        description: 'scheme://host[:port], scheme://*.host[:port] for every name below a host, or * for every origin.',
        min: 1,
        max: 300,
        editor: wordLike('^\\*$', ORIGIN_PATTERN)
      }),
      { description: 'Origins whose pages may read answers.', min: 1, max: 100, distinct: true }
    ),
    methods: words('Methods beside GET, HEAD and POST; * for all.', 'A method, in upper case as pages send it.', 20),
    headers: words(
      'Header fields that pages may send beside the safe ones; * for all but Authorization.',
      'A header name.',
      50
    ),
    expose_headers: words('Header fields of answers that pages may read; * for all.', 'A header name.', 50),
    credentials: optional(
      flag({ description: 'Whether requests with cookies or client certificates are allowed.', default: false })
    ),
    max_age: optional(
      duration({ description: 'How long browsers keep the answer to a preflight request', min: 0, max: 24 * HOUR })
    )
  }),
  configOptional: false,
  terminates: 'sometimes',
  results: {
    name: 'cors',
    fields: {
      origin: ['string', 'The origin that the browser names; empty without one.'],
      allowed: ['bool', 'May a page of this origin make the request?'],
      preflight: ['bool', 'Was it the question of a browser before the request itself?']
    }
  },
  compile({ origins, methods = [], headers = [], expose_headers = [], credentials = false, max_age }, scope) {
    const config = {
      origins,
      methods,
      headers,
      expose_headers,
      credentials,
      ...(max_age === undefined ? {} : { max_age: seconds(max_age) })
    }
    findProblems(config, (at, message) => scope.problem(at, policyErrors.CONFIG_INVALID, message))
    return compileCors(config)
  }
})

/** CORS settings. `max_age`: seconds. @default the browser's limit */
interface CorsConfig {
  readonly origins: readonly string[]
  readonly methods: readonly string[]
  readonly headers: readonly string[]
  readonly expose_headers: readonly string[]
  readonly credentials: boolean
  readonly max_age?: number
}

/** Reports settings that can never work, with their paths. */
function findProblems(
  { origins, methods, headers, expose_headers, credentials }: CorsConfig,
  report: (at: readonly [field: string, index: number], message: string) => void
): void {
  for (const [i, written] of origins.entries()) {
    if (written !== '*' && readOrigin(written) === undefined)
      report(['origins', i], `"${written}" is no origin; write https://app.example.com, https://*.example.com or *`)
  }
  for (const [field, list] of Object.entries({ origins, methods, headers, expose_headers })) {
    for (const [i, word] of list.entries()) {
      if (field !== 'origins' && !TOKEN.test(word))
        report([field, i], `"${word}" is no name of a method or header field`)
      // With credentials browsers treat the star as a literal name (Fetch, CORS protocol and credentials).
      if (word === '*' && credentials) report([field, i], '* does not go with credentials: true; name what is allowed')
    }
  }
}

/** Compiles the settings to a request step. */
function compileCors({
  origins,
  methods,
  headers,
  expose_headers,
  credentials,
  max_age
}: CorsConfig): (flow: Flow) => Verdict | undefined {
  const allows = compileOrigins(origins)
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
    ...(max_age === undefined ? [] : ['Access-Control-Max-Age', String(max_age)])
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
    // If route and policy both set CORS, or one endpoint forwards to another, the last one wins: browsers reject two values.
    flow.responseFields = withoutAnswer(flow.responseFields)
    if (allowed) flow.responseFields.push(...granted, ...readable)
    flow.responseFields.push(...vary)
    return undefined
  }
}

/** Returns the fields without those of CORS. */
function withoutAnswer(fields: readonly string[] | undefined): string[] {
  const kept: string[] = []
  for (let i = 0; fields !== undefined && i < fields.length; i += 2) {
    const [name, value] = [fields[i] as string, fields[i + 1] as string]
    const ours = name === 'Vary' ? value === 'Origin' : ANSWER_FIELDS.includes(name.toLowerCase())
    if (!ours) kept.push(name, value)
  }
  return kept
}

function dropUpstreamFields({ response }: Flow): void {
  if (response === undefined) return
  for (const name of ANSWER_FIELDS) response.headers.delete(name)
}

interface ReadOrigin {
  /** Matches every name below `host`, not the name itself. */
  readonly wild: boolean
  readonly scheme: string
  /** Includes the port unless it is the default. */
  readonly host: string
}

/** Parses an origin as serialized by browsers: lower-case, no default port. Undefined if invalid. */
function readOrigin(written: string): ReadOrigin | undefined {
  const [scheme = '', name = ''] = ORIGIN.test(written) ? written.toLowerCase().split('://') : []
  const wild = name.startsWith('*.')
  const parsed = parseAuthority(wild ? name.slice(2) : name)
  if (parsed === undefined) return undefined
  const usual = scheme === 'https' ? 443 : 80
  const port = parsed.port === undefined || parsed.port === usual ? '' : `:${parsed.port}`
  const host = parsed.host.includes(':') ? `[${parsed.host}]` : parsed.host
  return { wild, scheme: `${scheme}://`, host: `${host}${port}` }
}

/** Compiles origins to a test of the field's value; invalid ones match nothing. */
function compileOrigins(origins: readonly string[]): (origin: string) => boolean {
  if (origins.includes('*')) return () => true
  const read = origins.flatMap((written) => readOrigin(written) ?? [])
  const exact = new Set(read.filter(({ wild }) => !wild).map(({ scheme, host }) => `${scheme}${host}`))
  const below = read.filter(({ wild }) => wild).map(({ scheme, host }) => ({ scheme, suffix: `.${host}` }))
  return (origin) =>
    exact.has(origin) ||
    below.some(
      ({ scheme, suffix }) =>
        origin.startsWith(scheme) && origin.endsWith(suffix) && LABELS.test(origin.slice(scheme.length, -suffix.length))
    )
}

/** Parses a duration to seconds; the schema has rejected invalid ones. */
function seconds(written: string): number {
  return Math.floor((parseDuration(written) ?? 0) / 1_000)
}

/**
 * CORS module of a route, before every refusing module except the IP restriction: preflight requests have no cookies or keys, so they must
 * not meet a login, limit or signature check, and pages can read why other requests were refused.
 */
const routeModule = defineModule({
  name: 'cors',
  description:
    'An extension of Sluice: lets pages of other origins read answers, and answers their preflight requests.',
  on: ['https'],
  fields: {
    origins: field.texts({
      description: 'scheme://host[:port], scheme://*.host[:port] for every name below a host, or * for every origin.',
      item: 'An origin.',
      required: true,
      min: 1,
      max: 100,
      bytes: 300,
      distinct: true
    }),
    methods: field.texts({
      description: 'Methods beside GET, HEAD and POST; * for all.',
      item: 'A method.',
      max: 20,
      distinct: true
    }),
    headers: field.texts({
      description: 'Header fields that pages may send beside the safe ones; * for all but Authorization.',
      item: 'A header name.',
      form: 'header_name',
      max: 50,
      distinct: true
    }),
    expose_headers: field.texts({
      description: 'Header fields of answers that pages may read; * for all.',
      item: 'A header name.',
      form: 'header_name',
      max: 50,
      distinct: true
    }),
    credentials: field.flag({
      description: 'Whether requests with cookies or client certificates are allowed.',
      default: false
    }),
    max_age: field.integer({
      description: 'Seconds that browsers keep the answer to a preflight request.',
      min: 0,
      max: DAY,
      default: DEFAULT_MAX_AGE,
      unit: 'seconds'
    })
  },
  rules: [
    {
      on: ['origins', 'methods', 'headers', 'expose_headers', 'credentials'],
      check: ({ body, report }) =>
        findProblems(body as unknown as CorsConfig, ([field, index], message) =>
          report(`${field}[${index}]`, 'FIELD_INVALID', message)
        )
    }
  ],
  compile(config) {
    const run = compileCors(config)
    // Login paths must not be readable by other origins.
    return { request: (flow) => (flow.reservedPath === undefined ? run(flow) : undefined) }
  }
})

export const cors = defineFeature({
  name: 'cors',
  summary: 'Answers preflight requests and lets pages of other origins read responses.',
  actions: [action],
  modules: [routeModule]
})
