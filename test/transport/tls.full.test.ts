import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect, createSecureContext } from 'node:tls'
import t from 'tap'
import type { ConnectionFacts } from '../../src/flow/exchange.js'
import { systemClock } from '../../src/lib/clock.js'
import type { ClientHello } from '../../src/transport/contract.js'
import { httpProxyBack } from '../../src/transport/http-proxy/client.js'
import { nodeServerTransport } from '../../src/transport/http-proxy/server.js'
import { codecBack } from '../../src/transport/http1/forwarding.js'
import { codecServerTransport } from '../../src/transport/http1/server.js'
import { fixture } from '../helpers/files.js'
import { rawClient } from '../helpers/raw-client.js'
import { breaks } from './suite/breaks.js'
import { connections } from './suite/connections.js'
import { endings } from './suite/endings.js'
import { bench, eventually, GET, type Make, OK } from './suite/harness.js'
import { requests } from './suite/requests.js'
import { responses } from './suite/responses.js'

/** TLS on both sides. */

const LIMITS = {
  headerBytes: 1000,
  headers: 20,
  targetBytes: 100,
  headTimeout: 200,
  bodyIdle: 0,
  keepAlive: 0,
  connections: 0
}
const at = (name: string) => readFileSync(fixture(`engine/${name}`), 'utf8')
const secure = { cert: at('upstream.crt'), key: at('upstream.key') }

const engines: Readonly<Record<string, Make>> = {
  codec: (parts) => ({ front: codecServerTransport(parts), back: codecBack(parts), secure }),
  'node:http and http-proxy': (parts) => ({ front: nodeServerTransport(parts), back: httpProxyBack(parts), secure })
}

for (const [name, make] of Object.entries(engines)) {
  t.test(`${name}: requests`, async (t) => requests(t, make))
  t.test(`${name}: responses`, async (t) => responses(t, make))
  t.test(`${name}: breaks and time-outs`, async (t) => breaks(t, make))
  t.test(`${name}: endings`, async (t) => endings(t, make))
  t.test(`${name}: connections`, async (t) => connections(t, make))

  t.test(`${name}: certificate by name, facts, http/1.1, and handshakes that do not come`, async (t) => {
    const context = createSecureContext(secure)
    const asked: (string | undefined)[] = []
    const opened: ConnectionFacts[] = []
    let closed = 0
    const ends = new Set<() => void>()
    const tls = {
      entryFor({ sni }: ClientHello) {
        asked.push(sni)
        return sni === 'unknown.test' ? undefined : { context, alpn: ['http/1.1'] }
      }
    }
    const listening = await make({ clock: systemClock }).front.listen(
      { host: '127.0.0.1', port: 0 },
      { name: 'secure', limits: LIMITS, tls },
      {
        connection(facts) {
          opened.push(facts)
          return true
        },
        async exchange(exchange) {
          await exchange.respond({ status: 200, headers: [] }, Buffer.from(`${exchange.request.scheme}`))
        },
        refused: () => undefined,
        closed() {
          closed++
          for (const end of ends) end()
        }
      }
    )
    const socket = connect({
      host: '127.0.0.1',
      port: listening.address.port,
      servername: 'upstream.test',
      ca: secure.cert,
      ALPNProtocols: ['h2', 'http/1.1']
    })
    await once(socket, 'secureConnect')
    socket.write('GET / HTTP/1.1\r\nHost: upstream.test\r\n\r\n')
    const [bytes] = (await once(socket, 'data')) as [Buffer]
    t.match(String(bytes), /^HTTP\/1\.1 200 OK\r\n(?:.*\r\n)*\r\nhttps$/)
    t.match(opened[0]?.tls, { sni: 'upstream.test', alpn: 'http/1.1', version: 'TLSv1.3', resumed: false })
    t.ok((opened[0]?.bytesIn ?? 0) > 0)
    t.ok(asked.includes('upstream.test'))
    const plain = await rawClient(listening.address.port)
    plain.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    await plain.untilEnd()
    const mute = await rawClient(listening.address.port)
    await mute.untilEnd()
    t.notMatch(mute.text, 'HTTP', 'nobody shook hands in time')
    socket.destroy()
    const late = await rawClient(listening.address.port)
    while (opened.length < 4) await new Promise(setImmediate)
    t.ok(listening.open >= 1)
    await listening.drain(10)
    await late.untilEnd()
    t.equal(listening.open, 0)
    t.equal(closed, 4, 'each connection ended once')
  })

  t.test(
    `${name}: an upstream that breaks in mid-body is no clean end; its connection is not used again`,
    async (t) => {
      const { client, upstream, until, sent } = await bench(t, make)
      const c = await client()
      c.send(GET)
      const peer = await upstream.next()
      await peer.request()
      peer.send('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n')
      await c.until('some')
      peer.socket.destroy()
      await c.untilEnd()
      t.notMatch(c.text, '0\r\n\r\n')
      await until(() => sent.length === 1)
      t.equal(sent[0]?.failure, 'upstream-gone')
      const again = await client()
      again.send(GET)
      const fresh = await upstream.next()
      await fresh.request()
      fresh.send(OK)
      t.equal((await again.answer()).body, 'ok')
      again.send(GET)
      await fresh.request()
      fresh.send(OK)
      t.equal((await again.answer()).body, 'ok', 'a whole one is')
    }
  )

  t.test(`${name}: a large body both ways, slower than it is sent`, async (t) => {
    const size = 2 * 1024 * 1024
    const { client, upstream } = await bench(t, make)
    const c = await client()
    c.send(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${size}\r\n\r\n`)
    const peer = await upstream.next()
    peer.socket.pause()
    c.send(Buffer.alloc(size, 'u'))
    await eventually(() => c.socket.writableLength > 0)
    peer.socket.resume()
    const { body } = await peer.request()
    t.ok(body === 'u'.repeat(size), 'up')
    c.socket.pause()
    peer.send(`HTTP/1.1 200 OK\r\nContent-Length: ${size}\r\n\r\n`)
    peer.send(Buffer.alloc(size, 'd'))
    c.socket.resume()
    t.ok((await c.answer()).body === 'd'.repeat(size), 'down')
  })

  t.test(`${name}: an upgrade joins both connections`, async (t) => {
    const { client, upstream, until, sent } = await bench(t, make)
    const c = await client()
    c.send('GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
    const peer = await upstream.next()
    await peer.head()
    peer.send('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nfirst')
    await c.until('first')
    c.send('ping')
    await peer.until('ping')
    peer.send('pong')
    await c.until('pong')
    c.end()
    await peer.untilEnd()
    peer.end()
    await until(() => sent.length === 1)
    t.equal(sent[0]?.failure, undefined)
  })
}
