import t from 'tap'
import { bodies } from '../resources/bodies.js'
import { make, openAccount, pathIn } from './account.js'
import { type Answer, type Asked, word } from './asking.js'

const NOBODY = '0'.repeat(27)
const policyText = (action: object) => JSON.stringify({ on_http_request: [{ name: 'first', actions: [action] }] })

/** What the rows of the table talk about. */
async function world(ask: Parameters<typeof make>[0]) {
  const policy = await make(ask, '/ip_policies')
  const rule = await make(ask, '/ip_policy_rules', { ip_policy_id: policy.id, cidr: '10.0.0.0/8', action: 'allow' })
  const vault = await make(ask, '/vaults', { name: 'main' })
  const secret = await make(ask, '/vault_secrets', { vault_id: vault.id, name: 's', value: 'v' })
  const certificate = await make(ask, '/tls_certificates', bodies.tls_certificate?.full)
  const domain = await make(ask, '/reserved_domains', { domain: 'app.test', certificate_id: certificate.id })
  const backend = await make(ask, '/backends/tunnel_group', { labels: { app: 'web' } })
  const tcp = await make(ask, '/edges/tcp', { hostports: ['tcp.test:2222'], backend: { backend_id: backend.id } })
  const edge = await make(ask, '/edges/https', { hostports: ['app.test:443'] })
  const route = await make(ask, `/edges/https/${edge.id}/routes`, { match: '/' })
  const bot = await make(ask, '/bot_users', { name: 'deployer' })
  const botKey = await make(ask, '/api_keys', { owner_id: bot.id })
  const idle = await make(ask, '/bot_users', { name: 'idle' })
  const idleKey = await make(ask, '/api_keys', { owner_id: idle.id })
  await ask(pathIn(idle.uri), { method: 'PATCH', body: { active: false } })
  const restriction = await make(ask, '/ip_restrictions', { type: 'agent', ip_policy_ids: [policy.id] })
  const target = { webhook: { url: 'https://a.test/' } }
  const destination = await make(ask, '/event_destinations', { target })
  await make(ask, '/event_subscriptions', {
    sources: [{ type: 'vault_created.v0' }],
    destination_ids: [destination.id]
  })
  const admin = (await make(ask, '/api_keys')).owner_id
  return {
    ...{ policy, rule, vault, secret, certificate, domain, backend, tcp, edge, route },
    ...{ bot, botKey, idleKey, restriction, destination, admin }
  }
}

type World = Awaited<ReturnType<typeof world>>
/** Situation, status, word, the field that is to blame, and the request. */
type Row = readonly [string, number, string, string | undefined, string, Asked]

const post = (body: unknown, more: Asked = {}): Asked => ({ method: 'POST', body, ...more })
const patch = (body: unknown): Asked => ({ method: 'PATCH', body })
const put = (body: unknown): Asked => ({ method: 'PUT', body })
const gone: Asked = { method: 'DELETE' }

