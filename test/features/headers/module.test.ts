import type { IncomingMessage, ServerResponse } from 'node:http'
import t from 'tap'
import { outcome, startRoute } from '../route.js'

/** Answers with the header lines that came, and sets some of its own. */
function echo(request: IncomingMessage, response: ServerResponse): void {
  response.setHeader('X-Powered-By', 'a machine')
  response.setHeader('Cache-Control', 'no-store')
  response.end(JSON.stringify(request.rawHeaders))
}

/** Values of a header that the upstream got. */
function got(body: Buffer, name: string): string[] {
  const list = JSON.parse(body.toString()) as string[]
  return list.filter((_, i) => i % 2 === 1 && list[i - 1]?.toLowerCase() === name)
}

t.test('fields of the request are removed and added', async (t) => {
  const { get, put, remove } = await startRoute(t, echo, {
    request_headers: { add: { 'X-Front': 'sluice', 'X-Tenant': 'märz' }, remove: ['X-Secret', 'accept'] }
  })
  const headers = { 'x-secret': 's', 'X-SECRET': 't', accept: 'a/b', 'x-front': 'client' }
  const { body } = await get({ headers })
  t.same(got(body, 'x-front'), ['client', 'sluice'], 'an added field stands beside the one that came')
  t.same(got(body, 'x-tenant'), ['märz'])
  t.same(got(body, 'x-secret'), [])
  t.same(got(body, 'accept'), [])
  await put('request_headers', { enabled: false, add: { 'x-front': 'sluice' } })
  t.same(got((await get({ headers })).body, 'x-front'), ['client'])
  await put('request_headers', { add: { host: 'inner.example.com' } })
  t.same(got((await get()).body, 'host'), ['inner.example.com'], 'there is one host')
  await remove('request_headers')
  t.same(got((await get({ headers })).body, 'accept'), ['a/b'])
})

t.test('the policy sees the request as the upstream will', async (t) => {
  const rule = {
    expressions: ["hasReqHeader('x-front') && !hasReqHeader('x-gone')"],
    actions: [{ type: 'custom-response', config: { status_code: 204 } }]
  }
  const { get, put } = await startRoute(t, echo, {
    traffic_policy: { value: JSON.stringify({ on_http_request: [rule] }) }
  })
  const headers = { 'x-gone': '1' }
  t.equal(outcome(await get({ headers })), '200')
  await put('request_headers', { add: { 'x-front': '1' }, remove: ['x-gone'] })
  t.equal(outcome(await get({ headers })), '204')
})

t.test('fields of the response are removed and added, on answers of our own too', async (t) => {
  const deny = { expressions: ["req.url.path == '/deny'"], actions: [{ type: 'deny' }] }
  const { get, put, remove, server } = await startRoute(t, echo, {
    response_headers: { add: { 'Strict-Transport-Security': 'max-age=1' }, remove: ['X-Powered-By'] },
    traffic_policy: { value: JSON.stringify({ on_http_request: [deny] }) }
  })
  t.match((await get()).headers, { 'strict-transport-security': 'max-age=1', 'cache-control': 'no-store' })
  t.notOk('x-powered-by' in (await get()).headers)
  const denied = await get({ path: '/deny' })
  t.match(denied, { status: 403, headers: { 'strict-transport-security': 'max-age=1' } })
  await put('response_headers', { add: { 'cache-control': 'private' } })
  t.equal((await get()).headers['cache-control'], 'no-store, private')
  await remove('response_headers')
  t.equal((await get()).headers['cache-control'], 'no-store')
  await put('response_headers', { add: { 'x-after': 'all' } })
  server.close()
  server.closeAllConnections()
  t.match(await get(), { status: 502, headers: { 'x-after': 'all' } })
})

t.test('nobody can break the framing of a message', async (t) => {
  const { get, api, path } = await startRoute(t, echo)
  const names = ['content-length', 'transfer-encoding', 'connection', 'te', 'upgrade', 'trailer', 'Content_Length']
  for (const module of ['request_headers', 'response_headers']) {
    for (const name of names) {
      t.equal((await api('PUT', `${path}/${module}`, { add: { [name]: '5' } })).status, 400, name)
      const first = await get()
      t.equal(first.status, 200, `${module} ${name}`)
      t.equal(got(first.body, 'content-length').length, 0)
      t.equal(got(first.body, 'transfer-encoding').length, 0)
      await api('PUT', `${path}/${module}`, { remove: [name] })
      t.equal((await get()).status, 200)
    }
  }
  for (const add of [{ 'x-a': 'b\r\nx-b: c' }, { 'x-a': 'b\0' }, { 'x a': 'b' }, { 'x-a:': 'b' }, { '': 'b' }]) {
    t.equal((await api('PUT', `${path}/request_headers`, { add })).status, 400, JSON.stringify(add))
  }
})
