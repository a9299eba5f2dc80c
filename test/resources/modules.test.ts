import { generateKeyPairSync } from 'node:crypto'
import t from 'tap'
import Schema from 'typebox/schema'
import { httpsEdgeRoute, tcpEdge } from '../../src/resources/edges.js'
import { present, presentModule } from '../../src/resources/present.js'
import { clearField, readCreate, readModule, readUpdate, updateRecord } from '../../src/resources/read.js'
import type { Resource } from '../../src/resources/resource.js'
import { moduleSchemas } from '../../src/schema/json-schema.js'
import { context, created, idOf, input, makers, options, problemsOf, updated, written } from './bench.js'
import { MARK, modules } from './bodies.js'

const { record: route } = await created(httpsEdgeRoute, { match: '/a' })
const { record: edge } = await created(tcpEdge, {})
const put = (name: string, body: unknown, resource: Resource = httpsEdgeRoute, current = route) =>
  readModule(resource, current, name, body, options)
const codes = (name: string, body: unknown, resource?: Resource) =>
  problemsOf(put(name, body, resource, resource === tcpEdge ? edge : route))
async function replaced(name: string, body: unknown, current = route) {
  return written(await updateRecord(httpsEdgeRoute, current, input(put(name, body, httpsEdgeRoute, current)), makers))
    .record
}

t.test('a route has these modules, and a TCP edge those', async (t) => {
  t.same([...httpsEdgeRoute.modules].sort(), Object.keys(modules).sort())
  t.same(tcpEdge.modules, ['backend', 'ip_restriction', 'traffic_policy'])
  const shown = present(httpsEdgeRoute, route, context)
  for (const name of [...httpsEdgeRoute.modules, 'policy']) {
    t.equal(shown[name], null, `${name} is null when it is not configured`)
  }
  t.same(problemsOf(readUpdate(httpsEdgeRoute, route, { policy: {} }, options)), ['policy FIELD_UNKNOWN'])
  t.same(problemsOf(readUpdate(httpsEdgeRoute, route, { policy: null }, options)), [])
  t.throws(() => moduleSchemas(httpsEdgeRoute, 'policy'), RangeError)
})

for (const [name, body] of Object.entries(modules)) {
  t.test(`PUT, GET, omission, replacement and removal of ${name}`, async (t) => {
    const { request, response } = moduleSchemas(httpsEdgeRoute, name)
    t.ok(Schema.Check(request as never, body as never))
    const after = await replaced(name, body)
    const shown = presentModule(httpsEdgeRoute, after, name, { ...context, showSecrets: () => true })
    t.ok(Schema.Check(response as never, JSON.parse(JSON.stringify(shown)) as never))
    t.match(shown, { enabled: body.enabled })
    t.same(
      present(httpsEdgeRoute, after, { ...context, showSecrets: () => true })[name],
      shown,
      'the route shows the same'
    )
    const wrapped = await replaced(name, { id: route.id, edge_id: options.path.edge_id, module: body }).catch(
      () => undefined
    )
    t.equal(wrapped, undefined, 'an id that the path does not have is unknown')
    t.same(problemsOf(put(name, { edge_id: options.path.edge_id, module: body })), [])
    t.same(problemsOf(put(name, { edge_id: options.path.edge_id, ...body })), [])
    const { enabled: _, ...rest } = body as { enabled: boolean }
    t.match(
      presentModule(httpsEdgeRoute, await replaced(name, rest), name, context),
      { enabled: true },
      'on by default'
    )
    for (const value of [null, [], 'x', 1]) t.same(codes(name, value), [' FIELD_INVALID'])
    t.same(codes(name, { ...body, surely_unknown: 1 }), ['surely_unknown FIELD_UNKNOWN'])
    t.same(codes(name, { ...body, enabled: 'yes' }), ['enabled FIELD_INVALID'])
    t.same(codes(name, { ...body, enabled: null }), [], 'null is as good as nothing')
    for (const patch of [{}, { description: 'x' }, { [name]: null }, { [name]: undefined }]) {
      const kept = await updated(httpsEdgeRoute, after, patch)
      t.same([kept.body[name], kept.secrets], [after.body[name], after.secrets], 'an update without it leaves it alone')
    }
    const cleared = clearField(httpsEdgeRoute, after, name)
    if (!cleared.ok) throw new Error(JSON.stringify(cleared.problems))
    const removed = cleared.record
    t.equal(presentModule(httpsEdgeRoute, removed, name, context), null)
    t.same(removed.secrets, {})
    t.match(
      presentModule(httpsEdgeRoute, after, name, context),
      { enabled: body.enabled },
      'the record before is untouched'
    )
  })
}