function rows(w: World): readonly Row[] {
  const route = pathIn(w.route.uri)
  const domains = '/reserved_domains'
  const headers = (named: Record<string, string>): Asked => ({ headers: named })
  return [
    ['key missing', 401, 'AUTH_MALFORMED', undefined, '/vaults', headers({ authorization: '' })],
    ['scheme unknown', 401, 'AUTH_MALFORMED', undefined, '/vaults', headers({ authorization: 'Basic YTpi' })],
    ['key unknown', 401, 'AUTH_INVALID', undefined, '/vaults', { key: 'wrong-key-of-nobody' }],
    ['id as key', 401, 'AUTH_WRONG_KIND', undefined, '/vaults', { key: w.botKey.id }],
    ['owner not active', 403, 'FORBIDDEN', undefined, '/vaults', { key: w.idleKey.token }],
    [
      'administrator needed',
      403,
      'ADMIN_REQUIRED',
      undefined,
      '/bot_users',
      post({ name: 'x' }, { key: w.botKey.token })
    ],
    [
      'owner by a member',
      403,
      'ADMIN_REQUIRED',
      'owner_id',
      '/credentials',
      post({ owner_id: w.admin }, { key: w.botKey.token })
    ],
    ['version unsupported', 400, 'VERSION_UNSUPPORTED', undefined, '/vaults', headers({ 'service-version': '1' })],
    [
      'content type',
      415,
      'CONTENT_TYPE_UNSUPPORTED',
      undefined,
      '/vaults',
      post('x', headers({ 'content-type': 'text/plain' }))
    ],
    ['body not expected', 400, 'BODY_UNEXPECTED', undefined, pathIn(w.vault.uri), { ...gone, body: {} }],
    ['body unreadable', 400, 'BODY_UNREADABLE', undefined, '/vaults', post(Uint8Array.of(0x22, 0xff, 0x22))],
    ['body not JSON', 400, 'BODY_INVALID', undefined, '/vaults', post('{')],
    ['body too large', 413, 'BODY_TOO_LARGE', undefined, '/vaults', post('x'.repeat(1024 * 1024 + 1))],
    ['field unknown', 400, 'FIELD_UNKNOWN', 'nam', '/vaults', post({ nam: 'x' })],
    [
      'field of a wrong type',
      400,
      'FIELD_INVALID',
      'hostports[1]',
      '/edges/https',
      post({ hostports: ['a.test:443', 7] })
    ],
    ['field missing', 400, 'FIELD_REQUIRED', 'name', '/vaults', post({})],
    ['query unknown', 400, 'QUERY_UNKNOWN', 'page', '/vaults?page=1', {}],
    ['filter', 400, 'FILTER_INVALID', 'filter', '/vaults?filter=obj.nothing%20%3D%3D%20%22a%22', {}],
    ['query repeated', 400, 'QUERY_REPEATED', 'limit', '/vaults?limit=1&limit=2', {}],
    ['query malformed', 400, 'QUERY_MALFORMED', undefined, '/vaults?limit=%zz', {}],
    ['limit', 400, 'PAGE_LIMIT', 'limit', '/vaults?limit=101', {}],
    ['cursor of another list', 400, 'QUERY_INVALID', 'before_id', `/vaults?before_id=${w.policy.id}`, {}],
    ['path unknown', 404, 'NOT_FOUND', undefined, '/no_such_thing', {}],
    ['record unknown', 404, 'NOT_FOUND', undefined, `/vaults/vault_${NOBODY}`, {}],
    ['record of another resource', 404, 'NOT_FOUND', undefined, `/vaults/${w.policy.id}`, {}],
    ['module not configured', 404, 'NOT_FOUND', undefined, `${route}/oauth`, {}],
    [
      'id of a wrong kind',
      400,
      'REF_INVALID',
      'ip_policy_ids[0]',
      `${route}/ip_restriction`,
      put({ ip_policy_ids: [w.vault.id] })
    ],
    [
      'reference to nothing',
      400,
      'REF_NOT_FOUND',
      'backend_id',
      `${route}/backend`,
      put({ backend_id: `bkdtg_${NOBODY}` })
    ],
    ['name taken', 409, 'ALREADY_EXISTS', 'name', '/vaults', post({ name: 'main' })],
    ['domain taken', 409, 'ALREADY_EXISTS', 'domain', domains, post({ domain: 'APP.test.' })],
    ['hostport taken', 409, 'ALREADY_EXISTS', 'hostports', '/edges/https', post({ hostports: ['app.test:443'] })],
    [
      'CIDR taken',
      409,
      'ALREADY_EXISTS',
      'cidr',
      '/ip_policy_rules',
      post({ ip_policy_id: w.policy.id, cidr: '10.0.0.0/8', action: 'deny' })
    ],
    [
      'restriction of the same type',
      409,
      'ALREADY_EXISTS',
      'type',
      '/ip_restrictions',
      post({ type: 'agent', ip_policy_ids: [w.policy.id] })
    ],
    ['vault in use', 409, 'IN_USE', undefined, pathIn(w.vault.uri), gone],
    ['certificate in use', 409, 'IN_USE', undefined, pathIn(w.certificate.uri), gone],
    ['backend in use', 409, 'IN_USE', undefined, pathIn(w.backend.uri), gone],
    ['destination in use', 409, 'IN_USE', undefined, pathIn(w.destination.uri), gone],
    ['domain in use', 409, 'IN_USE', undefined, pathIn(w.domain.uri), gone],
    ['method', 405, 'METHOD_NOT_ALLOWED', undefined, '/vaults', { method: 'PUT' }],
    ['text too long', 400, 'TOO_LONG', 'description', '/vaults', post({ name: 'x', description: 'x'.repeat(256) })],
    ['list too long', 400, 'TOO_MANY', 'acl', '/credentials', post({ acl: Array(101).fill('bind:a.test') })],
    ['fixed field', 400, 'IMMUTABLE', 'domain', pathIn(w.domain.uri), patch({ domain: 'b.test' })],
    ['kind of a destination', 400, 'IMMUTABLE', 'target', pathIn(w.destination.uri), patch({ target: { stdout: {} } })],
    [
      'certificate and management policy',
      400,
      'CONFLICTING_FIELDS',
      'certificate_id',
      domains,
      post({
        domain: 'c.test',
        certificate_id: w.certificate.id,
        certificate_management_policy: { authority: 'letsencrypt', private_key_type: 'ecdsa' }
      })
    ],
    ['policy that is no document', 400, 'POLICY_', 'value', `${route}/traffic_policy`, put({ value: '[' })],
    [
      'policy action unknown',
      400,
      'POLICY_',
      'value',
      `${route}/traffic_policy`,
      put({ value: policyText({ type: 'no-such' }) })
    ],
    [
      'stale If-Match',
      412,
      'PRECONDITION_FAILED',
      undefined,
      pathIn(w.vault.uri),
      { ...patch({}), headers: { 'if-match': '"1"' } }
    ],
    [
      'If-Match of no form',
      400,
      'PRECONDITION_INVALID',
      undefined,
      pathIn(w.vault.uri),
      { ...patch({}), headers: { 'if-match': '1' } }
    ],
    [
      'foreign name',
      403,
      'HOST_NOT_ALLOWED',
      undefined,
      '/vaults',
      headers({ host: 'attacker.test', cookie: 'session=1' })
    ],
    [
      'foreign page',
      403,
      'ORIGIN_NOT_ALLOWED',
      undefined,
      '/vaults',
      headers({ origin: 'https://attacker.test', cookie: 'session=1' })
    ]
  ]
}

