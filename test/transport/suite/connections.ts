import { createConnection } from 'node:net'
import { PassThrough } from 'node:stream'
import type { Test } from 'tap'
import { Pouring } from '../../helpers/pouring.js'
import { valuesOf } from '../../helpers/raw-client.js'
import { answering } from '../../helpers/upstream.js'
import { bench, GET, type Make, OK, record } from './harness.js'

const UPGRADE =
  'GET /ws HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Key: k\r\n\r\n'
const SWITCHED =
  'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Accept: a\r\n\r\n'

/** Connections as a whole: facts, limits, upgrades, drain. */
export function connections(t: Test, make: Make): void {
  t.test('the facts of a connection are there from the first moment and live to its end', async (t) => {
    const { client, opened, closed, until, clock, sent, secure } = await bench(t, make, { script: answering(OK) })
    const c = await client()
    await until(() => opened.length === 1)
    const [facts] = opened
    t.match(facts, { listener: 'test', peer: { address: '127.0.0.1', port: c.socket.localPort } })
    t.equal(facts?.local.port, c.socket.remotePort)
    t.equal(facts?.startedAt, clock.wall())
    if (!secure) t.equal(facts?.bytesIn, 0)
    clock.advance(5)
    c.send(GET)
    await c.answer()
    c.send(GET)
    await c.answer()
    c.end()
    await until(() => closed.length === 1 && sent.length === 2)
    t.equal(closed[0], facts)
    // Handshake and records are bytes of the connection, and of no exchange.
    const [bytesIn, bytesOut] = [facts?.bytesIn ?? 0, facts?.bytesOut ?? 0]
    t.ok(secure ? bytesIn > 2 * GET.length : bytesIn === 2 * GET.length, `${bytesIn}`)
    t.ok(secure ? bytesOut > c.text.length : bytesOut === c.text.length, `${bytesOut}`)
    t.match(sent[0], { bytesIn: GET.length, bytesOut: c.text.length / 2, firstByteAt: 1005, endedAt: 1005 })
    t.match(sent[1], { bytesIn: GET.length, bytesOut: c.text.length / 2 })
  })

  t.test('an answer that has ended counts for its connection', async (t) => {
    const counted: number[] = []
    const { client, secure } = await bench(t, make, {
      async exchange(exchange) {
        const { bytesOut } = await exchange.respond({ status: 200, headers: [] }, Buffer.from('whole'))
        counted.push(bytesOut, exchange.connection.bytesOut)
      }
    })
    const c = await client()
    c.send(GET)
    await c.answer()
    const [bytesOut = 0, ofConnection = 0] = counted
    t.equal(bytesOut, c.text.length)
    t.ok(secure ? ofConnection > bytesOut : ofConnection === bytesOut, `${ofConnection} for ${bytesOut}`)
  })

  t.test('a connection that the handler refuses is closed without a word', async (t) => {
    const { client, exchanges, closed, secure } = await bench(t, make, { connection: () => false })
    if (secure) await t.rejects(client(), 'before the handshake')
    else {
      const c = await client()
      c.send(GET)
      await c.untilEnd()
      t.equal(c.text, '')
    }
    t.same([exchanges, closed], [[], []])
  })

  t.test('connections beyond the limit are told so', async (t) => {
    const options = { limits: { connections: 2 }, script: answering(OK) }
    const { client, refused, listening, secure } = await bench(t, make, options)
    const [a, b] = [await client(), await client()]
    for (const c of [a, b]) {
      c.send(GET)
      await c.answer()
    }
    if (secure) await t.rejects(client(), 'there is no way to say it before the handshake')
    else {
      const third = await client()
      t.equal((await third.answer()).status, 503)
      await third.untilEnd()
    }
    t.same(refused, [{ status: 503, why: 'overloaded' }])
    t.equal(listening.open, 2)
  })

  t.test('a handler that throws or rejects is answered 500; the connection lives', async (t) => {
    const { client, refused } = await bench(t, make, {
      exchange(exchange) {
        if (exchange.request.target === '/throw') throw new Error('thrown')
        return Promise.reject(new Error('rejected'))
      }
    })
    const c = await client()
    for (const path of ['/throw', '/reject']) {
      c.send(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`)
      t.equal((await c.answer()).status, 500)
    }
    t.same(refused, [
      { status: 500, why: 'internal' },
      { status: 500, why: 'internal' }
    ])
  })

  t.test('a handler that fails in mid-answer aborts it; one that fails later hurts nobody', async (t) => {
    let fail = (): void => undefined
    const { client, exchanges } = await bench(t, make, {
      async exchange(exchange) {
        if (exchange.request.target === '/half') {
          const body = new PassThrough()
          body.write('half')
          exchange.respond({ status: 200, headers: [] }, body)
          await new Promise<void>((resolve) => {
            fail = resolve
          })
          throw new Error('in mid-answer')
        }
        if (exchange.request.target === '/slow') {
          await new Promise(setImmediate)
          fail()
          await new Promise(setImmediate)
          await exchange.respond({ status: 200, headers: [] })
          return
        }
        await exchange.respond({ status: 200, headers: [] })
        await new Promise<void>((resolve) => {
          fail = resolve
        })
        throw new Error('after the answer')
      }
    })
    const c = await client()
    c.send(`GET /done HTTP/1.1\r\nHost: a\r\n\r\nGET /slow HTTP/1.1\r\nHost: a\r\n\r\n`)
    t.equal((await c.answer()).status, 200)
    t.equal((await c.answer()).status, 200, 'the exchange behind one whose handler fails late')
    c.send('GET /half HTTP/1.1\r\nHost: a\r\n\r\n')
    await c.until('half')
    fail()
    await c.closed
    t.equal(exchanges[2]?.signal.aborted, 'internal')
    t.notMatch(c.text, /0\r\n\r\n$/)
  })

  t.test('close ends the connection without an answer', async (t) => {
    const { client, exchanges } = await bench(t, make, {
      exchange: (exchange) => exchange.close(exchange.request.target === '/fin' ? 'fin' : 'reset')
    })
    for (const [path, error] of [
      ['/fin', undefined],
      ['/reset', 'ECONNRESET']
    ]) {
      const c = await client()
      c.send(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`)
      await c.untilEnd()
      if (path === '/reset') await c.closed
      t.equal(c.text, '')
      t.equal(c.error, error)
    }
    t.equal(exchanges.length, 2)
  })

  t.test('an upgrade joins both pipes, with the first bytes of each and half-close', async (t) => {
    const { client, upstream, sent, until, exchanges } = await bench(t, make)
    const c = await client()
    c.send(`${UPGRADE}first of the client`)
    const peer = await upstream.next()
    const head = await peer.head()
    t.match(head, /\r\nConnection: Upgrade\r\n/i)
    t.match(head, /\r\nUpgrade: WebSocket\r\n/)
    t.equal(exchanges[0]?.upgrade, 'websocket')
    peer.send(`${SWITCHED}first of the upstream`)
    await c.until('first of the upstream')
    t.match(c.text, /^HTTP\/1\.1 101 Switching Protocols\r\n/)
    t.equal(c.text.match(/connection: upgrade\r\n/gi)?.length, 1)
    t.equal(c.text.match(/upgrade: websocket\r\n/gi)?.length, 1)
    t.match(c.text, 'Sec-WebSocket-Accept: a\r\n')
    await peer.until('first of the client')
    c.send('more')
    await peer.until('more')
    c.end()
    await peer.untilEnd()
    peer.send('the last word')
    await c.until('the last word')
    peer.end()
    await c.untilEnd()
    await until(() => sent.length === 1)
    t.equal(sent[0]?.failure, undefined)
    t.equal(sent[0]?.bytesIn, UPGRADE.length + 'first of the clientmore'.length)
    t.equal(sent[0]?.bytesOut, c.text.length)
  })

  t.test('an upgrade may be answered like any request', async (t) => {
    const { client, upstream } = await bench(t, make)
    const c = await client()
    c.send(UPGRADE)
    const peer = await upstream.next()
    await peer.head()
    peer.send('HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno')
    t.equal((await c.answer()).body, 'no')
    peer.socket.destroy()
    c.send(GET)
    const next = await upstream.next()
    t.match(await next.head(), /^GET \/ /)
    next.send(OK)
    t.equal((await c.answer()).body, 'ok')
  })

  t.test('a break of one side of an upgrade breaks the other', async (t) => {
    const { client, upstream, sent, until } = await bench(t, make)
    for (const side of ['client', 'upstream'] as const) {
      const c = await client()
      c.send(UPGRADE)
      const peer = await upstream.next()
      await peer.head()
      peer.send(SWITCHED)
      await c.until('\r\n\r\n')
      if (side === 'client') c.reset()
      else peer.reset()
      await Promise.all([c.untilEnd(), peer.untilEnd()])
    }
    await until(() => sent.length === 2)
    t.ok(sent.every(({ failure }) => failure !== undefined))
  })

  t.test('a joined pipe holds a fast side back', async (t) => {
    const { client, upstream } = await bench(t, make)
    const c = await client()
    c.send(UPGRADE)
    const peer = await upstream.next()
    await peer.head()
    peer.send(SWITCHED)
    await c.until('\r\n\r\n')
    c.socket.pause()
    const written = await new Pouring().into(peer.socket, 64 * 1024 * 1024).stuck()
    t.ok(written < 32 * 1024 * 1024, `${written} bytes`)
    c.reset()
    await peer.untilEnd()
  })

  t.test('drain: idle connections end, busy ones after their answer, no new ones', async (t) => {
    const { client, upstream, listening } = await bench(t, make)
    const idle = await client()
    idle.send(GET)
    const first = await upstream.next()
    await first.request()
    first.send(OK)
    await idle.answer()
    const busy = await client()
    busy.send(GET)
    await first.request()
    const drained = listening.drain(60_000)
    await idle.untilEnd()
    idle.end()
    first.send(OK)
    const answer = await busy.answer()
    t.equal(answer.body, 'ok')
    t.same(valuesOf(answer, 'connection'), ['close'])
    await busy.untilEnd()
    busy.end()
    t.same(await drained, { ended: 2, cut: 0 })
    const refused = createConnection({ host: '127.0.0.1', port: listening.address.port })
    t.equal(
      await new Promise((resolve) => refused.on('error', (error: NodeJS.ErrnoException) => resolve(error.code))),
      'ECONNREFUSED'
    )
  })

  t.test('drain: what was sent on an idle connection is answered, as the last one', async (t) => {
    const { client, upstream, listening, exchanges, until } = await bench(t, make)
    const [idle, fresh, answering] = [await client(), await client(), await client()]
    idle.send(GET)
    const peer = await upstream.next()
    await peer.request()
    peer.send(OK)
    await idle.answer()
    answering.send(GET)
    await peer.request()
    peer.send('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\no')
    await answering.until(/\r\n\r\no$/)
    const drained = listening.drain(60_000)
    // Where an answer began before, nothing has told the client yet.
    peer.send('k')
    t.same(valuesOf(await answering.answer(), 'connection'), [])
    for (const [index, one] of [idle, fresh, answering].entries()) {
      one.send(GET)
      await until(() => exchanges.length === index + 3)
      const next = upstream.peers.at(-1) as typeof peer
      await next.request()
      next.send(OK)
      const answer = await one.answer()
      t.equal(answer.body, 'ok')
      t.same(valuesOf(answer, 'connection'), ['close'])
      await one.untilEnd()
      one.end()
    }
    t.same(await drained, { ended: 3, cut: 0 })
  })

  t.test('a request that came before its connection timed out is answered, as the last one', async (t) => {
    const { client, clock } = await bench(t, make, { limits: { keepAlive: 40 }, script: answering(OK) })
    const c = await client()
    c.send(GET)
    await c.answer()
    // From behind the timers of one turn to those of the next: the sweep is due before the request is read.
    await new Promise(setImmediate)
    c.send(GET)
    clock.advance(41)
    const from = performance.now()
    while (performance.now() - from < 30);
    const answer = await c.answer()
    t.equal(answer.body, 'ok')
    t.same(valuesOf(answer, 'connection'), ['close'])
    await c.untilEnd()
  })

  t.test('who sends into the end of an idle connection gets FIN and no reset', async (t) => {
    const { client, clock, exchanges, closed, until } = await bench(t, make, {
      limits: { keepAlive: 40 },
      script: answering(OK)
    })
    const c = await client()
    c.send(GET)
    await c.answer()
    clock.advance(41)
    await c.untilEnd()
    c.send(GET)
    c.end()
    await c.closed
    t.equal(c.error, undefined)
    await until(() => closed.length === 1)
    t.equal(exchanges.length, 1)
  })

  t.test('drain: what is left at the deadline is cut; a pipe gets FIN, a second later RST', async (t) => {
    const { client, upstream, listening, sent, until } = await bench(t, make)
    const waiting = await client()
    waiting.send(GET)
    await (await upstream.next()).request()
    const piped = await client()
    piped.send(UPGRADE)
    const peer = await upstream.next()
    await peer.head()
    peer.send(SWITCHED)
    await piped.until('\r\n\r\n')
    const drained = listening.drain(20)
    await piped.untilEnd()
    t.equal(piped.error, undefined, 'FIN first')
    await peer.untilEnd()
    t.same(await drained, { ended: 0, cut: 2 })
    await Promise.all([waiting.untilEnd(), piped.untilEnd()])
    await until(() => sent.length === 2)
    t.same(
      sent.map(({ failure }) => failure),
      ['draining', 'draining']
    )
  })

  t.test('upstream connections of keys that are gone are not kept', async (t) => {
    const { client, upstream, back, dialer } = await bench(t, make, { script: answering(OK) })
    const c = await client()
    c.send(GET)
    await c.answer()
    const [first] = upstream.peers
    back.retainUpstreams(new Set())
    await first?.untilEnd()
    c.send(GET)
    t.equal((await c.answer()).body, 'ok')
    await upstream.peers[1]?.untilEnd()
    back.retainUpstreams(new Set([dialer().key]))
    c.send(GET)
    await c.answer()
    c.send(GET)
    await c.answer()
    t.equal(upstream.peers.length, 3)
  })

  t.test('a second answer changes nothing', async (t) => {
    const { client, sent } = await bench(t, make, {
      async exchange(exchange, bench) {
        const first = exchange.respond({ status: 200, headers: [] }, Buffer.from('one'))
        const second = exchange.respond({ status: 500, headers: [] }, Buffer.from('two'))
        exchange.inform({ status: 103, headers: [] })
        record(bench, await second)
        record(bench, await first)
      }
    })
    const c = await client()
    c.send(GET)
    t.equal((await c.answer()).body, 'one')
    c.send(GET)
    t.equal((await c.answer()).body, 'one')
    t.same(sent[0], sent[1])
  })
}
