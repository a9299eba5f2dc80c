import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import type { Exchange } from '../../src/flow/exchange.js'
import { WindowBudget } from '../../src/transport/http2/receive-window.js'
import { ManualClock } from '../helpers/clock.js'
import { MemoryConnection } from './http2-memory.js'
import {
  ACK,
  block,
  DATA,
  END_HEADERS,
  END_STREAM,
  ENHANCE_YOUR_CALM,
  frame,
  GET,
  GOAWAY,
  HEADERS,
  PING,
  PREFACE,
  PRIORITY,
  PROTOCOL_ERROR,
  RESET,
  RST_STREAM,
  SETTINGS,
  WINDOW_UPDATE
} from './raw-frames.js'
import { eventually } from './suite/harness.js'

/** States of streams, windows and bounds of one connection, frame by frame and without a network. */

const NO_ERROR = 0
const FLOW_CONTROL_ERROR = 3
const SETTINGS_TIMEOUT = 4
const STREAM_CLOSED = 5
const POST = block([[':method', 'POST'], ...GET.slice(1)])
const STREAM_WINDOW = 256 * 1024

const u32 = (number: number): Buffer => {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(number)
  return bytes
}
const initialWindow = (bytes: number): Buffer => Buffer.concat([Buffer.from([0, 4]), u32(bytes)])
const get = (stream: number): Buffer => frame(HEADERS, END_HEADERS | END_STREAM, stream, block(GET))
const post = (stream: number): Buffer => frame(HEADERS, END_HEADERS, stream, POST)
const ok = async (exchange: Exchange): Promise<void> => {
  await exchange.respond({ status: 200, headers: [] }, Buffer.from('ok'))
}

function start(
  t: Test,
  exchange: (exchange: Exchange) => void | Promise<void> = ok,
  settings: Buffer = Buffer.alloc(0),
  streams = 128
): MemoryConnection {
  const connection = new MemoryConnection(exchange, { streams })
  t.teardown(() => connection.pipe.destroy())
  connection.feed(Buffer.concat([Buffer.from(PREFACE), frame(SETTINGS, 0, 0, settings), frame(SETTINGS, ACK, 0)]))
  return connection
}

const ended = ({ sent }: MemoryConnection, stream: number): boolean =>
  sent.all().some((one) => one.stream === stream && one.type !== RST_STREAM && (one.flags & END_STREAM) !== 0)

const contentOf = ({ sent }: MemoryConnection, stream: number): number =>
  sent.all().reduce((sum, one) => sum + (one.type === DATA && one.stream === stream ? one.payload.length : 0), 0)

const updatesOf = ({ sent }: MemoryConnection, stream: number): number[] =>
  sent
    .all()
    .flatMap((one) => (one.type === WINDOW_UPDATE && one.stream === stream ? [one.payload.readUInt32BE(0)] : []))

t.test('what comes late on a stream that was reset here is left out, and its fields are still decoded', async (t) => {
  const connection = start(t)
  // An answer to a request that goes on ends the stream with NO_ERROR.
  connection.feed(post(1))
  await eventually(() => connection.sent.resetOf(1) === NO_ERROR)
  // A field that enters the table, as part of late trailers.
  const late = Buffer.concat([Buffer.from([0x40, 3]), Buffer.from('x-a'), Buffer.from([1]), Buffer.from('1')])
  connection.feed(frame(DATA, 0, 1, 'late'))
  connection.feed(frame(WINDOW_UPDATE, 0, 1, u32(1)))
  connection.feed(frame(HEADERS, END_HEADERS | END_STREAM, 1, late))
  connection.feed(frame(HEADERS, END_HEADERS | END_STREAM, 3, Buffer.concat([block(GET), Buffer.from([0xbe])])))
  await eventually(() => ended(connection, 3))
  t.same(connection.exchanges[1]?.request.headers, ['host', 'a.test', 'x-a', '1'])
  t.equal(connection.sent.goaway, undefined)
})

t.test('late DATA on streams that were reset here uses up no window', async (t) => {
  const connection = start(t)
  connection.feed(post(1))
  await eventually(() => connection.sent.resetOf(1) === NO_ERROR)
  const before = updatesOf(connection, 0).length
  const large = frame(DATA, 0, 1, Buffer.alloc(16_384))
  for (let bytes = 0; bytes < 20 * 1024 * 1024; bytes += 16_384) connection.feed(large)
  await eventually(() => updatesOf(connection, 0).length > before)
  t.equal(connection.sent.goaway, undefined)
})

