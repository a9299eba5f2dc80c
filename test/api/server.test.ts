import { request } from 'node:http'
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import type { Readiness } from '../../src/api/health-routes.js'
import { type ApiOptions, createApi } from '../../src/api/server.js'
import { ApiKeys } from '../../src/control/operator-keys.js'
import { systemClock } from '../../src/lib/clock.js'

const KEY = 'a-key-of-the-administrator'
const bearer = { authorization: `Bearer ${KEY}` }

interface Answer {
  status: number
  headers: Record<string, string | string[] | undefined>
  text: string
}

async function listen(t: Test, overrides: Partial<ApiOptions> = {}) {
  const faults: string[] = []
  const api = createApi({
    keys: new ApiKeys([KEY], undefined),
    hosts: ['api.example.com', '[2001:db8::4]'],
    clock: systemClock,
    readiness: () => 'ready',
    metrics: async () => 'sluice_up 1\n',
    fault: (_error, id) => faults.push(id),
    ...overrides
  })
  const { host, port } = await api.listen({ host: '127.0.0.1', port: 0 })
  t.teardown(() => api.close())
  const ask = (path: string, options: { method?: string; headers?: Record<string, string>; body?: string } = {}) =>
    new Promise<Answer>((resolve, reject) => {
      const { method = 'GET', headers = {}, body } = options
      const sent = request({ host, port, path, method, headers, agent: false }, (response) => {
        response.setEncoding('utf8')
        let text = ''
        response.on('data', (chunk: string) => {
          text += chunk
        })
        response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }))
      })
      sent.on('error', reject)
      sent.end(body)
    })
  return { ask, port, faults }
}

/** Every error has the one form; returns its word. */
function word(t: Test, answer: Answer): string {
  const body = JSON.parse(answer.text)
  t.equal(body.status_code, answer.status)
  t.type(body.msg, 'string')
  t.match(body.details.operation_id, /^op_[0-9A-Za-z]{27}$/)
  t.equal(answer.headers['service-operation-id'], body.details.operation_id, 'the id of body and header are the same')
  t.match(answer.headers['content-type'], /^application\/json/)
  return body.error_code
}

t.test('health needs no key and tells whether traffic is carried', async (t) => {
  let state: Readiness = 'starting'
  const { ask } = await listen(t, { readiness: () => state })
  const starting = await ask('/healthz')
  t.equal(starting.status, 503)
  t.same(JSON.parse(starting.text), { status: 'starting' })
  state = 'ready'
  const ready = await ask('/healthz')
  t.equal(ready.status, 200)
  t.same(JSON.parse(ready.text), { status: 'ok' })
  t.match(ready.headers['service-operation-id'], /^op_/)
  t.equal((await ask('/healthz', { method: 'HEAD' })).status, 200)
  state = 'degraded'
  const degraded = await ask('/healthz')
  t.equal(degraded.status, 200, 'what serves most of it is not taken out of service')
  t.same(JSON.parse(degraded.text), { status: 'degraded' })
  state = 'draining'
  t.equal((await ask('/healthz')).status, 503)
})

t.test('readiness needs no key and says why a process is degraded', async (t) => {
  let state: Readiness = 'ready'
  let reasons: string[] = []
  const { ask } = await listen(t, {
    readiness: () => state,
    degradation: () => ({ reasons, revisionsBehind: reasons.length })
  })
  const ready = await ask('/readyz')
  t.equal(ready.status, 200)
  t.equal(ready.headers['cache-control'], 'no-store')
  t.same(JSON.parse(ready.text), { status: 'ready', reasons: [], revisions_behind: 0 })
  state = 'degraded'
  reasons = ['store_full']
  const degraded = await ask('/readyz')
  t.equal(degraded.status, 200, 'what serves most of it is not taken out of service')
  t.same(JSON.parse(degraded.text), { status: 'degraded', reasons: ['store_full'], revisions_behind: 1 })
  for (state of ['starting', 'draining'] as const) {
    const answer = await ask('/readyz')
    t.equal(answer.status, 503, state)
    t.same(JSON.parse(answer.text), { status: state, reasons: ['store_full'], revisions_behind: 1 })
  }
})

