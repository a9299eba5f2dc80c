import t from 'tap'
import { get, KEY, started } from '../capabilities/site-file/site-kit.js'

const answering = (status: number) =>
  `on_http_request:\n  - actions:\n      - type: custom-response\n        config:\n          status_code: ${status}\n`

t.test('log, metrics, history and answers give the revision of the last write by one number', async (t) => {
  const { process, traffic, api } = await started(t, t.testdir())
  const write = async (method: string, path: string, body: unknown) => {
    const answer = await fetch(`${api}${path}`, {
      method,
      headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json', 'service-version': '2' },
      body: JSON.stringify(body)
    })
    t.ok(answer.ok, `${method} ${path}`)
    const { id } = (await answer.json()) as { id: string }
    return { id, revision: Number(answer.headers.get('service-revision')) }
  }
  let line = 0
  const mustName = async (revision: number, status: number, message: string) => {
    t.match(await get(traffic, 'app.test'), new RegExp(`^${status}`), message)
    t.match(await process.logged('exchange', ++line), { revision, status }, message)
    const metrics = await fetch(`${api}/metrics`, { headers: { authorization: `Bearer ${KEY}` } })
    t.match(await metrics.text(), new RegExp(`^sluice_revision ${revision}$`, 'm'), message)
    const history = await fetch(`${api}/revisions?limit=1`, {
      headers: { authorization: `Bearer ${KEY}`, 'service-version': '2' }
    })
    t.match(await history.json(), { revisions: [{ id: revision }] }, message)
  }
  const { id: edge } = await write('POST', '/edges/https', { hostports: ['app.test:443', 'app.test:80'] })
  const module = (status: number) => ({ traffic_policy: { value: answering(status) } })
  const route = await write('POST', `/edges/https/${edge}/routes`, { match: '/', ...module(418) })
  await mustName(route.revision, 418, 'a write that changes traffic')
  const described = await write('POST', '/ip_policies', { description: 'of nothing' })
  t.equal(described.revision, route.revision + 1)
  await mustName(described.revision, 418, 'a write that no unit follows')
  const key = await write('POST', '/api_keys', { description: 'of a script' })
  await mustName(key.revision, 418, 'a write of a kind that means nothing to traffic')
  const changed = await write('PATCH', `/edges/https/${edge}/routes/${route.id}`, module(451))
  await mustName(changed.revision, 451, 'another write that changes traffic')
})
