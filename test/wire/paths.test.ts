import { readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { ambiguous } from '../fixtures/wire/targets.js'
import { account, create } from '../helpers/account.js'
import { type Engine, type RunningSluice, startSluice } from '../helpers/sluice.js'
import { freePort } from '../proxy/free-port.js'
import { session } from '../proxy/tls-client.js'
import { onEngines } from './engines.js'
import { statusOf } from './message.js'
import { ask, field, Upstream } from './peers.js'

const HOST = 'a.test'
const DENY = 'on_http_request: [{ actions: [{ type: deny, config: { status_code: 403 } }] }]'
const get = (target: string, host = HOST): string => `GET ${target} HTTP/1.1\r\nHost: ${host}\r\n\r\n`

/** What a server that reads paths in its own way may take for `/admin`, and what a visitor gets of it. */
const BESIDE: readonly [target: string, status: number][] = [
  ['/admin', 403],
  ['/admin/x', 403],
  ['//admin', 403],
  ['/x//..//admin', 403],
  ['/./admin', 403],
  ['/%61dmin', 403],
  ['/admin;x', 403],
  ['/admin;x/y', 403],
  ['/;/admin', 400],
  ['/;x/admin', 400],
  ['/;x=1/admin', 400],
  ['/%3B/admin', 400],
  ['/%3bx/admin', 400],
  ['/admin%3bx', 403],
  ['/admin%2fx', 400],
  ['/x%2f..%2fadmin', 400],
  ['/x/..;/admin', 400],
  ['/admin%5cx', 400],
  ['/admin\\x', 400],
  ['/admin%00', 400],
  ['/administrator', 200],
  ['/other;x=/admin', 200]
]

/** An edge for `host` with `/admin` protected and `/` open; answers its path in the API. */
async function guarded(sluice: RunningSluice, upstream: Upstream, host: string, more: object = {}): Promise<string> {
  const backend = await create(sluice, '/backends/static', { address: `127.0.0.1:${upstream.port}` })
  const { id } = await create(sluice, '/edges/https', { hostports: [`${host}:443`], ...more })
  const routes = `/edges/https/${id}/routes`
  await create(sluice, routes, { match: '/', backend: { backend_id: backend.id } })
  await create(sluice, routes, { match: '/admin', traffic_policy: { value: DENY } })
  return `/edges/https/${id}`
}

async function start(t: Test, engine: Engine, options: Record<string, string> = {}) {
  const upstream = await Upstream.start(t)
  const sluice = await startSluice(t, { engine, upstream: upstream.address, options })
  const status = async (target: string, host?: string) => {
    const answer = await ask(sluice.port, get(target, host))
    return answer === undefined ? 0 : statusOf(answer)
  }
  return { upstream, sluice, status }
}

onEngines('no other spelling leads past the route of /admin', async (t, engine) => {
  const port = await freePort()
  const { upstream, sluice, status } = await start(t, engine, { LISTENERS: `https://127.0.0.1:${port}` })
  await guarded(sluice, upstream, HOST)
  const h2 = session(port, HOST)
  for (const [target, wanted] of BESIDE) {
    t.equal(await status(target), wanted, target)
    t.equal((await h2.ask(HOST, target)).status, wanted, `${target} over HTTP/2`)
  }
  h2.close()
  const seen = upstream.requests.map(({ line }) => line)
  t.same(
    seen.filter((line) => !/^GET \/(?:administrator|other;x=\/admin) /.test(line)),
    [],
    'and nothing else reached the upstream'
  )
})

t.test('the expression that the documentation recommends covers what the route of a path covers', async (t) => {
  const page = readFileSync('docs/operations.md', 'utf8')
  const [, expression] = /an expression that protects a path writes\s+`([^`]+)`/.exec(page) ?? []
  const upstream = await Upstream.start(t)
  const deny = (form: string) => `on_http_request:
  - expressions: [${JSON.stringify(form)}]
    actions: [{ type: deny, config: { status_code: 403 } }]
`
  const statuses = async (policy: string, form: string) => {
    const options = { PATH_FORM: form }
    const sluice = await startSluice(t, { upstream: upstream.address, policy, options })
    const seen: [string, number][] = []
    for (const [target] of BESIDE) {
      const answer = await ask(sluice.port, get(target))
      seen.push([target, answer === undefined ? 0 : statusOf(answer)])
    }
    return seen
  }
  t.same(await statuses(deny(expression as string), 'strict'), BESIDE)
  const lenient = new Map(await statuses(deny(expression as string), 'lenient'))
  for (const [target] of BESIDE.filter(([target]) => target.startsWith('/;') || target.startsWith('/%3')))
    t.equal(lenient.get(target), 403, `${target} in the lenient form`)
})

onEngines('the refusal says why, and the connection goes on', async (t, engine) => {
  const { sluice } = await start(t, engine)
  for (const [target, , code] of ambiguous) {
    const answer = await ask(sluice.port, get(target))
    t.equal(answer && field(answer, 'sluice-error-code'), code, target)
    t.equal(answer && field(answer, 'connection'), undefined)
  }
  t.match(await sluice.line(({ code }) => code === 'PATH_DOT_PARAMETERS'), { msg: 'exchange', status: 400 })
})

onEngines('lenient lets pass what RFC 3986 lets pass', async (t, engine) => {
  const { upstream, status } = await start(t, engine, { PATH_FORM: 'lenient' })
  const forms = ambiguous.map(([target, form]): [string, string] => [target, form])
  forms.push(['/a//b', '/a//b'], ['//b.test/a', '//b.test/a'], ['/a;b', '/a;b'])
  for (const [target, form] of forms) {
    upstream.reset()
    t.equal(await status(target), 200, target)
    t.equal(upstream.requests[0]?.line, `GET ${form} HTTP/1.1`, target)
  }
})

t.test('an edge has its way over the listener, and the listener over the option', async (t) => {
  const [strict, lenient] = [await freePort(), await freePort()]
  const listeners = `http://127.0.0.1:${strict}, http://127.0.0.1:${lenient}?path_form=lenient`
  const { upstream, sluice } = await start(t, 'codec', { LISTENERS: listeners })
  const status = async (port: number, host: string) => statusOf((await ask(port, get('/x%2fy', host))) as never)
  await guarded(sluice, upstream, 'usual.test')
  const edge = await guarded(sluice, upstream, 'lenient.test', { path_form: 'lenient' })
  await guarded(sluice, upstream, 'strict.test', { path_form: 'strict' })
  const all = async (port: number) =>
    Promise.all(['usual.test', 'lenient.test', 'strict.test', 'none.test'].map((host) => status(port, host)))
  t.same(await all(strict), [400, 200, 400, 400])
  t.same(await all(lenient), [200, 200, 400, 200])
  t.match((await account(sluice)(edge)).json, { path_form: 'lenient' })
  await account(sluice)(edge, { method: 'PATCH', body: { path_form: 'listener' } })
  t.equal(await status(strict, 'lenient.test'), 400)
  const refused = await account(sluice)(edge, { method: 'PATCH', body: { path_form: 'loose' } })
  t.equal(refused.status, 400)
})

