import { connect } from 'node:net'
import t, { type Test } from 'tap'
import type { ApiOptions } from '../../src/api/server.js'
import { ControlError } from '../../src/control/errors.js'
import { resources } from '../../src/resources/registry.js'
import { fieldErrors } from '../../src/schema/errors.js'
import { ManualClock } from '../helpers/clock.js'
import { AccountDouble } from './account-double.js'
import { type Asked, asker, listen, word } from './asking.js'

async function open(t: Test, options: Partial<ApiOptions> = {}) {
  const control = new AccountDouble()
  const account = { control, resources, baseUrl: () => 'http://api.test', version: '1.2.3' }
  return { control, ...(await listen(t, { account, metrics: async () => 'up 1\n', ...options })) }
}

/** Sends bytes and returns all that comes back until the connection ends. */
async function raw(port: number, parts: AsyncIterable<string> | Iterable<string>): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  socket.setEncoding('utf8')
  let text = ''
  socket.on('data', (chunk: string) => {
    text += chunk
  })
  const ended = new Promise<void>((resolve) => socket.on('close', () => resolve()))
  socket.on('error', () => socket.destroy())
  for await (const part of parts) if (socket.writable) socket.write(part)
  await ended
  return text
}

const head = (lines: string) =>
  `POST /ip_policies HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer a-key-of-the-administrator\r\nService-Version: 2\r\n${lines}\r\n`

t.test('checks come in one order: each request has every fault from its row on', async (t) => {
  const { ask, control } = await open(t, { rate: { requests: 1, window: 60_000 } })
  const bad: Asked = { body: '{"a":1,"a":2}', headers: { 'content-type': 'text/odd', 'service-version': '9' } }
  const wrongKey = { ...bad, key: 'no-such-key-at-all' }
  const foreign = { ...wrongKey, headers: { ...bad.headers, host: 'evil.example' }, method: 'PROPFIND' }
  const large = { ...wrongKey, body: 'x'.repeat(1024 * 1024 + 1) }
  control.admitted = false
  control.permitted = false
  t.equal(word(t, await ask('/nothing?odd=1', foreign)), 'HOST_NOT_ALLOWED')
  t.equal(word(t, await ask('/nothing?odd=1', { ...large, method: 'POST' })), 'BODY_TOO_LARGE')
  t.equal(word(t, await ask('/nothing?odd=1', { ...wrongKey, method: 'POST' })), 'NOT_FOUND')
  t.equal(word(t, await ask('/ip_policies?odd=1', { ...wrongKey, method: 'PUT' })), 'METHOD_NOT_ALLOWED')
  t.equal(word(t, await ask('/ip_policies?odd=1', { ...wrongKey, method: 'POST' })), 'IP_NOT_ALLOWED')
  t.equal(word(t, await ask('/ip_policies?odd=1', { ...bad, method: 'POST' })), 'IP_NOT_ALLOWED')
  control.admitted = true
  t.equal(word(t, await ask('/ip_policies?odd=1', { ...wrongKey, method: 'POST' })), 'AUTH_INVALID')
  t.equal(word(t, await ask('/ip_policies?odd=1', { ...bad, method: 'POST' })), 'VERSION_UNSUPPORTED')
  t.equal(word(t, await ask('/ip_policies?odd=1', { ...bad, method: 'POST' })), 'RATE_LIMITED')

  const { ask: again, control: other } = await open(t)
  other.permitted = false
  const version = { 'service-version': '2' }
  const post = (asked: Asked, path = '/ip_policies?odd=1') => again(path, { method: 'POST', ...asked })
  t.equal(word(t, await post({ ...bad, headers: { ...bad.headers, ...version } })), 'CONTENT_TYPE_UNSUPPORTED')
  t.equal(word(t, await post({ body: bad.body })), 'BODY_INVALID')
  t.equal(word(t, await post({ body: {} })), 'ADMIN_REQUIRED')
  other.permitted = true
  t.equal(word(t, await post({ body: {} })), 'QUERY_UNKNOWN')
  t.same(other.asked, [], 'none of them has reached the account')
  t.equal((await post({ body: {} }, '/ip_policies')).status, 201)
})

