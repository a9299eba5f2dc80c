import t from 'tap'
import { open } from './account.js'

t.test('a dry run names the routes that a write touches, however far away it is', async (t) => {
  const account = await open(t)
  const dry = { dryRun: true }
  const [one, other] = [await account.site('a.test'), await account.site('b.test')]
  const backend = await account.create('static_backend', { address: '127.0.0.1:1' })
  const spare = await account.create('static_backend', { address: '127.0.0.1:2' })
  const weighted = await account.create('weighted_backend', { backends: { [backend.id]: 1 } })
  const group = await account.create('failover_backend', { backends: [weighted.id, spare.id] })
  const place = ({ edge, route }: typeof one) => ({ id: route, edge_id: edge })
  await account.put('https_edge_route', place(one), 'backend', { backend_id: group.id })
  const touched = async (written: Promise<{ difference: { routes?: readonly string[] } }>) =>
    (await written).difference.routes

  t.same(await touched(account.update('static_backend', { id: backend.id }, { address: '127.0.0.1:3' }, dry)), [
    one.route
  ])
  t.same(await touched(account.update('https_edge', { id: other.edge }, { hostports: ['c.test:443'] }, dry)), [
    other.route
  ])
  t.same(await touched(account.remove('https_edge_route', place(other), dry)), [other.route])
  const policy = { value: 'on_http_request: []' }
  t.same(await touched(account.put('https_edge_route', place(other), 'traffic_policy', policy, dry)), [other.route])
  t.same(await touched(account.update('static_backend', { id: backend.id }, { description: 'x' }, dry)), [])
  const real = await account.update('static_backend', { id: spare.id }, { address: '127.0.0.1:4' })
  t.equal(real.difference.routes, undefined, 'a real write does not look for them')
})
