import t from 'tap'
import { errorGroups } from '../../src/app/catalogue.js'
import type { ErrorRow } from '../../src/lib/errors.js'
import { resources } from '../../src/resources/registry.js'
import { openAccount } from './account.js'
import { KEY } from './asking.js'
import { type NgrokAsk, ngrokClient } from './ngrok-client.js'

const POLICY = '{"on_http_request":[{"actions":[{"type":"deny"}]}]}'

/** A situation by whose code a tool decides. */
interface Situation {
  readonly number: number
  /** Code for all other callers. */
  readonly own: string
  readonly status: number
  /** Requests that lead to it; the last one is refused. `$n` is the id that request n has returned. */
  readonly requests: readonly (readonly [method: string, path: string, body?: object])[]
}

const SITUATIONS: readonly Situation[] = [
  {
    number: 1406,
    own: 'FIELD_INVALID',
    status: 400,
    requests: [
      ['POST', '/ip_policies', {}],
      ['POST', '/ip_policy_rules', { ip_policy_id: '$0', cidr: '10.0.0.0/33', action: 'deny' }]
    ]
  },
  {
    number: 446,
    own: 'IN_USE',
    status: 409,
    requests: [
      ['POST', '/reserved_domains', { domain: 'a.test' }],
      ['POST', '/edges/https', { hostports: ['a.test:443'] }],
      ['DELETE', '/reserved_domains/$0']
    ]
  },
  {
    number: 413,
    own: 'ALREADY_EXISTS',
    status: 409,
    requests: [
      ['POST', '/reserved_domains', { domain: 'a.test' }],
      ['POST', '/reserved_domains', { domain: 'a.test' }]
    ]
  },
  {
    number: 18016,
    own: 'ALREADY_EXISTS',
    status: 409,
    requests: [
      ['POST', '/endpoints', { type: 'cloud', url: 'https://a.test', traffic_policy: POLICY }],
      ['POST', '/endpoints', { type: 'cloud', url: 'https://a.test', traffic_policy: POLICY, pooling_enabled: true }]
    ]
  },
  {
    number: 18017,
    own: 'ALREADY_EXISTS',
    status: 409,
    requests: [
      ['POST', '/endpoints', { type: 'cloud', url: 'https://a.test', traffic_policy: POLICY }],
      ['POST', '/endpoints', { type: 'cloud', url: 'https://a.test', traffic_policy: POLICY }]
    ]
  },
  {
    number: 7132,
    own: 'ALREADY_EXISTS',
    status: 409,
    requests: [
      ['POST', '/edges/https', { hostports: ['a.test:443'] }],
      ['POST', '/edges/https', { hostports: ['b.test:443', 'a.test:443'] }]
    ]
  }
]

async function last(ask: NgrokAsk, requests: Situation['requests']) {
  const ids: string[] = []
  const fill = (text: string) => text.replace(/\$(\d)/g, (_, place: string) => ids[Number(place)] ?? '')
  for (const [place, [method, path, body]] of requests.entries()) {
    const filled = body === undefined ? undefined : JSON.parse(fill(JSON.stringify(body)))
    const answer = await ask(fill(path), { method, body: filled })
    if (place === requests.length - 1) return answer
    if (answer.status !== 201) throw new Error(`${method} ${path}: ${JSON.stringify(answer.json)}`)
    ids.push(answer.json.id)
  }
  throw new RangeError('no requests')
}

for (const { number, own, status, requests } of SITUATIONS) {
  t.test(`ERR_NGROK_${number}`, async (t) => {
    const { host, port, ask } = await openAccount(t)
    const refused = await last(ngrokClient(host, port), requests)
    t.match(refused, { status, json: { error_code: `ERR_NGROK_${number}`, status_code: status } })
    t.equal(refused.json.details.code, `ERR_SLUICE_${own}`, 'the details name our code')
    t.match(refused.json.details, { operation_id: /^op_/ })
    for (const value of Object.values(refused.json.details)) t.type(value, 'string')
    const other = await openAccount(t)
    t.match(await last((path, asked) => other.ask(path, asked), requests), {
      status,
      json: { error_code: `ERR_SLUICE_${own}` }
    })
    t.equal((await ask('/healthz')).status, 200)
  })
}