t.test('the version is named by one of two headers', async (t) => {
  const { ask } = await open(t)
  const cases: [Record<string, string>, string | undefined][] = [
    [{ 'service-version': '2' }, undefined],
    [{ 'ngrok-version': '2' }, undefined],
    [{ 'service-version': '2', 'ngrok-version': '2' }, undefined],
    [{}, 'VERSION_MISSING'],
    [{ 'service-version': '' }, 'VERSION_UNSUPPORTED'],
    [{ 'service-version': '1' }, 'VERSION_UNSUPPORTED'],
    [{ 'service-version': '2.0' }, 'VERSION_UNSUPPORTED'],
    [{ 'service-version': '2', 'ngrok-version': '3' }, 'VERSION_UNSUPPORTED']
  ]
  const { port } = await open(t)
  const bare = asker('127.0.0.1', port)
  for (const [headers, expected] of cases) {
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
    const text = await raw(port, [
      `GET /ip_policies HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer a-key-of-the-administrator\r\n${lines.join('')}\r\n`
    ])
    t.match(
      text,
      expected === undefined ? /^HTTP\/1\.1 200 / : new RegExp(`^HTTP/1\\.1 400 [\\s\\S]*ERR_SLUICE_${expected}"`)
    )
  }
  t.equal((await bare('/metrics', { headers: { 'service-version': '9' } })).status, 200, 'metrics have no version')
  t.equal((await ask('/healthz', { headers: { 'service-version': '9' } })).status, 200)
})

t.test('a body must be JSON by its headers', async (t) => {
  const { ask, port } = await open(t)
  const post = (headers: Record<string, string>, body: unknown = '{}') =>
    ask('/ip_policies', { method: 'POST', headers, body })
  for (const type of ['application/json', 'Application/JSON; charset=UTF-8', 'application/json;charset="utf-8"']) {
    t.equal((await post({ 'content-type': type })).status, 201, type)
  }
  for (const type of [
    'text/plain',
    'application/jsonp',
    'application/json; charset=utf-16',
    'application/x-www-form-urlencoded',
    'json',
    '/'
  ]) {
    const answer = await post({ 'content-type': type })
    t.equal(answer.status, 415, type)
    t.equal(word(t, answer), 'CONTENT_TYPE_UNSUPPORTED')
  }
  t.equal((await post({ 'content-encoding': 'gzip' })).status, 415)
  t.match(
    await raw(port, [head('Content-Length: 2\r\n'), '{}']),
    /^HTTP\/1\.1 400 [\s\S]*ERR_SLUICE_CONTENT_TYPE_MISSING/
  )
  t.equal(word(t, await ask('/ip_policies', { method: 'POST' })), 'BODY_INVALID', 'no body at all')
  for (const method of ['GET', 'DELETE']) {
    const answer = await ask('/ip_policies/ipp_1', { method, body: {} })
    t.equal(answer.status, 400)
    t.equal(word(t, answer), 'BODY_UNEXPECTED')
  }
  const typed = await ask('/ip_policies/ipp_1', { method: 'DELETE', headers: { 'content-type': 'application/json' } })
  t.equal(typed.status, 204, 'a content type without a body does no harm')
})

t.test('JSON is read strictly', async (t) => {
  const { ask, control, faults } = await open(t)
  const post = (body: unknown) => ask('/ip_policies', { method: 'POST', body })
  const nested = (depth: number) => `{"a":${'['.repeat(depth)}${']'.repeat(depth)}}`
  const refused: (string | Uint8Array)[] = [
    '{',
    'nothing',
    "{'a':1}",
    '{"a":1,}',
    '{"a":NaN}',
    '{"a":1}{}',
    '{"a":1,"a":1}',
    '{"a":{"b":1,"c":":","b":2}}',
    '[{"x":1,"\\u0078":2}]',
    '{"a":1e400}',
    '{"a":[-1e999]}',
    '{"a":"\\ud800"}',
    '{"a":"\\udc00\\ud800"}',
    '{"\\ud83d":1}',
    '{"__proto__":{"admin":true}}',
    '{"a":{"__proto__":1}}',
    nested(64),
    nested(10_000),
    `${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}`,
    '[',
    ''.padEnd(1000, '['),
    `[${'0,'.repeat(20_000)}0]`,
    `[${'[],'.repeat(340_000)}[]]`,
    '"\\"',
    '{"a\\\\":1,"a\\\\":2}'
  ]
  for (const body of refused) {
    const answer = await post(body)
    t.equal(answer.status, 400, String(body).slice(0, 60))
    t.equal(word(t, answer), 'BODY_INVALID')
  }
  const latin = await post(Uint8Array.of(0x7b, 0x22, 0xe9, 0x22, 0x3a, 0x31, 0x7d))
  t.equal(word(t, latin), 'BODY_UNREADABLE')
  const secret = await post('{"value":"do-not-repeat-me",}')
  t.notMatch(secret.text, 'do-not-repeat-me')
  t.same(control.asked, [])
  const accepted: [string, unknown][] = [
    ['{"a":"x:y\\"z:\\\\","b:":[{"a":1},{"a":2}]}', { a: 'x:y"z:\\', 'b:': [{ a: 1 }, { a: 2 }] }],
    ['\ufeff{"a":1}', { a: 1 }],
    [' [ 1e308 , "\\ud83d\\ude00" ] ', [1e308, '😀']],
    [nested(63), JSON.parse(nested(63))],
    [`[${'0,'.repeat(19_000)}0]`, Array.from({ length: 19_001 }, () => 0)],
    ['null', null],
    ['"text"', 'text']
  ]
  for (const [body, value] of accepted) {
    t.equal((await post(body)).status, 201, body.slice(0, 60))
    t.same(control.last.body, value)
  }
  t.same(faults, [])
})

