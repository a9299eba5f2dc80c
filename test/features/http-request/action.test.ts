import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { EvaluationError } from '../../../src/expression/expression.js'
import type { Flow } from '../../../src/flow/flow.js'
import { makeFlow } from '../../helpers/flow.js'
import { Kit, outcomeOf } from '../kit.js'

const kit = new Kit()

interface Test {
  teardown(run: () => void): void
}

async function serving(t: Test, answer: RequestListener): Promise<string> {
  const server = createServer(answer).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function contentOf(message: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of message) text += String(chunk)
  return text
}

async function run(config: object, flow: Flow = makeFlow(), own = kit): Promise<Flow & { outcome: string }> {
  const outcome = outcomeOf(await own.waiting([['http-request', config]])(flow))
  return Object.assign(flow, { outcome })
}

const result = (flow: Flow, field: string, own = kit): unknown =>
  own.read(`actions.service.http_request.${field}`, flow)

t.test('the request is what the config says, and the answer is published', async (t) => {
  let seen: { line: string; headers: IncomingMessage['headers']; body: string } | undefined
  const origin = await serving(t, async (request, response) => {
    seen = { line: `${request.method} ${request.url}`, headers: request.headers, body: await contentOf(request) }
    response.writeHead(201, { 'X-Tier': ['gold', 'new'] }).end('{"tier": "gold é"}')
  })
  const flow = await run(
    {
      url: `${origin}/\${req.method}?a=1`,
      method: 'POST',
      query_params: [
        { key: 'host', value: '${req.host}' },
        { key: 'a&b', value: 'c d' }
      ],
      headers: { Authorization: 'Bearer ${req.host}', 'X-Path': '${req.url.path}' },
      body: '{"path": "${req.url.path}"}'
    },
    makeFlow({ url: 'http://app.example.com/p', clientAddress: '192.0.2.99' })
  )
  t.equal(flow.outcome, 'goes on')
  t.equal(seen?.line, 'POST /GET?a=1&host=app.example.com&a%26b=c+d')
  t.equal(seen?.body, '{"path": "/p"}')
  t.match(seen?.headers, {
    authorization: 'Bearer app.example.com',
    'x-path': '/p',
    'content-type': 'application/json',
    'user-agent': 'Sluice',
    'x-forwarded-for': '192.0.2.99',
    'content-length': '14'
  })
  t.equal(result(flow, 'res.status_code'), 201)
  t.equal(result(flow, 'res.body'), '{"tier": "gold é"}')
  t.same(result(flow, "res.header['x-tier']"), ['gold', 'new'])
  t.equal(result(flow, 'res.resolved_ip'), '127.0.0.1')
  t.type(result(flow, 'res.time_ms'), 'number')
  t.equal(result(flow, 'req.method'), 'POST')
  t.match(result(flow, 'req.url'), /\/GET\?a=1&host=app\.example\.com/)
  t.equal(result(flow, 'req.body'), '{"path": "/p"}')
  t.equal(result(flow, 'error.code'), '')
  for (const field of ['error', 'error.code', "['error']"]) {
    const path = field.startsWith('[') ? field : `.${field}`
    t.equal(kit.read(`has(actions.service.http_request${path})`, flow), false, `${field} of a success`)
  }
  t.equal(kit.read('has(actions.service.http_request.res)', flow), true)
  t.match(result(flow, 'attempts'), [{ response_status_code: 201, resolved_ip: '127.0.0.1' }])
})

t.test('the next action of the rule sees the answer', async (t) => {
  const origin = await serving(t, (_, response) => response.end('{"tier": "gold"}'))
  const flow = makeFlow()
  const phase = kit.waiting([
    ['http-request', { url: origin }],
    ['add-headers', { headers: { 'x-tier': '${json.decode(actions.service.http_request.res.body).tier}' } }]
  ])
  t.equal(await phase(flow), undefined)
  t.equal(flow.request?.headers.get('x-tier'), 'gold')
})

