import t from 'tap'
import { makeFlow } from '../../helpers/flow.js'
import { Kit, outcomeOf } from '../kit.js'

const kit = new Kit()

t.test('add-headers appends to the request, in lower case, and publishes what it added', async (t) => {
  const flow = makeFlow({ headers: ['X-Tag', 'old', 'Accept', '*/*'] })
  t.equal(kit.action('add-headers', { headers: { 'X-Tag': 'new', 'X-Path': '${req.url.path}' } })(flow), undefined)
  t.same(flow.request?.headers.list, [
    ...['Host', 'app.example.com', 'X-Tag', 'old', 'Accept', '*/*'],
    ...['x-tag', 'new', 'x-path', '/']
  ])
  t.same(flow.request?.headers.values('x-TAG'), ['old', 'new'])
  t.same(kit.read('actions.service.add_headers.headers_added', flow), { 'x-tag': 'new', 'x-path': '/' })
  t.equal(kit.read("actions.ngrok.add_headers.headers_added['x-tag']", flow), 'new')
})

t.test('add-headers writes the response in its phase', async (t) => {
  const flow = makeFlow({ response: { headers: ['Server', 'x'] } })
  kit.action('add-headers', { headers: { 'x-status': '${res.status_code}' } }, 'on_http_response')(flow)
  t.same(flow.response?.headers.list, ['Server', 'x', 'x-status', '200'])
  t.same(flow.request?.headers.list, ['Host', 'app.example.com'])
})

t.test('no field comes twice on an answer of our own, and those of an upstream are appended to', async (t) => {
  const cors = { 'Access-Control-Allow-Origin': '*', 'access-control-allow-methods': 'GET', vary: 'Origin' }
  const headers = [
    'Access-Control-Allow-Origin',
    'https://a.test',
    'Access-Control-Allow-Methods',
    'GET',
    'Vary',
    'Cookie'
  ]
  const own = makeFlow({ method: 'OPTIONS', response: { status: 204, headers, local: true } })
  kit.action('add-headers', { headers: cors }, 'on_http_response')(own)
  t.same(own.response?.headers.list, [
    ...['Access-Control-Allow-Methods', 'GET', 'Vary', 'Cookie'],
    ...['access-control-allow-origin', '*', 'vary', 'Origin']
  ])
  const upstream = makeFlow({ response: { headers } })
  kit.action('add-headers', { headers: cors }, 'on_http_response')(upstream)
  t.equal(upstream.response?.headers.list.length, 12)
})

t.test('a value that is a variable of another proxy is warned of with what says the same here', (t) => {
  const warned: Readonly<Record<string, string>> = {
    $remote_addr: '${conn.client_ip}',
    '{remote_host}': '${conn.client_ip}',
    $http_host: '${req.host}',
    '%{REMOTE_ADDR}e': 'with an expression',
    '%REQ(X-A)%': 'with an expression',
    '%[src]': 'with an expression',
    '{{ .Host }}': 'with an expression'
  }
  for (const [value, right] of Object.entries(warned)) {
    const [problem] = kit.problems('add-headers', { headers: { 'x-a': value } })
    t.match(problem, /^warning PLACEHOLDER /, value)
    t.ok(problem?.endsWith(right), String(problem))
  }
  for (const value of ['$5', '{a}', '100%', '$price', 'a $remote_addr', '%20', '{"host":1}', '${req.url.host}'])
    t.same(kit.problems('add-headers', { headers: { 'x-a': value } }), [], value)
  t.end()
})

t.test('host is the one field that is replaced, and only by a host', async (t) => {
  const flow = makeFlow({ url: 'http://app.example.com/?h=a%20b' })
  kit.action('add-headers', { headers: { Host: 'other.example.com:8080' } })(flow)
  t.same(flow.request?.headers.values('host'), ['other.example.com:8080'])
  const dynamic = kit.action('add-headers', { headers: { host: "${getQueryParam('h')[0]}" } })
  t.equal(outcomeOf(dynamic(flow)), '500 POLICY_EXPRESSION')
  t.same(flow.request?.headers.values('host'), ['other.example.com:8080'])
})

