import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import t from 'tap'
import { forwardTo } from '../../src/transport/contract.js'
import { BodyReader } from '../../src/transport/http1/body-reader.js'
import { codecBack } from '../../src/transport/http1/forwarding.js'
import { HeadReader } from '../../src/transport/http1/head-reader.js'
import { DateLine, FieldNames, Serialiser } from '../../src/transport/http1/serialise.js'
import { codecServerTransport } from '../../src/transport/http1/server.js'
import { ManualClock } from '../helpers/clock.js'
import { cutAtRandom, mutated, Random, seeds } from './codec-fuzz.js'
import { compared } from './codec-fuzz-check.js'
import { LIMITS, readByNode, readRequests } from './codec-messages.js'

const LONG = process.env.SLUICE_TEST_LONG === '1'
const SEED = Number(process.env.SLUICE_TEST_SEED ?? 20_261_120)

t.test('every seed means the same however its bytes are cut', async (t) => {
  for (const seed of seeds) {
    const bytes = Buffer.from(seed, 'latin1')
    const whole = readRequests([bytes])
    const step = LONG ? 1 : Math.max(1, Math.ceil(bytes.length / 120))
    for (let at = 1; at < bytes.length; at += step) {
      const cut = readRequests([bytes.subarray(0, at), bytes.subarray(at)])
      if (JSON.stringify(cut) !== JSON.stringify(whole)) t.same(cut, whole, `${JSON.stringify(seed)} cut at ${at}`)
    }
    const single = readRequests([...bytes].map((byte) => Buffer.of(byte)))
    if (JSON.stringify(single) !== JSON.stringify(whole)) t.same(single, whole, `${JSON.stringify(seed)} byte by byte`)
  }
  t.ok(seeds.length > 100)
})

t.test('what the codec reads as requests, llhttp reads as the same requests', async (t) => {
  const random = new Random(SEED)
  const count = LONG ? 200_000 : 4000
  let accepted = 0
  for (let i = 0; i < count; i++) {
    const bytes = i < seeds.length ? Buffer.from(seeds[i] as string, 'latin1') : mutated(random)
    const found = await compared(bytes, random)
    accepted += found.accepted
    if (found.problem !== undefined) t.fail(`seed ${SEED}, message ${i}: ${found.problem}`)
    if (t.counts.fail > 5) break
  }
  t.ok(accepted > count / 10, `${accepted} requests accepted`)
})

t.test('UTF-8 that a client has not encoded is percent-encoded, and nothing else', async (t) => {
  const target = (text: string): string | undefined =>
    readRequests([Buffer.from(`GET ${text} HTTP/1.1\r\nHost: a\r\n\r\n`, 'latin1')]).messages[0]?.target
  t.equal(target('/caf\xc3\xa9/%C3%a9?\xe2\x82\xac=[^]'), '/caf%C3%A9/%C3%a9?%E2%82%AC=[^]')
  const random = new Random(SEED)
  for (let i = 0; i < 2000; i++) {
    const bytes = Buffer.from(Array.from({ length: 1 + random.next(6) }, () => 0x80 + random.next(0x80)))
    const read = target(`/${bytes.toString('latin1')}`)
    const text = bytes.toString()
    // What is no UTF-8 is read with the replacement character.
    const expected = Buffer.from(text).equals(bytes) ? `/${encodeURIComponent(text)}` : undefined
    if (read !== expected) t.equal(read, expected, bytes.toString('hex'))
  }
  for (const code of [0xe9, 0x80, 0x20ac, 0x1f600]) {
    const character = String.fromCodePoint(code)
    t.equal(target(`/${Buffer.from(character).toString('latin1')}`), `/${encodeURIComponent(character)}`)
  }
})