t.test('a body beyond 1 MiB is 413, announced or not, and 100 MB leave memory as it was', async (t) => {
  const { ask, port, control } = await open(t)
  const fitting = await ask('/ip_policies', { method: 'POST', body: `"${'x'.repeat(1024 * 1024 - 2)}"` })
  t.equal(fitting.status, 201)
  const over = await ask('/ip_policies', { method: 'POST', body: `"${'x'.repeat(1024 * 1024 - 1)}"` })
  t.equal(word(t, over), 'BODY_TOO_LARGE')
  t.equal(over.headers.connection, 'close')
  const before = process.memoryUsage().rss
  function* chunks() {
    yield head('Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n')
    const chunk = `10000\r\n${'x'.repeat(0x10000)}\r\n`
    for (let sent = 0; sent < 100; sent++) yield chunk
  }
  const answer = await raw(port, chunks())
  t.match(answer, /^HTTP\/1\.1 413 [\s\S]*ERR_SLUICE_BODY_TOO_LARGE/)
  const announced = await raw(port, [head('Content-Type: application/json\r\nContent-Length: 104857600\r\n')])
  t.match(announced, /^HTTP\/1\.1 413 /, 'nothing of it needs to arrive')
  t.ok(process.memoryUsage().rss - before < 64 * 1024 * 1024)
  t.equal(control.asked.length, 1)
})

t.test('a body that does not arrive in time is 408', async (t) => {
  const { port } = await open(t, { requestTimeout: 200 })
  const answer = await raw(port, [head('Content-Type: application/json\r\nContent-Length: 20\r\n'), '{'])
  t.match(answer, /^HTTP\/1\.1 408 [\s\S]*ERR_SLUICE_REQUEST_TIMEOUT/)
  t.match(await raw(port, ['GET /healthz HTTP/1.1\r\nHost:']), /^HTTP\/1\.1 408 /, 'neither do headers')
})

t.test('a refusal before the body is read ends the connection, so that the body is no next request', async (t) => {
  const { port } = await open(t)
  const smuggled = 'GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n'
  const text = await raw(port, [
    `POST /ip_policies HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${smuggled.length + 9}\r\n\r\n${smuggled}`
  ])
  t.match(text, /^HTTP\/1\.1 401 /)
  t.equal(text.match(/HTTP\/1\.1/g)?.length, 1)
  const get = (path: string, host = 'localhost') => `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n`
  const last = `${get('/healthz')}Connection: close\r\n\r\n`
  const kept = await raw(port, [`${get('/nothing')}\r\n${get('/vaults')}\r\n${get('/', 'evil.example')}\r\n${last}`])
  const statuses = kept.match(/HTTP\/1\.1 \d{3}/g)?.map((line) => Number(line.slice(-3)))
  t.same(statuses, [404, 401, 403, 200], 'a refusal of a request without a body does not')
})