const all = ['/vaults', '/ip_policies', '/reserved_domains', '/edges/https', '/bot_users', '/credentials', '/revisions']
t.test('each situation has its status, its word and the field that is to blame, and changes nothing', async (t) => {
  const { ask, faults } = await openAccount(t)
  const state = async () => Promise.all(all.map(async (path) => (await ask(path)).text))
  const table = rows(await world(ask))
  const before = await state()
  for (const [situation, status, expected, field, path, asked] of table) {
    const answer: Answer = await ask(path, asked)
    t.equal(answer.status, status, `${situation}: ${answer.text}`)
    const found = word(t, answer)
    if (expected.endsWith('_')) t.ok(found.startsWith(expected), `${situation}: ${found}`)
    else t.equal(found, expected, situation)
    t.equal(answer.json.details.field, field, situation)
    t.equal(answer.headers['access-control-allow-origin'], undefined, situation)
  }
  t.same(await state(), before)
  t.same(faults, [])
})

t.test('texts are bounded in bytes, those of event subscriptions in characters', async (t) => {
  const { ask } = await openAccount(t)
  const sources = [{ type: 'vault_created.v0' }]
  const cases: [string, object, string, string, number][] = [
    ['/ip_policies', {}, 'description', 'é', 127],
    ['/ip_policies', {}, 'metadata', 'é', 2048],
    ['/ip_policies', {}, 'description', 'x', 255],
    ['/ip_policies', {}, 'metadata', '😀', 1024],
    ['/vaults', { name: 'v' }, 'metadata', 'x', 4096],
    ['/event_subscriptions', { sources }, 'description', 'é', 255],
    ['/event_subscriptions', { sources }, 'description', '😀', 255],
    ['/event_subscriptions', { sources }, 'metadata', 'é', 4096]
  ]
  for (const [path, rest, field, sign, most] of cases) {
    const fits = await ask(path, post({ ...rest, [field]: sign.repeat(most) }))
    t.equal(fits.status, 201, `${most} × ${sign} as ${field} of ${path}: ${fits.text.slice(0, 200)}`)
    t.equal(fits.json[field], sign.repeat(most))
    const over = await ask(path, post({ ...rest, name: undefined, ...rest, [field]: sign.repeat(most + 1) }))
    t.equal(word(t, over), 'TOO_LONG')
    t.equal(over.json.details.field, field)
  }
})

