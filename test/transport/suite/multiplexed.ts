import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { type ClientHttp2Stream, constants } from 'node:http2'
import { connect } from 'node:net'
import { PassThrough, Transform } from 'node:stream'
import type { Test } from 'tap'
import { Pouring } from '../../helpers/pouring.js'
import { answering, type UpstreamPeer } from '../../helpers/upstream.js'
import { Asked, ask } from '../http2-client.js'
import {
  ACK,
  block,
  END_HEADERS,
  END_STREAM,
  Frames,
  frame,
  GET,
  GOAWAY,
  HEADERS,
  PING,
  SETTINGS
} from '../raw-frames.js'
import { bench, eventually, type Make, OK, pass, record } from './harness.js'

const { NGHTTP2_CANCEL, NGHTTP2_INTERNAL_ERROR, NGHTTP2_REFUSED_STREAM } = constants
const WEBSOCKET = { ':method': 'CONNECT', ':protocol': 'websocket', ':scheme': 'https', ':path': '/ws' }

/** HTTP/2 for clients before an HTTP/1.1 upstream: what the other suites demand of HTTP/1.1, as far as it means the same here. */
export function multiplexed(t: Test, make: Make): void {
  t.test('a request and its answer keep target, fields and repetition', async (t) => {
    const { session, upstream, exchanges, opened, secure } = await bench(t, make, {
      script: answering(
        'HTTP/1.1 299 Quite Fine\r\nX-Case: \xe9\xff\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\nETag: "1"\r\nETag: "2"\r\nConnection: X-Hop\r\nKeep-Alive: 5\r\nX-Hop: 1\r\nContent-Length: 2\r\n\r\nok'
      )
    })
    const asked = ask(session(), {
      ':path': '/a//b/../c?x=%zz',
      cookie: ['a=b', 'c=d'],
      'x-two': ['1', '2'],
      'x-high': '\xe9\xff'
    })
    const answer = await asked.answer()
    t.match(answer, { status: 299, body: 'ok', code: 0 })
    t.same(asked.values('set-cookie'), ['a=1', 'b=2'])
    t.same(asked.values('x-case'), ['\xe9\xff'])
    t.same(asked.values('content-length'), ['2'])
    t.same(asked.values('etag'), ['"1"', '"2"'], 'a field that came twice goes twice')
    const [peer] = upstream.peers
    const [request] = peer?.requests ?? []
    t.equal(request?.line, 'GET /a//b/../c?x=%zz HTTP/1.1')
    const sent = request?.headers.map(([name, value]) => `${name.toLowerCase()}: ${value}`) ?? []
    for (const field of ['host: a.test', 'cookie: a=b; c=d', 'x-two: 1', 'x-two: 2', 'x-high: \xe9\xff']) {
      t.equal(sent.filter((line) => line === field).length, 1, field)
    }
    t.match(exchanges[0]?.request, {
      version: '2',
      scheme: secure ? 'https' : 'http',
      authority: 'a.test',
      method: 'GET'
    })
    if (secure) t.match(opened[0]?.tls, { alpn: 'h2', sni: 'upstream.test' })
    else t.equal(opened[0]?.tls, undefined)
  })

  t.test('bodies and trailers pass both ways, in every framing and size', async (t) => {
    const { session, upstream, sent, until } = await bench(t, make, {
      script: answering((request) =>
        request.line.startsWith('GET')
          ? OK
          : `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${request.body.length.toString(16)}\r\n${request.body}\r\n0\r\nX-Up: 1\r\nX-Up: 2\r\nSet-Cookie: no\r\n\r\n`
      )
    })
    const client = session()
    for (const size of [1, 1000, 200_000]) {
      const body = 'x'.repeat(size)
      const counted = ask(client, { ':method': 'POST', 'content-length': size }, body)
      t.match(await counted.answer(), { status: 200, body, trailers: ['x-up', '1', 'x-up', '2'], code: 0 })
      t.ok(
        upstream.peers
          .at(-1)
          ?.requests.at(-1)
          ?.headers.some(([name]) => name.toLowerCase() === 'content-length')
      )
      const open = ask(client, { ':method': 'PUT' }, body, { 'x-sum': '9', authorization: 'x' })
      t.match(await open.answer(), { status: 200, body, code: 0 })
      t.same(upstream.peers.at(-1)?.requests.at(-1)?.trailers, [['x-sum', '9']])
    }
    await until(() => sent.length === 6)
    t.ok((sent[5]?.bytesIn ?? 0) >= 200_000 && (sent[5]?.bytesOut ?? 0) >= 200_000)
  })

  t.test('HEAD, 204 and 304 carry no bytes; the session goes on', async (t) => {
    const { session } = await bench(t, make, {
      script: answering((request) => {
        if (request.line.startsWith('HEAD')) return 'HTTP/1.1 200 OK\r\nContent-Length: 700\r\n\r\n'
        if (request.line.includes('/204')) return 'HTTP/1.1 204 No Content\r\n\r\n'
        return 'HTTP/1.1 304 Not Modified\r\nContent-Length: 700\r\n\r\n'
      })
    })
    const client = session()
    const head = ask(client, { ':method': 'HEAD' })
    t.match(await head.answer(), { status: 200, body: '', code: 0 })
    t.same(head.values('content-length'), ['700'])
    const empty = ask(client, { ':path': '/204' })
    t.match(await empty.answer(), { status: 204, body: '', code: 0 })
    t.same(empty.values('content-length'), [])
    t.match(await ask(client, { ':path': '/304' }).answer(), { status: 304, body: '', code: 0 })
  })

  t.test('103 passes; 100 comes when the body is wanted', async (t) => {
    const { session, upstream } = await bench(t, make, {
      async exchange(exchange, bench) {
        if (exchange.request.target === '/refuse') await exchange.respond({ status: 403, headers: [] })
        else await pass(exchange, bench)
      }
    })
    const client = session()
    const hinted = ask(client)
    const peer = await upstream.next()
    await peer.request()
    peer.send(`HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n${OK}`)
    t.match(await hinted.answer(), { status: 200, interim: [103], body: 'ok' })
    const headers = { ':method': 'POST', ':authority': 'a', expect: '100-continue', 'content-length': 2 }
    const refused = new Asked(client, { ...headers, ':path': '/refuse' })
    t.match(await refused.answer(), { status: 403, interim: [], code: 0 }, 'without the upload')
    const asked = new Asked(client, headers)
    asked.stream.once('continue', () => asked.stream.end('hi'))
    await peer.head()
    peer.send('HTTP/1.1 100 Continue\r\n\r\n')
    t.equal((await peer.request()).body, 'hi')
    peer.send(OK)
    t.match(await asked.answer(), { status: 200, interim: [100], body: 'ok' })
  })

  t.test('streams run beside each other; the end of one ends no other', async (t) => {
    let fail = (): void => undefined
    const { session, upstream, sent, until, exchanges } = await bench(t, make, {
      async exchange(exchange, bench) {
        if (exchange.request.target === '/close') exchange.close('reset')
        else if (exchange.request.target === '/throw') throw new Error('thrown')
        else if (exchange.request.target === '/late') {
          const body = new PassThrough()
          body.write('half')
          exchange.respond({ status: 200, headers: [] }, body)
          await new Promise<void>((resolve) => {
            fail = resolve
          })
          throw new Error('in mid-answer')
        } else await pass(exchange, bench)
      }
    })
    const client = session()
    const waiting = ask(client, { ':path': '/waiting' })
    const first = await upstream.next()
    await first.request()
    const broken = ask(client, { ':path': '/broken' })
    const second = await upstream.next()
    await second.request()
    second.send('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome')
    await broken.until(() => broken.body === 'some')
    second.reset()
    t.match(await broken.answer(), { status: 200, body: 'some', code: NGHTTP2_INTERNAL_ERROR })
    const left = ask(client, { ':path': '/left' })
    const third = await upstream.next()
    await third.request()
    left.stream.close(NGHTTP2_CANCEL)
    await third.untilEnd()
    await until(() => sent.length === 2)
    t.same(
      sent.map(({ failure }) => failure),
      ['upstream-gone', 'client-gone']
    )
    t.match(await ask(client, { ':path': '/close' }).answer(), { status: 0, code: NGHTTP2_INTERNAL_ERROR })
    t.match(await ask(client, { ':path': '/throw' }).answer(), { status: 500, code: 0 })
    const late = ask(client, { ':path': '/late' })
    await late.until(() => late.body === 'half')
    fail()
    t.equal((await late.answer()).code, NGHTTP2_INTERNAL_ERROR)
    first.send(OK)
    t.match(await waiting.answer(), { status: 200, body: 'ok', code: 0 })
    t.same(exchanges[0]?.signal.aborted, undefined)
  })

  t.test('a client that leaves aborts everything it asked for', async (t) => {
    for (const how of ['destroy', 'end'] as const) {
      const { session, upstream, closed, until, exchanges, listening } = await bench(t, make)
      const below = connect({ host: '127.0.0.1', port: listening.address.port })
      const client = session(below)
      for (let i = 0; i < 5; i++) ask(client)
      const peers: UpstreamPeer[] = []
      for (let i = 0; i < 5; i++) {
        const peer = await upstream.next()
        await peer.request()
        peers.push(peer)
      }
      if (how === 'destroy') client.destroy()
      else below.end()
      await Promise.all(peers.map(async (peer) => await peer.untilEnd()))
      await until(() => closed.length === 1)
      t.same(
        exchanges.map((exchange) => exchange.signal.aborted),
        Array(5).fill('client-gone')
      )
    }
  })

  t.test('an early answer ends the upload of its stream alone', async (t) => {
    const { session, upstream } = await bench(t, make, {
      async script(peer) {
        await peer.head()
        peer.send('HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 4\r\n\r\nstop')
      }
    })
    const client = session()
    const upload = new Asked(client, { ':method': 'POST', ':authority': 'a' })
    upload.stream.write('some')
    t.match(await upload.answer(), { status: 413, body: 'stop', code: 0 })
    t.match(await ask(client).answer(), { status: 413, body: 'stop', code: 0 })
    t.equal(upstream.peers.length, 2)
  })

  t.test('a reset is no clean end of an upload, whatever it is called', async (t) => {
    for (const code of [constants.NGHTTP2_NO_ERROR, NGHTTP2_CANCEL]) {
      const { session, upstream, sent, until } = await bench(t, make)
      const upload = new Asked(session(), { ':method': 'POST', ':authority': 'a' })
      upload.stream.write('some')
      const peer = await upstream.next()
      await peer.until('some')
      resetWith(upload.stream, code)
      await peer.untilEnd()
      t.notMatch(peer.text, /0\r\n\r\n$/, `${code}`)
      await until(() => sent.length === 1)
      t.equal(sent[0]?.failure, 'client-gone')
    }
  })

  t.test('a slow reader holds the upstream back, alone, and is cut after the idle time', async (t) => {
    const total = 64 * 1024 * 1024
    const pouring = new Pouring()
    const { session, clock, sent } = await bench(t, make, {
      limits: { bodyIdle: 400 },
      async script(peer) {
        const { line } = await peer.request()
        if (line.includes('/quick'))
          return peer.send('HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n')
        peer.send(`HTTP/1.1 200 OK\r\nContent-Length: ${total}\r\n\r\n`)
        pouring.into(peer.socket, total)
      }
    })
    const client = session()
    const slow = ask(client)
    slow.stream.pause()
    await once(slow.stream, 'response')
    const written = await pouring.stuck()
    t.ok(written < total / 2, `${written} bytes`)
    t.match(await ask(client, { ':path': '/quick' }).answer(), { status: 200 })
    clock.advance(1)
    await new Promise((resolve) => setTimeout(resolve, 250))
    while (sent.length === 1) {
      clock.advance(401)
      await new Promise((resolve) => setTimeout(resolve, 120))
    }
    t.equal(sent[1]?.failure, 'client-timeout')
    slow.stream.resume()
    t.equal((await slow.answer()).code, NGHTTP2_INTERNAL_ERROR)
    t.match(await ask(client, { ':path': '/quick' }).answer(), { status: 200 })
  })

  t.test('a slow upstream holds its own stream back, not the session', async (t) => {
    const { session, upstream } = await bench(t, make)
    const client = session()
    const upload = new Asked(client, { ':method': 'POST', ':authority': 'a' })
    const peer = await upstream.next()
    await peer.head()
    peer.socket.pause()
    const written = await new Pouring().into(upload.stream, 64 * 1024 * 1024).stuck()
    t.ok(written < 32 * 1024 * 1024, `${written} bytes`)
    const other = ask(client)
    const second = await upstream.next()
    await second.request()
    second.send(OK)
    t.match(await other.answer(), { status: 200, body: 'ok' })
    upload.stream.close(NGHTTP2_CANCEL)
    peer.socket.resume()
    await peer.untilEnd()
    t.notMatch(peer.text.slice(-20), /0\r\n\r\n$/, 'no clean end')
  })

  t.test('bodies are claimed, buffered and transformed as on HTTP/1.1', async (t) => {
    const doubled = () =>
      new Transform({
        transform(chunk: Buffer, _encoding, done) {
          done(null, Buffer.concat([chunk, chunk]))
        }
      })
    const { session } = await bench(t, make, {
      script: answering(
        (request) => `HTTP/1.1 200 OK\r\nContent-Length: ${request.body.length}\r\n\r\n${request.body}`
      ),
      async exchange(exchange, bench) {
        const { target, body } = exchange.request
        const ok = { status: 200, headers: [] }
        if (target === '/claim') await exchange.respond(ok, body.claim())
        else if (target === '/buffer') await exchange.respond(ok, Buffer.from(await body.buffer(100)))
        else if (target === '/trailers') await exchange.respond(ok, Buffer.from('x'), () => ['X-T', '1'])
        else {
          if (target === '/large') t.equal(await body.buffer(1), 'too-large')
          body.through(doubled)
          await pass(exchange, bench)
        }
      }
    })
    const client = session()
    const post = async (path: string) => await ask(client, { ':method': 'POST', ':path': path }, 'abc').answer()
    t.match(await post('/claim'), { body: 'abc', code: 0 })
    t.match(await post('/buffer'), { body: 'abc', code: 0 })
    t.match(await post('/trailers'), { body: 'x', trailers: ['x-t', '1'], code: 0 })
    t.match(await post('/through'), { body: 'abcabc', code: 0 })
    t.match(await post('/large'), { body: 'abcabc', code: 0 })
  })

  t.test(
    'an extended CONNECT is an upgrade: both pipes, half-close, and a key that the upstream must answer',
    async (t) => {
      const { session, upstream, sent, until, exchanges } = await bench(t, make)
      const client = session()
      await once(client, 'remoteSettings')
      t.equal(client.remoteSettings.enableConnectProtocol, true)
      const asked = new Asked(client, { ...WEBSOCKET, ':authority': 'a', 'sec-websocket-version': '13' })
      const peer = await upstream.next()
      const head = await peer.head()
      t.match(head, /^GET \/ws HTTP\/1\.1\r\n/)
      t.match(head, /\r\nConnection: Upgrade\r\n/i)
      t.match(head, /\r\nUpgrade: websocket\r\n/i)
      t.equal(exchanges[0]?.upgrade, 'websocket')
      peer.send(switched(head))
      await asked.until(() => asked.status === 200)
      t.same([asked.values('sec-websocket-accept'), asked.values('upgrade')], [[], []])
      t.same(asked.values('sec-websocket-protocol'), ['chat'])
      asked.stream.write('ping')
      await peer.until('ping')
      peer.send('pong')
      await asked.until(() => asked.body === 'pong')
      asked.stream.end()
      await peer.untilEnd()
      peer.send(' last')
      await asked.until(() => asked.body === 'pong last')
      peer.end()
      t.match(await asked.answer(), { code: 0 })
      await until(() => sent.length === 1)
      t.equal(sent[0]?.failure, undefined)
      t.ok((sent[0]?.bytesOut ?? 0) > 'pong last'.length)

      const wrong = new Asked(client, { ...WEBSOCKET, ':authority': 'a' })
      const second = await upstream.next()
      await second.head()
      second.send(
        'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n'
      )
      t.match(await wrong.answer(), { status: 502 })
      await second.untilEnd()

      const cut = new Asked(client, { ...WEBSOCKET, ':authority': 'a' })
      const third = await upstream.next()
      third.send(switched(await third.head()))
      await cut.until(() => cut.status === 200)
      third.reset()
      t.equal((await cut.answer()).code, NGHTTP2_INTERNAL_ERROR)
      const reset = new Asked(client, { ...WEBSOCKET, ':authority': 'a' })
      const fourth = await upstream.next()
      fourth.send(switched(await fourth.head()))
      await reset.until(() => reset.status === 200)
      reset.stream.close(NGHTTP2_CANCEL)
      await fourth.untilEnd()
      t.match(await ask(client, { ':path': '/refused' }).stream.session?.destroyed, false)
    }
  )

  t.test('drain: GOAWAY, idle sessions end, busy ones with their last answer', async (t) => {
    const { session, upstream, listening } = await bench(t, make)
    const idle = session()
    const before = ask(idle)
    const first = await upstream.next()
    await first.request()
    first.send(OK)
    await before.answer()
    const busy = session()
    const asked = ask(busy)
    await first.request()
    const goaway = once(busy, 'goaway')
    const drained = listening.drain(60_000)
    await once(idle, 'close')
    t.match(await goaway, [0])
    first.send(OK)
    t.match(await asked.answer(), { status: 200, body: 'ok', code: 0 })
    if (!busy.destroyed) await once(busy, 'close')
    t.same(await drained, { ended: 2, cut: 0 })
  })

  t.test('drain: what crosses the first GOAWAY is served, and what comes behind the last one is not', async (t) => {
    const { listening, exchanges, secure } = await bench(t, make, { script: answering(OK) })
    const client = new Frames(listening.address.port, secure ? 'tls' : 'tcp')
    const answered = (stream: number) =>
      eventually(() => client.all().some((one) => one.stream === stream && (one.flags & END_STREAM) !== 0))
    const told = () => client.all().flatMap(({ type, payload }) => (type === GOAWAY ? [payload.readUInt32BE(0)] : []))
    const get = (stream: number) => frame(HEADERS, END_STREAM | END_HEADERS, stream, block(GET))
    client.start()
    client.send(get(1))
    await answered(1)
    const drained = listening.drain(60_000)
    await eventually(() => told().length === 1)
    t.same(told(), [2 ** 31 - 1], 'an idle session is told at once')
    client.send(get(3), get(5))
    await Promise.all([answered(3), answered(5)])
    const ping = client.all().find(({ type, flags }) => type === PING && flags === 0)
    client.send(get(7), frame(PING, ACK, 0, ping?.payload), get(9))
    await answered(7)
    await eventually(() => told().length >= 2)
    t.equal(told()[1], 7, 'what came behind it may be asked again elsewhere')
    t.equal(exchanges.length, 4)
    t.equal(client.resetOf(9), undefined)
    client.socket.end()
    t.same(await drained, { ended: 1, cut: 0 })
  })

  t.test('drain: a session that answers nothing hears the last stream all the same', async (t) => {
    const { listening, secure } = await bench(t, make)
    const client = new Frames(listening.address.port, secure ? 'tls' : 'tcp')
    client.start()
    await eventually(() => client.all().some(({ type }) => type === SETTINGS))
    const drained = listening.drain(60_000)
    await eventually(() => client.all().filter(({ type }) => type === GOAWAY).length === 2)
    client.socket.end()
    t.same(await drained, { ended: 1, cut: 0 })
  })

  t.test('drain: what is left at the deadline is cut; a pipe gets its end first', async (t) => {
    const { session, upstream, listening, sent, until } = await bench(t, make)
    const client = session()
    const waiting = ask(client)
    await (await upstream.next()).request()
    const piped = new Asked(client, { ...WEBSOCKET, ':authority': 'a' })
    const peer = await upstream.next()
    peer.send(switched(await peer.head()))
    await piped.until(() => piped.status === 200)
    const ended = once(piped.stream, 'end')
    const drained = listening.drain(20)
    await ended
    t.equal((await waiting.answer()).code, NGHTTP2_INTERNAL_ERROR)
    t.match(await drained, { ended: 0, cut: 1 })
    await until(() => sent.length === 2)
    t.same(new Set(sent.map(({ failure }) => failure)), new Set(['draining']))
  })

  t.test('time-outs: nothing asked, idle, a body that does not come', async (t) => {
    const { session, clock, upstream, served, until, closed, sent } = await bench(t, make, {
      limits: { headTimeout: 100, keepAlive: 300, bodyIdle: 200 },
      async script(peer) {
        await peer.until('\r\n\r\n')
        if (peer.text.startsWith('GET')) peer.send(OK)
      }
    })
    const mute = session()
    await once(mute, 'remoteSettings')
    await served(0)
    clock.advance(150)
    if (!mute.destroyed) await once(mute, 'close')
    await until(() => closed.length === 1)
    const client = session()
    t.match(await ask(client).answer(), { status: 200 })
    clock.advance(200)
    await new Promise((resolve) => setTimeout(resolve, 60))
    t.notOk(client.destroyed)
    const body = new Asked(client, { ':method': 'POST', ':authority': 'a' })
    body.stream.write('abc')
    const peer = await upstream.next()
    await peer.until('abc')
    await new Promise((resolve) => setTimeout(resolve, 60))
    clock.advance(250)
    t.match(await body.answer(), { status: 408 })
    await peer.untilEnd()
    await until(() => sent.length === 2)
    t.equal(sent[1]?.failure, 'client-timeout')
    clock.advance(301)
    if (!client.destroyed) await once(client, 'close')
    await until(() => closed.length === 2)
  })

  t.test('limits: fields, bytes, target, streams', async (t) => {
    const { session, refused, exchanges, upstream } = await bench(t, make, {
      limits: { headers: 20, headerBytes: 4000, targetBytes: 1000, streams: 4 },
      script: (peer) => (peer.text === '' ? peer.request() : undefined)
    })
    const client = session()
    await once(client, 'remoteSettings')
    t.equal(client.remoteSettings.maxConcurrentStreams, 4)
    const fields = Object.fromEntries(Array.from({ length: 21 }, (_, i) => [`x-${i}`, '1']))
    t.match(await ask(client, fields).answer(), { status: 431, code: 0 })
    t.match(await ask(client, { 'x-long': 'x'.repeat(4000) }).answer(), { status: 431, code: 0 })
    t.match(await ask(client, { ':path': `/${'x'.repeat(1000)}` }).answer(), { status: 414, code: 0 })
    t.match(await ask(client, { expect: '200-ok', ':method': 'POST' }, 'x').answer(), { status: 417 })
    t.match(await ask(client, { host: 'b.test' }).answer(), { status: 0, code: 1 }, 'two hosts')
    t.match(await ask(client, { ':method': 'get' }).answer(), { status: 400 })
    t.match(await ask(client, { ...WEBSOCKET, ':protocol': 'other' }).answer(), { status: 501 })
    t.same(exchanges, [])
    t.equal(refused.length, 7)
    t.equal(refused[0]?.why, 'too-large')
    t.same(upstream.peers, [])
  })

  t.test('streams beyond the limit wait or are refused', async (t) => {
    const { session, exchanges, until } = await bench(t, make, { limits: { streams: 4 } })
    const client = session()
    await once(client, 'remoteSettings')
    const asked = Array.from({ length: 6 }, () => ask(client))
    await until(() => exchanges.length === 4)
    for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate)
    t.equal(exchanges.length, 4)
    t.ok(asked.every(({ stream }) => stream.rstCode === 0 || stream.rstCode === NGHTTP2_REFUSED_STREAM))
    asked[0]?.stream.close(NGHTTP2_CANCEL)
    await until(() => exchanges.length === 5)
  })

  t.test('the same listener speaks HTTP/1.1 with who wants that', async (t) => {
    const { session, client, exchanges, listening } = await bench(t, make, { script: answering(OK) })
    t.match(await ask(session()).answer(), { status: 200 })
    const c = await client()
    c.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    t.equal((await c.answer()).body, 'ok')
    t.same(
      exchanges.map(({ request }) => request.version),
      ['2', '1.1']
    )
    c.socket.destroy()
    await eventually(() => listening.open === 1)
  })

  t.test('a second answer changes nothing', async (t) => {
    const { session, sent } = await bench(t, make, {
      async exchange(exchange, bench) {
        const first = exchange.respond({ status: 200, headers: [] }, Buffer.from('one'))
        const second = exchange.respond({ status: 500, headers: [] }, Buffer.from('two'))
        exchange.inform({ status: 103, headers: [] })
        record(bench, await second)
        record(bench, await first)
      }
    })
    t.match(await ask(session()).answer(), { status: 200, body: 'one', interim: [] })
    t.same(sent[0], sent[1])
  })
}

function switched(head: string): string {
  const key = /\r\nsec-websocket-key: (.*)\r\n/i.exec(head)?.[1] ?? ''
  const accept = createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64')
  return `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${accept}\r\nSec-WebSocket-Protocol: chat\r\n\r\n`
}

/** RST_STREAM alone; `close` would end the message before. */
function resetWith(stream: ClientHttp2Stream, code: number): void {
  const { rstStream } = (stream as unknown as Record<symbol, { rstStream(code: number): void }>)[handleOf(stream)] as {
    rstStream(code: number): void
  }
  rstStream.call((stream as unknown as Record<symbol, unknown>)[handleOf(stream)], code)
}

function handleOf(stream: ClientHttp2Stream): symbol {
  const symbol = Object.getOwnPropertySymbols(stream).find((one) => one.description === 'kHandle')
  if (symbol === undefined) throw new Error('node:http2 keeps its handle elsewhere')
  return symbol
}