t.test('parameters of the query are known, single and well-formed', async (t) => {
  const { ask, control } = await open(t)
  const cases: [string, string][] = [
    ['/ip_policies?limit=0', 'PAGE_LIMIT'],
    ['/ip_policies?limit=101', 'PAGE_LIMIT'],
    ['/ip_policies?limit=-1', 'PAGE_LIMIT'],
    ['/ip_policies?limit=1000000000', 'PAGE_LIMIT'],
    ['/ip_policies?limit=99999999999999999999', 'PAGE_LIMIT'],
    ['/ip_policies?limit=abc', 'PAGE_LIMIT'],
    ['/ip_policies?limit=', 'PAGE_LIMIT'],
    ['/ip_policies?limit=1.5', 'PAGE_LIMIT'],
    ['/ip_policies?limit=0x10', 'PAGE_LIMIT'],
    ['/ip_policies?limit=1&limit=1', 'QUERY_REPEATED'],
    ['/ip_policies?before_id=ipp_1&beforeId=ipp_1', 'QUERY_REPEATED'],
    ['/ip_policies?before_id=', 'QUERY_INVALID'],
    ['/ip_policies?before_id=a%00b', 'QUERY_INVALID'],
    ['/ip_policies?before_id=..%2fx', 'QUERY_INVALID'],
    [`/ip_policies?before_id=${'x'.repeat(10_000)}`, 'QUERY_INVALID'],
    ['/ip_policies?before_id=%zz', 'QUERY_MALFORMED'],
    ['/ip_policies?%ff=1', 'QUERY_MALFORMED'],
    ['/ip_policies?where=true', 'QUERY_UNKNOWN'],
    [`/ip_policies?filter=${'x'.repeat(5_000)}`, 'QUERY_INVALID'],
    ['/ip_policies?__proto__=1', 'QUERY_UNKNOWN'],
    ['/ip_policies?constructor', 'QUERY_UNKNOWN'],
    ['/ip_policies/ipp_1?limit=1', 'QUERY_UNKNOWN'],
    ['/processes?limit=1', 'QUERY_UNKNOWN']
  ]
  for (const [path, expected] of cases) {
    const answer = await ask(path)
    t.equal(answer.status, 400, path.slice(0, 80))
    t.equal(word(t, answer), expected, path.slice(0, 80))
  }
  for (const query of ['force=yes', 'force=1', 'dry_run=', 'dry_run=TRUE']) {
    t.equal(word(t, await ask(`/ip_policies/ipp_1?${query}`, { method: 'DELETE' })), 'QUERY_INVALID', query)
  }
  t.same(control.asked, [])
  await ask('/ip_policies?&limit=7&before%5Fid=ipp_1&')
  await ask('/ip_policies?beforeId=ipp_2')
  await ask('/ip_policies')
  t.match(control.asked, [
    { request: { limit: 7, beforeId: 'ipp_1' } },
    { request: { limit: 100, beforeId: 'ipp_2' } },
    { request: { limit: 100, beforeId: undefined } }
  ])
})

t.test('methods that a path lacks are 405 with those that it has, whatever their name', async (t) => {
  const { ask } = await open(t)
  const cases: [string, string, string][] = [
    ['PUT', '/ip_policies', 'GET, HEAD, POST'],
    ['PROPFIND', '/ip_policies', 'GET, HEAD, POST'],
    ['OPTIONS', '/ip_policies', 'GET, HEAD, POST'],
    ['TRACE', '/ip_policies/ipp_1', 'DELETE, GET, HEAD, PATCH'],
    ['M-SEARCH', '/edges/https/a/routes/b/oauth', 'DELETE, GET, HEAD, PUT'],
    ['GET', '/edges/https/a/routes', 'POST'],
    ['GET', '/reserved_domains/rd_1/certificate', 'DELETE'],
    ['POST', '/openapi.json', 'GET, HEAD'],
    ['DELETE', '/processes', 'GET, HEAD'],
    ['POST', '/tunnels', 'GET, HEAD']
  ]
  for (const [method, path, allow] of cases) {
    const answer = await ask(path, { method })
    t.equal(answer.status, 405, `${method} ${path}`)
    t.equal(answer.headers.allow, allow)
    t.equal(word(t, answer), 'METHOD_NOT_ALLOWED')
  }
  for (const path of ['/nothing', '/ip_policies/', '/edges/tcp//backend']) {
    t.equal((await ask(path, { method: 'PROPFIND' })).status, 404, path)
  }
  const headed = await ask('/ip_policies', { method: 'HEAD' })
  t.equal(headed.status, 200)
  t.equal(headed.text, '')
})