t.test('a rate limit has a capacity and a rate of these forms only', async (t) => {
  const { ask } = await openAccount(t)
  const { id } = await make(ask, '/edges/https')
  const route = await make(ask, `/edges/https/${id}/routes`, { match: '/' })
  const limit = async (config: object) => {
    const value = policyText({
      type: 'rate-limit',
      config: {
        name: 'l',
        algorithm: 'sliding_window',
        capacity: 10,
        rate: '60s',
        bucket_key: ['conn.client_ip'],
        ...config
      }
    })
    return await ask(`${pathIn(route.uri)}/traffic_policy`, put({ value }))
  }
  for (const config of [
    { capacity: 1 },
    { capacity: 2_000_000_000 },
    { rate: '70s' },
    { rate: '1m' },
    { rate: '24h' }
  ]) {
    const answer = await limit(config)
    t.equal(answer.status, 200, `${JSON.stringify(config)}: ${answer.text}`)
  }
  for (const config of [
    { capacity: 0 },
    { capacity: -1 },
    { capacity: 2_000_000_001 },
    { capacity: 1.5 },
    { capacity: "'5'" },
    { capacity: 'no.such.name' },
    { capacity: '0' },
    { rate: '59s' },
    { rate: '65s' },
    { rate: '24h10s' },
    { rate: '59' },
    { rate: 65 },
    { rate: '-60s' },
    { algorithm: 'fixed_window' }
  ]) {
    const answer = await limit(config)
    t.equal(answer.status, 400, JSON.stringify(config))
    t.match(word(t, answer), /^POLICY_/)
    t.match(answer.json.details, { field: 'value', line: /^\d+$/, column: /^\d+$/ }, JSON.stringify(config))
  }
})

t.test('an OAuth provider is an application as a whole; what is refused stores nothing', async (t) => {
  const { ask } = await openAccount(t)
  const { id } = await make(ask, '/edges/https')
  const route = await make(ask, `/edges/https/${id}/routes`, { match: '/' })
  const path = `${pathIn(route.uri)}/oauth`
  for (const github of [{ client_id: 'c' }, { client_secret: 's' }, { scopes: ['read:user'] }]) {
    const answer = await ask(path, put({ provider: { github } }))
    t.equal(answer.status, 400, JSON.stringify(github))
    t.match(answer.json.details.field, /^provider\.github/)
    t.equal((await ask(path)).status, 404, 'nothing is stored')
  }
  t.equal((await ask(path, put({ provider: { github: {} } }))).status, 200, 'the application of the operator')
})

t.test('without If-Match the last writer wins, and the history knows both', async (t) => {
  const { ask } = await openAccount(t)
  const { uri } = await make(ask, '/ip_policies')
  const answers = await Promise.all(['one', 'two'].map((description) => ask(pathIn(uri), patch({ description }))))
  const numbers = answers.map(({ status, headers }) => {
    t.equal(status, 200)
    return Number(headers['service-revision'])
  })
  const last = answers[numbers.indexOf(Math.max(...numbers))]
  t.equal((await ask(pathIn(uri))).json.description, last?.json.description)
  const written = await Promise.all(
    numbers.map(async (number) => (await ask(`/revisions/${number}/diff`)).json.changes)
  )
  t.same(
    written.map(([change]) => change.fields.description.after),
    ['one', 'two']
  )
})
