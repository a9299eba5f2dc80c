import { once } from 'node:events'
import type { Test } from 'tap'
import { type Dialer, forwardTo } from '../../../src/transport/contract.js'
import { valuesOf } from '../../helpers/raw-client.js'
import { answering } from '../../helpers/upstream.js'
import { type Bench, bench, eventually, GET, type Make, OK, record } from './harness.js'

const CHUNKED = 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n'
/** Fields that mean something to a parser that reads trailers as if they stood in the head, and others that may not pass. */
const FORBIDDEN = [
  'Connection: close',
  'connection: upgrade',
  'Proxy-Connection: close',
  'Keep-Alive: timeout=1',
  'Content-Length: 3',
  'CONTENT_LENGTH: 3',
  'Transfer-Encoding: gzip',
  'Transfer-Encoding: chunked',
  'Upgrade: websocket',
  'Trailer: X-Sum',
  'Host: b',
  'Authorization: x',
  'Forwarded: for=1'
]

/** Where a message ends, what ends with it, and what the next bytes mean. */
export function endings(t: Test, make: Make): void {
  t.test('a request that has its answer gets no second one, whatever follows', async (t) => {
    for (const rest of [
      'no chunk\r\n',
      '5\r\nhello world',
      'GET / HTTP/1.1\r\nHost: a\r\n\r\n',
      '0\r\nbad trailer\r\n\r\n'
    ]) {
      const { client, refused, exchanges, until, closed } = await bench(t, make, {
        async script(peer) {
          await peer.head()
          peer.send('HTTP/1.1 413 Content Too Large\r\nContent-Length: 4\r\n\r\nstop')
        }
      })
      const c = await client()
      c.send(`${CHUNKED}5\r\nhello\r\n`)
      t.equal((await c.answer()).body, 'stop')
      c.send(rest)
      await c.untilEnd()
      t.equal(c.rest, '', rest)
      c.socket.destroy()
      await until(() => closed.length === 1)
      t.same([refused, exchanges.length], [[], 1], rest)
    }
  })

  t.test('a request behind one with an early answer is refused like any other', async (t) => {
    const { client, refused } = await bench(t, make, {
      async exchange(exchange) {
        await exchange.respond({ status: 413, headers: [] })
      }
    })
    const c = await client()
    c.send(`${CHUNKED}5\r\nhello\r\n`)
    t.equal((await c.answer()).status, 413)
    c.send('0\r\n\r\nGET / HTTP/1.1\r\nbad\r\n')
    t.equal((await c.answer()).status, 400)
    await c.untilEnd()
    t.same(refused, [{ status: 400, why: 'client-malformed' }])
  })

  t.test('an answer on its way is no longer taken back', async (t) => {
    const size = 30_000_000
    const { client, clock, refused, until, exchanges } = await bench(t, make, {
      limits: { bodyIdle: 30_000, headTimeout: 1000, keepAlive: 40 },
      async exchange(exchange, bench) {
        record(bench, await exchange.respond({ status: 413, headers: [] }, Buffer.alloc(size, 'x')))
      }
    })
    const silent = await client()
    const c = await client()
    c.socket.pause()
    c.send(`${CHUNKED}no chunk\r\n`)
    await until(() => exchanges.length === 1)
    clock.advance(1500)
    // The pass that ends a connection without a request also looks at the one that ends.
    await silent.untilEnd()
    c.socket.resume()
    await c.until((text) => text.length > size)
    t.equal((await c.answer()).body.length, size)
    await c.untilEnd()
    t.same([c.rest, refused], ['', []])
  })

  t.test('a reset is no clean end of a body that ends with its connection', async (t) => {
    for (const taken of ['passed on', 'buffered', 'claimed']) {
      let broke = false
      const { client, upstream, until, sent } = await bench(t, make, {
        ...(taken === 'passed on'
          ? {}
          : {
              async exchange(exchange, bench) {
                const answer = await forwardTo(bench.back, exchange, loopback(bench), {
                  head: exchange.request,
                  body: undefined,
                  connectTimeout: 0,
                  responseTimeout: 0,
                  idleTimeout: 0
                })
                if (answer.kind !== 'response') throw new Error(answer.kind)
                if (taken === 'buffered') await answer.body.buffer(100).catch(() => (broke = true))
                else {
                  const stream = answer.body.claim()
                  stream.once('error', () => (broke = true))
                  stream.resume()
                  await new Promise((resolve) => stream.once('close', resolve))
                }
                record(bench, await exchange.respond({ status: broke ? 502 : 200, headers: [] }))
              }
            })
      })
      const c = await client()
      c.send(GET)
      const peer = await upstream.next()
      await peer.request()
      peer.send('HTTP/1.1 200 OK\r\n\r\nok')
      if (taken === 'passed on') await c.until('ok')
      else await eventually(() => peer.socket.writableLength === 0)
      // A reset throws away what is still on its way, so the bytes get a moment to be read.
      for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate)
      peer.reset()
      await until(() => sent.length === 1)
      if (taken !== 'passed on') {
        t.equal((await c.answer()).status, 502, taken)
        continue
      }
      await c.untilEnd()
      t.notMatch(c.text, /0\r\n\r\n/)
      t.equal(sent[0]?.failure, 'upstream-gone')
    }
  })

  t.test('an expectation without a body holds nothing back', async (t) => {
    const { client, upstream } = await bench(t, make, { script: answering(OK) })
    const c = await client()
    for (const head of ['GET / HTTP/1.1\r\nHost: a\r\n', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n']) {
      c.send(`${head}Expect: 100-continue\r\n\r\n${GET}`)
      for (let i = 0; i < 2; i++) {
        const answer = await c.answer()
        t.equal(answer.status, 200)
        t.same(valuesOf(answer, 'connection'), [])
      }
    }
    for (const peer of upstream.peers) t.notMatch(peer.text, /expect/i)
  })

  t.test('trailers that may not be trailers are dropped from requests and mean nothing', async (t) => {
    const { client, upstream, exchanges } = await bench(t, make, { script: answering(OK) })
    const c = await client()
    const send = async (bytes: string, cut: boolean) => {
      if (!cut) c.send(bytes)
      else {
        for (const byte of bytes) {
          c.send(byte)
          await new Promise(setImmediate)
        }
      }
    }
    for (const [i, field] of FORBIDDEN.entries()) {
      await send(`${CHUNKED}1\r\na\r\n0\r\nX-Sum: 9\r\n${field}\r\nX-Last: 1\r\n\r\n`, i % 4 === 0)
      const answer = await c.answer()
      t.equal(answer.status, 200, field)
      t.same(valuesOf(answer, 'connection'), [], field)
      t.same(
        upstream.peers[0]?.requests.at(-1)?.trailers,
        [
          ['X-Sum', '9'],
          ['X-Last', '1']
        ],
        field
      )
      c.send(GET)
      t.equal((await c.answer()).status, 200, `the request behind ${field}`)
    }
    t.equal(exchanges.length, 2 * FORBIDDEN.length)
    t.equal(upstream.peers.length, 1)
  })

  t.test('trailers that may not be trailers are dropped from answers and mean nothing', async (t) => {
    let next = 0
    const { client, upstream } = await bench(t, make, {
      script: answering(
        () =>
          `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 9\r\n${FORBIDDEN[next++]}\r\nX-Last: 1\r\n\r\n`
      )
    })
    const c = await client()
    for (const field of FORBIDDEN) {
      c.send(GET)
      const answer = await c.answer()
      t.equal(answer.body, 'ok', field)
      t.same(
        answer.trailers,
        [
          ['X-Sum', '9'],
          ['X-Last', '1']
        ],
        field
      )
    }
    t.equal(upstream.peers.length, 1)
  })

  t.test('an answer may be split anywhere; bytes behind its last chunk end its connection', async (t) => {
    const whole = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0\r\nX-Sum: 9\r\nHost: b\r\n\r\n'
    const { client, upstream } = await bench(t, make, {
      async script(peer) {
        for (let at = 1; ; at++) {
          const { line } = await peer.request()
          if (line.startsWith('GET /surplus')) peer.send(`${whole}HTTP/1.1 200 OK\r\n`)
          else {
            peer.send(whole.slice(0, at % whole.length))
            await new Promise(setImmediate)
            peer.send(whole.slice(at % whole.length))
          }
        }
      }
    })
    const c = await client()
    for (let at = 1; at < whole.length; at++) {
      c.send(GET)
      const answer = await c.answer()
      t.same([answer.body, answer.trailers], ['ok', [['X-Sum', '9']]], `split at ${at}`)
    }
    t.equal(upstream.peers.length, 1)
    for (const used of [1, 2, 3]) {
      c.send('GET /surplus HTTP/1.1\r\nHost: a\r\n\r\n')
      t.equal((await c.answer()).body, 'ok')
      await upstream.peers[used - 1]?.untilEnd()
      t.equal(upstream.peers.length, used)
    }
    t.equal(c.rest, '')
  })

  t.test('an answer that was there before its request is read', async (t) => {
    const { client } = await bench(t, make, {
      script: (peer) => peer.send(OK),
      async exchange(exchange, bench) {
        const answer = await forwardTo(bench.back, exchange, loopback(bench, true), {
          head: exchange.request,
          body: undefined,
          connectTimeout: 0,
          responseTimeout: 0,
          idleTimeout: 0
        })
        if (answer.kind !== 'response') throw new Error(answer.kind)
        record(bench, await exchange.respond({ status: 200, headers: [] }, answer.body))
      }
    })
    const c = await client()
    c.send(GET)
    t.equal((await c.answer()).body, 'ok')
  })

  t.test('an answer that says close ends its connection', async (t) => {
    const { client, exchanges } = await bench(t, make, {
      async exchange(exchange) {
        await exchange.respond({ status: 400, headers: [], close: true }, Buffer.from('no'))
      }
    })
    for (const request of [
      GET,
      'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc',
      `${CHUNKED}5\r\nhello\r\n`,
      'HEAD / HTTP/1.1\r\nHost: a\r\n\r\n'
    ]) {
      const before = exchanges.length
      const c = await client()
      c.send(`${request}${GET}`)
      const answer = await c.answer(request.slice(0, 4))
      t.same([answer.status, valuesOf(answer, 'connection')], [400, ['close']], request)
      await c.untilEnd()
      t.equal(c.rest, '', request)
      t.equal(exchanges.length, before + 1, request)
    }
  })
}

/** Dials the upstream anew; `readable`: hands the pipe over only when bytes wait in it. */
function loopback(bench: Bench, readable = false): Dialer {
  const dialer = bench.dialer()
  return {
    key: dialer.key,
    reusable: false,
    async open(why) {
      const pipe = await dialer.open(why)
      if (readable) await once(pipe.duplex, 'readable')
      return pipe
    }
  }
}