t.test('paths that name nothing are 404 and reach no account', async (t) => {
  const { ask, control, faults } = await open(t)
  const ids = ['..%2f..%2fetc', '%00', 'a%20b', "'%20OR%201=1--", '%f0%9f%98%80', 'x'.repeat(101), 'x'.repeat(10_240)]
  for (const id of ids) {
    for (const path of [`/ip_policies/${id}`, `/edges/https/${id}/routes/r_1`, `/edges/tcp/${id}/backend`]) {
      const answer = await ask(path)
      t.equal(answer.status, 404, path.slice(0, 60))
      t.equal(word(t, answer), 'NOT_FOUND')
    }
  }
  for (const path of [
    '/IP_POLICIES',
    '/ip_policies/',
    '//ip_policies',
    '/ip_policies/a/b',
    '/edges',
    '/edges/https/a/routes/b/nothing'
  ]) {
    t.equal((await ask(path)).status, 404, path)
  }
  t.equal(word(t, await ask('/ip_policies/%zz')), 'PATH_INVALID')
  t.same(control.asked, [])
  t.same(faults, [])
})

t.test('reads and writes carry revisions; If-Match reaches the account', async (t) => {
  const { ask, control } = await open(t)
  const got = await ask('/ip_policies/ipp_1')
  t.match(got.headers, { etag: '"7"', 'service-revision': '8', 'cache-control': 'no-store' })
  t.match((await ask('/ip_policies')).headers, { etag: undefined, 'service-revision': '8' })
  const made = await ask('/ip_policies', { method: 'POST', body: {} })
  t.equal(made.status, 201)
  t.match(made.headers, { etag: '"7"', 'service-revision': '9', location: 'http://api.test/things/x_1' })
  const gone = await ask('/ip_policies/ipp_1', { method: 'DELETE' })
  t.match(gone, { status: 204, text: '' })
  t.match(gone.headers, { 'service-revision': '9', 'content-type': undefined })
  const cases: [string | undefined, number[] | undefined][] = [
    [undefined, undefined],
    ['*', undefined],
    ['"7"', [7]],
    ['"7", "8"', [7, 8]],
    ['W/"7"', []],
    ['"other"', []]
  ]
  for (const [tag, expected] of cases) {
    const headers = tag === undefined ? {} : { 'if-match': tag }
    for (const [method, path] of [
      ['PATCH', ''],
      ['DELETE', ''],
      ['PUT', '/backend'],
      ['DELETE', '/backend']
    ] as const) {
      await ask(`/edges/tcp/e_1${path}`, { method, headers, ...(method === 'DELETE' ? {} : { body: {} }) })
      t.same(control.last.ifMatch, expected, `${method} ${tag}`)
    }
  }
  for (const tag of ['7', '"7', '"a"b"', ',']) {
    const answer = await ask('/ip_policies/ipp_1', { method: 'PATCH', headers: { 'if-match': tag }, body: {} })
    t.equal(word(t, answer), 'PRECONDITION_INVALID', tag)
  }
})

t.test('a dry run tells what the write would have answered and what it would have changed', async (t) => {
  const { ask, control } = await open(t)
  const difference = { put: ['policy:a'], drop: [] }
  const dry = async (method: string, path: string, body?: unknown) => {
    const answer = await ask(`${path}?dry_run=true`, { method, ...(body === undefined ? {} : { body }) })
    t.equal(answer.status, 200)
    t.equal(control.last.dryRun, true)
    return answer.json
  }
  t.same(await dry('POST', '/ip_policies', {}), {
    dry_run: true,
    status_code: 201,
    body: { id: 'x_1' },
    difference,
    routes: []
  })
  t.same(await dry('PATCH', '/ip_policies/a', {}), {
    dry_run: true,
    status_code: 200,
    body: { id: 'x_1' },
    difference,
    routes: []
  })
  t.same(await dry('DELETE', '/ip_policies/a'), { dry_run: true, status_code: 204, body: null, difference, routes: [] })
  t.same(await dry('DELETE', '/edges/tcp/a/backend'), {
    dry_run: true,
    status_code: 204,
    body: null,
    difference,
    routes: []
  })
})

