import { once } from 'node:events'
import { createServer } from 'node:net'
import t from 'tap'
import { explainStart } from '../../src/cli/report.js'
import { loadOptions } from '../../src/options/load.js'
import { account, create } from '../helpers/account.js'
import { rawClient } from '../helpers/raw-client.js'
import { startSluice } from '../helpers/sluice.js'
import { RawUpstream } from '../helpers/upstream.js'
import { freePort, occupied } from './free-port.js'

t.test('a listener whose port is taken ends the start, and the message names its option', async (t) => {
  const port = await occupied(t)
  for (const [option, variable] of [
    ['listen', 'LISTEN'],
    ['listeners', 'LISTENERS']
  ] as const) {
    const text = option === 'listen' ? `127.0.0.1:${port}` : `https://127.0.0.1:${port}`
    const loaded = await loadOptions({ flags: [], environment: { [`SLUICE_${variable}`]: text }, folder: '/' })
    if (!loaded.ok) throw new Error('the options are refused')
    const error = await startSluice(t, { options: { [variable]: text } }).then(
      () => undefined,
      (refused: unknown) => refused
    )
    t.match(error, { code: 'EADDRINUSE', syscall: 'listen', port })
    t.match(explainStart(error, loaded.options), [
      new RegExp(`^${option}: 127.0.0.1:${port} is in use by another process \\(EADDRINUSE\\)`)
    ])
  }
})

t.test('a port of a record that is taken at the start does not end it: the rest serves', async (t) => {
  const folder = t.testdir({})
  const [port, other] = [await freePort(), await freePort()]
  const options = { DATA: folder, STORE: `${folder}/sluice.db` }
  const first = await startSluice(t, { options })
  for (const one of [port, other]) await create(first, '/edges/tcp', { hostports: [`localhost:${one}`] })
  await first.stop()
  await occupied(t, port)
  const second = await startSluice(t, { options })
  t.match(await second.line(({ msg }) => /cannot be opened/.test(String(msg))), { port, reason: 'EADDRINUSE' })
  t.equal((await account(second)('/edges/tcp')).json.tcp_edges.length, 2)
  t.match(
    await account(second)('/edges/tcp', { method: 'POST', body: { hostports: [`x:${other}`] } }),
    {
      status: 409
    },
    'the other port is open'
  )
})

t.test('a listener of the options wins over an edge of the store', async (t) => {
  const folder = t.testdir({})
  const port = await freePort()
  const options = { DATA: folder, STORE: `${folder}/sluice.db` }
  const first = await startSluice(t, { options })
  await create(first, '/edges/tcp', { hostports: [`localhost:${port}`] })
  await first.stop()
  const second = await startSluice(t, { options: { ...options, LISTEN: `127.0.0.1:${port}` } })
  t.equal(second.port, port)
  t.match(await second.line(({ msg }) => /cannot be opened/.test(String(msg))), { port })
})

t.test(
  'a port that was busy at the start opens by itself once it is free, and until then the process says so',
  async (t) => {
    const folder = t.testdir({})
    const port = await freePort()
    const options = { DATA: folder, STORE: `${folder}/sluice.db` }
    const first = await startSluice(t, { options })
    const upstream = await RawUpstream.start(t, (peer) => peer.send('welcome'))
    const backend = await create(first, '/backends/static', { address: `127.0.0.1:${upstream.port}` })
    const edge = await create(first, '/edges/tcp', {
      hostports: [`localhost:${port}`],
      backend: { enabled: true, backend_id: backend.id }
    })
    await first.stop()
    const server = createServer()
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
    const second = await startSluice(t, { options })
    const call = account(second)
    const problem = async () => (await call('/processes')).json.processes[0].last_error
    t.equal(await problem(), `127.0.0.1:${port} cannot be opened: EADDRINUSE`)
    t.match(await second.line(({ msg }) => /tried again/.test(String(msg))), { port, reason: 'EADDRINUSE' })
    const off = { backend: { enabled: false, backend_id: backend.id } }
    t.equal((await call(`/edges/tcp/${edge.id}`, { method: 'PATCH', body: off })).status, 200, 'other writes go on')
    t.equal(await problem(), `127.0.0.1:${port} cannot be opened: EADDRINUSE`, 'and do not hide it')
    const on = { backend: { enabled: true, backend_id: backend.id } }
    t.equal((await call(`/edges/tcp/${edge.id}`, { method: 'PATCH', body: on })).status, 200)
    server.close()
    await once(server, 'close')
    await second.line(({ msg }) => /is open now/.test(String(msg)))
    await (await rawClient(port)).until('welcome')
    t.equal(await problem(), null)
    t.equal((await call(`/edges/tcp/${edge.id}`, { method: 'DELETE' })).status, 204)
    await t.rejects(rawClient(port), { code: 'ECONNREFUSED' })
  }
)

t.test('an edge that goes before its port is free is not tried any more', async (t) => {
  const folder = t.testdir({})
  const port = await freePort()
  const options = { DATA: folder, STORE: `${folder}/sluice.db` }
  const first = await startSluice(t, { options })
  const edge = await create(first, '/edges/tcp', { hostports: [`localhost:${port}`] })
  await first.stop()
  await occupied(t, port)
  const second = await startSluice(t, { options })
  const call = account(second)
  t.match((await call('/processes')).json.processes[0].last_error, /EADDRINUSE/)
  t.equal((await call(`/edges/tcp/${edge.id}`, { method: 'DELETE' })).status, 204)
  t.equal((await call('/processes')).json.processes[0].last_error, null)
})