t.test('attempts go on while the condition is true, three times at most', async (t) => {
  let requests = 0
  const origin = await serving(t, (_, response) => {
    requests++
    response.writeHead(requests === 2 ? 200 : 503).end(String(requests))
  })
  const healed = await run({ url: origin, retry_condition: 'attempts < 3 && last_attempt.res.status_code >= 500' })
  t.equal(requests, 2)
  t.equal(result(healed, 'res.body'), '2')
  t.match(result(healed, 'attempts'), [{ response_status_code: 503 }, { response_status_code: 200 }])
  requests = 2
  await run({ url: origin, retry_condition: 'last_attempt.res.statusCode == 503' })
  t.equal(requests, 6)
  await run({ url: origin, retry_condition: 'false' })
  t.equal(requests, 7)
  await run({ url: origin, retry_condition: "last_attempt.error.code == 'TIMEOUT'" })
  t.equal(requests, 8, 'what is absent is no reason to try again')
  const failing = await run({ url: origin, retry_condition: "last_attempt.req.method.matches('[')" }).catch(String)
  t.match(failing, /retry_condition/)
  const division = await run({ url: origin, retry_condition: '1 / (attempts - attempts) == 1' })
  t.equal(division.outcome, 'goes on')
  t.equal(result(division, 'error.code'), 'RETRY_CONDITION_FAILED')
  t.equal(result(division, 'res.status_code'), 503, 'the answer stays an answer')
  const halted = await run({ url: origin, retry_condition: '1 / (attempts - attempts) == 1', on_error: 'halt' })
  t.equal(halted.outcome, '502 HTTP_REQUEST_FAILED')
})

t.test('a failure is published, retried when asked for, and ends the exchange only when told to', async (t) => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  const url = `http://127.0.0.1:${port}/`
  const flow = await run({ url, retry_condition: "last_attempt.error.code == 'CONNECT_FAILED'" })
  t.equal(flow.outcome, 'goes on')
  t.equal(result(flow, 'error.code'), 'CONNECT_FAILED')
  t.match(result(flow, 'error.message'), /connection/)
  t.equal((result(flow, 'attempts') as unknown[]).length, 4)
  t.throws(
    () => result(flow, 'res.status_code'),
    new EvaluationError('absent', 'actions.service.http_request.res.status_code is not there')
  )
  for (const gone of ['res', 'res.status_code', "['res']"]) {
    const path = `http_request${gone.startsWith('[') ? '' : '.'}${gone}`
    t.equal(kit.read(`has(actions.service.${path})`, flow), false, path)
    t.equal(kit.read(`has(actions.ngrok.${path})`, flow), false, path)
  }
  for (const there of ['error', 'error.code', 'req', 'req.url', 'attempts']) {
    t.equal(kit.read(`has(actions.service.http_request.${there})`, flow), true, there)
  }
  t.equal((await run({ url, on_error: 'halt' })).outcome, '502 HTTP_REQUEST_FAILED')
  const silent = await serving(t, () => undefined)
  const began = performance.now()
  t.equal((await run({ url: silent, timeout: '1s', on_error: 'halt' })).outcome, '504 HTTP_REQUEST_TIMEOUT')
  t.ok(performance.now() - began < 3_000)
})

t.test('an address that a client chooses is still guarded', async (t) => {
  let requests = 0
  const origin = await serving(t, (_, response) => {
    requests++
    response.end()
  })
  const guarded = new Kit('none', { allowPrivate: false })
  for (const host of [
    origin,
    origin.replace('127.0.0.1', '[::ffff:127.0.0.1]'),
    'http://169.254.169.254',
    'http://localhost'
  ]) {
    const flow = makeFlow({ headers: ['x-target', host] })
    const done = await run({ url: "${req.headers['x-target'][0]}", on_error: 'halt' }, flow, guarded)
    t.equal(done.outcome, '502 HTTP_REQUEST_FAILED')
    t.equal(result(done, 'error.code', guarded), 'ADDRESS_REFUSED', host)
  }
  t.equal(requests, 0)
  const nonsense = await run({ url: "${req.headers['x-target'][0]}" }, makeFlow({ headers: ['x-target', 'nonsense'] }))
  t.equal(result(nonsense, 'error.code'), 'URL_INVALID')
})

