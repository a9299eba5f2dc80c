import { readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { codecBack } from '../../src/transport/http1/forwarding.js'
import { codecServerTransport } from '../../src/transport/http1/server.js'
import { fixture } from '../helpers/files.js'
import {
  ACK,
  block,
  CONTINUATION,
  DATA,
  END_HEADERS,
  END_STREAM,
  ENHANCE_YOUR_CALM,
  Frames,
  frame,
  GET,
  GOAWAY,
  HEADERS,
  PADDED,
  PING,
  PRIORITY,
  PROTOCOL_ERROR,
  RST_STREAM,
  SETTINGS,
  WINDOW_UPDATE,
  WITH_PRIORITY
} from './raw-frames.js'
import { bench, eventually, type Make } from './suite/harness.js'

/**
 * What a server must do with frames that break HTTP/2, and with unusual ones that do not, section by section of RFC 9113
 * and RFC 7541. Where the RFC leaves a choice of codes, each is allowed.
 */

const FLOW_CONTROL_ERROR = 3
const STREAM_CLOSED = 5
const FRAME_SIZE_ERROR = 6
const REFUSED_STREAM = 7
const COMPRESSION_ERROR = 9
const PUSH_PROMISE = 5

const at = (name: string) => readFileSync(fixture(`engine/${name}`), 'utf8')
const h2 = { cert: at('upstream.crt'), key: at('upstream.key') }
const make: Make = (parts) => ({ front: codecServerTransport(parts), back: codecBack(parts), h2 })

const u32 = (...numbers: number[]): Buffer => {
  const bytes = Buffer.alloc(4 * numbers.length)
  for (const [i, number] of numbers.entries()) bytes.writeUInt32BE(number, 4 * i)
  return bytes
}
const setting = (id: number, value: number): Buffer => Buffer.concat([Buffer.from([0, id]), u32(value)])
const POST = [[':method', 'POST'], ...GET.slice(1)] as const
const get = (stream: number, flags = END_HEADERS | END_STREAM): Buffer => frame(HEADERS, flags, stream, block(GET))
const post = (stream: number, more: readonly (readonly [string, string])[] = []): Buffer =>
  frame(HEADERS, END_HEADERS, stream, block([...POST, ...more]))

type Running = Frames & { bench: Awaited<ReturnType<typeof bench>> }

/** A session against an echo of `body`, past the exchange of settings. */
async function session(t: Test, body = 'ok', settings: Buffer = Buffer.alloc(0)): Promise<Running> {
  const running = await bench(t, make, {
    limits: { headTimeout: 10_000, keepAlive: 10_000, streams: 4 },
    exchange: async (exchange) => {
      if (exchange.request.target === '/wait') return
      await exchange.request.body.buffer(100_000).catch(() => undefined)
      await exchange.respond({ status: 200, headers: ['x-a', '1'] }, Buffer.from(body))
    }
  })
  const frames = new Frames(running.listening.address.port)
  t.teardown(() => frames.socket.destroy())
  frames.start(settings)
  await eventually(() => frames.all().some(({ type, flags }) => type === SETTINGS && flags === ACK))
  return Object.assign(frames, { bench: running })
}

/** The session ends with GOAWAY of one of these codes, or without a word. */
type Broken = readonly [what: string, codes: readonly number[], ...frames: Buffer[]]

const BROKEN: readonly Broken[] = [
  ['4.2 HEADERS larger than SETTINGS_MAX_FRAME_SIZE', [FRAME_SIZE_ERROR], frame(HEADERS, 5, 1, Buffer.alloc(16_385))],
  ['5.1 RST_STREAM on an idle stream', [PROTOCOL_ERROR], frame(RST_STREAM, 0, 1, u32(8))],
  ['5.1 WINDOW_UPDATE on an idle stream', [PROTOCOL_ERROR], frame(WINDOW_UPDATE, 0, 1, u32(100))],
  ['5.1 CONTINUATION on an idle stream', [PROTOCOL_ERROR], frame(CONTINUATION, END_HEADERS, 1, block(GET))],
  ['6.1 DATA on stream 0', [PROTOCOL_ERROR], frame(DATA, END_STREAM, 0, 'x')],
  ['6.1 more padding than payload', [PROTOCOL_ERROR], post(1), frame(DATA, PADDED, 1, Buffer.from([5, 1]))],
  ['6.2 HEADERS on stream 0', [PROTOCOL_ERROR], get(0)],
  ['6.2 HEADERS with more padding than payload', [PROTOCOL_ERROR], frame(HEADERS, PADDED | 5, 1, Buffer.from([9, 0]))],
  ['6.3 PRIORITY on stream 0', [PROTOCOL_ERROR], frame(PRIORITY, 0, 0, Buffer.alloc(5))],
  ['6.4 RST_STREAM on stream 0', [PROTOCOL_ERROR], frame(RST_STREAM, 0, 0, u32(8))],
  ['6.4 RST_STREAM of another size', [FRAME_SIZE_ERROR], post(1), frame(RST_STREAM, 0, 1, Buffer.alloc(3))],
  ['6.5 SETTINGS acknowledged with a payload', [FRAME_SIZE_ERROR], frame(SETTINGS, ACK, 0, setting(3, 1))],
  ['6.5 SETTINGS of another size', [FRAME_SIZE_ERROR], frame(SETTINGS, 0, 0, Buffer.alloc(5))],
  ['6.5 SETTINGS on a stream', [PROTOCOL_ERROR], frame(SETTINGS, 0, 1, setting(3, 1))],
  ['6.5.2 ENABLE_PUSH 2', [PROTOCOL_ERROR], frame(SETTINGS, 0, 0, setting(2, 2))],
  ['6.5.2 INITIAL_WINDOW_SIZE too large', [FLOW_CONTROL_ERROR], frame(SETTINGS, 0, 0, setting(4, 2 ** 31))],
  ['6.5.2 MAX_FRAME_SIZE too small', [PROTOCOL_ERROR], frame(SETTINGS, 0, 0, setting(5, 16_383))],
  ['6.5.2 MAX_FRAME_SIZE too large', [PROTOCOL_ERROR], frame(SETTINGS, 0, 0, setting(5, 2 ** 24))],
  ['6.6 PUSH_PROMISE of a client', [PROTOCOL_ERROR], frame(PUSH_PROMISE, END_HEADERS, 1, u32(2))],
  ['6.7 PING on a stream', [PROTOCOL_ERROR], frame(PING, 0, 1, '12345678')],
  ['6.7 PING of another size', [FRAME_SIZE_ERROR], frame(PING, 0, 0, '123456')],
  ['6.8 GOAWAY on a stream', [PROTOCOL_ERROR], frame(GOAWAY, 0, 1, u32(0, 0))],
  ['6.9 WINDOW_UPDATE of nothing', [PROTOCOL_ERROR], frame(WINDOW_UPDATE, 0, 0, u32(0))],
  ['6.9 WINDOW_UPDATE of another size', [FRAME_SIZE_ERROR], frame(WINDOW_UPDATE, 0, 0, Buffer.alloc(3))],
  ['6.9.1 a window above 2^31-1', [FLOW_CONTROL_ERROR], frame(WINDOW_UPDATE, 0, 0, u32(2 ** 31 - 1))],
  ['6.10 CONTINUATION after END_HEADERS', [PROTOCOL_ERROR], get(1), frame(CONTINUATION, END_HEADERS, 1, block(GET))],
  ['6.10 CONTINUATION on stream 0', [PROTOCOL_ERROR], get(1, END_STREAM), frame(CONTINUATION, 4, 0, block(GET))],
  ['6.10 CONTINUATION of another stream', [PROTOCOL_ERROR], get(1, END_STREAM), frame(CONTINUATION, 4, 3, block(GET))],
  ['6.10 an unknown frame inside a block', [PROTOCOL_ERROR], get(1, END_STREAM), frame(0x42, 0, 1, 'x')],
  ['7541 2.3.3 an index beyond both tables', [COMPRESSION_ERROR], frame(HEADERS, 5, 1, Buffer.from([0xff, 0x50]))],
  ['7541 6.1 index 0', [COMPRESSION_ERROR], frame(HEADERS, 5, 1, Buffer.from([0x80]))],
  [
    '7541 6.3 a table above the limit',
    [COMPRESSION_ERROR],
    frame(HEADERS, 5, 1, Buffer.from([0x3f, 0xe2, 0xff, 0x7f]))
  ],
  [
    '7541 4.2 a table size behind a field',
    [COMPRESSION_ERROR],
    frame(HEADERS, 5, 1, Buffer.concat([block(GET), Buffer.from([0x20])]))
  ],
  [
    '7541 5.2 a Huffman text that is padded with more than seven bits',
    [COMPRESSION_ERROR],
    frame(HEADERS, 5, 1, Buffer.concat([block(GET), Buffer.from([0, 1, 0x78, 0x82, 0x07, 0xff])]))
  ],
  [
    '7541 5.2 a Huffman text that is padded with zeros',
    [COMPRESSION_ERROR],
    frame(HEADERS, 5, 1, Buffer.concat([block(GET), Buffer.from([0, 1, 0x78, 0x81, 0x00])]))
  ]
]

for (const [what, codes, ...frames] of BROKEN) {
  t.test(`${what}: the session ends`, async (t) => {
    const client = await session(t)
    client.send(...frames)
    await eventually(() => client.over || client.goaway !== undefined)
    if (client.goaway !== undefined) t.ok(codes.includes(client.goaway), `GOAWAY ${client.goaway}, not ${codes}`)
    t.same(
      client.all().filter(({ type }) => type === HEADERS),
      [],
      'and nobody gets an answer'
    )
  })
}

/** The stream ends with RST_STREAM, or the session with GOAWAY, of one of these codes; nobody gets the request. */
type Reset = readonly [what: string, codes: readonly number[], stream: number, ...frames: Buffer[]]

const RESETS: readonly Reset[] = [
  ['5.1 DATA on a stream that is half-closed', [STREAM_CLOSED], 1, wait(1), frame(DATA, END_STREAM, 1, 'x')],
  ['5.1 HEADERS on a stream that is half-closed', [STREAM_CLOSED, PROTOCOL_ERROR], 1, wait(1), wait(1)],
  ['6.3 PRIORITY of another size', [FRAME_SIZE_ERROR], 1, wait(1), frame(PRIORITY, 0, 1, Buffer.alloc(4))],
  ['6.9 WINDOW_UPDATE of nothing on a stream', [PROTOCOL_ERROR], 1, wait(1), frame(WINDOW_UPDATE, 0, 1, u32(0))],
  [
    '6.9.1 a window of a stream above 2^31-1',
    [FLOW_CONTROL_ERROR],
    1,
    wait(1),
    frame(WINDOW_UPDATE, 0, 1, u32(2 ** 31 - 1))
  ],
  [
    '8.1 HEADERS in the middle without END_STREAM',
    [PROTOCOL_ERROR],
    1,
    post(1),
    frame(HEADERS, END_HEADERS, 1, block([['x', 'y']]))
  ],
  [
    '8.1.1 less DATA than content-length',
    [PROTOCOL_ERROR],
    1,
    post(1, [['content-length', '2']]),
    frame(DATA, END_STREAM, 1, 'x')
  ],
  [
    '8.1.1 more DATA than content-length in several frames',
    [PROTOCOL_ERROR],
    1,
    post(1, [['content-length', '1']]),
    frame(DATA, 0, 1, 'x'),
    frame(DATA, END_STREAM, 1, 'y')
  ],
  [
    '8.3 a pseudo-header in trailers',
    [PROTOCOL_ERROR],
    1,
    post(1),
    frame(DATA, 0, 1, 'x'),
    frame(HEADERS, END_HEADERS | END_STREAM, 1, block([[':path', '/b']]))
  ]
]

/** A request that stays without an answer. */
function wait(stream: number): Buffer {
  return frame(HEADERS, END_HEADERS | END_STREAM, stream, block([...GET.slice(0, 3), [':path', '/wait']]))
}

for (const [what, codes, stream, ...frames] of RESETS) {
  t.test(`${what}: the stream ends`, async (t) => {
    const client = await session(t)
    client.send(...frames)
    await eventually(() => client.over || client.goaway !== undefined || client.resetOf(stream) !== undefined)
    const code = client.resetOf(stream) ?? client.goaway
    if (code !== undefined) t.ok(codes.includes(code), `${code}, not ${codes}`)
    t.notOk(
      client.all().some(({ type }) => type === HEADERS),
      'and nobody gets an answer'
    )
  })
}

t.test('5.1.1 a stream below one that was opened gets no answer', async (t) => {
  const client = await session(t)
  client.send(get(5))
  await eventually(() => client.all().some(({ type, stream }) => type === DATA && stream === 5))
  client.send(get(3), frame(PING, 0, 0, 'h2 alive'))
  await eventually(() => client.over || client.goaway !== undefined || client.all().some(({ type }) => type === PING))
  t.equal(client.bench.exchanges.length, 1)
})

t.test('5.1.2 streams beyond the limit are refused, and those before live', async (t) => {
  const client = await session(t)
  client.send(...[1, 3, 5, 7, 9].map(wait))
  await eventually(() => client.over || client.goaway !== undefined || client.resetOf(9) !== undefined)
  t.ok([PROTOCOL_ERROR, REFUSED_STREAM].includes(client.resetOf(9) ?? -1), `RST_STREAM ${client.resetOf(9)}`)
  for (const stream of [1, 3, 5, 7]) t.equal(client.resetOf(stream), undefined)
})

t.test('5.3.1 a stream that depends on itself is a request or an error, and never more', async (t) => {
  const client = await session(t)
  const priority = Buffer.concat([u32(1), Buffer.from([255]), block(GET)])
  client.send(frame(HEADERS, END_HEADERS | END_STREAM | WITH_PRIORITY, 1, priority))
  await eventually(
    () =>
      client.over ||
      client.goaway !== undefined ||
      client.resetOf(1) !== undefined ||
      client.all().some(({ type, stream }) => type === HEADERS && stream === 1)
  )
  t.ok(client.bench.exchanges.length <= 1)
})

/** Unusual and allowed: stream 1 gets its answer. */
const ALLOWED: Readonly<Record<string, Buffer[]>> = {
  '4.1 a frame of an unknown type': [frame(0x42, 0xff, 0, 'x'), get(1)],
  '4.1 unknown flags': [frame(HEADERS, END_HEADERS | END_STREAM | 0x52, 1, block(GET))],
  '5.5 a frame of an unknown type on a stream': [post(1), frame(0x42, 0, 1, 'x'), frame(DATA, END_STREAM, 1, 'x')],
  '6.1 padded DATA': [post(1), frame(DATA, PADDED | END_STREAM, 1, Buffer.from([2, 0x78, 0, 0]))],
  '6.2 padded HEADERS with a priority': [
    frame(
      HEADERS,
      END_HEADERS | END_STREAM | PADDED | WITH_PRIORITY,
      1,
      Buffer.concat([Buffer.from([1]), u32(3), Buffer.from([16]), block(GET), Buffer.alloc(1)])
    )
  ],
  '6.3 PRIORITY on an idle stream': [frame(PRIORITY, 0, 7, Buffer.concat([u32(1), Buffer.from([1])])), get(1)],
  '6.5.2 a setting nobody knows': [frame(SETTINGS, 0, 0, setting(0xff, 1)), get(1)],
  '6.9 a larger window': [frame(WINDOW_UPDATE, 0, 0, u32(1000)), get(1)],
  '6.10 a block in three frames': [
    frame(HEADERS, END_STREAM, 1, block(GET.slice(0, 1))),
    frame(CONTINUATION, 0, 1, block(GET.slice(1, 3))),
    frame(CONTINUATION, END_HEADERS, 1, block(GET.slice(3)))
  ],
  '8.1 trailers': [
    post(1),
    frame(DATA, 0, 1, 'x'),
    frame(HEADERS, END_HEADERS | END_STREAM, 1, block([['x-sum', '1']]))
  ],
  '8.1.1 a content-length that fits': [post(1, [['content-length', '1']]), frame(DATA, END_STREAM, 1, 'x')],
  '7541 6.3 a smaller table first': [
    frame(HEADERS, END_HEADERS | END_STREAM, 1, Buffer.concat([Buffer.from([0x20]), block(GET)]))
  ]
}

for (const [what, frames] of Object.entries(ALLOWED)) {
  t.test(`${what}: is answered`, async (t) => {
    const client = await session(t)
    client.send(...frames)
    const answered = () =>
      client.all().some(({ type, flags, stream }) => type === DATA && stream === 1 && (flags & END_STREAM) !== 0)
    await eventually(() => client.over || client.goaway !== undefined || answered())
    t.ok(answered(), `GOAWAY ${client.goaway}, RST_STREAM ${client.resetOf(1)}`)
  })
}

t.test('6.7 PING is answered with what it holds; an answer of PING is not answered', async (t) => {
  const client = await session(t)
  const pings = () => client.all().filter(({ type }) => type === PING)
  client.send(frame(PING, 0, 0, 'h2 alive'))
  await eventually(() => client.over || pings().length > 0)
  t.match(pings(), [{ flags: ACK }])
  client.send(frame(PING, ACK, 0, 'unasked!'), get(1))
  await eventually(() => client.over || client.goaway !== undefined || client.all().some(({ type }) => type === DATA))
  t.same(
    pings().map(({ payload }) => payload.toString('latin1')),
    ['h2 alive']
  )
})

t.test('6.9.1 no more is sent than the window of the stream holds', async (t) => {
  const client = await session(t, 'abcdef', setting(4, 1))
  const sent = () =>
    client
      .all()
      .filter(({ type }) => type === DATA)
      .map(({ payload }) => payload.toString('latin1'))
      .join('')
  client.send(get(1))
  await eventually(() => client.over || sent().length >= 1)
  t.equal(sent(), 'a')
  client.send(frame(WINDOW_UPDATE, 0, 1, u32(2)))
  await eventually(() => client.over || sent().length >= 3)
  t.equal(sent(), 'abc')
  client.send(frame(SETTINGS, 0, 0, setting(4, 100)))
  await eventually(() => client.over || sent().length >= 6)
  t.equal(sent(), 'abcdef', '6.9.2: another initial window counts for streams that are open')
})

t.test('6.2 a head that does not end is late, also beside streams that are open', async (t) => {
  const wait = frame(HEADERS, END_HEADERS | END_STREAM, 1, block([...GET.slice(0, 3), [':path', '/wait']]))
  const cut = get(3).subarray(0, -1)
  for (const head of [get(3, END_STREAM), cut]) {
    const client = await session(t)
    const { clock, exchanges, refused } = client.bench
    client.send(frame(SETTINGS, ACK, 0, ''), wait, head)
    await eventually(() => exchanges.length === 1)
    await eventually(() => {
      clock.advance(1)
      return client.over || client.goaway !== undefined
    })
    t.equal(client.goaway, ENHANCE_YOUR_CALM)
    t.match(refused, [{ status: 408, why: 'client-timeout' }])
  }
})