t.test('frames behind the end of a stream', async (t) => {
  const ending = async (frames: Buffer[], first = get(1)) => {
    const connection = start(t)
    connection.feed(first)
    await eventually(() => connection.exchanges.length === 1)
    await eventually(() => ended(connection, 1))
    connection.feed(Buffer.concat([...frames, frame(PING, 0, 0, 'h2 alive')]))
    await eventually(
      () => connection.sent.goaway !== undefined || connection.sent.all().some(({ type }) => type === PING)
    )
    return connection.sent
  }
  t.equal((await ending([frame(DATA, 0, 1, 'x')])).goaway, STREAM_CLOSED, 'DATA')
  t.equal((await ending([get(1)])).goaway, STREAM_CLOSED, 'HEADERS')
  t.equal((await ending([frame(WINDOW_UPDATE, 0, 1, u32(1))])).goaway, undefined, 'WINDOW_UPDATE')
  t.equal((await ending([frame(RST_STREAM, 0, 1, RESET)])).goaway, undefined, 'RST_STREAM')
  t.equal((await ending([frame(PRIORITY, 0, 1, Buffer.alloc(5))])).goaway, undefined, 'PRIORITY')
  t.equal((await ending([get(7), get(5)])).goaway, PROTOCOL_ERROR, 'an id that was left out')
})

t.test('frames behind a reset of the client end the stream once more, and no other', async (t) => {
  const connection = start(t, () => undefined)
  connection.feed(Buffer.concat([post(1), post(3), frame(RST_STREAM, 0, 1, RESET), frame(DATA, 0, 1, 'x')]))
  await eventually(() => connection.sent.resetOf(1) !== undefined)
  t.equal(connection.sent.resetOf(1), STREAM_CLOSED)
  connection.feed(Buffer.concat([frame(RST_STREAM, 0, 3, RESET), get(3), frame(PING, 0, 0, 'h2 alive')]))
  await eventually(() => connection.sent.all().some(({ type }) => type === PING))
  t.equal(connection.sent.resetOf(3), STREAM_CLOSED)
  t.equal(connection.sent.goaway, undefined)
})

t.test('a body that nobody reads holds up its own stream, and the window follows what is read', async (t) => {
  const connection = start(t, () => undefined)
  const fill = (stream: number, bytes: number) => {
    for (let sent = 0; sent < bytes; sent += 16_384) connection.feed(frame(DATA, 0, stream, Buffer.alloc(16_384)))
  }
  connection.feed(Buffer.concat([post(1), post(3)]))
  fill(1, STREAM_WINDOW)
  await eventually(() => connection.exchanges.length === 2)
  t.same(updatesOf(connection, 1), [], 'no credit before it is wanted')
  connection.exchanges[1]?.request.body.claim().resume()
  fill(3, STREAM_WINDOW)
  await eventually(() => updatesOf(connection, 3).reduce((sum, one) => sum + one, 0) >= STREAM_WINDOW / 2)
  connection.exchanges[0]?.request.body.claim().resume()
  await eventually(() => updatesOf(connection, 1).length > 0)
  t.same(updatesOf(connection, 1), [STREAM_WINDOW])
  // More than the window that was given.
  connection.feed(post(5))
  fill(5, STREAM_WINDOW)
  connection.feed(frame(DATA, 0, 5, 'x'))
  await eventually(() => connection.sent.resetOf(5) !== undefined)
  t.equal(connection.sent.resetOf(5), FLOW_CONTROL_ERROR)
  t.equal(connection.sent.goaway, undefined)
})

/** A sender that is `roundTrip` away, with all the speed that there is: a connection whose SETTINGS it has acknowledged, and its uploads. */
class FarSender {
  readonly clock = new ManualClock()
  readonly budget: WindowBudget
  readonly connection: MemoryConnection
  readonly #roundTrip: number
  /** Bytes that each stream was allowed to send, and has sent. */
  readonly allowed = new Map<number, number>()
  readonly #sent = new Map<number, number>()

  constructor(t: Test, roundTrip: number, limits: { readonly stream: number; readonly total: number }) {
    this.#roundTrip = roundTrip
    this.budget = new WindowBudget(this.clock, limits)
    this.connection = new MemoryConnection(() => undefined, { windows: this.budget })
    t.teardown(() => this.connection.pipe.destroy())
    this.connection.feed(Buffer.concat([Buffer.from(PREFACE), frame(SETTINGS, 0, 0)]))
    this.clock.advance(roundTrip)
    this.connection.feed(frame(SETTINGS, ACK, 0))
  }

