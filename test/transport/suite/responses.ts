import type { Test } from 'tap'
import { forwardTo } from '../../../src/transport/contract.js'
import { valuesOf } from '../../helpers/raw-client.js'
import { answering } from '../../helpers/upstream.js'
import { bench, GET, type Make, OK, pass, record } from './harness.js'

/** Answers reach the client as the upstream meant them, and no doubtful one does. */
export function responses(t: Test, make: Make): void {
  t.test('status, reason, field case and repeated fields stay', async (t) => {
    const { client } = await bench(t, make, {
      script: answering(
        'HTTP/1.1 299 Quite Fine\r\nSet-Cookie: a=1\r\nX-Case: \xe9\r\nset-cookie: b=2\r\nContent-Length: 0\r\nDate: now\r\n\r\n'
      )
    })
    const c = await client()
    c.send(GET)
    const answer = await c.answer()
    t.equal(answer.status, 299)
    t.equal(answer.reason, 'Quite Fine')
    t.same(valuesOf(answer, 'set-cookie'), ['a=1', 'b=2'])
    t.same(valuesOf(answer, 'date'), ['now'])
    t.same(
      answer.headers.find(([name]) => name === 'X-Case'),
      ['X-Case', '\xe9']
    )
    t.same(
      answer.headers.map(([name]) => name.toLowerCase()).sort(),
      ['content-length', 'date', 'set-cookie', 'set-cookie', 'x-case'],
      'nothing is added; the order of different names is free'
    )
  })

  t.test('bodies of every framing arrive; the connection to the upstream is used again where it can be', async (t) => {
    const framed: Record<string, string> = {
      '/length': 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello',
      '/chunked': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n',
      '/empty': 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n',
      '/none': 'HTTP/1.1 204 No Content\r\n\r\n',
      '/same': 'HTTP/1.1 304 Not Modified\r\nContent-Length: 700\r\n\r\n'
    }
    const { client, upstream } = await bench(t, make, {
      script: answering((request) => framed[request.line.split(' ')[1] ?? ''] ?? OK)
    })
    const c = await client()
    const get = async (path: string) => {
      c.send(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`)
      return await c.answer()
    }
    t.equal((await get('/length')).body, 'hello')
    const chunked = await get('/chunked')
    t.equal(chunked.body, 'hello')
    t.same(valuesOf(chunked, 'transfer-encoding'), ['chunked'])
    t.equal((await get('/empty')).body, '')
    const none = await get('/none')
    t.same(
      none.headers.map(([name]) => name.toLowerCase()),
      ['date']
    )
    t.same(valuesOf(await get('/same'), 'content-length'), ['700'])
    t.equal((await get('/length')).body, 'hello')
    t.equal(upstream.peers.length, 1)
  })

  t.test('HEAD keeps the announced length and carries no bytes', async (t) => {
    const { client, upstream } = await bench(t, make, {
      script: answering((_request, i) =>
        i === 0
          ? 'HTTP/1.1 200 OK\r\nContent-Length: 700\r\n\r\n'
          : 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'
      )
    })
    const c = await client()
    c.send('HEAD / HTTP/1.1\r\nHost: a\r\n\r\n')
    t.same(valuesOf(await c.answer('HEAD'), 'content-length'), ['700'])
    c.send('HEAD / HTTP/1.1\r\nHost: a\r\n\r\n')
    t.same(valuesOf(await c.answer('HEAD'), 'content-length'), [])
    c.send('HEAD / HTTP/1.1\r\nHost: a\r\n\r\n')
    t.equal((await c.answer('HEAD')).status, 200)
    t.equal(c.rest, '')
    t.equal(upstream.peers.length, 1)
  })

  t.test('a body that the upstream ends by closing arrives whole', async (t) => {
    const { client } = await bench(t, make, {
      async script(peer) {
        await peer.request()
        peer.send('HTTP/1.0 200 OK\r\n\r\nall of it')
        peer.end()
      }
    })
    const c = await client()
    c.send(GET)
    const answer = await c.answer()
    t.equal(answer.body, 'all of it')
    t.same(valuesOf(answer, 'transfer-encoding'), ['chunked'])
    c.send(GET)
    t.equal((await c.answer()).body, 'all of it')
  })

  t.test('HTTP/1.0 clients get no chunks and a closed connection', async (t) => {
    const { client } = await bench(t, make, {
      script: answering('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n')
    })
    const c = await client()
    c.send('GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nTE: chunked\r\n\r\n')
    const answer = await c.answer()
    t.equal(answer.body, 'hello')
    t.same(valuesOf(answer, 'connection'), ['close'])
    t.same(valuesOf(answer, 'transfer-encoding'), [])
    const bare = await client()
    bare.send('GET / HTTP/1.0\r\n\r\n')
    t.equal((await bare.answer()).status, 200, 'without a Host')
  })

  t.test('a client that wants to close is told so and closed', async (t) => {
    const { client } = await bench(t, make, { script: answering(OK) })
    const c = await client()
    c.send('GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
    t.same(valuesOf(await c.answer(), 'connection'), ['close'])
    await c.untilEnd()
  })

  t.test('103 passes, in bounded number; 100 that nobody asked for does not', async (t) => {
    const { client, failures } = await bench(t, make, {
      script: answering((request) =>
        request.line.startsWith('GET /flood')
          ? 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(200) + OK
          : `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\nLink: </b>\r\n\r\n${OK}`
      )
    })
    const c = await client()
    c.send(GET)
    const hints = await c.answer()
    t.equal(hints.status, 103)
    t.same(valuesOf(hints, 'link'), ['</a>', '</b>'])
    t.equal((await c.answer()).body, 'ok')
    const old = await client()
    old.send('GET / HTTP/1.0\r\nHost: a\r\n\r\n')
    t.equal((await old.answer()).status, 200, 'HTTP/1.0 gets none')
    c.send('GET /flood HTTP/1.1\r\nHost: a\r\n\r\n')
    let count = 0
    for (;;) {
      const answer = await c.answer()
      if (answer.status !== 103) {
        t.equal(answer.status, 502)
        break
      }
      count++
    }
    // The clock stands still, so that this is what may come at once.
    t.equal(count, 64)
    t.same(failures, [{ failure: 'upstream-malformed', retry: 'never' }])
  })

  t.test(
    'answers that break the grammar are taken where that is wanted, as far as they are no other message',
    async (t) => {
      const script = answering((request) => {
        const [, path] = request.line.split(' ')
        if (path === '/old') return 'HTTP/1.2  200 OK\nX: a\0\n b\nContent-Length: 2\nContent-Length: 2\n\nok'
        if (path === '/chunks') return 'HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n2   \nok\n0\nT: u\n\n'
        return 'HTTP/1.1 200 OK\nContent-Length: 2\nTransfer-Encoding: chunked\n\n2\nok\n0\n\n'
      })
      const { client, upstream, failures } = await bench(t, make, {
        script,
        exchange: (exchange, bench) => pass(exchange, bench, {}, { ...bench.dialer(), lenient: true })
      })
      const c = await client()
      for (const path of ['/old', '/chunks', '/old']) {
        c.send(`GET ${path} HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n`)
        const answer = await c.answer()
        t.match(answer, { status: 200, body: 'ok' }, path)
        if (path === '/old') t.same(valuesOf(answer, 'x'), ['a  b'])
      }
      t.equal(upstream.peers.length, 1)
      t.same(failures, [])
      c.send(GET)
      t.equal((await c.answer()).status, 502)
      t.same(failures, [{ failure: 'upstream-malformed', retry: 'never' }])
    }
  )

  t.test('a malformed answer is reported as such, and its connection is not used again', async (t) => {
    const heads = [
      'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
      'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok',
      'HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nok',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n',
      'HTTP/1.1 200 OK\r\nX\0: y\r\n\r\n',
      'HTTP/1.1 2x0 OK\r\n\r\n',
      'SSH-2.0-OpenSSH\r\n\r\n',
      'RTSP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok',
      'ICE/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok',
      'HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok',
      'HTTP/0.9 200 OK\r\nContent-Length: 2\r\n\r\nok',
      '\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok',
      'HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\nok',
      `HTTP/1.1 200 OK\r\nX: ${'x'.repeat(300_000)}\r\n\r\n`,
      'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n',
      'HTTP/1.1 101 Switching Protocols\r\n\r\n'
    ]
    let next = 0
    const { client, upstream, failures } = await bench(t, make, { script: answering(() => heads[next++] as string) })
    const c = await client()
    for (const head of heads) {
      c.send(GET)
      t.equal((await c.answer()).status, 502, JSON.stringify(head.slice(0, 80)))
    }
    t.equal(upstream.peers.length, heads.length)
    t.same(
      failures,
      heads.map(() => ({ failure: 'upstream-malformed', retry: 'never' }))
    )
  })

  t.test('bytes beyond the announced length are dropped with their connection', async (t) => {
    const { client, upstream } = await bench(t, make, {
      script: answering(`${OK}HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil`)
    })
    const c = await client()
    for (let i = 0; i < 3; i++) {
      c.send(GET)
      t.equal((await c.answer()).body, 'ok')
    }
    t.equal(upstream.peers.length, 3)
    t.equal(c.rest, '')
  })

  t.test('bytes beyond a bodiless answer are dropped with their connection', async (t) => {
    const { client, upstream } = await bench(t, make, {
      script: answering('HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil')
    })
    const c = await client()
    for (let i = 0; i < 2; i++) {
      c.send(GET)
      t.equal((await c.answer()).status, 204)
    }
    t.equal(upstream.peers.length, 2)
    t.equal(c.rest, '')
  })

  t.test('bytes on an idle upstream connection end it', async (t) => {
    const { client, upstream } = await bench(t, make, { script: answering(OK) })
    const c = await client()
    c.send(GET)
    t.equal((await c.answer()).body, 'ok')
    const [first] = upstream.peers
    first?.send('HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil')
    await first?.untilEnd()
    c.send(GET)
    t.equal((await c.answer()).body, 'ok')
    t.equal(upstream.peers.length, 2)
  })

  t.test('a dead idle connection is reported as one that a caller may try again', async (t) => {
    const { client, upstream, failures } = await bench(t, make, {
      async script(peer) {
        await peer.request()
        peer.send(OK)
        await peer.until((text) => text.split('GET /').length > 2)
        peer.reset()
      }
    })
    const c = await client()
    c.send(GET)
    t.equal((await c.answer()).body, 'ok')
    c.send(GET)
    t.equal((await c.answer()).status, 502)
    t.same(failures, [{ failure: 'upstream-gone', retry: 'idempotent-only' }])
    t.equal(upstream.peers.length, 1)
  })

  t.test('failures to reach the upstream or its head have their kinds', async (t) => {
    const closing = await bench(t, make, {
      async script(peer) {
        await peer.request()
        peer.end()
      }
    })
    const c = await closing.client()
    c.send(GET)
    t.equal((await c.answer()).status, 502)
    t.same(closing.failures, [{ failure: 'upstream-gone', retry: 'never' }])
    const refusing = await bench(t, make, { port: closing.upstream.port })
    closing.upstream.close()
    const d = await refusing.client()
    d.send(GET)
    t.equal((await d.answer()).status, 502)
    t.same(refusing.failures, [{ failure: 'dial-refused', retry: 'safe' }])
  })

  t.test('what policies answer is framed by the engine: bytes, streams, nothing, with their transforms', async (t) => {
    const { PassThrough, Readable, Transform } = await import('node:stream')
    const doubled = () =>
      new Transform({
        transform(chunk: Buffer, _encoding, done) {
          done(null, Buffer.concat([chunk, chunk]))
        }
      })
    const { client } = await bench(t, make, {
      script: answering('HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc'),
      async exchange(exchange, bench) {
        const { target, body } = exchange.request
        if (target === '/bytes')
          await exchange.respond({ status: 403, headers: ['content-length', '99'] }, Buffer.from('no'))
        else if (target === '/stream') {
          await exchange.respond(
            { status: 200, headers: [] },
            Readable.from([Buffer.from('a'), Buffer.from('b')]),
            () => ['X-T', '1']
          )
        } else if (target === '/nothing') await exchange.respond({ status: 200, headers: ['x', 'a\r\nb: c', 'y', 'z'] })
        else if (target === '/claim')
          await exchange.respond({ status: 200, headers: [] }, body.claim().pipe(new PassThrough()))
        else if (target === '/request') {
          body.through(doubled)
          body.through(doubled)
          await pass(exchange, bench)
        } else await respondDoubled(exchange, bench, doubled)
      }
    })
    const c = await client()
    const ask = async (request: string) => {
      c.send(request)
      return await c.answer()
    }
    const get = (path: string) => ask(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`)
    const bytes = await get('/bytes')
    t.equal(bytes.body, 'no')
    t.same(valuesOf(bytes, 'content-length'), ['2'])
    const stream = await get('/stream')
    t.equal(stream.body, 'ab')
    t.same(stream.trailers, [['X-T', '1']])
    const nothing = await get('/nothing')
    t.same(valuesOf(nothing, 'content-length'), ['0'])
    t.same(valuesOf(nothing, 'y'), ['z'])
    t.same(valuesOf(nothing, 'x'), [], 'a field that would break the framing is left out')
    const post = (path: string) => ask(`POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi`)
    t.equal((await post('/claim')).body, 'hi')
    t.equal((await get('/response')).body, 'abcabc')
    t.equal((await post('/request')).body, 'abc')
  })

  t.test('an answer that a policy replaces leaves its upstream connection usable, or ends it', async (t) => {
    const answers = ['HTTP/1.1 204 No Content\r\n\r\n', 'HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n', OK]
    const { client, upstream, clock, sent } = await bench(t, make, {
      script: answering((_request, i) => answers[Math.min(i, 2)] as string),
      async exchange(exchange, bench) {
        if (exchange.request.target === '/pass') return await pass(exchange, bench)
        const answer = await forward(exchange, bench, 100)
        t.equal(answer.kind, 'response')
        if (answer.kind === 'response' && exchange.request.target === '/discard') answer.body.discard()
        return record(bench, await exchange.respond({ status: 200, headers: [] }, Buffer.from('mine')))
      }
    })
    const c = await client()
    for (const _ of [204, 304]) {
      c.send(GET)
      t.equal((await c.answer()).body, 'mine')
    }
    t.equal(upstream.peers.length, 1, 'bodiless answers need nobody to read them')
    c.send('GET /pass HTTP/1.1\r\nHost: a\r\n\r\n')
    t.equal((await c.answer()).body, 'ok')
    clock.advance(1000)
    await new Promise((resolve) => setTimeout(resolve, 120))
    c.send('GET /pass HTTP/1.1\r\nHost: a\r\n\r\n')
    t.equal((await c.answer()).body, 'ok')
    t.equal(upstream.peers.length, 1, 'no watch of an ended exchange ends the connection of a later one')
    c.send('GET /discard HTTP/1.1\r\nHost: a\r\n\r\n')
    t.equal((await c.answer()).body, 'mine')
    c.send(GET)
    t.equal((await c.answer()).body, 'mine')
    const peer = upstream.peers.at(-1)
    clock.advance(1)
    await new Promise((resolve) => setTimeout(resolve, 120))
    clock.advance(1000)
    await peer?.untilEnd()
    t.equal(sent.length, 6, 'a body that nobody took is given up after the idle time')
  })

  t.test('a body that is discarded before its end ends its upstream connection', async (t) => {
    const { client, upstream } = await bench(t, make, {
      async exchange(exchange, bench) {
        const answer = await forward(exchange, bench, 0)
        if (answer.kind === 'response') answer.body.discard()
        await exchange.respond({ status: 200, headers: [] }, Buffer.from('mine'))
      }
    })
    const c = await client()
    c.send(GET)
    const peer = await upstream.next()
    await peer.request()
    peer.send('HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nsome')
    t.equal((await c.answer()).body, 'mine')
    await peer.untilEnd()
  })

  t.test('a body over its limit stays whole for who comes next', async (t) => {
    const { client, upstream } = await bench(t, make, {
      script: answering(OK),
      async exchange(exchange, bench) {
        const { body } = exchange.request
        t.equal(await body.buffer(4), 'too-large')
        await pass(exchange, bench)
      }
    })
    const c = await client()
    c.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n0123456789')
    t.equal((await c.answer()).body, 'ok')
    c.send('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n')
    await new Promise(setImmediate)
    c.send('5\r\n56789\r\n0\r\n\r\n')
    t.equal((await c.answer()).body, 'ok')
    t.same(
      upstream.peers.flatMap((peer) => peer.requests.map((request) => request.body)),
      ['0123456789', '0123456789']
    )
  })
}

async function respondDoubled(
  exchange: Parameters<typeof pass>[0],
  bench: Parameters<typeof pass>[1],
  transform: () => import('node:stream').Duplex
): Promise<void> {
  const answer = await forward(exchange, bench, 0)
  if (answer.kind !== 'response') throw new Error(answer.kind)
  answer.body.through(transform)
  await exchange.respond(answer.head, answer.body)
}

function forward(exchange: Parameters<typeof pass>[0], bench: Parameters<typeof pass>[1], idleTimeout: number) {
  const dialer = bench.dialer()
  const options = { head: exchange.request, body: undefined, connectTimeout: 0, responseTimeout: 0, idleTimeout }
  return forwardTo(bench.back, exchange, dialer, options)
}