t.test('a replacement is whole: what it does not say is default, also secrets', async (t) => {
  const first = await replaced('oauth', modules.oauth)
  t.same(first.secrets, { 'oauth.provider.github.client_secret': MARK })
  const second = await replaced('oauth', { provider: { google: {} } }, first)
  t.same(second.secrets, {})
  t.same(presentModule(httpsEdgeRoute, second, 'oauth', context), {
    enabled: true,
    provider: {
      github: null,
      facebook: null,
      microsoft: null,
      google: { client_id: '', client_secret: null, scopes: [], email_addresses: [], email_domains: [] },
      linkedin: null,
      gitlab: null,
      twitch: null,
      amazon: null
    },
    options_passthrough: false,
    cookie_prefix: 'sluice.',
    inactivity_timeout: 0,
    maximum_duration: 0,
    auth_check_interval: 0
  })
  const both = await replaced('webhook_verification', modules.webhook_verification, first)
  t.same(Object.keys(both.secrets).sort(), ['oauth.provider.github.client_secret', 'webhook_verification.secret'])
})

t.test('secrets that belong to their owner come back to keys with write rights only', async (t) => {
  const after = await replaced(
    'oauth',
    modules.oauth,
    await replaced('webhook_verification', modules.webhook_verification)
  )
  const writer = present(httpsEdgeRoute, after, { ...context, showSecrets: () => true }) as Record<string, never>
  t.match(writer, { webhook_verification: { provider: 'TWILIO', secret: MARK } })
  t.match(writer, { oauth: { provider: { github: { client_secret: MARK } } } })
  const reader = JSON.stringify(present(httpsEdgeRoute, after, context))
  t.notMatch(reader, MARK)
  t.match(reader, '"secret":null')
})

t.test('OAuth: one provider, an application as a whole, scopes for an own application', async (t) => {
  const provider = (github: object) => codes('oauth', { provider: { github } })
  t.same(codes('oauth', {}), ['provider FIELD_REQUIRED'])
  t.same(codes('oauth', { provider: {} }), ['provider FIELD_REQUIRED'])
  t.same(codes('oauth', { provider: { github: {}, google: {} } }), ['provider CONFLICTING_FIELDS'])
  t.same(codes('oauth', { provider: { github: {}, google: null } }), [], 'answers have null for the others')
  t.same(codes('oauth', { provider: { myspace: {} } }), ['provider.myspace FIELD_UNKNOWN'])
  t.same(provider({ client_id: 'a' }), ['provider.github.client_secret FIELD_REQUIRED'])
  t.same(provider({ client_secret: 'a' }), ['provider.github.client_id FIELD_REQUIRED'])
  t.same(provider({ scopes: ['x'] }), ['provider.github.scopes CONFLICTING_FIELDS'])
  t.same(provider({ client_id: 'a', client_secret: 'b', scopes: ['x'] }), [])
  t.same(provider({ client_id: '', client_secret: '', scopes: [] }), [], 'empty is as good as nothing')
  t.same(provider({ email_addresses: ['Ann@example.com'] }), ['provider.github.email_addresses[0] FIELD_INVALID'])
  t.same(provider({ email_domains: ['a.com', 'a.com'] }), ['provider.github.email_domains FIELD_INVALID'])
  t.same(provider({ teams: ['org'] }), ['provider.github.teams[0] FIELD_INVALID'])
  t.same(codes('oauth', { provider: { google: { teams: ['o/t'] } } }), ['provider.google.teams FIELD_UNKNOWN'])
  t.same(codes('oauth', { provider: { google: {} }, inactivity_timeout: 4_294_967_296 }), [
    'inactivity_timeout FIELD_INVALID'
  ])
  t.same(codes('oauth', { provider: { google: {} }, cookie_prefix: 'a b' }), ['cookie_prefix FIELD_INVALID'])
  t.same(codes('oauth', { provider: { google: {} }, cookie_prefix: '' }), [], 'no prefix')
})

