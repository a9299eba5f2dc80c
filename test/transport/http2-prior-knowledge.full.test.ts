import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import t from 'tap'
import type { Exchange } from '../../src/flow/exchange.js'
import { systemClock } from '../../src/lib/clock.js'
import { httpProxyBack } from '../../src/transport/http-proxy/client.js'
import { nodeServerTransport } from '../../src/transport/http-proxy/server.js'
import { codecBack } from '../../src/transport/http1/forwarding.js'
import { codecServerTransport } from '../../src/transport/http1/server.js'
import { fixture } from '../helpers/files.js'
import { rawClient } from '../helpers/raw-client.js'
import { answering } from '../helpers/upstream.js'
import {
  block,
  END_HEADERS,
  END_STREAM,
  Frames,
  frame,
  GET,
  HEADERS,
  PREFACE,
  PROTOCOL_ERROR,
  SETTINGS
} from './raw-frames.js'
import { bench, eventually, type Make, OK } from './suite/harness.js'
import { multiplexed } from './suite/multiplexed.js'

/** HTTP/2 in clear text by prior knowledge (RFC 9113 3.3), beside HTTP/1.x on the same listener. */
const engines: Readonly<Record<string, Make>> = {
  codec: (parts) => ({ front: codecServerTransport(parts), back: codecBack(parts) }),
  'http-proxy': (parts) => ({ front: nodeServerTransport(parts), back: httpProxyBack(parts) })
}

const run = promisify(execFile)
const at = (name: string) => readFileSync(fixture(`engine/${name}`), 'utf8')
const identity = { cert: at('upstream.crt'), key: at('upstream.key') }
const NO_LIMITS = {
  headerBytes: 65_536,
  headers: 200,
  targetBytes: 8192,
  headTimeout: 0,
  bodyIdle: 0,
  keepAlive: 0,
  connections: 0
}
const SESSION = Buffer.concat([
  Buffer.from(PREFACE),
  frame(SETTINGS, 0, 0),
  frame(HEADERS, END_HEADERS | END_STREAM, 1, block(GET))
])

const answered = (client: Frames, stream: number) =>
  eventually(() => client.all().some((one) => one.stream === stream && (one.flags & END_STREAM) !== 0))

/** Resolves once the listener has read `bytes` of its first connection. */
const hasRead = (running: Awaited<ReturnType<typeof bench>>, bytes: number) =>
  eventually(() => (running.opened[0]?.bytesIn ?? 0) >= bytes)

