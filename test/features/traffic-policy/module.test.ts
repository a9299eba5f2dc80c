import t from 'tap'
import { outcome, startRoute } from '../route.js'

const document = (...actions: object[]) => ({ value: JSON.stringify({ on_http_request: [{ actions }] }) })
const limit = {
  type: 'rate-limit',
  config: { name: 'all', algorithm: 'sliding_window', capacity: 2, rate: '60s', bucket_key: ['conn.client_ip'] }
}

t.test('a document is live at the next request, and one that is refused changes nothing', async (t) => {
  const { get, put, remove, api, path } = await startRoute(t, (_, response) => response.end('ok'), {
    traffic_policy: document({ type: 'deny', config: { status_code: 451 } })
  })
  t.equal((await get()).status, 451)
  await put('traffic_policy', document({ type: 'deny', config: { status_code: 403 } }))
  t.equal((await get()).status, 403)
  const refused = await api('PUT', `${path}/traffic_policy`, document({ type: 'deny', config: { status_code: 99 } }))
  t.equal(refused.status, 400)
  t.equal((await get()).status, 403)
  await put('traffic_policy', { enabled: false, ...document({ type: 'deny' }) })
  t.equal(outcome(await get()), '200')
  await put('traffic_policy', document({ type: 'deny' }))
  t.equal((await get()).status, 403)
  await remove('traffic_policy')
  t.equal(outcome(await get()), '200')
})

t.test('a full bucket stays full when other modules of its route change', async (t) => {
  const { get, put, made, api, path } = await startRoute(t, (_, response) => response.end('ok'), {
    traffic_policy: document(limit)
  })
  for (const expected of ['200', '200', '429 RATE_LIMITED']) t.equal(outcome(await get()), expected)
  await api('PATCH', path, { description: 'another' })
  await put('response_headers', { add: { 'x-a': 'b' } })
  await put('circuit_breaker', {})
  await made('/ip_policies', {})
  t.equal(outcome(await get()), '429 RATE_LIMITED')
  await put('traffic_policy', document({ type: 'log' }, limit))
  t.equal(outcome(await get()), '429 RATE_LIMITED', 'another document with the same limit')
})