t.test('limits are found at the same byte however the bytes are cut', async (t) => {
  const heads = [
    `GET /${'x'.repeat(LIMITS.targetBytes - 1)} HTTP/1.1\r\nHost: a\r\n\r\n`,
    `GET /${'x'.repeat(LIMITS.targetBytes)} HTTP/1.1\r\nHost: a\r\n\r\n`,
    `GET / HTTP/1.1\r\n${Array.from({ length: LIMITS.headers }, (_, i) => `${i === 0 ? 'Host' : 'X'}: ${i}\r\n`).join('')}\r\n`,
    `GET / HTTP/1.1\r\nHost: 1\r\n${'X: 1\r\n'.repeat(LIMITS.headers)}\r\n`,
    `GET / HTTP/1.1\r\nHost: 1\r\nX: ${'x'.repeat(LIMITS.headerBytes - 9 - 3 - 4)}\r\n\r\n`,
    `GET / HTTP/1.1\r\nHost: 1\r\nX: ${'x'.repeat(LIMITS.headerBytes - 9 - 3 - 3)}\r\n\r\n`,
    `GET / HTTP/1.1\r\nHost: 1\r\n${'x'.repeat(LIMITS.headerBytes)}\0`,
    `POST / HTTP/1.1\r\nHost: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ${'x'.repeat(LIMITS.headerBytes)}\r\n\r\n`
  ]
  const expected = ['clean', 414, 'clean', 431, 'clean', 431, 431, 431]
  for (const [i, text] of heads.entries()) {
    const bytes = Buffer.from(text, 'latin1')
    t.equal(readRequests([bytes]).end, expected[i], `${i} whole`)
    t.equal(readRequests([...bytes].map((byte) => Buffer.of(byte))).end, expected[i], `${i} byte by byte`)
  }
})

t.test('responses: what is read does not depend on the cuts, and doubtful ones are refused', async (t) => {
  const read = (pieces: readonly Buffer[]) => {
    const head = new HeadReader('response', { headerBytes: 1000, headers: 100, targetBytes: 0 }, new FieldNames())
    for (const piece of pieces) {
      if (head.read(piece.toString('latin1')) !== -1) {
        return { status: head.status, reason: head.reason, minor: head.minor, list: head.list }
      }
      if (head.refusal !== undefined) return 'refused'
    }
    return 'rest'
  }
  const cases: [string, unknown][] = [
    ['HTTP/1.1 200 OK\r\nA: b\r\n\r\n', { status: 200, reason: 'OK', minor: 1, list: ['A', 'b'] }],
    ['HTTP/1.0 299 \r\n\r\n', { status: 299, reason: '', minor: 0, list: [] }],
    ['HTTP/1.1 404\r\n\r\n', { status: 404, reason: '', minor: 1, list: [] }],
    ['HTTP/1.1 200 \xe9 x\r\nA:\r\n\r\n', { status: 200, reason: '\xe9 x', minor: 1, list: ['A', ''] }],
    ['HTTP/1.1 099 OK\r\n\r\n', 'refused'],
    ['HTTP/1.1 20 OK\r\n\r\n', 'refused'],
    ['HTTP/1.1 2000 OK\r\n\r\n', 'refused'],
    ['HTTP/1.1  200 OK\r\n\r\n', 'refused'],
    ['HTTP/1.2 200 OK\r\n\r\n', 'refused'],
    ['HTTP/2 200 OK\r\n\r\n', 'refused'],
    ['\r\nHTTP/1.1 200 OK\r\n\r\n', 'refused'],
    ['HTTP/1.1 200 OK\nA: b\r\n\r\n', 'refused'],
    ['HTTP/1.1 200 O\0K\r\n\r\n', 'refused'],
    ['HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n', 'refused'],
    ['HTTP/1.1 200 OK\r\nA : b\r\n\r\n', 'refused'],
    [`HTTP/1.1 200 ${'x'.repeat(1200)}\r\n\r\n`, 'refused']
  ]
  for (const [text, expected] of cases) {
    const bytes = Buffer.from(text, 'latin1')
    t.same(read([bytes]), expected, JSON.stringify(text.slice(0, 60)))
    for (let at = 1; at < Math.min(bytes.length, 200); at++) {
      const cut = read([bytes.subarray(0, at), bytes.subarray(at)])
      if (JSON.stringify(cut) !== JSON.stringify(read([bytes]))) t.same(cut, expected, `cut at ${at}`)
    }
    t.same(read([...bytes].map((byte) => Buffer.of(byte))), expected, 'byte by byte')
  }
})

