import type { Test } from 'tap'
import { valuesOf } from '../../helpers/raw-client.js'
import { answering } from '../../helpers/upstream.js'
import { bench, GET, type Make, OK } from './harness.js'

/** Requests reach the upstream as they came, and no doubtful one does. */
export function requests(t: Test, make: Make): void {
  t.test('a GET keeps its target, its fields, their case and repetition', async (t) => {
    const { client, upstream } = await bench(t, make)
    const c = await client()
    c.send(
      'GET /a//b/../c?x=http://y//z&q=%zz HTTP/1.1\r\nHost: a.test\r\nX-One: 1\r\nx-Two: a\r\nX-tWO: b\r\n__proto__: p\r\nconstructor: c\r\n\r\n'
    )
    const peer = await upstream.next()
    const request = await peer.request()
    t.equal(request.line, 'GET /a//b/../c?x=http://y//z&q=%zz HTTP/1.1')
    const values = (name: string) => request.headers.filter(([key]) => key.toLowerCase() === name)
    t.same(values('host'), [['Host', 'a.test']])
    t.same(values('x-one'), [['X-One', '1']])
    t.same(
      values('x-two').map(([, value]) => value),
      ['a', 'b']
    )
    t.same(values('__proto__'), [['__proto__', 'p']])
    t.same(values('constructor'), [['constructor', 'c']])
    t.same(values('content-length'), [])
    t.same(values('transfer-encoding'), [])
    peer.send(OK)
    t.equal((await c.answer()).body, 'ok')
  })

  t.test('heads keep the bytes of their fields while their bodies are still to come', async (t) => {
    const { client, upstream } = await bench(t, make)
    for (const fields of ['Transfer-Encoding: chunked', 'Transfer-Encoding: chunked\r\nExpect: 100-continue']) {
      const c = await client()
      c.send(`POST / HTTP/1.1\r\nHost: a\r\nX-High: \xe9\xff\r\n${fields}\r\n\r\n`)
      const peer = await upstream.next()
      t.match(await peer.head(), /\r\nX-High: \xe9\xff\r\n/)
      if (fields.includes('Expect')) peer.send('HTTP/1.1 100 Continue\r\n\r\n')
      c.send('0\r\n\r\n')
      await peer.request()
      peer.send('HTTP/1.1 200 OK\r\nX-High: \xe9\xff\r\nTransfer-Encoding: chunked\r\n\r\n')
      t.match(await c.until('X-High'), /\r\nX-High: \xe9\xff\r\n/)
      peer.socket.destroy()
      await c.untilEnd()
    }
  })

  t.test('bodies keep their framing for every method', async (t) => {
    const { client, upstream } = await bench(t, make, { script: answering(OK) })
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'GET']) {
      const c = await client()
      c.send(`${method} / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello`)
      t.equal((await c.answer()).status, 200, method)
      c.send(
        `${method} / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n`
      )
      t.equal((await c.answer()).status, 200, method)
      c.socket.destroy()
    }
    const text = upstream.peers.map((peer) => peer.text).join('')
    t.equal(text.match(/content-length: 5\r\n/gi)?.length, 6)
    t.equal(text.match(/transfer-encoding: chunked\r\n/gi)?.length, 6)
    t.equal(text.match(/ HTTP\/1\.1\r\n/g)?.length, 12, 'twelve requests, none smuggled')
  })

  t.test('a request inside a chunked DELETE stays its body', async (t) => {
    const { client, upstream } = await bench(t, make, { script: answering(OK) })
    const inner = 'GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n'
    const c = await client()
    c.send(
      `DELETE / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${inner.length.toString(16)}\r\n${inner}\r\n0\r\n\r\n`
    )
    t.equal((await c.answer()).status, 200)
    const peer = await upstream.next()
    t.match(peer.text, /^DELETE \/ HTTP\/1\.1\r\n(?:.*\r\n)*Transfer-Encoding: chunked\r\n/i)
    t.notMatch(peer.text, /content-length/i)
    t.equal(peer.unread, '')
  })

  t.test('the bytes may be split anywhere', async (t) => {
    const message =
      'POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;e="f"\r\n world\r\n0\r\nX-Sum: 1\r\n\r\n'
    const seen = new Set<string>()
    const { client, listening } = await bench(t, make, {
      async exchange(exchange) {
        const bytes = await exchange.request.body.buffer(1000)
        seen.add(`${exchange.request.target} ${String(bytes)} ${exchange.request.body.trailers}`)
        await exchange.respond({ status: 200, headers: [] })
      }
    })
    const c = await client()
    for (let at = 1; at < message.length; at++) {
      c.send(message.slice(0, at))
      // Two writes at once would arrive as one chunk.
      await new Promise(setImmediate)
      c.send(message.slice(at))
      t.equal((await c.answer()).status, 200, `split at ${at}`)
    }
    for (const byte of message) {
      c.send(byte)
      await new Promise(setImmediate)
    }
    t.equal((await c.answer()).status, 200, 'byte by byte')
    t.same([...seen], ['/p hello world X-Sum,1'])
    t.equal(listening.open, 1)
  })

  t.test('pipelined requests are answered in order, one at a time', async (t) => {
    let running = 0
    let most = 0
    const { client } = await bench(t, make, {
      async exchange(exchange) {
        most = Math.max(most, ++running)
        const bytes = await exchange.request.body.buffer(100)
        await new Promise(setImmediate)
        running--
        await exchange.respond({ status: 200, headers: [] }, Buffer.from(`${exchange.request.target}${String(bytes)}`))
      }
    })
    const c = await client()
    const post = (n: number) => `POST /${n} HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n${n}`
    c.send([1, 2, 3, 4, 5].map(post).join('') + GET)
    const bodies: string[] = []
    for (let i = 0; i < 6; i++) bodies.push((await c.answer()).body)
    t.same(bodies, ['/11', '/22', '/33', '/44', '/55', '/'])
    t.equal(most, 1)
  })

  t.test('every doubt about framing is 400 and the end of the connection', async (t) => {
    const { client, refused, exchanges, upstream } = await bench(t, make)
    const post = 'POST / HTTP/1.1\r\nHost: a\r\n'
    const doubtful: Record<string, string> = {
      'length and encoding': `${post}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      'encoding and length': `${post}Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n`,
      'two equal lengths': `${post}Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc`,
      'two lengths': `${post}Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc`,
      'a list of lengths': `${post}Content-Length: 3, 3\r\n\r\nabc`,
      'a signed length': `${post}Content-Length: +3\r\n\r\nabc`,
      'an empty length': `${post}Content-Length:\r\n\r\n`,
      'a huge length': `${post}Content-Length: 99999999999999999999\r\n\r\n`,
      'another encoding': `${post}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`,
      'identity encoding': `${post}Transfer-Encoding: identity\r\n\r\n`,
      'two encodings': `${post}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      'an encoding with a tab': `${post}Transfer-Encoding:\tchunked\x0b\r\n\r\n0\r\n\r\n`,
      'an encoding on 1.0': 'POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
      'no host': 'GET / HTTP/1.1\r\n\r\n',
      'two hosts': 'GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n',
      'two hosts on 1.0': 'GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n',
      'bare LF in the head': 'GET / HTTP/1.1\nHost: a\r\n\r\n',
      'bare LF behind a field': 'GET / HTTP/1.1\r\nHost: a\n\r\n',
      'bare LF at the end': 'GET / HTTP/1.1\r\nHost: a\r\n\n',
      'bare CR in a value': 'GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n',
      'a folded line': 'GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n',
      'a first line that is folded': 'GET / HTTP/1.1\r\n Host: a\r\n\r\n',
      'space before the colon': 'GET / HTTP/1.1\r\nHost : a\r\n\r\n',
      'no name': 'GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n',
      'no colon': 'GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n',
      'a name with a bracket': 'GET / HTTP/1.1\r\nHost: a\r\nX(y): a\r\n\r\n',
      'a name with a high byte': 'GET / HTTP/1.1\r\nHost: a\r\nX\xe9: a\r\n\r\n',
      'NUL in a value': 'GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n',
      'a high byte in the target': 'GET /\xe9 HTTP/1.1\r\nHost: a\r\n\r\n',
      'a control in the target': 'GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n',
      'a tab in the request line': 'GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n',
      'two spaces': 'GET  / HTTP/1.1\r\nHost: a\r\n\r\n',
      'a space behind the version': 'GET / HTTP/1.1 \r\nHost: a\r\n\r\n',
      'no version': 'GET /\r\n\r\n',
      'lower-case version': 'GET / http/1.1\r\nHost: a\r\n\r\n',
      'a method in another case': 'get / HTTP/1.1\r\nHost: a\r\n\r\n',
      garbage: '\x16\x03\x01\x02\x00\x01\x00'
    }
    for (const [what, bytes] of Object.entries(doubtful)) {
      const c = await client()
      c.send(`${bytes}GET /next HTTP/1.1\r\nHost: a\r\n\r\n`)
      const answer = await c.answer()
      t.equal(answer.status, 400, what)
      t.same(valuesOf(answer, 'connection'), ['close'], what)
      await c.untilEnd()
      t.equal(c.rest, '', `${what}: nothing behind the refusal`)
      c.socket.destroy()
    }
    t.equal(refused.length, Object.keys(doubtful).length)
    t.same(new Set(refused.map(({ why }) => why)), new Set(['client-malformed']))
    t.same(exchanges, [])
    t.same(upstream.peers, [])
  })

  t.test('a doubt inside a chunked body is 400, and the upstream never sees a whole request', async (t) => {
    const bad: Record<string, string> = {
      'bare LF behind the size': '3\nabc\r\n0\r\n\r\n',
      'bare LF behind the data': '3\r\nabc\n0\r\n\r\n',
      'bare LF in an extension': '3;a\nbc\r\n0\r\n\r\n',
      'bare CR in an extension': '3;a\rb\r\nabc\r\n0\r\n\r\n',
      'a space behind the size': '3 \r\nabc\r\n0\r\n\r\n',
      'a signed size': '+3\r\nabc\r\n0\r\n\r\n',
      'a hexadecimal mark': '0x3\r\nabc\r\n0\r\n\r\n',
      'no size': '\r\nabc\r\n0\r\n\r\n',
      'a size that wraps': '10000000000000003\r\nabc\r\n0\r\n\r\n',
      'data beyond the size': '3\r\nabcd\r\n0\r\n\r\n',
      'a folded trailer': '3\r\nabc\r\n0\r\nX: a\r\n b\r\n\r\n',
      'an endless extension': `3;${'x'.repeat(300)}\r\nabc\r\n0\r\n\r\n`
    }
    const { client, upstream, until, closed, exchanges } = await bench(t, make)
    for (const [what, body] of Object.entries(bad)) {
      const c = await client()
      c.send(
        `POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nz\r\n${body}GET /next HTTP/1.1\r\nHost: a\r\n\r\n`
      )
      t.equal((await c.answer()).status, 400, what)
      await c.untilEnd()
      c.socket.destroy()
    }
    await until(() => closed.length === Object.keys(bad).length)
    for (const peer of upstream.peers) {
      await peer.untilEnd()
      t.notMatch(peer.text, /\r\n0\r\n/)
    }
    t.equal(exchanges.length, Object.keys(bad).length)
  })

  t.test('an unknown expectation is 417, an unknown version 505', async (t) => {
    const { client, upstream } = await bench(t, make)
    for (const [bytes, status] of [
      ['POST / HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\nContent-Length: 1\r\n\r\n', 417],
      ['POST / HTTP/1.1\r\nHost: a\r\nExpect: x, 100-continue\r\nContent-Length: 1\r\n\r\n', 417],
      ['GET / HTTP/2.0\r\nHost: a\r\n\r\n', 505],
      ['GET / HTTP/1.2\r\nHost: a\r\n\r\n', 505]
    ] as const) {
      const c = await client()
      c.send(bytes)
      t.equal((await c.answer()).status, status, bytes)
      await c.untilEnd()
    }
    t.same(upstream.peers, [])
  })

  t.test('CONNECT and TRACE are exchanges like others; CONNECT ends its connection', async (t) => {
    const { client, exchanges } = await bench(t, make, {
      async exchange(exchange) {
        await exchange.respond({ status: 405, headers: [] })
      }
    })
    const c = await client()
    c.send('CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n')
    const answer = await c.answer()
    t.equal(answer.status, 405)
    t.same(valuesOf(answer, 'connection'), ['close'])
    await c.untilEnd()
    t.equal(c.rest, '')
    t.equal(exchanges.length, 1)
    t.equal(exchanges[0]?.upgrade, undefined)
    t.equal(exchanges[0]?.request.target, 'a.test:443')
    const other = await client()
    other.send('TRACE / HTTP/1.1\r\nHost: a\r\n\r\n')
    t.equal((await other.answer()).status, 405)
  })

  t.test('trailers pass, except those that frame, route or authenticate', async (t) => {
    const { client, upstream } = await bench(t, make, {
      script: answering(
        'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Up: 1\r\nSet-Cookie: a=b\r\nWWW-Authenticate: x\r\n\r\n'
      )
    })
    const c = await client()
    c.send(
      'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n1\r\na\r\n0\r\nX-Sum: 9\r\nAuthorization: x\r\nX_Forwarded_For: 1\r\nHost: b\r\n\r\n'
    )
    const answer = await c.answer()
    t.same(answer.trailers, [['X-Up', '1']])
    t.same(upstream.peers[0]?.requests[0]?.trailers, [['X-Sum', '9']])
  })

  t.test(
    'limits: 2,000 fields and too many bytes are 431, a long target is 414, nothing is dropped in silence',
    async (t) => {
      const { client, refused, exchanges, upstream } = await bench(t, make, {
        limits: { headers: 2100, headerBytes: 65_536, targetBytes: 1000 },
        script: answering(OK)
      })
      const fields = (n: number) => Array.from({ length: n }, (_, i) => `X-${i}: ${i}\r\n`).join('')
      const c = await client()
      c.send(`GET / HTTP/1.1\r\nHost: a\r\n${fields(2000)}\r\n`)
      t.equal((await c.answer()).status, 200)
      t.equal(upstream.peers[0]?.requests[0]?.headers.filter(([name]) => /^x-\d/i.test(name)).length, 2000)
      for (const [bytes, status] of [
        [`GET / HTTP/1.1\r\nHost: a\r\n${fields(2100)}\r\n`, 431],
        [`GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(66_000)}\r\n\r\n`, 431],
        [`GET / HTTP/1.1\r\nHost: a\r\n${'x'.repeat(66_000)}`, 431],
        [`GET /${'x'.repeat(1000)} HTTP/1.1\r\nHost: a\r\n\r\n`, 414],
        [`GET /${'x'.repeat(100_000)}`, 414]
      ] as const) {
        const d = await client()
        d.send(bytes)
        t.equal((await d.answer()).status, status)
        await d.untilEnd()
      }
      t.same(
        refused.map(({ why }) => why),
        Array(5).fill('too-large')
      )
      t.equal(exchanges.length, 1)
    }
  )
}