t.test('a value that no header can hold fails closed and leaves nothing half done', async (t) => {
  const run = kit.action('add-headers', { headers: { 'x-ok': 'fine', 'x-echo': "${getQueryParam('x')[0]}" } })
  const attack = makeFlow({ url: 'http://app.example.com/?x=a%0d%0aX-Admin:%201' })
  t.equal(outcomeOf(run(attack)), '500 POLICY_EXPRESSION')
  t.same(attack.request?.headers.list, ['Host', 'app.example.com'])
  t.equal(outcomeOf(run(makeFlow({ url: `http://app.example.com/?x=${'a'.repeat(65_537)}` }))), '500 POLICY_EXPRESSION')
  t.equal(outcomeOf(run(makeFlow())), '500 POLICY_EXPRESSION', 'an absent value is no value either')
})

t.test('a list becomes one value, and a number is text', async (t) => {
  const flow = makeFlow({ headers: ['X-A', '1', 'x-a', '2'] })
  kit.action('add-headers', { headers: { 'x-all': "${req.headers['X-A']}", 'x-flag': 1 } })(flow)
  t.equal(flow.request?.headers.get('x-all'), '1,2')
  t.equal(flow.request?.headers.get('x-flag'), '1')
})

t.test('user-agent and host stay, whatever case they are written in', async (t) => {
  t.match(kit.problems('add-headers', { headers: { 'User-Agent': 'x' } }), [/^error CONFIG_INVALID .*user-agent/])
  t.match(kit.problems('remove-headers', { headers: ['USER-AGENT'] }), [
    /^error CONFIG_INVALID .*headers\[0\].*user-agent/
  ])
  for (const name of ['Host', 'content-length', 'Transfer-Encoding', 'sluice-error-code', 'transfer_encoding', 'a b']) {
    t.match(
      kit.problems('remove-headers', { headers: ['x-fine', name] }),
      [/^error CONFIG_INVALID .*headers\[1\]/],
      name
    )
  }
})

t.test('remove-headers removes every field of a name in any case and tells what was there', async (t) => {
  const flow = makeFlow({ headers: ['X-A', '1', 'x-a', '2', 'X-B', '3', '__proto__', 'p'] })
  kit.action('remove-headers', { headers: ['x-A', 'x-missing', '__proto__'] })(flow)
  t.same(flow.request?.headers.list, ['Host', 'app.example.com', 'X-B', '3'])
  t.same(kit.read('actions.service.remove_headers.headers_removed', flow), ['x-a', '__proto__'])
  const answer = makeFlow({ response: { headers: ['Server', 'x', 'X-Powered-By', 'y'] } })
  kit.action('remove-headers', { headers: ['server'] }, 'on_http_response')(answer)
  t.same(answer.response?.headers.list, ['X-Powered-By', 'y'])
})

t.test('remove then add replaces', async (t) => {
  const flow = makeFlow({ headers: ['Cookie', 'secret=1'] })
  kit.actions([
    ['remove-headers', { headers: ['cookie'] }],
    ['add-headers', { headers: { cookie: 'none=1' } }]
  ])(flow)
  t.same(flow.request?.headers.values('cookie'), ['none=1'])
})

t.test('the number of entries is bounded', async (t) => {
  for (const [type, empty, many] of [
    ['add-headers', {}, Object.fromEntries(Array.from({ length: 11 }, (_, i) => [`x-${i}`, 'x']))],
    ['remove-headers', [], Array.from({ length: 11 }, (_, i) => `x-${i}`)]
  ] as const) {
    t.match(kit.problems(type, { headers: empty }), [/^error CONFIG_INVALID .*at least 1/], type)
    t.match(kit.problems(type, { headers: many }), [/^error CONFIG_INVALID .*at most 10/], type)
    t.match(kit.problems(type, undefined), [/^error CONFIG_INVALID/], type)
  }
})