t.test('redirects are followed only as far as the config says', async (t) => {
  const origin = await serving(t, (request, response) => {
    const left = Number(request.url?.slice(1))
    if (left === 0) response.end('there')
    else response.writeHead(302, { location: `/${left - 1}` }).end()
  })
  t.equal(result(await run({ url: `${origin}/2` }), 'res.status_code'), 302)
  const followed = await run({ url: `${origin}/2`, max_redirects: 2 })
  t.equal(result(followed, 'res.body'), 'there')
  t.equal(result(followed, 'req.url'), `${origin}/0`)
  t.equal(result(await run({ url: `${origin}/3`, max_redirects: 2 }), 'error.code'), 'REDIRECT_REFUSED')
})

t.test('bodies have limits both ways', async (t) => {
  const answers: Readonly<Record<string, () => readonly [Record<string, string>, Uint8Array]>> = {
    '/exact': () => [{}, Buffer.alloc(256 * 1024, 'a')],
    '/large': () => [{}, Buffer.alloc(256 * 1024 + 1)],
    '/coded': () => [{ 'content-encoding': 'gzip' }, gzipSync('plain')],
    '/bomb': () => [{ 'content-encoding': 'gzip' }, gzipSync(Buffer.alloc(256 * 1024 + 1))],
    '/strange': () => [{ 'content-encoding': 'zstd' }, Buffer.from('x')],
    '/latin': () => [{ 'content-type': 'text/plain; charset=iso-8859-1' }, Buffer.from('é', 'latin1')]
  }
  const origin = await serving(t, (request, response) => {
    const [headers, body] = (answers[request.url ?? ''] ?? (() => [{}, Buffer.alloc(0)] as const))()
    response.writeHead(200, headers).end(body)
  })
  const code = async (path: string) => result(await run({ url: origin + path }), 'error.code')
  t.equal(await code('/exact'), '')
  t.equal(await code('/large'), 'RESPONSE_TOO_LARGE')
  t.equal(await code('/bomb'), 'RESPONSE_TOO_LARGE')
  t.equal(await code('/strange'), 'RESPONSE_MALFORMED')
  t.equal(result(await run({ url: `${origin}/coded` }), 'res.body'), 'plain')
  t.equal(result(await run({ url: `${origin}/latin` }), 'res.body'), 'é')
  const long = { url: origin, method: 'POST', body: "${req.headers['x'][0]}".repeat(10) }
  t.equal((await run(long, makeFlow({ headers: ['x', 'y'.repeat(60_000)] }))).outcome, '500 POLICY_EXPRESSION')
  const key = { url: origin, query_params: [{ key: "${req.headers['x'][0]}", value: '' }] }
  t.equal((await run(key, makeFlow({ headers: ['x', 'y'.repeat(129)] }))).outcome, '500 POLICY_EXPRESSION')
})

t.test('a retry condition is checked when it is written', async (t) => {
  const problems = (retry_condition: string) => kit.problems('http-request', { url: 'https://a.test', retry_condition })
  t.same(problems('attempts < 2 && last_attempt.res.status_code == 500'), [])
  t.same(problems("req.method == 'GET' && has(last_attempt.error)"), [])
  t.match(problems('attempts'), [/^error EXPRESSION_TYPE .*retry_condition/])
  t.match(problems('attempt < 2'), [/^error EXPRESSION_UNKNOWN .*retry_condition/])
  t.match(problems('attempts <'), [/^error EXPRESSION_SYNTAX .*retry_condition/])
  const { problems: elsewhere } = kit.compile({
    on_http_request: [{ expressions: ['attempts < 2'], actions: [{ type: 'deny' }] }]
  })
  t.match(elsewhere, [{ code: 'EXPRESSION_UNKNOWN' }], 'other expressions do not know attempts')
})

t.test('a URL that seems to lead inside by a host that is made at run time is warned of', async (t) => {
  const problems = (url: string) => kit.problems('http-request', { url })
  for (const url of [
    'http://${req.host}.internal/',
    'https://a.${req.headers["x"][0]}.internal',
    'http://${"a.internal"}/'
  ]) {
    t.match(problems(url), [/^warning INTERNAL_DYNAMIC .*url/], url)
  }
  for (const url of ['http://api.internal/${req.url.path}', 'http://${req.host}/x.internal', 'https://internal.test']) {
    t.same(problems(url), [], url)
  }
})