  async open(stream: number, takes: boolean): Promise<Exchange> {
    const { exchanges } = this.connection
    this.connection.feed(post(stream))
    await eventually(() => exchanges.length === this.#sent.size + 1)
    const exchange = exchanges.at(-1) as Exchange
    if (takes) exchange.request.body.claim().resume()
    this.#sent.set(stream, 0)
    this.allowed.set(stream, STREAM_WINDOW)
    return exchange
  }

  /** Sends what the window allows, `most` bytes of it, and waits for a round trip; the bytes that left. */
  async send(stream: number, most: number): Promise<number> {
    const sent = this.#sent.get(stream) as number
    const bytes = Math.min(most, (this.allowed.get(stream) as number) - sent)
    for (let left = bytes; left > 0; left -= 16_384)
      this.connection.feed(frame(DATA, 0, stream, Buffer.alloc(Math.min(left, 16_384))))
    this.#sent.set(stream, sent + bytes)
    for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate)
    this.clock.advance(this.#roundTrip)
    this.allowed.set(stream, STREAM_WINDOW + updatesOf(this.connection, stream).reduce((sum, one) => sum + one, 0))
    return bytes
  }

  /** What the stream may send that was not read. */
  window(stream: number): number {
    return (this.allowed.get(stream) as number) - (this.#sent.get(stream) as number)
  }
}

const MIB = 1024 * 1024

t.test('the window of an upload grows with its path, so that any round trip is waited for a few times', async (t) => {
  for (const roundTrip of [1, 20, 100, 800]) {
    const sender = new FarSender(t, roundTrip, { stream: 4 * MIB, total: 64 * MIB })
    await sender.open(1, true)
    let rounds = 0
    for (let left = 4 * MIB; left > 0; rounds++) left -= await sender.send(1, left)
    t.ok(rounds <= 4, `${rounds} rounds of ${roundTrip} ms for 4 MiB`)
  }
})

t.test('a window grows no further than its option, the share of its connection and the memory of all', async (t) => {
  const largest = async (limits: { readonly stream: number; readonly total: number }, streams: number) => {
    const sender = new FarSender(t, 100, limits)
    const ids = Array.from({ length: streams }, (_, i) => 1 + 2 * i)
    for (const id of ids) await sender.open(id, true)
    for (let round = 0; round < 6; round++) for (const id of ids) await sender.send(id, 5 * MIB)
    return { sender, windows: ids.map((id) => sender.window(id)) }
  }
  t.same((await largest({ stream: STREAM_WINDOW, total: 64 * MIB }, 1)).windows, [STREAM_WINDOW], 'it does not grow')
  t.same((await largest({ stream: 2 * MIB, total: 64 * MIB }, 2)).windows, [2 * MIB, 2 * MIB], 'the option')
  t.same((await largest({ stream: 4 * MIB, total: MIB }, 1)).windows, [MIB + STREAM_WINDOW], 'the memory of all')
  const { sender, windows } = await largest({ stream: 4 * MIB, total: 64 * MIB }, 4)
  const grown = windows.reduce((sum, window) => sum + window - STREAM_WINDOW, 0)
  t.equal(grown, 8 * MIB, 'half of the window of the connection is left to streams that begin')
  t.equal(sender.budget.take(STREAM_WINDOW, 100 * MIB), 3 * STREAM_WINDOW)
  sender.budget.giveBack(3 * STREAM_WINDOW)
  // What ends gives its growth back: by its own end, a reset, the end of the connection.
  sender.budget.total = 8 * MIB
  t.equal(sender.budget.take(STREAM_WINDOW, 100 * MIB), 0)
  sender.connection.feed(frame(DATA, END_STREAM, 1))
  sender.connection.feed(frame(RST_STREAM, 0, 3, RESET))
  await eventually(() => sender.connection.exchanges[0]?.request.body.trailers !== undefined)
  t.equal(sender.budget.take(STREAM_WINDOW, 100 * MIB), 3 * STREAM_WINDOW)
  sender.budget.giveBack(3 * STREAM_WINDOW)
  sender.connection.pipe.destroy()
  await eventually(() => sender.connection.gone === 1)
  sender.budget.stream = 64 * MIB
  t.equal(sender.budget.take(8 * MIB, 100 * MIB), 8 * MIB, 'all was given back')
})

t.test('a body that is read more slowly than a window for each round trip lets none grow', async (t) => {
  const sender = new FarSender(t, 100, { stream: 4 * MIB, total: 64 * MIB })
  const { request } = await sender.open(1, false)
  const reader = request.body.claim()
  for (let round = 0; round < 30; round++) {
    await sender.send(1, 4 * MIB)
    sender.clock.advance(400)
    // All at once, as a socket takes it that has drained.
    while (reader.read() !== null);
    await new Promise(setImmediate)
    while (reader.read() !== null);
    await sender.send(1, 0)
    t.ok(sender.window(1) <= STREAM_WINDOW, `${sender.window(1)} bytes in round ${round}`)
  }
  // One that nobody reads has its first window, however long it takes.
  await sender.open(3, false)
  for (let round = 0; round < 5; round++) await sender.send(3, 4 * MIB)
  t.equal(sender.window(3), 0)
  t.end()
})

t.test('a smaller initial window makes windows negative, and they come back', async (t) => {
  const large = async (exchange: Exchange): Promise<void> => {
    await exchange.respond({ status: 200, headers: [] }, Buffer.alloc(3000))
  }
  const connection = start(t, large, initialWindow(1000))
  connection.feed(get(1))
  await eventually(() => contentOf(connection, 1) === 1000)
  connection.feed(frame(SETTINGS, 0, 0, initialWindow(0)))
  connection.feed(frame(WINDOW_UPDATE, 0, 1, u32(1000)))
  connection.feed(frame(PING, 0, 0, 'h2 alive'))
  await eventually(() => connection.sent.all().some(({ type }) => type === PING))
  t.equal(contentOf(connection, 1), 1000, 'the window is 0 now')
  connection.feed(frame(WINDOW_UPDATE, 0, 1, u32(500)))
  await eventually(() => contentOf(connection, 1) === 1500)
  connection.feed(frame(SETTINGS, 0, 0, initialWindow(5000)))
  await eventually(() => ended(connection, 1))
  t.equal(contentOf(connection, 1), 3000)
})

t.test('streams take turns', async (t) => {
  const large = async (exchange: Exchange): Promise<void> => {
    await exchange.respond({ status: 200, headers: [] }, Buffer.alloc(60_000))
  }
  const connection = start(t, large, initialWindow(1_000_000))
  connection.feed(frame(WINDOW_UPDATE, 0, 0, u32(1_000_000)))
  connection.feed(Buffer.concat([get(1), get(3), get(5)]))
  await eventually(() => [1, 3, 5].every((stream) => ended(connection, stream)))
  const order = connection.sent.all().flatMap(({ type, stream }) => (type === DATA ? [stream] : []))
  t.same(order.slice(0, 6), [1, 3, 5, 1, 3, 5])
})

t.test('a client that reads nothing is not read either, and gets everything when it does', async (t) => {
  const answer = async (exchange: Exchange): Promise<void> => {
    await exchange.respond({ status: 200, headers: ['x-large', Math.random().toString().repeat(300)] })
  }
  const asked = 400
  const connection = start(t, answer, undefined, asked)
  await new Promise(setImmediate)
  connection.pipe.reads = false
  for (let i = 0; i < asked; i++) {
    connection.feed(get(1 + 2 * i))
    if (i % 20 === 0) await new Promise(setImmediate)
  }
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate)
  const before = connection.exchanges.length
  t.ok(before < 200, `${before} requests were served`)
  t.ok(connection.pipe.writableLength < 2_000_000, `${connection.pipe.writableLength} bytes wait`)
  connection.pipe.readAll()
  await eventually(() => connection.exchanges.length === asked)
  await eventually(() => ended(connection, 2 * asked - 1))
  t.equal(connection.exchanges.length, asked)
  t.same(connection.refused, [])
})

t.test('floods of frames that bring nothing end the session', async (t) => {
  const floods: Readonly<Record<string, Buffer>> = {
    PING: frame(PING, 0, 0, '12345678'),
    SETTINGS: frame(SETTINGS, 0, 0),
    PRIORITY: frame(PRIORITY, 0, 101, Buffer.alloc(5)),
    'empty DATA': frame(DATA, 0, 1),
    'RST_STREAM on a stream that has ended': frame(RST_STREAM, 0, 3, RESET)
  }
  for (const [what, one] of Object.entries(floods)) {
    const connection = start(t, (exchange) => (exchange.request.method === 'GET' ? ok(exchange) : undefined))
    connection.feed(Buffer.concat([post(1), get(3)]))
    await eventually(() => ended(connection, 3))
    connection.feed(Buffer.concat(Array.from({ length: 1100 }, () => one)))
    await eventually(() => connection.sent.goaway !== undefined)
    t.equal(connection.sent.goaway, ENHANCE_YOUR_CALM, what)
    t.same(connection.refused, [{ status: 429, why: 'client-malformed' }], what)
    t.ok(connection.sent.all().filter(({ type }) => type === PING || type === SETTINGS).length <= 1010, what)
  }
})

t.test('a client that does not acknowledge SETTINGS loses its session', async (t) => {
  const connection = new MemoryConnection(() => undefined)
  t.teardown(() => connection.pipe.destroy())
  connection.feed(Buffer.concat([Buffer.from(PREFACE), frame(SETTINGS, 0, 0), get(1)]))
  await eventually(() => connection.exchanges.length === 1)
  connection.clock.advance(29_000)
  connection.served.checkDeadlines(connection.clock.monotonic())
  t.equal(connection.sent.goaway, undefined)
  connection.clock.advance(1_001)
  connection.served.checkDeadlines(connection.clock.monotonic())
  await eventually(() => connection.sent.goaway !== undefined)
  t.equal(connection.sent.goaway, SETTINGS_TIMEOUT)
  t.equal(connection.exchanges[0]?.signal.aborted, 'client-timeout')
})

t.test('a session that failed is gone within a second', async (t) => {
  const connection = start(t, () => undefined)
  connection.feed(Buffer.concat([get(1), frame(DATA, 0, 0, 'x')]))
  await eventually(() => connection.sent.goaway !== undefined)
  const before = performance.now()
  await eventually(() => connection.gone === 1)
  t.ok(performance.now() - before < 1000)
  t.same(connection.refused, [{ status: 400, why: 'client-malformed' }])
})

t.test('a stream that is reset with its head makes no work', async (t) => {
  const connection = start(t)
  connection.feed(Buffer.concat([get(1), frame(RST_STREAM, 0, 1, RESET), get(3)]))
  await eventually(() => ended(connection, 3))
  t.equal(connection.exchanges.length, 1)
})

t.test('what comes behind the last GOAWAY is not served, and its fields are still decoded', async (t) => {
  const connection = start(t, (exchange) => (exchange.request.target === '/' ? undefined : ok(exchange)))
  connection.feed(post(1))
  await eventually(() => connection.exchanges.length === 1)
  connection.served.drain(1000)
  await eventually(() => connection.sent.all().some(({ type }) => type === PING))
  const ping = connection.sent.all().find(({ type }) => type === PING)
  connection.feed(frame(PING, ACK, 0, ping?.payload))
  const told = () =>
    connection.sent.all().flatMap(({ type, payload }) => (type === GOAWAY ? [payload.readUInt32BE(0)] : []))
  await eventually(() => told().length === 2)
  connection.feed(Buffer.concat([post(3), frame(DATA, END_STREAM, 3, 'x'), frame(DATA, END_STREAM, 1, 'y')]))
  await connection.exchanges[0]?.respond({ status: 200, headers: [] })
  await eventually(() => connection.pipe.writableEnded)
  t.same(told(), [2 ** 31 - 1, 1])
  t.equal(connection.exchanges.length, 1)
  t.equal(connection.sent.resetOf(3), undefined)
})

t.test('content that waits is joined, however small the pieces are in which it came', async (t) => {
  const connection = start(
    t,
    async (exchange) => {
      await exchange.respond(
        { status: 200, headers: [] },
        Readable.from(Array.from({ length: 20_000 }, (_, i) => Buffer.from([i])))
      )
    },
    initialWindow(0)
  )
  connection.feed(get(1))
  await eventually(() => connection.sent.all().some(({ type }) => type === HEADERS))
  // Every piece is given before the first can leave.
  await new Promise((resolve) => setTimeout(resolve, 200))
  connection.feed(frame(WINDOW_UPDATE, 0, 1, u32(60_000)))
  await eventually(() => ended(connection, 1))
  const frames = connection.sent.all().filter(({ type, stream }) => type === DATA && stream === 1)
  t.same(Buffer.concat(frames.map(({ payload }) => payload)), Buffer.from(Array.from({ length: 20_000 }, (_, i) => i)))
  t.ok(frames.length < 40, `${frames.length} frames`)
})
