import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { posting } from '../helpers/posting.js'
import { rawClient, secureClient } from '../helpers/raw-client.js'
import { engines } from '../helpers/sluice.js'
import { freePort } from '../proxy/free-port.js'
import { SluiceProcess } from './process.js'

const CONNECTIONS = 24
/** Exchanges of each connection before the stop. */
const BEFORE = 5

/** An upstream that counts what arrives. */
async function counting(t: Test) {
  const counted = { url: '', requests: 0 }
  const server = createServer((request, response) => {
    counted.requests++
    request.resume().on('end', () => response.end())
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  counted.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return counted
}

for (const engine of engines) {
  for (const protocol of ['http', 'https'] as const) {
    t.test(`${engine}, ${protocol}: a stop loses no POST of connections that are used in a loop`, async (t) => {
      const upstream = await counting(t)
      const port = await freePort()
      const sluice = new SluiceProcess(t, ['start', '--listen', '127.0.0.1:0', '--api', '127.0.0.1:0'], {
        cwd: t.testdir(),
        env: {
          SLUICE_ENGINE: engine,
          SLUICE_UPSTREAM: upstream.url,
          SLUICE_LISTENERS: `${protocol}://127.0.0.1:${port}`,
          SLUICE_DATA: ':memory:',
          SLUICE_LIMITER_BUDGET: '64MiB',
          SLUICE_ACCESS_LOG: 'off',
          SLUICE_TIMEOUTS_DRAIN: '10s'
        }
      })
      await sluice.logged('listening')
      const open = () => (protocol === 'http' ? rawClient(port) : secureClient(port, 'a.test'))
      const peers = await Promise.all(Array.from({ length: CONNECTIONS }, open))
      t.teardown(() => {
        for (const peer of peers) peer.socket.destroy()
      })
      let warm = 0
      const results = peers.map((peer, i) =>
        posting(peer, i, (answered) => {
          if (answered === BEFORE && ++warm === CONNECTIONS) sluice.child.kill('SIGTERM')
        })
      )
      const ended = await Promise.all(results)
      t.equal(ended.filter(({ lost }) => lost).length, 0)
      t.equal(
        upstream.requests,
        ended.reduce((sum, { answered }) => sum + answered, 0),
        'nothing was asked twice'
      )
      t.equal((await sluice.ended()).code, 0)
    })
  }
}