for (const [name, make] of Object.entries(engines)) {
  t.test(`${name}: all that HTTP/2 over TLS does`, async (t) => multiplexed(t, make))

  t.test(`${name}: a preface in two pieces, cut at each place`, async (t) => {
    for (let at = 1; at < SESSION.length; at += at < 40 ? 1 : 20) {
      const running = await bench(t, make, { script: answering(OK) })
      const client = new Frames(running.listening.address.port, 'tcp')
      t.teardown(() => client.socket.destroy())
      client.send(SESSION.subarray(0, at))
      await hasRead(running, at)
      client.send(SESSION.subarray(at))
      await answered(client, 1)
      t.match(running.exchanges[0]?.request, { version: '2', scheme: 'http', authority: 'a.test' }, `cut at ${at}`)
      t.same(running.refused, [])
      t.equal(running.opened[0]?.bytesIn, SESSION.length, 'every byte counts once')
      t.equal(running.listening.open, 1)
      client.socket.destroy()
      await running.until(() => running.closed.length === 1)
      t.equal(running.listening.open, 0)
    }
  })

  t.test(`${name}: byte by byte`, async (t) => {
    const running = await bench(t, make, { script: answering(OK) })
    const client = new Frames(running.listening.address.port, 'tcp')
    t.teardown(() => client.socket.destroy())
    for (let at = 0; at < SESSION.length; at++) {
      client.send(SESSION.subarray(at, at + 1))
      await hasRead(running, at + 1)
    }
    await answered(client, 1)
    t.equal(running.exchanges.length, 1)
  })

  t.test(`${name}: what only looks like the preface is HTTP/1.x`, async (t) => {
    const methods = ['POST', 'PUT', 'PROPFIND', 'P', 'PR', 'PRINT', 'pri']
    for (const method of methods) {
      for (const split of [1, 2, 3, 4, 5, 100]) {
        const running = await bench(t, make, { script: answering(OK) })
        const client = await running.client()
        const text = `${method} / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n`
        client.send(text.slice(0, split))
        await hasRead(running, Math.min(split, text.length))
        client.send(text.slice(split))
        const { status } = await client.answer()
        // Node's parser has a list of methods.
        const known = (name === 'codec' ? /^[A-Z]+$/ : /^P(OST|UT|ROPFIND)$/).test(method)
        t.equal(status, known ? 200 : 400, `${method} cut at ${split}`)
        if (known) t.equal(running.exchanges[0]?.request.version, '1.1')
      }
    }
  })

  t.test(`${name}: HTTP/1.x refuses prefaces that are not the first bytes`, async (t) => {
    for (const text of [
      '\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
      'GET / HTTP/2.0\r\nHost: a\r\n\r\n',
      'pri * HTTP/2.0\r\n\r\nSM\r\n\r\n'
    ]) {
      const running = await bench(t, make)
      const client = await running.client()
      client.send(text)
      t.ok([400, 505].includes((await client.answer()).status), JSON.stringify(text))
      t.same(running.exchanges, [])
    }
    const { client, exchanges } = await bench(t, make, { script: answering(OK) })
    const second = await client()
    second.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    await second.answer()
    second.send(SESSION)
    t.ok([400, 505].includes((await second.answer()).status), 'only the first bytes of a connection count')
    t.equal(exchanges.length, 1)
  })

  t.test(`${name}: what only begins like the preface gets GOAWAY`, async (t) => {
    for (const rest of [
      '* HTTP/2.0\r\n\r\nXX\r\n\r\n',
      '* HTTP/2.1\r\n\r\nSM\r\n\r\n',
      '/ HTTP/1.1\r\nHost: a\r\n\r\n'
    ]) {
      const running = await bench(t, make)
      const client = new Frames(running.listening.address.port, 'tcp')
      client.send(Buffer.from(`PRI ${rest}`))
      await eventually(() => client.over)
      t.equal(client.goaway, PROTOCOL_ERROR, JSON.stringify(rest))
      await running.until(() => running.closed.length === 1)
      t.same(running.refused, [{ status: 400, why: 'client-malformed' }])
    }
  })

  t.test(`${name}: not inside TLS without a choice of HTTP/2`, async (t) => {
    const { client, exchanges } = await bench(t, (parts) => ({ ...make(parts), h2: identity }))
    const peer = await client()
    peer.send(SESSION)
    t.ok([400, 505].includes((await peer.answer()).status))
    t.same(exchanges, [])
  })

  t.test(`${name}: a slow preface is given up in time, wherever it stops`, async (t) => {
    for (const at of [0, 3, 13, 14, 20, 24, 33]) {
      const limits = { headTimeout: 10_000, keepAlive: 60_000 }
      const { opened, closed, until, clock, listening, exchanges } = await bench(t, make, { limits })
      const client = await rawClient(listening.address.port)
      client.socket.resume()
      if (at > 0) client.send(SESSION.subarray(0, at))
      await eventually(() => opened.length === 1 && (opened[0]?.bytesIn ?? 0) >= at)
      clock.advance(10_001)
      await client.untilEnd()
      client.end()
      clock.advance(2_000)
      await until(() => closed.length === 1)
      t.same(exchanges, [], `stopped at ${at}`)
    }
  })

  t.test(`${name}: its time counts from the first byte, not from the decision`, async (t) => {
    const { opened, closed, until, clock, listening } = await bench(t, make, { limits: { headTimeout: 10_000 } })
    const client = await rawClient(listening.address.port)
    client.send(SESSION.subarray(0, 5))
    await eventually(() => (opened[0]?.bytesIn ?? 0) >= 5)
    clock.advance(9_000)
    client.send(SESSION.subarray(5, 33))
    await eventually(() => (opened[0]?.bytesIn ?? 0) >= 33)
    clock.advance(1_500)
    await client.untilEnd()
    client.end()
    clock.advance(2_000)
    await until(() => closed.length === 1)
  })

  t.test(`${name}: a listener that drains ends a session that has just begun`, async (t) => {
    const { opened, listening } = await bench(t, make)
    const client = new Frames(listening.address.port, 'tcp')
    client.send(SESSION.subarray(0, 10))
    await eventually(() => (opened[0]?.bytesIn ?? 0) >= 10)
    const drained = listening.drain(2_000)
    client.send(SESSION.subarray(10, 33))
    await eventually(() => client.goaway === 0)
    client.socket.end()
    t.same(await drained, { ended: 1, cut: 0 })
  })

  t.test(`${name}: a peer that leaves inside the preface leaves nothing behind`, async (t) => {
    for (const at of [1, 13, 14, 24]) {
      const { opened, closed, until, listening } = await bench(t, make)
      const client = await rawClient(listening.address.port)
      client.send(SESSION.subarray(0, at))
      await eventually(() => (opened[0]?.bytesIn ?? 0) >= at)
      client.reset()
      await until(() => closed.length === 1)
      t.equal(listening.open, 0)
    }
  })

  t.test(`${name}: behind a PROXY header`, async (t) => {
    const seen: Exchange[] = []
    const { front } = make({ clock: systemClock })
    const limits = { ...NO_LIMITS }
    const options = { name: 'test', limits, proxyProtocol: { trusted: () => true } }
    const listening = await front.listen({ host: '127.0.0.1', port: 0 }, options, {
      connection: () => true,
      refused: () => undefined,
      async exchange(exchange) {
        seen.push(exchange)
        await exchange.respond({ status: 204, headers: [] })
      }
    })
    t.teardown(() => listening.drain(0))
    const client = new Frames(listening.address.port, 'tcp')
    t.teardown(() => client.socket.destroy())
    client.send(Buffer.from('PROXY TCP4 192.0.2.7 192.0.2.1 1111 80\r\n'), SESSION)
    await answered(client, 1)
    t.match(seen, [{ request: { version: '2' }, connection: { peer: { address: '192.0.2.7', port: 1111 } } }])
  })

  t.test(`${name}: curl`, async (t) => {
    const running = await bench(t, make, { script: answering(OK) })
    const url = `http://127.0.0.1:${running.listening.address.port}/`
    const curl = async (...args: string[]): Promise<string> => {
      const { stdout } = await run('curl', ['-s', '-w', ' %{http_version} %{http_code}', ...args, url])
      return stdout
    }
    t.equal(await curl('--http2-prior-knowledge'), 'ok 2 200')
    t.equal(await curl(), 'ok 1.1 200')
    t.equal(await curl('--http2'), 'ok 1.1 200', 'an upgrade of HTTP/1.1 is not taken (RFC 9113 has none)')
    t.equal(await curl('--http2-prior-knowledge', '-d', 'body'), 'ok 2 200')
  })
}
