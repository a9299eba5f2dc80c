import type { Test } from 'tap'
import { forwardTo } from '../../../src/transport/contract.js'
import { Pouring } from '../../helpers/pouring.js'
import { valuesOf } from '../../helpers/raw-client.js'
import { answering } from '../../helpers/upstream.js'
import { bench, eventually, GET, type Make, OK, pass, record } from './harness.js'

const CHUNKED = 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n'

/** One side leaves, breaks or is late: the other learns it at once, and nothing stays behind. */
export function breaks(t: Test, make: Make): void {
  for (const [how, leave] of [
    ['FIN', 'end'],
    ['RST', 'reset']
  ] as const) {
    t.test(`a client that leaves with ${how} aborts the upstream request in every state`, async (t) => {
      const { client, upstream, until, closed, exchanges } = await bench(t, make, { limits: { abortOnClose: true } })
      const waiting = await client()
      waiting.send(GET)
      const first = await upstream.next()
      await first.request()
      waiting[leave]()
      await first.untilEnd()

      const sending = await client()
      sending.send(`${CHUNKED}3\r\nabc\r\n`)
      const second = await upstream.next()
      await second.until('3\r\nabc')
      sending[leave]()
      await second.untilEnd()
      t.notMatch(second.text, '0\r\n\r\n')

      const reading = await client()
      reading.send(GET)
      const third = await upstream.next()
      await third.request()
      third.send('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome')
      await reading.until('some')
      reading[leave]()
      await third.untilEnd()

      await until(() => closed.length === 3)
      t.same(
        exchanges.map((exchange) => exchange.signal.aborted),
        ['client-gone', 'client-gone', 'client-gone']
      )
    })
  }

  t.test('a client that ends its direction behind whole requests gets their answers, and then the end', async (t) => {
    const { client, secure, closed, until } = await bench(t, make, {
      exchange: async (exchange) => {
        await exchange.request.body.buffer(100).catch(() => undefined)
        // The end of the direction has long come.
        for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate)
        await exchange.respond({ status: 200, headers: [] }, Buffer.from('ok'))
      }
    })
    // Over TLS that is the end of the connection.
    if (secure) return
    const post = 'POST /p HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\nhi'
    const cases: [sent: string, answers: number][] = [
      [GET, 1],
      [post, 1],
      [GET + post + GET, 3],
      // What is cut is answered by nothing.
      [GET + post.slice(0, -1), 1],
      [GET + GET.slice(0, 20), 1],
      [post.slice(0, -1), 0],
      ['', 0]
    ]
    for (const [i, [text, answers]] of cases.entries()) {
      const one = await client()
      one.send(text)
      one.end()
      await one.untilEnd()
      await until(() => closed.length === i + 1)
      t.equal(one.text.split('HTTP/1.1 200').length - 1, answers, JSON.stringify(text))
      t.equal(one.text.split('HTTP/1.1').length - 1, answers, 'and no other answer')
      if (answers === 1) t.match(one.text, text === GET || text === post ? /connection: close/i : /200/)
    }
  })

  t.test('a client that ends its direction is gone when it has closed, or nothing comes for too long', async (t) => {
    const { client, clock, upstream, secure, closed, until, exchanges, sent } = await bench(t, make, {
      limits: { halfClosed: 1000 }
    })
    if (secure) return
    const endless = 'HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\ndata: 1\n\n'
    // An answer ends with what is written to a client that has closed.
    const reader = await client()
    reader.send(GET)
    const stream = await upstream.next()
    await stream.request()
    stream.send(endless)
    await reader.until('data: 1')
    reader.socket.destroy()
    const writing = setInterval(() => stream.send('data: n\n\n'), 5)
    await stream.untilEnd()
    clearInterval(writing)
    await until(() => closed.length === 1)
    // Silence is bounded: before the answer, and inside of it.
    for (const [i, answer] of ['', endless].entries()) {
      const silent = await client()
      silent.send(GET)
      silent.end()
      const peer = await upstream.next()
      await peer.request()
      if (answer !== '') {
        peer.send(answer)
        await silent.until('data: 1')
      }
      // The time begins at the end of its direction, and with what is written.
      const moving = setInterval(() => clock.advance(50), 5)
      await peer.untilEnd()
      clearInterval(moving)
      await until(() => closed.length === i + 2)
    }
    t.same(
      exchanges.map((exchange) => exchange.signal.aborted),
      ['client-gone', 'client-gone', 'client-gone']
    )
    t.equal(sent.filter(({ failure }) => failure !== 'client-gone').length, 0)
  })

  t.test('a client that leaves while the dialer works ends the attempt', async (t) => {
    let given: { onAbort(run: (why: string) => void): () => void } | undefined
    let wake = (): void => undefined
    const dialled = new Promise<void>((resolve) => {
      wake = resolve
    })
    const { client, until, sent } = await bench(t, make, {
      async exchange(exchange, bench) {
        const dialer = {
          key: 'never',
          reusable: false,
          open(why: { signal: NonNullable<typeof given> }) {
            given = why.signal
            wake()
            return new Promise<never>(() => undefined)
          }
        }
        const answer = await forwardTo(bench.back, exchange, dialer, {
          head: exchange.request,
          body: exchange.request.body,
          connectTimeout: 0,
          responseTimeout: 0,
          idleTimeout: 0
        })
        t.match(answer, { kind: 'failed', failure: 'client-gone', retry: 'never' })
        record(bench, await exchange.respond({ status: 502, headers: [] }))
      }
    })
    const c = await client()
    c.send(GET)
    await dialled
    const aborted = new Promise((resolve) => given?.onAbort(resolve))
    c.reset()
    t.equal(await aborted, 'client-gone')
    await until(() => sent.length === 1)
    t.equal(sent[0]?.failure, 'client-gone')
  })

  t.test('twenty clients gone leave no upstream request', async (t) => {
    const { client, upstream, until, closed } = await bench(t, make, { limits: { abortOnClose: true } })
    const clients = await Promise.all(Array.from({ length: 20 }, client))
    for (const c of clients) c.send(GET)
    const peers = await Promise.all(clients.map(async () => await upstream.next()))
    await Promise.all(peers.map(async (peer) => await peer.request()))
    for (const c of clients) c.socket.destroy()
    await Promise.all(peers.map(async (peer) => await peer.untilEnd()))
    await until(() => closed.length === 20)
  })

  t.test('an upstream that breaks in mid-body aborts the message of the client', async (t) => {
    const broken: Record<string, string> = {
      'in a length': 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome',
      'in a chunk': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nsome',
      'before the last chunk': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n',
      'by a bad chunk': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\nxyz\r\n'
    }
    for (const how of ['end', 'reset'] as const) {
      for (const [what, bytes] of Object.entries(broken)) {
        const { client, upstream, until, sent } = await bench(t, make)
        const c = await client()
        c.send(GET)
        const peer = await upstream.next()
        await peer.request()
        peer.send(bytes)
        if (!what.startsWith('by')) {
          await c.until('some')
          peer[how]()
        }
        await c.untilEnd().catch(() => undefined)
        await c.untilEnd()
        t.notMatch(c.text, '0\r\n\r\n', what)
        await until(() => sent.length === 1)
        t.equal(sent[0]?.failure, what.startsWith('by') ? 'upstream-malformed' : 'upstream-gone', what)
      }
    }
  })

  t.test('a break is no clean end for a client that reads until the end either', async (t) => {
    const { client, upstream } = await bench(t, make)
    const c = await client()
    c.send('GET / HTTP/1.0\r\nHost: a\r\n\r\n')
    const peer = await upstream.next()
    await peer.request()
    peer.send('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n')
    await c.until('some')
    peer.reset()
    await c.closed
    t.equal(c.error, 'ECONNRESET')
  })

  t.test('an early answer is delivered; a short rest is discarded, a long one ends the connection', async (t) => {
    const { client, upstream } = await bench(t, make, {
      async script(peer) {
        await peer.head()
        peer.send('HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n')
      }
    })
    const short = await client()
    short.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nabc')
    const answer = await short.answer()
    t.equal(answer.status, 413)
    t.same(valuesOf(answer, 'connection'), [])
    short.send(`${'x'.repeat(997)}${GET}`)
    t.equal((await short.answer()).status, 413, 'the next request is read as one')
    const long = await client()
    long.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\nabc')
    const closing = await long.answer()
    t.equal(closing.status, 413)
    t.same(valuesOf(closing, 'connection'), ['close'])
    await long.untilEnd()
    const open = await client()
    open.send(CHUNKED)
    t.equal((await open.answer()).status, 413)
    open.send(`fffff\r\n${'x'.repeat(100_000)}`)
    await open.untilEnd()
    t.equal(open.rest, '')
    for (const peer of upstream.peers) t.ok(peer.requests.length === 0 || peer.requests[0]?.line.startsWith('GET'))
  })

  t.test('heads do not wait for their bodies', async (t) => {
    const { client, upstream } = await bench(t, make)
    const c = await client()
    c.send(CHUNKED)
    const peer = await upstream.next()
    await peer.head()
    peer.send('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
    await c.until('\r\n\r\n')
    c.reset()
    await peer.untilEnd()
  })

  t.test('both directions of one exchange can stream at once', async (t) => {
    const { client, upstream } = await bench(t, make)
    const c = await client()
    c.send(`${CHUNKED}1\r\na\r\n`)
    const peer = await upstream.next()
    await peer.until('1\r\na\r\n')
    peer.send('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nA\r\n')
    await c.until('1\r\nA\r\n')
    c.send('1\r\nb\r\n')
    await peer.until('1\r\nb\r\n')
    peer.send('1\r\nB\r\n')
    await c.until('1\r\nB\r\n')
    c.send('0\r\n\r\n')
    await peer.until('0\r\n\r\n')
    peer.send('0\r\n\r\n')
    t.equal((await c.answer()).body, 'AB')
  })

  t.test('100 goes out when the body is first wanted', async (t) => {
    const { client, upstream, clock } = await bench(t, make, {
      async exchange(exchange, bench) {
        if (exchange.request.target === '/refuse') await exchange.respond({ status: 403, headers: [] })
        else if (exchange.request.target === '/read') {
          await exchange.respond({ status: 200, headers: [] }, Buffer.from(await exchange.request.body.buffer(100)))
        } else await pass(exchange, bench)
      }
    })
    const post = (path: string) =>
      `POST ${path} HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n`
    const refused = await client()
    refused.send(post('/refuse'))
    const answer = await refused.answer()
    t.equal(answer.status, 403, 'without the upload')
    t.same(valuesOf(answer, 'connection'), ['close'])
    const read = await client()
    read.send(post('/read'))
    t.equal((await read.answer()).status, 100)
    read.send('hi')
    t.equal((await read.answer()).body, 'hi')

    const asked = await client()
    asked.send(post('/ask'))
    const peer = await upstream.next()
    t.match(await peer.head(), /\r\nExpect: 100-continue\r\n/i)
    t.equal(asked.text, '')
    peer.send('HTTP/1.1 100 Continue\r\n\r\n')
    t.equal((await asked.answer()).status, 100)
    asked.send('hi')
    t.equal((await peer.request()).body, 'hi')
    peer.send(OK)
    t.equal((await asked.answer()).body, 'ok')
    peer.socket.destroy()

    const silent = await client()
    silent.send(post('/silent'))
    const other = await upstream.next()
    await other.head()
    clock.advance(1001)
    t.equal((await silent.answer()).status, 100, 'after a second without a word of the upstream')
    silent.send('hi')
    t.equal((await other.request()).body, 'hi')
    other.send('HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok')
    t.equal((await silent.answer()).body, 'ok')

    const denied = await client()
    denied.send(post('/denied'))
    const third = await upstream.next()
    await third.head()
    third.send('HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n')
    t.equal((await denied.answer()).status, 401)
    await denied.untilEnd()
    await third.untilEnd()
  })

  t.test('time-outs of the client: slow head, slow body, idle, never a byte', async (t) => {
    const { client, clock, refused, upstream, served, exchanges, opened } = await bench(t, make, {
      limits: { headTimeout: 100, bodyIdle: 200, keepAlive: 300 },
      script: (peer) => (peer.text.startsWith('GET') ? answering(OK)(peer) : undefined)
    })
    const slow = await client()
    await served(0)
    slow.send('GET / HTTP/1.1\r\nHo')
    await eventually(() => (opened[0]?.bytesIn ?? 0) >= 18)
    // Over TLS the handshake has as many; the head is there soon.
    for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate)
    clock.advance(150)
    t.equal((await slow.answer()).status, 408)
    await slow.untilEnd()
    t.same(refused, [{ status: 408, why: 'client-timeout' }])

    const mute = await client()
    await served(1)
    clock.advance(150)
    await mute.untilEnd()
    t.equal(mute.text, '')

    const body = await client()
    body.send(`${CHUNKED}3\r\nabc\r\n`)
    const peer = await upstream.next()
    await peer.until('abc')
    clock.advance(250)
    t.equal((await body.answer()).status, 408)
    await peer.untilEnd()
    t.equal(exchanges.at(-1)?.signal.aborted, 'client-timeout')
  })

  t.test('an idle connection is closed after the keep-alive time, not before', async (t) => {
    const { client, clock } = await bench(t, make, {
      limits: { headTimeout: 100, keepAlive: 300 },
      script: answering(OK)
    })
    const c = await client()
    c.send(GET)
    t.equal((await c.answer()).body, 'ok')
    clock.advance(200)
    await new Promise((resolve) => setTimeout(resolve, 60))
    c.send(GET)
    t.equal((await c.answer()).body, 'ok')
    clock.advance(301)
    await c.untilEnd()
    t.equal(c.rest, '')
  })

  t.test('time-outs of the upstream: connection, head, body, and a request body that it does not take', async (t) => {
    const timeouts = { connect: 100, response: 200, idle: 300 }
    const { client, clock, upstream, failures, sent, until } = await bench(t, make, { timeouts })
    const head = await client()
    head.send(GET)
    const first = await upstream.next()
    await first.request()
    clock.advance(250)
    t.equal((await head.answer()).status, 502)
    await first.untilEnd()

    const body = await client()
    body.send(GET)
    const second = await upstream.next()
    await second.request()
    second.send('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome')
    await body.until('some')
    clock.advance(1)
    await new Promise((resolve) => setTimeout(resolve, 120))
    clock.advance(350)
    await second.untilEnd()
    await body.untilEnd()
    await until(() => sent.length === 2)
    t.equal(sent[1]?.failure, 'upstream-timeout')
    t.same(failures, [{ failure: 'upstream-timeout', retry: 'never' }])
  })

  t.test('an upstream that does not take the request body is late; one that answers is not', async (t) => {
    const { client, clock, upstream, failures } = await bench(t, make, { timeouts: { response: 200, idle: 300 } })
    const c = await client()
    c.send(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${64 * 1024 * 1024}\r\n\r\n`)
    const peer = await upstream.next()
    await peer.head()
    clock.advance(250)
    await new Promise((resolve) => setTimeout(resolve, 120))
    t.same(failures, [], 'no head is due before the request is complete')
    peer.socket.pause()
    const chunk = Buffer.alloc(65_536)
    while (c.socket.write(chunk));
    let before = -1
    while (before !== c.socket.bytesWritten - c.socket.writableLength) {
      before = c.socket.bytesWritten - c.socket.writableLength
      if (c.socket.writableLength === 0) c.socket.write(Buffer.alloc(8 * 1024 * 1024))
      await new Promise((resolve) => setTimeout(resolve, 120))
    }
    const answer = c.answer()
    // On a slow machine something may still have been on its way.
    while (failures.length === 0) {
      clock.advance(350)
      await new Promise((resolve) => setTimeout(resolve, 120))
    }
    t.equal((await answer).status, 502)
    t.same(failures, [{ failure: 'upstream-timeout', retry: 'never' }])
  })

  t.test('a slow reader does not fill the memory, and is cut after the idle time', async (t) => {
    const total = 64 * 1024 * 1024
    const pouring = new Pouring()
    const { client, clock, sent, upstream } = await bench(t, make, {
      limits: { bodyIdle: 400 },
      async script(peer) {
        await peer.request()
        peer.send(`HTTP/1.1 200 OK\r\nContent-Length: ${total}\r\n\r\n`)
        pouring.into(peer.socket, total)
      }
    })
    const c = await client()
    c.send(GET)
    await c.until('200 OK')
    c.socket.pause()
    const written = await pouring.stuck()
    t.ok(written < total / 2, `the upstream is held back (${written} bytes)`)
    clock.advance(200)
    await new Promise((resolve) => setTimeout(resolve, 150))
    t.equal(sent.length, 0)
    while (sent.length === 0) {
      clock.advance(401)
      await new Promise((resolve) => setTimeout(resolve, 120))
    }
    t.equal(sent[0]?.failure, 'client-timeout')
    await upstream.peers[0]?.untilEnd()
  })

  t.test('a slow upstream holds a fast client back', async (t) => {
    const { client, upstream } = await bench(t, make)
    const c = await client()
    const total = 64 * 1024 * 1024
    c.send(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${total}\r\n\r\n`)
    const peer = await upstream.next()
    await peer.head()
    peer.socket.pause()
    const written = await new Pouring().into(c.socket, total).stuck()
    t.ok(written < total / 2, `the client is held back (${written} bytes)`)
    c.reset()
    peer.socket.resume()
    await peer.untilEnd()
  })
}