t.test('a row names resources and fields that exist, and its numbers are unique', async (t) => {
  const rows = (await errorGroups()).flatMap(({ tables }) => tables.flatMap(Object.values<ErrorRow>))
  const named = rows.flatMap(({ ngrok = [] }) => ngrok)
  for (const { number, resource, field } of named) {
    const found = resources.filter(({ name }) => resource === undefined || resource === name)
    t.ok(found.length > 0, `${number}: ${resource}`)
    t.ok(
      field === undefined || found.some(({ fields }) => Object.hasOwn(fields, field)),
      `${number}: ${resource}.${field}`
    )
  }
  const numbers = named.map(({ number }) => number)
  t.equal(new Set(numbers).size, numbers.length)
  const tried = SITUATIONS.map(({ number }) => number)
  // A reserved domain for each host is an option of the process: test/control/account.ts has it.
  t.same(
    numbers.filter((number) => !tried.includes(number)),
    [7117]
  )
})

t.test('every other error has our code for everybody', async (t) => {
  const { host, port } = await openAccount(t)
  const ask = ngrokClient(host, port)
  for (const [path, word, status] of [
    ['/ip_policies/ipp_none', 'NOT_FOUND', 404],
    ['/nothing', 'NOT_FOUND', 404],
    ['/ip_policies?limit=0', 'PAGE_LIMIT', 400],
    ['/ip_policies?filter=1', 'FILTER_INVALID', 400]
  ] as const) {
    t.match(await ask(path), { status, json: { error_code: `ERR_SLUICE_${word}`, status_code: status } }, path)
  }
})

t.test('the operator takes a refused policy for one by the word in its message', async (t) => {
  const { host, port } = await openAccount(t)
  const ask = ngrokClient(host, port)
  const body = {
    type: 'cloud',
    url: 'https://a.test',
    traffic_policy: '{"on_http_request":[{"actions":[{"type":"x"}]}]}'
  }
  const refused = await ask('/endpoints', { method: 'POST', body })
  t.match(refused, { status: 400, json: { msg: /policy/ } })
})

/** Bodies of updates by clients that send every field: the unset ones as null, or as zero values. */
const UPDATES: readonly (readonly [client: string, path: string, create: object, update: object, changed: object])[] = [
  [
    '.NET',
    '/credentials',
    { description: 'd', metadata: 'm', acl: ['bind:a.test'] },
    { description: 'new', metadata: null, acl: null },
    { description: 'new', metadata: 'm', acl: ['bind:a.test'] }
  ],
  [
    '.NET',
    '/ip_policies',
    { description: 'd', metadata: 'm' },
    { description: null, metadata: 'x' },
    { description: 'd', metadata: 'x' }
  ],
  [
    '.NET',
    '/reserved_domains',
    { domain: 'a.test', description: 'd' },
    { description: null, metadata: 'x', certificate_id: null, certificate_management_policy: null, region: null },
    { description: 'd', metadata: 'x' }
  ],
  [
    '.NET',
    '/backends/static',
    { address: 'a.test:80', description: 'd', tls: { enabled: true } },
    { address: null, description: null, metadata: 'x', tls: null },
    { address: 'a.test:80', description: 'd', tls: { enabled: true } }
  ],
  ['.NET', '/bot_users', { name: 'b', active: false }, { name: 'c', active: null }, { name: 'c', active: false }],
  [
    '.NET',
    '/edges/tcp',
    { hostports: ['a.test:2000'], description: 'd' },
    { description: null, metadata: 'x', hostports: null, backend: null, ip_restriction: null, traffic_policy: null },
    { description: 'd', metadata: 'x', hostports: ['a.test:2000'] }
  ],
  [
    'Go',
    '/credentials',
    { description: 'd', acl: ['bind:a.test'] },
    { description: '' },
    { description: '', acl: ['bind:a.test'] }
  ],
  [
    'Rust',
    '/edges/https',
    { description: 'd', metadata: '', hostports: ['a.test:443'], mutual_tls: null, tls_termination: null },
    { description: null, metadata: 'x', hostports: null, mutual_tls: null, tls_termination: null },
    { description: 'd', metadata: 'x', hostports: ['a.test:443'] }
  ],
  [
    'Rust',
    '/reserved_domains',
    {
      domain: 'a.test',
      region: '',
      description: '',
      metadata: '',
      certificate_id: null,
      certificate_management_policy: null
    },
    { description: null, metadata: 'x', certificate_id: null, certificate_management_policy: null },
    { domain: 'a.test', description: '', metadata: 'x', certificate: null }
  ],
  [
    'Rust',
    '/ssh_certificate_authorities',
    { description: '', metadata: '', private_key_type: '', elliptic_curve: '', key_size: 0 },
    { description: 'd', metadata: null },
    { description: 'd', metadata: '', key_type: 'ed25519' }
  ]
]

