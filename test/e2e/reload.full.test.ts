import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { SluiceProcess } from '../cli/process.js'
import { rawClient, secureClient } from '../helpers/raw-client.js'
import { freePort } from '../proxy/free-port.js'

const GET = 'GET / HTTP/1.1\r\nHost: a.test\r\n\r\n'

t.test('SIGHUP opens and closes the listeners of the options file, and drops nobody else', async (t) => {
  const server = createServer((_request, response) => response.end('from upstream'))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const [main, first, second, taken] = await Promise.all([freePort(), freePort(), freePort(), freePort()])
  const cwd = t.testdir({})
  const file = join(cwd, 'sluice.yaml')
  const write = (listeners: readonly string[], more = '') =>
    writeFile(
      file,
      `listen: 127.0.0.1:${main}
api: { listen: '127.0.0.1:0' }
data: ':memory:'
upstream: http://127.0.0.1:${(server.address() as AddressInfo).port}
listeners: [${listeners.map((one) => `'${one}'`).join(', ')}]
${more}`
    )
  await write([`http://127.0.0.1:${first}`])
  const env = { SLUICE_API_KEY: 'a-key-for-tests-0123456789' }
  const sluice = new SluiceProcess(t, ['start', '--config', 'sluice.yaml'], { cwd, env })
  await sluice.logged('listening')
  // The file is watched too, so that it may be read once or twice: what counts is what comes of it.
  const hangUp = () => sluice.child.kill('SIGHUP')
  const kept = await rawClient(first)
  kept.send(GET)
  t.match(await kept.answer(), { status: 200, body: 'from upstream' })

  await write([`http://127.0.0.1:${first}`, `https://127.0.0.1:${second}`])
  hangUp()
  t.match(await sluice.logged('reloaded'), { changed: true })
  const secure = await secureClient(second, 'a.test')
  secure.send(GET)
  t.match(await secure.answer(), { status: 200, body: 'from upstream' })
  kept.send(GET)
  t.equal((await kept.answer()).status, 200, 'on the same connection as before')

  const occupied = createServer().listen(taken, '127.0.0.1')
  await once(occupied, 'listening')
  t.teardown(() => occupied.close())
  await write([`http://127.0.0.1:${taken}`])
  hangUp()
  t.match(await sluice.logged('a listener cannot be opened'), { port: taken, reason: 'EADDRINUSE' })
  kept.send(GET)
  t.equal((await kept.answer()).status, 200, 'a listener that cannot be opened changes nothing')
  await write([`http://127.0.0.1:${first}`], 'engine: steam\n')
  hangUp()
  await sluice.logged('sluice.yaml:6')
  secure.send(GET)
  t.equal(
    (await secure.answer()).status,
    200,
    'nor does a file that is wrong: the listeners are those of the last good one'
  )

  await write([`https://127.0.0.1:${second}`])
  hangUp()
  await kept.untilEnd()
  t.ok(kept.ended, 'an idle connection of a listener that goes ends')
  await t.rejects(rawClient(first), { code: 'ECONNREFUSED' })
  secure.send(GET)
  t.equal((await secure.answer()).status, 200)
  sluice.child.kill('SIGTERM')
  t.equal((await sluice.ended()).code, 0)
})