t.test('a body ends where it ends, and nothing of the next message is taken', async (t) => {
  const take = (kind: 'length' | 'chunked' | 'close', text: string, length = 0) => {
    const head = new HeadReader('response', { headerBytes: 1000, headers: 100, targetBytes: 0 }, new FieldNames())
    const bodies = new BodyReader(head)
    let body = ''
    bodies.begin(kind, length)
    const bytes = Buffer.from(text, 'latin1')
    let at = 0
    while (at < bytes.length && !bodies.done && bodies.refusal === undefined) {
      at = bodies.read(bytes, at, bytes.length, {
        data: (chunk, from, to) => {
          body += chunk.toString('latin1', from, to)
        }
      })
    }
    return { body, at, done: bodies.done, fields: bodies.fields, refused: bodies.refusal?.status }
  }
  const none = { fields: [], refused: undefined }
  t.same(take('length', 'abcdef', 4), { body: 'abcd', at: 4, done: true, ...none })
  t.same(take('length', 'abc', 4), { body: 'abc', at: 3, done: false, ...none })
  t.same(take('close', 'abc'), { body: 'abc', at: 3, done: false, ...none })
  t.same(take('chunked', '1\r\na\r\n0\r\n\r\nHTTP'), { body: 'a', at: 11, done: true, ...none })
  t.same(take('chunked', '1\r\na\r\n00\r\nA: b\r\n\r\nHTTP').fields, ['A', 'b'])
  t.equal(take('chunked', '1\r\nab').refused, 400)
  t.equal(take('chunked', '1000000000000\r\n').refused, 400)
})

t.test('what is serialised is read as the same message, by the codec and by llhttp', async (t) => {
  const random = new Random(SEED)
  const names = new FieldNames()
  const serialiser = new Serialiser(names, new DateLine(new ManualClock()))
  const letters = "!#$%&'*+-.^_`|~09azAZ"
  const text = (table: string, length: number): string =>
    Array.from({ length }, () => table[random.next(table.length)]).join('')
  const values = Array.from({ length: 256 }, (_, i) => String.fromCharCode(i)).join('')
  let left = 0
  for (let i = 0; i < (LONG ? 20_000 : 800); i++) {
    const list: string[] = ['Host', 'a.test']
    const written: string[] = ['Host', 'a.test']
    for (let n = random.next(8); n > 0; n--) {
      // Names and values that come again and again, and others under the same names in between.
      const usual = random.next(2) === 0
      const name = usual ? random.pick(['Via', 'X-Again']) : `x${text(letters, random.next(12))}`
      const value =
        usual && random.next(4) > 0
          ? random.pick(['1.1 sluice', 'again', 'gone\0', '', '\xe9'])
          : text(random.next(3) === 0 ? values : letters, random.next(30))
      list.push(name, value)
      if (/^[\t\x20-\x7e\x80-\xff]*$/.test(value)) written.push(name, value.replace(/^[\t ]+|[\t ]+$/g, ''))
      else left++
    }
    const body = text(values, random.next(3) * random.next(200))
    const head = serialiser.request(
      {
        method: random.pick(['GET', 'POST', 'DELETE', 'M-SEARCH']),
        target: `/${text(letters, random.next(20))}`,
        authority: 'a.test',
        scheme: 'http',
        version: '1.1',
        headers: [...list, 'Content-Length', '7', 'transfer-encoding', 'x', 'Connection', 'close']
      },
      { kind: 'length', bytes: body.length },
      false,
      false
    ) as string
    const bytes = Buffer.from(head + body, 'latin1')
    const { messages, end } = readRequests([bytes])
    const expected = { headers: [...written, 'Content-Length', String(body.length)], body, trailers: [] }
    if (messages.length !== 1 || end !== 'clean') t.fail(`not one request: ${JSON.stringify(head)}`)
    const { headers, body: read, trailers } = messages[0] as (typeof messages)[0]
    if (JSON.stringify({ headers, body: read, trailers }) !== JSON.stringify(expected))
      t.same({ headers, body: read, trailers }, expected)
    const node = await readByNode(bytes)
    if (JSON.stringify(node) !== JSON.stringify(messages)) t.same(node, messages, JSON.stringify(head))
  }
  t.ok(left > 50, `${left} fields that cannot be written were left out`)
})