t.test('an update leaves what a client has not set', async (t) => {
  const { host, port, ask } = await openAccount(t)
  const client = ngrokClient(host, port)
  for (const [name, path, create, update, changed] of UPDATES) {
    const { json: made } = await client(path, { method: 'POST', body: create })
    const updated = await client(`${path}/${made.id}`, { method: 'PATCH', body: { id: made.id, ...update } })
    t.match(updated, { status: 200, json: changed }, `${name}: ${path} ${JSON.stringify(updated.json)}`)
    t.same((await client(`${path}/${made.id}`)).json, updated.json)
    t.equal((await client(`${path}/${made.id}`, { method: 'DELETE' })).status, 204)
  }
  const { json: made } = await client('/ip_policies', { method: 'POST', body: { description: 'd', metadata: null } })
  t.match(made, { description: 'd', metadata: '' }, 'a creation takes the default for null')
  const cleared = await ask(`/ip_policies/${made.id}`, { method: 'PATCH', body: { description: null } })
  t.match(cleared, { status: 200, json: { description: '' } }, 'for all others null clears')
})

t.test('an empty map in a creation is unset for clients of ngrok alone', async (t) => {
  const { host, port, ask } = await openAccount(t)
  const client = ngrokClient(host, port)
  const { json: authority } = await client('/ssh_certificate_authorities', { method: 'POST', body: {} })
  const body = { public_key: authority.public_key, ssh_certificate_authority_id: authority.id, extensions: {} }
  const made = await client('/ssh_user_certificates', { method: 'POST', body })
  t.same(made.json.extensions, { 'permit-pty': '', 'permit-user-rc': '' })
  const other = await ask('/ssh_user_certificates', { method: 'POST', body })
  t.same(other.json.extensions, {}, 'everybody else gets what the request says')
})

t.test('an SSH key keeps its comment, and is the same key with another one', async (t) => {
  const { ask } = await openAccount(t)
  const { json: authority } = await ask('/ssh_certificate_authorities', { method: 'POST', body: {} })
  const key = (comment: string) => ({ public_key: `${authority.public_key} ${comment}` })
  const made = await ask('/ssh_credentials', { method: 'POST', body: key('ann@laptop') })
  t.match(made, { status: 201, json: key('ann@laptop') })
  t.match(await ask('/ssh_credentials', { method: 'POST', body: key('bob@laptop') }), {
    status: 409,
    json: { error_code: 'ERR_SLUICE_ALREADY_EXISTS', details: { field: 'public_key' } }
  })
  const signed = { ...key('ann@laptop'), ssh_certificate_authority_id: authority.id }
  t.match((await ask('/ssh_host_certificates', { method: 'POST', body: signed })).json, key('ann@laptop'))
})

t.test('which versions are accepted', async (t) => {
  const { host, port } = await openAccount(t)
  const send = async (headers: Readonly<Record<string, string>>) => {
    const answer = await fetch(`http://${host}:${port}/ip_policies`, {
      headers: { authorization: `Bearer ${KEY}`, ...headers }
    })
    return [answer.status, ((await answer.json()) as { error_code?: string }).error_code]
  }
  const accepted = [200, undefined]
  const unsupported = [400, 'ERR_SLUICE_VERSION_UNSUPPORTED']
  for (const [headers, expected] of [
    [{}, [400, 'ERR_SLUICE_VERSION_MISSING']],
    [{ 'ngrok-version': '2' }, accepted],
    [{ 'service-version': '2' }, accepted],
    [{ 'ngrok-version': '2', 'service-version': '2' }, accepted],
    [{ 'ngrok-version': ' 2 ' }, accepted],
    [{ 'ngrok-version': '' }, unsupported],
    [{ 'ngrok-version': '0' }, unsupported],
    [{ 'ngrok-version': '1' }, unsupported],
    [{ 'ngrok-version': '3' }, unsupported],
    [{ 'ngrok-version': '2.0' }, unsupported],
    [{ 'ngrok-version': 'v2' }, unsupported],
    [{ 'ngrok-version': '2, 2' }, unsupported],
    [{ 'ngrok-version': '2', 'service-version': '1' }, unsupported]
  ] as const) {
    t.same(await send(headers), expected, JSON.stringify(headers))
  }
})
