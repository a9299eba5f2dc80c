import { once } from 'node:events'
import { createServer } from 'node:net'
import t from 'tap'
import { explainStart } from '../../src/cli/start-errors.js'
import { loadOptions } from '../../src/config/load.js'
import { account, create } from '../helpers/account.js'
import { startSluice } from '../helpers/sluice.js'
import { freePort } from './free-port.js'

t.test('a listener whose port is taken ends the start, and the message names its option', async (t) => {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as { port: number }
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
  const server = createServer()
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
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