t.test('every refusal of the account has its status', async (t) => {
  const { ask, control, faults } = await open(t)
  const statuses: [string, number][] = [
    ['FORBIDDEN', 403],
    ['ADMIN_REQUIRED', 403],
    ['NOT_FOUND', 404],
    ['ALREADY_EXISTS', 409],
    ['IN_USE', 409],
    ['LOCKOUT', 409],
    ['PORT_IN_USE', 409],
    ['PRECONDITION_FAILED', 412],
    ['UNAVAILABLE', 503],
    ['OUTCOME_UNKNOWN', 503],
    ['FIELD_INVALID', 400],
    ['REF_NOT_FOUND', 400],
    ['POLICY_EXPRESSION_INVALID', 400]
  ]
  for (const [code, status] of statuses) {
    control.failure = new ControlError({ code }, 'why', { field: 'a.b', details: { line: '3' } })
    const answer = await ask('/ip_policies', { method: 'POST', body: {} })
    t.equal(answer.status, status, code)
    t.equal(word(t, answer), code)
    t.match(answer.json.details, { field: 'a.b', line: '3' })
  }
  const problems = ['a', 'b', 'c'].map((field) => ({ field, code: 'TOO_LONG', message: 'is too long' }))
  control.failure = new ControlError(fieldErrors.TOO_LONG, 'a is too long', { field: 'a', problems })
  const several = await ask('/ip_policies', { method: 'POST', body: {} })
  t.match(several.json.details, { field: 'a', also: 'b is too long; c is too long' })
  t.same(faults, [])
  control.failure = new Error('an inner detail') as ControlError
  const broken = await ask('/ip_policies', { method: 'POST', body: {} })
  t.equal(broken.status, 500)
  t.notMatch(broken.text, 'inner detail')
  t.equal(faults.length, 1)
})

t.test('the rate of requests is limited for each principal, exactly', async (t) => {
  const clock = new ManualClock()
  const { ask, control } = await open(t, { clock, rate: { requests: 3, window: 10_000 } })
  const statuses = async (count: number) => {
    const found: number[] = []
    for (let sent = 0; sent < count; sent++) found.push((await ask('/ip_policies')).status)
    return found
  }
  t.same(await statuses(2), [200, 200])
  clock.advance(4_000)
  t.same(await statuses(2), [200, 429])
  const refused = await ask('/ip_policies')
  t.equal(word(t, refused), 'RATE_LIMITED')
  t.equal(refused.headers['retry-after'], '6')
  control.principal = { ...control.principal, id: 'bot_1' }
  t.same(await statuses(1), [200], 'another principal has requests of its own')
  control.principal = { ...control.principal, id: 'usr_1' }
  clock.advance(5_999)
  t.same(await statuses(1), [429])
  clock.advance(1)
  t.same(await statuses(3), [200, 200, 429], 'refused requests do not count')
  t.equal((await ask('/ip_policies', { key: 'wrong-key-of-nobody' })).status, 401, 'nor do those without a key')
  t.equal((await ask('/healthz')).status, 200)
})

t.test('pages of other origins have no access unless they are named', async (t) => {
  const origin = 'https://console.example.com'
  const preflight = {
    method: 'OPTIONS',
    headers: {
      origin,
      'access-control-request-method': 'PATCH',
      'access-control-request-headers': 'authorization,service-version'
    }
  }
  const closed = await open(t)
  const refused = await closed.ask('/ip_policies/a', preflight)
  t.equal(refused.status, 403)
  t.notOk(refused.headers['access-control-allow-origin'])
  const { ask } = await open(t, { corsOrigins: [origin] })
  const allowed = await ask('/ip_policies/a', { ...preflight, key: undefined })
  t.equal(allowed.status, 204)
  t.match(allowed.headers, {
    'access-control-allow-origin': origin,
    'access-control-allow-methods': 'DELETE, GET, HEAD, PATCH',
    'access-control-allow-headers': 'authorization,service-version',
    'access-control-max-age': '600',
    'access-control-allow-credentials': undefined,
    vary: 'origin'
  })
  const read = await ask('/ip_policies/a', { headers: { origin } })
  t.equal(read.status, 200)
  t.equal(read.headers['access-control-allow-origin'], origin)
  const failed = await ask('/ip_policies/a', { headers: { origin }, key: 'wrong-key-of-nobody' })
  t.equal(failed.headers['access-control-allow-origin'], origin, 'the page may read errors too')
  for (const other of [
    'https://evil.example',
    'https://console.example.com.evil.example',
    'http://console.example.com'
  ]) {
    t.equal((await ask('/ip_policies/a', { headers: { origin: other } })).status, 403, other)
  }
  t.equal((await ask('/nothing', preflight)).status, 404)
})

t.test('processes show what they serve', async (t) => {
  const { ask } = await open(t)
  const answer = await ask('/processes')
  t.same(answer.json, {
    processes: [
      {
        id: 'p1',
        applied_revision: 8,
        last_error: null,
        diverged_at: null,
        seen_at: '2026-01-01T00:00:00Z',
        gone_since: null,
        self: true,
        version: null,
        started_at: null,
        connections: null,
        event_loop_delay_ms: null,
        memory: null,
        waf: null,
        workers: []
      }
    ],
    uri: 'http://api.test/processes',
    next_page_uri: null
  })
})