t.test('a route whose own path has parameters is found by them', async (t) => {
  const { upstream, sluice, status } = await start(t, 'codec')
  const edge = await guarded(sluice, upstream, HOST)
  await create(sluice, `${edge}/routes`, { match: '/b;v=1', match_type: 'exact_path', traffic_policy: { value: DENY } })
  t.equal(await status('/b;v=1'), 403)
  t.equal(await status('/b;v=2'), 200)
})

onEngines('a rewritten URL cannot bring back what was refused', async (t, engine) => {
  const { upstream, sluice, status } = await start(t, engine)
  const backend = await create(sluice, '/backends/static', { address: `127.0.0.1:${upstream.port}` })
  const value =
    'on_http_request: [{ actions: [{ type: url-rewrite, config: { to: "/${req.url.query_params[\'to\'][0]}" } }] }]'
  for (const [host, path_form] of [
    ['strict.test', 'strict'],
    ['lenient.test', 'lenient']
  ] as const) {
    const { id } = await create(sluice, '/edges/https', { hostports: [`${host}:443`], path_form })
    const route = { match: '/', backend: { backend_id: backend.id }, traffic_policy: { value } }
    await create(sluice, `/edges/https/${id}/routes`, route)
  }
  t.equal(await status('/?to=/admin', 'strict.test'), 200)
  t.equal(upstream.requests[0]?.line, 'GET /admin HTTP/1.1', 'merged as in a request')
  t.equal(await status('/?to=x%252fy', 'strict.test'), 500)
  t.equal(await status('/?to=x/..;/admin', 'strict.test'), 500)
  t.equal(upstream.requests.length, 1)
  t.equal(await status('/?to=x%252fy', 'lenient.test'), 200)
  t.equal(upstream.requests[1]?.line, 'GET /x%2Fy HTTP/1.1')
})

t.test('a policy sees what the upstream gets, and what came', async (t) => {
  const upstream = await Upstream.start(t)
  const value =
    'on_http_request: [{ actions: [{ type: add-headers, config: { headers: { x-path: "${req.url.path}", x-raw: "${req.url.raw_path}" } } }] }]'
  const sluice = await startSluice(t, { upstream: upstream.address, policy: value })
  await ask(sluice.port, get('//a/./b;c'))
  const request = upstream.requests[0]
  t.equal(request?.line, 'GET /a/b;c HTTP/1.1')
  t.same(request && [field(request, 'x-path'), field(request, 'x-raw')], ['/a/b;c', '//a/./b;c'])
})

t.test('an internal entry holds what is led to it to its own form', async (t) => {
  const { upstream, sluice, status } = await start(t, 'codec')
  await guarded(sluice, upstream, 'in.internal', { path_form: 'strict' })
  const value = 'on_http_request: [{ actions: [{ type: forward-internal, config: { url: "http://in.internal" } }] }]'
  const { id } = await create(sluice, '/edges/https', { hostports: [`${HOST}:443`], path_form: 'lenient' })
  await create(sluice, `/edges/https/${id}/routes`, { match: '/', traffic_policy: { value } })
  t.equal(await status('/x%2fy'), 400)
  t.equal(await status('//admin'), 403)
  t.equal(await status('/x'), 200)
})
