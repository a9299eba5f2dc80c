import { readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { codecBack } from '../../src/transport/http1/forwarding.js'
import { codecServerTransport } from '../../src/transport/http1/server.js'
import { fixture } from '../helpers/files.js'
import {
  ACK,
  block,
  DATA,
  END_HEADERS,
  END_STREAM,
  Frames,
  frame,
  GET,
  HEADERS,
  PROTOCOL_ERROR,
  SETTINGS
} from './raw-frames.js'
import { bench, eventually, type Make } from './suite/harness.js'

/** What makes a request malformed, field by field (RFC 9113 8.1.1, 8.2, 8.3): its stream ends with PROTOCOL_ERROR. */

type Field = readonly [name: string, value: string]

const at = (name: string) => readFileSync(fixture(`engine/${name}`), 'utf8')
const h2 = { cert: at('upstream.crt'), key: at('upstream.key') }
const make: Make = (parts) => ({ front: codecServerTransport(parts), back: codecBack(parts), h2 })

/** A GET with `more` behind its pseudo-header fields. */
const get = (...more: Field[]): Field[] => [...GET, ...more]
/** A GET with some of its pseudo-header fields replaced; an empty list takes one away. */
function having(name: string, ...values: string[]): Field[] {
  return GET.flatMap((field): Field[] => (field[0] === name ? values.map((value) => [name, value]) : [[...field]]))
}
const CONNECT: Field[] = [[':method', 'CONNECT']]

const MALFORMED: Readonly<Record<string, readonly Field[]>> = {
  // 8.2.2
  connection: get(['connection', 'close']),
  'keep-alive': get(['keep-alive', 'timeout=5']),
  'proxy-connection': get(['proxy-connection', 'keep-alive']),
  'transfer-encoding': get(['transfer-encoding', 'chunked']),
  upgrade: get(['upgrade', 'websocket']),
  'te with a coding': get(['te', 'gzip']),
  'te with trailers and a coding': get(['te', 'trailers, gzip']),
  // 8.2, 8.2.1
  'a name in upper case': get(['X-A', '1']),
  'a name with one letter in upper case': get(['x-A', '1']),
  // 8.3
  'an unknown pseudo-header field': [...GET, [':status', '200']],
  'a pseudo-header field of our own': [...GET, [':version', '1']],
  'a pseudo-header field behind a field': [...GET.slice(0, 3), ['x-a', '1'], [':path', '/']],
  'a pseudo-header field behind a malformed field': [...GET.slice(0, 3), ['x a', '1'], [':path', '/']],
  'no method': having(':method'),
  'two methods': having(':method', 'GET', 'POST'),
  'no scheme': having(':scheme'),
  'two schemes': having(':scheme', 'https', 'https'),
  'a scheme with a space': having(':scheme', 'ht tps'),
  'another scheme': having(':scheme', 'ftp'),
  'no path': having(':path'),
  'two paths': having(':path', '/', '/b'),
  'an empty path': having(':path', ''),
  'a path without a slash': having(':path', 'a'),
  'an absolute URL as the path': having(':path', 'https://a.test/'),
  'a space in the path': having(':path', '/a b'),
  'CR LF in the path': having(':path', '/ HTTP/1.1\r\nx-a: 1'),
  'a byte beyond ASCII in the path': having(':path', '/\xe9'),
  'an overlong character in the path': having(':path', '/\xc0\xaf'),
  'UTF-8 in a path without a slash': having(':path', '\xc3\xa9'),
  'NUL in the method': having(':method', 'GE\x00T'),
  'a space in the method': having(':method', 'GET /a'),
  'an empty method': having(':method', ''),
  // 8.3.1
  'no authority and no host': having(':authority'),
  'an empty authority and no host': having(':authority', ''),
  'two authorities': having(':authority', 'a.test', 'a.test'),
  'a space in the authority': having(':authority', 'a test'),
  'userinfo in the authority': having(':authority', 'me@a.test'),
  'another host than the authority': get(['host', 'b.test']),
  'two hosts': [...having(':authority'), ['host', 'a.test'], ['host', 'a.test']],
  'an empty host beside the authority': get(['host', '']),
  // 8.1.1
  'a content-length without a body': get(['content-length', '1']),
  'a content-length that is none': get(['content-length', 'x']),
  'a negative content-length': get(['content-length', '-1']),
  'a content-length with a sign': get(['content-length', '+0']),
  'a list of content-lengths': get(['content-length', '0, 0']),
  'two content-lengths': get(['content-length', '0'], ['content-length', '0']),
  'an empty content-length': get(['content-length', '']),
  // 8.5
  'CONNECT with a path': [...CONNECT, [':authority', 'a.test:443'], [':path', '/']],
  'CONNECT with a scheme': [...CONNECT, [':authority', 'a.test:443'], [':scheme', 'https']],
  'CONNECT without an authority': CONNECT,
  'a protocol with another method than CONNECT': [...GET, [':protocol', 'websocket']],
  // 8.2.1
  'an empty name': get(['', '1']),
  'a space in a name': get(['x a', '1']),
  'a colon in a name': get(['x:a', '1']),
  'a tab in a name': get(['x\ta', '1']),
  'a control character in a name': get(['x\x01', '1']),
  'DEL in a name': get(['x\x7f', '1']),
  'a byte beyond ASCII in a name': get(['x\xe9', '1']),
  'a quotation mark in a name': get(['x"a', '1']),
  'NUL in a value': get(['x-a', '1\x002']),
  'CR in a value': get(['x-a', '1\r2']),
  'LF in a value': get(['x-a', '1\n2']),
  'a header in a value': get(['x-a', '1\r\nx-b: 2']),
  'another control character in a value': get(['x-a', '1\x012']),
  'DEL in a value': get(['x-a', '1\x7f2']),
  'a space before a value': get(['x-a', ' 1']),
  'a space behind a value': get(['x-a', '1 ']),
  'a tab before a value': get(['x-a', '\t1']),
  'a tab behind a value': get(['x-a', '1\t']),
  'NUL in host': get(['host', 'a.test\x00']),
  'LF in cookie': get(['cookie', 'a=1\n'])
}

async function session(t: Test) {
  const running = await bench(t, make, {
    limits: { headTimeout: 10_000, keepAlive: 10_000 },
    exchange: async (exchange) => {
      await exchange.request.body.buffer(100_000).catch(() => undefined)
      await exchange.respond({ status: 200, headers: [] }, Buffer.from('ok'))
    }
  })
  const frames = new Frames(running.listening.address.port)
  t.teardown(() => frames.socket.destroy())
  frames.start()
  await eventually(() => frames.all().some(({ type, flags }) => type === SETTINGS && flags === ACK))
  return Object.assign(frames, { bench: running })
}

type Client = Awaited<ReturnType<typeof session>>

const ended = (client: Client, stream: number): boolean =>
  client.over ||
  client.goaway !== undefined ||
  client.resetOf(stream) !== undefined ||
  client.all().some(({ type, flags, stream: at }) => type <= HEADERS && at === stream && (flags & END_STREAM) !== 0)

const answered = (client: Client, stream: number): boolean =>
  client.all().some(({ type, stream: at }) => type === HEADERS && at === stream)

t.test('a malformed request ends its stream, and no other', async (t) => {
  const client = await session(t)
  let stream = 1
  for (const [what, fields] of Object.entries(MALFORMED)) {
    client.send(frame(HEADERS, END_HEADERS | END_STREAM, stream, block(fields)))
    await eventually(() => ended(client, stream))
    t.equal(client.resetOf(stream), PROTOCOL_ERROR, what)
    t.notOk(answered(client, stream), `${what}: no answer`)
    stream += 2
  }
  t.equal(client.bench.exchanges.length, 0, 'nobody got a request')
  t.same(
    client.bench.refused,
    Object.keys(MALFORMED).map(() => ({ status: 400, why: 'client-malformed' }))
  )
  client.send(frame(HEADERS, END_HEADERS | END_STREAM, stream, block(GET)))
  await eventually(() => ended(client, stream))
  t.ok(answered(client, stream), 'the session goes on')
})

t.test('UTF-8 that a client has not encoded reaches everybody percent-encoded', async (t) => {
  const client = await session(t)
  const raw = ['/caf\xc3\xa9', '/a?caf\xc3\xa9=\xe2\x82\xac']
  for (const [i, path] of raw.entries()) {
    client.send(frame(HEADERS, END_HEADERS | END_STREAM, 1 + 2 * i, block([...GET.slice(0, 3), [':path', path]])))
    await eventually(() => answered(client, 1 + 2 * i))
  }
  const targets = client.bench.exchanges.map(({ request }) => request.target)
  t.same(targets, ['/caf%C3%A9', '/a?caf%C3%A9=%E2%82%AC'])
})

t.test('malformed trailers end the stream', async (t) => {
  const trailers: Readonly<Record<string, Field>> = {
    'a pseudo-header field': [':path', '/b'],
    'a name in upper case': ['X-Sum', '1'],
    'an empty name': ['', '1'],
    'a space in a name': ['x sum', '1'],
    'a control character in a name': ['x\x01', '1'],
    'NUL in a value': ['x-sum', '1\x002'],
    'CR LF in a value': ['x-sum', '1\r\nx-b: 2'],
    'DEL in a value': ['x-sum', '1\x7f'],
    'a space before a value': ['x-sum', ' 1'],
    'a tab behind a value': ['x-sum', '1\t'],
    connection: ['connection', 'close'],
    'te with a coding': ['te', 'gzip']
  }
  const client = await session(t)
  let stream = 1
  for (const [what, field] of Object.entries(trailers)) {
    client.send(
      frame(HEADERS, END_HEADERS, stream, block([[':method', 'POST'], ...GET.slice(1)])),
      frame(DATA, 0, stream, 'x'),
      frame(HEADERS, END_HEADERS | END_STREAM, stream, block([field]))
    )
    await eventually(() => ended(client, stream))
    t.equal(client.resetOf(stream), PROTOCOL_ERROR, what)
    t.notOk(answered(client, stream), `${what}: no answer`)
    stream += 2
  }
  // They came with their heads in one turn, so that no exchange was begun that could say it.
  t.same(
    client.bench.refused,
    Object.keys(trailers).map(() => ({ status: 400, why: 'client-malformed' }))
  )
  t.equal(client.bench.exchanges.length, 0)
})

t.test('malformed trailers of a request that is being answered end its exchange', async (t) => {
  const client = await session(t)
  client.send(frame(HEADERS, END_HEADERS, 1, block([[':method', 'POST'], ...GET.slice(1)])), frame(DATA, 0, 1, 'x'))
  await client.bench.until(() => client.bench.exchanges.length === 1)
  client.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, block([['x-sum', '1\x00']])))
  await eventually(() => ended(client, 1))
  t.equal(client.resetOf(1), PROTOCOL_ERROR)
  t.equal(client.bench.exchanges[0]?.signal.aborted, 'client-malformed')
})

t.test('what is unusual and allowed is answered', async (t) => {
  const allowed: Readonly<Record<string, readonly Field[]>> = {
    'te: trailers': get(['te', 'trailers']),
    'host like the authority': get(['host', 'A.test']),
    'host instead of the authority': [...having(':authority'), ['host', 'a.test']],
    'an empty value': get(['x-a', '']),
    'bytes beyond ASCII in a value': get(['x-a', 'caf\xe9']),
    'spaces and tabs inside a value': get(['x-a', '1 \t 2']),
    'every character of a token': get(["!#$%&'*+-.^_`|~09az", '1']),
    'two cookies': get(['cookie', 'a=1'], ['cookie', 'b=2']),
    'a content-length of nothing': get(['content-length', '0'])
  }
  const client = await session(t)
  let stream = 1
  for (const [what, fields] of Object.entries(allowed)) {
    client.send(frame(HEADERS, END_HEADERS | END_STREAM, stream, block(fields)))
    await eventually(() => ended(client, stream))
    t.ok(answered(client, stream), `${what}: RST_STREAM ${client.resetOf(stream)}`)
    stream += 2
  }
})