t.test('webhooks: known senders, in any case, with the secret that they need', async (t) => {
  const { publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const key = publicKey.export({ type: 'spki', format: 'der' }).toString('base64')
  t.same(codes('webhook_verification', { provider: 'github' }), ['secret FIELD_REQUIRED'])
  t.same(codes('webhook_verification', { provider: 'GitHub', secret: 'x' }), [])
  t.same(codes('webhook_verification', { provider: 'sns' }), [])
  t.same(codes('webhook_verification', { provider: 'SNS', secret: 'x' }), ['secret CONFLICTING_FIELDS'])
  t.same(codes('webhook_verification', { provider: 'githbu', secret: 'x' }), ['provider FIELD_INVALID'])
  t.same(codes('webhook_verification', { secret: 'x' }), ['provider FIELD_REQUIRED'])
  t.same(codes('webhook_verification', { provider: 'sendgrid', secret: 'x' }), ['secret FIELD_INVALID'])
  t.same(codes('webhook_verification', { provider: 'sendgrid', secret: key }), [])
  t.same(codes('webhook_verification', { provider: 'github', secret: 'x'.repeat(4097) }), ['secret TOO_LONG'])
})

t.test('circuit breaker: bounds and defaults', async (t) => {
  t.same(presentModule(httpsEdgeRoute, await replaced('circuit_breaker', {}), 'circuit_breaker', context), {
    enabled: true,
    tripped_duration: 10,
    rolling_window: 10,
    num_buckets: 10,
    volume_threshold: 10,
    error_threshold_percentage: 0.5
  })
  const most = 4_294_967_295
  for (const [field, good, bad] of [
    ['tripped_duration', [1, most, '1m30s', '10'], [0, -1, 1.5, most + 1, '1500ms', 'soon']],
    ['rolling_window', [1, most], [0, most + 1]],
    ['num_buckets', [1, 128], [0, 129]],
    ['volume_threshold', [0, most], [-1, most + 1]],
    ['error_threshold_percentage', [0, 0.5, 1], [-0.1, 1.01, 50, '0.5']]
  ] as const) {
    for (const value of good) t.same(codes('circuit_breaker', { [field]: value }), [])
    for (const value of bad)
      t.same(codes('circuit_breaker', { [field]: value }), [`${field} FIELD_INVALID`], `${field} ${value}`)
  }
})

t.test('headers and user agents', async (t) => {
  const after = await replaced('request_headers', modules.request_headers)
  t.same(presentModule(httpsEdgeRoute, after, 'request_headers', context), {
    enabled: true,
    add: { 'x-front': 'a' },
    remove: ['x-gone']
  })
  t.same(codes('request_headers', { add: { A: '1', a: '2' } }), ['add FIELD_INVALID'])
  t.same(codes('request_headers', { add: { a: '1' }, remove: ['A'] }), [], 'what is removed and added is replaced')
  t.same(codes('response_headers', { add: { 'a b': '1' } }), ['add.a b FIELD_INVALID'])
  t.same(codes('response_headers', { add: { a: 'x\r\ny: z' } }), ['add.a FIELD_INVALID'])
  t.same(codes('user_agent_filter', { allow: ['('] }), ['allow[0] FIELD_INVALID'])
  t.same(codes('user_agent_filter', { allow: ['x'] }), ['deny FIELD_REQUIRED'], 'alone it would let everybody pass')
  t.same(codes('user_agent_filter', {}), [])
})

t.test('backends: what can carry the traffic', async (t) => {
  for (const prefix of ['bkdtg', 'bkdsc', 'bkdwd', 'bkdfo']) {
    t.same(codes('backend', { backend_id: idOf(prefix) }), [])
    t.same(codes('backend', { backend_id: idOf(prefix) }, tcpEdge), [])
  }
  t.same(codes('backend', { backend_id: idOf('bkdhr') }), [])
  t.same(codes('backend', { backend_id: idOf('bkdhr') }, tcpEdge), ['backend_id REF_INVALID'])
  t.same(codes('backend', {}), ['backend_id FIELD_REQUIRED'])
  t.same(codes('backend', { backend_id: '' }), ['backend_id REF_INVALID'])
  t.same(codes('backend', { backend: idOf('bkdsc') }).sort(), ['backend FIELD_UNKNOWN', 'backend_id FIELD_REQUIRED'])
  t.same(codes('ip_restriction', { ip_policy_ids: [] }), ['ip_policy_ids FIELD_INVALID'])
})

t.test('a policy document is checked by the compiler that runs it, and the place of the problem is told', async (t) => {
  const value = 'on_http_request:\n  - actions:\n      - type: denny\n'
  const read = readCreate(httpsEdgeRoute, { match: '/a', traffic_policy: { value } }, options)
  t.match(read, {
    ok: false,
    problems: [
      {
        field: 'traffic_policy.value',
        code: 'POLICY_ACTION_UNKNOWN',
        details: { line: '3', column: '15', path: 'on_http_request[0].actions[0].type' }
      }
    ]
  })
  t.match(put('traffic_policy', { value }), { problems: [{ field: 'value', code: 'POLICY_ACTION_UNKNOWN' }] })
  const rule = (phase: string, type: string) => JSON.stringify({ [phase]: [{ actions: [{ type, config: {} }] }] })
  const connect = rule('on_tcp_connect', 'deny')
  t.same(codes('traffic_policy', { value: rule('on_http_request', 'deny') }), [])
  t.same(codes('traffic_policy', { value: connect }), ['value POLICY_PHASE'])
  t.same(codes('traffic_policy', { value: connect }, tcpEdge), [])
  t.same(codes('traffic_policy', { value: rule('on_http_response', 'deny') }, tcpEdge).length, 1)
  t.same(codes('traffic_policy', { value: '' }), ['value FIELD_INVALID'])
  for (const nothing of [' ', '# none', '{}', 'null', 'on_http_request:'])
    t.same(codes('traffic_policy', { value: nothing }), ['value POLICY_DOCUMENT_EMPTY'], nothing)
  t.same(codes('traffic_policy', { value: '{' }), ['value POLICY_DOCUMENT_SYNTAX'])
  const unsupported = put('traffic_policy', { value: rule('on_http_request', 'saml') })
  t.match(unsupported, { problems: [{ code: 'POLICY_ACTION_UNSUPPORTED', message: /saml/ }] }, 'the action is named')
})

t.test('durations of 32 bits are taken whole', async (t) => {
  const most = 4_294_967_295
  const cases: readonly (readonly [string, object, readonly string[]])[] = [
    ['oauth', modules.oauth as object, ['inactivity_timeout', 'maximum_duration', 'auth_check_interval']],
    ['saml', modules.saml as object, ['inactivity_timeout', 'maximum_duration']],
    ['oidc', modules.oidc as object, ['inactivity_timeout', 'maximum_duration']],
    ['circuit_breaker', {}, ['tripped_duration', 'rolling_window', 'volume_threshold']]
  ]
  for (const [name, body, fields] of cases) {
    for (const field of fields) {
      t.same(codes(name, { ...body, [field]: most }), [], `${name}.${field}`)
      t.match(codes(name, { ...body, [field]: most + 1 }), [new RegExp(`${field} `)], `${name}.${field}`)
    }
  }
})