t.test('through sockets: nothing crashes or hangs, and the upstream sees what the handler saw', async (t) => {
  const random = new Random(SEED + 1)
  const clock = new ManualClock()
  const seen: string[] = []
  const upstream = await nodeUpstream(t, seen)
  const back = codecBack({ clock })
  const handled: string[] = []
  const { tcpDialer } = await import('../../src/transport/dialers.js')
  const dialer = tcpDialer({ host: '127.0.0.1', port: upstream })
  const timeouts = { connectTimeout: 0, responseTimeout: 0, idleTimeout: 0 }
  const limits = { ...LIMITS, headTimeout: 0, bodyIdle: 0, keepAlive: 0, connections: 0 }
  const listening = await codecServerTransport({ clock }).listen(
    { host: '127.0.0.1', port: 0 },
    { name: 'fuzz', limits },
    {
      connection: () => true,
      refused: () => undefined,
      async exchange(exchange) {
        const { request } = exchange
        if (!request.target.startsWith('/')) {
          await exchange.respond({ status: 400, headers: [] })
          return
        }
        handled.push(`${request.method} ${request.target}`)
        const kept: string[] = []
        for (let i = 0; i < request.headers.length; i += 2) {
          const name = request.headers[i] as string
          if (!/^(connection|upgrade|te|host)$/i.test(name)) kept.push(name, request.headers[i + 1] as string)
        }
        const head = { ...request, headers: kept }
        const answer = await forwardTo(back, exchange, dialer, { head, body: request.body, ...timeouts })
        if (answer.kind === 'response') await exchange.respond(answer.head, answer.body)
        else await exchange.respond({ status: 502, headers: [] })
      }
    }
  )
  t.teardown(async () => {
    back.close()
    await listening.drain(0)
  })
  const { rawClient } = await import('../helpers/raw-client.js')
  for (let i = 0; i < (LONG ? 10_000 : 300); i++) {
    const client = await rawClient(listening.address.port)
    const bytes = mutated(random)
    const { messages, end } = readRequests([bytes])
    for (const piece of cutAtRandom(bytes, random)) client.send(piece)
    // Something must come back for whole requests and for refused ones, or the connection ends.
    if (messages.length > 0 || typeof end === 'number') await client.until((text) => text !== '' || client.ended)
    client.end()
    await client.closed
    client.socket.destroy()
  }
  const unknown = seen.filter((line) => !handled.includes(line))
  t.same(unknown, [], 'every request of the upstream is one of the handler')
  t.ok(seen.length > 20, `${seen.length} requests reached the upstream`)
})

async function nodeUpstream(t: { teardown(run: () => unknown): void }, seen: string[]): Promise<number> {
  const { createServer: createHttpServer } = await import('node:http')
  const http = createHttpServer((request, response) => {
    request.resume()
    request.on('end', () => {
      seen.push(`${request.method} ${request.url}`)
      response.end('ok')
    })
  })
  const server = createServer((socket) => http.emit('connection', socket)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    http.closeAllConnections()
  })
  return (server.address() as AddressInfo).port
}
