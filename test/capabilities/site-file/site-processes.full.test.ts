import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { SluiceProcess } from '../../cli/process.js'
import { until } from '../../helpers/until.js'
import { startPostgres } from '../../store/postgres-server.js'
import { call, DENY_ADMIN, get, KEY, sluice, started, stopped, upstream } from './site-kit.js'

t.test('every process of a store serves the applied file, and events tell of it', async (t) => {
  const server = await startPostgres(t)
  const store = await server.database()
  const [web, received] = [await upstream(t, 'web'), new Map<string, unknown>()]
  const listener = createServer((sent, response) => {
    let text = ''
    sent.setEncoding('utf8').on('data', (part: string) => {
      text += part
    })
    sent.on('end', () => {
      const event = JSON.parse(text) as { event_type: string; object: unknown }
      received.set(event.event_type, event.object)
      response.end()
    })
  })
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve))
  t.teardown(() => new Promise<void>((resolve) => listener.close(() => resolve())))
  const cwd = t.testdir({
    'sites.yaml':
      `sites:\n  a.test: { policy: p.yaml, backend: web }\nbackends: { web: { servers: ["http://${web}"] } }\n` +
      'vaults: { keys: { one: { env: ONE } } }\n',
    'p.yaml': DENY_ADMIN,
    'other.yaml': 'sites: {}\n'
  })
  const env = { ONE: 'a secret of the environment', SLUICE_STORE: store, SLUICE_OUTBOUND_ALLOW_PRIVATE: 'true' }
  const a = await started(t, cwd, env)
  const b = await started(t, cwd, { ...env, ONE: 'another one' })
  const url = `http://127.0.0.1:${(listener.address() as AddressInfo).port}`
  const { body: destination } = await call(a.api, 'POST', '/event_destinations', {
    target: { webhook: { url } }
  })
  const sources = ['created', 'updated', 'deleted'].map((change) => ({ type: `site_file_${change}.v0` }))
  const made = await call(a.api, 'POST', '/event_subscriptions', { sources, destination_ids: [destination.id] })
  t.equal(made.status, 201, JSON.stringify([destination, made.body]))

  t.equal((await sluice(cwd, 'apply', 'sites.yaml', '--yes', '--api', a.api)).code, 0)
  await until(async () => (await get(b.traffic, 'a.test')) === '200 web')
  t.equal(await get(b.traffic, 'a.test', '/admin'), '403')
  t.match(await sluice(cwd, 'plan', 'sites.yaml', '--api', b.api), { code: 0, out: 'nothing changes' })
  t.match(await call(b.api, 'POST', '/edges/https', { hostports: ['a.test:443'] }), { status: 409 })
  await until(async () => received.has('site_file_created.v0'))
  t.match(received.get('site_file_created.v0'), { file: 'sites.yaml', origin: 'apply' })

  await stopped(a.process)
  const without = new SluiceProcess(t, ['start', '--listen', '127.0.0.1:0', '--api', '127.0.0.1:0', '--data', 'data'], {
    cwd,
    env: { SLUICE_API_KEY: KEY, SLUICE_STORE: store }
  })
  const ended = await without.ended()
  t.match(ended, { code: 1, err: /sites\.yaml:4:\d+: error SECRET_MISSING: the environment variable ONE is not set/ })
  const fixed = await started(t, cwd, { SLUICE_STORE: store }, 'other.yaml')
  t.equal(await get(fixed.traffic, 'a.test'), '404', 'what a start names takes the place of the applied file')
  t.match(await call(fixed.api, 'POST', '/edges/https', { hostports: ['a.test:443'] }), { status: 409 })
  t.equal((await call(fixed.api, 'DELETE', '/site')).status, 204)
  await until(async () => (await get(b.traffic, 'a.test')) === '404')
})