t.test('everything else needs the key', async (t) => {
  const { ask } = await listen(t)
  const missing = await ask('/metrics')
  t.equal(missing.status, 401)
  t.equal(word(t, missing), 'ERR_SLUICE_AUTH_MISSING')
  t.equal(missing.headers['www-authenticate'], 'Bearer')
  for (const authorization of ['Basic YTpi', 'Bearer', `Bearer ${KEY} ${KEY}`, KEY]) {
    t.equal(word(t, await ask('/metrics', { headers: { authorization } })), 'ERR_SLUICE_AUTH_MALFORMED', authorization)
  }
  for (const key of [`${KEY}x`, KEY.slice(1), 'no-key', KEY.toUpperCase(), 'k'.repeat(4096)]) {
    const wrong = await ask('/metrics', { headers: { authorization: `Bearer ${key}` } })
    t.equal(wrong.status, 401)
    t.equal(word(t, wrong), 'ERR_SLUICE_AUTH_INVALID')
    t.notMatch(wrong.text, key, 'the key is not repeated')
  }
  const right = await ask('/metrics', { headers: bearer })
  t.equal(right.status, 200)
  t.equal(right.text, 'sluice_up 1\n')
  t.match(right.headers['content-type'], /^text\/plain; version=0\.0\.4/)
})

t.test('a name that is not ours is refused before anything else', async (t) => {
  const { ask } = await listen(t)
  for (const host of [
    'evil.example',
    'localhost.evil.example',
    '127.0.0.1.nip.io',
    '10.0.0.7',
    'a b',
    'user@localhost'
  ]) {
    for (const path of ['/healthz', '/metrics', '/nothing']) {
      const answer = await ask(path, { headers: { ...bearer, host } })
      t.equal(answer.status, 403, `${host} ${path}`)
      t.equal(word(t, answer), 'ERR_SLUICE_HOST_NOT_ALLOWED')
    }
  }
  for (const host of [
    'localhost',
    'LOCALHOST:99',
    '127.0.0.1',
    '[::1]:4040',
    'api.example.com',
    'API.example.com:8443'
  ]) {
    t.equal((await ask('/healthz', { headers: { host } })).status, 200, host)
  }
})

t.test('a page of a foreign origin is refused', async (t) => {
  const { ask } = await listen(t)
  for (const origin of [
    'https://evil.example',
    'null',
    'http://localhost.evil.example',
    'file://',
    'http://10.0.0.7'
  ]) {
    const answer = await ask('/metrics', { headers: { ...bearer, origin } })
    t.equal(answer.status, 403, origin)
    t.equal(word(t, answer), 'ERR_SLUICE_ORIGIN_NOT_ALLOWED')
  }
  for (const origin of ['http://localhost:3000', 'https://api.example.com', 'http://[::1]:4040']) {
    t.equal((await ask('/metrics', { headers: { ...bearer, origin } })).status, 200, origin)
  }
})

t.test('unknown paths, methods and bodies are told in the same form', async (t) => {
  const { ask } = await listen(t)
  t.equal(word(t, await ask('/nothing')), 'ERR_SLUICE_NOT_FOUND')
  t.equal(word(t, await ask('/metrics/', { headers: bearer })), 'ERR_SLUICE_NOT_FOUND')
  t.equal(word(t, await ask('/%zz', { headers: bearer })), 'ERR_SLUICE_PATH_INVALID')
  const method = await ask('/metrics', { method: 'POST', headers: { 'content-type': 'text/odd' }, body: 'x' })
  t.equal(method.status, 405)
  t.equal(word(t, method), 'ERR_SLUICE_METHOD_NOT_ALLOWED')
  t.equal(method.headers.allow, 'GET, HEAD')
  t.equal((await ask('/healthz', { method: 'DELETE' })).status, 405)
})

t.test('a fault of ours is 500 under an operation id and tells nothing else', async (t) => {
  const { ask, faults } = await listen(t, {
    metrics: async () => {
      throw new Error('a detail of the inside')
    }
  })
  const answer = await ask('/metrics', { headers: bearer })
  t.equal(answer.status, 500)
  t.equal(word(t, answer), 'ERR_SLUICE_INTERNAL')
  t.notMatch(answer.text, 'detail of the inside')
  t.same(faults, [answer.headers['service-operation-id']])
})

t.test('without metrics there is no such path', async (t) => {
  const { ask } = await listen(t, { metrics: undefined })
  t.equal((await ask('/metrics', { headers: bearer })).status, 404)
})

t.test('bytes that are no request get the error form too', async (t) => {
  const { port } = await listen(t)
  const socket = connect(port, '127.0.0.1')
  socket.end('GET /healthz HTTP/1.1\r\nHost: localhost\r\nBroken\r\n\r\n')
  socket.setEncoding('utf8')
  let text = ''
  for await (const chunk of socket) text += chunk
  t.match(text, /^HTTP\/1\.1 400 /)
  const [head = '', body = ''] = text.split('\r\n\r\n')
  t.equal(JSON.parse(body).error_code, 'ERR_SLUICE_REQUEST_INVALID')
  t.match(head, `service-operation-id: ${JSON.parse(body).details.operation_id}`)
})
