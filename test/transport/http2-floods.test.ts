import { readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { codecBack } from '../../src/transport/http1/forwarding.js'
import { codecServerTransport } from '../../src/transport/http1/server.js'
import { FloodWatch } from '../../src/transport/http2/flood-watch.js'
import { random } from '../features/rate-limit/limiter/support/random.js'
import { fixture } from '../helpers/files.js'
import { heldMemory } from '../helpers/memory.js'
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
  HEADERS,
  PING,
  PROTOCOL_ERROR,
  RESET,
  RST_STREAM,
  SETTINGS
} from './raw-frames.js'
import { bench, eventually, type Make } from './suite/harness.js'

const at = (name: string) => readFileSync(fixture(`engine/${name}`), 'utf8')
const h2 = { cert: at('upstream.crt'), key: at('upstream.key') }
const make: Make = (parts) => ({ front: codecServerTransport(parts), back: codecBack(parts), h2 })

async function start(t: Test): Promise<Frames & { bench: Awaited<ReturnType<typeof bench>> }> {
  const running = await bench(t, make, { limits: { headTimeout: 10_000, keepAlive: 10_000 } })
  const frames = new Frames(running.listening.address.port)
  t.teardown(() => frames.socket.destroy())
  frames.start()
  return Object.assign(frames, { bench: running })
}

t.test('malformed requests are reset and never reach anybody', async (t) => {
  const without = (name: string) => GET.filter(([one]) => one !== name)
  const bad: Readonly<Record<string, readonly (readonly [string, string])[]>> = {
    'an upper-case name': [...GET, ['X-Up', '1']],
    'a field of a connection': [...GET, ['connection', 'close']],
    'an encoding': [...GET, ['transfer-encoding', 'chunked']],
    'keep-alive': [...GET, ['keep-alive', '5']],
    'an upgrade': [...GET, ['upgrade', 'h2c']],
    'te with more than trailers': [...GET, ['te', 'gzip']],
    'no method': without(':method'),
    'no scheme': without(':scheme'),
    'no path': without(':path'),
    'an empty path': [...without(':path'), [':path', '']],
    'a pseudo-header twice': [...GET, [':path', '/b']],
    'an unknown pseudo-header': [...GET, [':x', '1']],
    'one of an answer': [...GET, [':status', '200']],
    'a pseudo-header behind a field': [...without(':path'), ['x', '1'], [':path', '/']],
    'a length that does not fit': [...GET, ['content-length', '5']],
    'two lengths': [...GET, ['content-length', '0'], ['content-length', '0']]
  }
  const frames = await start(t)
  let stream = 1
  for (const [what, fields] of Object.entries(bad)) {
    frames.send(frame(HEADERS, END_HEADERS | END_STREAM, stream, block(fields)))
    const id = stream
    await eventually(() => frames.over || frames.resetOf(id) !== undefined)
    t.equal(frames.resetOf(id), PROTOCOL_ERROR, what)
    stream += 2
  }
  t.notOk(frames.over, 'the session lives')
  t.same(frames.bench.exchanges, [])
})

t.test('a value that cannot be one ends its stream', async (t) => {
  const frames = await start(t)
  for (const [i, value] of ['a\r\nb: c', 'a\0b', 'a\nb'].entries()) {
    const stream = 1 + 2 * i
    frames.send(frame(HEADERS, END_HEADERS | END_STREAM, stream, block([...GET, ['x', value], ['y', '1']])))
    await eventually(() => frames.over || frames.resetOf(stream) !== undefined)
    t.equal(frames.resetOf(stream), PROTOCOL_ERROR, JSON.stringify(value))
  }
  t.same(frames.bench.refused, Array(3).fill({ status: 400, why: 'client-malformed' }))
  t.same(frames.bench.exchanges, [])
})

t.test('broken sessions end with GOAWAY', async (t) => {
  const headers = (stream: number, flags = END_HEADERS | END_STREAM) => frame(HEADERS, flags, stream, block(GET))
  const broken: Readonly<Record<string, Buffer[]>> = {
    'an even stream': [headers(2)],
    'DATA on no stream': [frame(DATA, 0, 0, 'x')],
    'DATA on an idle stream': [frame(DATA, 0, 7, 'x')],
    'a frame too large': [frame(DATA, 0, 1, 'x'.repeat(16_385))],
    'a CONTINUATION of nothing': [frame(CONTINUATION, END_HEADERS, 1, block(GET))],
    'another frame inside a block': [headers(1, END_STREAM), frame(PING, 0, 0, '12345678')],
    'a PING of a wrong size': [frame(PING, 0, 0, '1')],
    'SETTINGS on a stream': [frame(SETTINGS, 0, 1)],
    'a block that cannot be decoded': [
      frame(HEADERS, END_HEADERS | END_STREAM, 1, Buffer.from([0xff, 0xff, 0xff, 0xff, 0xff]))
    ],
    'endless CONTINUATION': [
      headers(1, END_STREAM),
      ...Array.from({ length: 50 }, () => frame(CONTINUATION, 0, 1, block([['x', 'y']])))
    ]
  }
  for (const [what, bytes] of Object.entries(broken)) {
    const frames = await start(t)
    frames.send(...bytes)
    let turns = 0
    await eventually(() => frames.over || ++turns > 20_000)
    t.ok((frames.goaway ?? 0) > 0, `${what}: ${frames.goaway}`)
    // Neither an end of the client nor a time-out is needed.
    await frames.bench.until(() => frames.bench.closed.length === 1)
    t.match(frames.bench.refused, [{ status: 400, why: 'client-malformed' }])
    await eventually(() => frames.over)
  }
  const plain = await bench(t, make)
  const other = new Frames(plain.listening.address.port)
  other.send(Buffer.from('GET / HTTP/1.1\r\nHost: a\r\n\r\n'))
  await eventually(() => other.over)
  await plain.until(() => plain.closed.length === 1)
})

t.test('a flood of resets ends the session before it makes work; a hundred do not', async (t) => {
  const storm = (from: number, count: number) =>
    Array.from({ length: count }, (_, i) => [
      frame(HEADERS, END_HEADERS | END_STREAM, from + 2 * i, block(GET)),
      frame(RST_STREAM, 0, from + 2 * i, RESET)
    ]).flat()
  const frames = await start(t)
  frames.send(...storm(1, 100))
  frames.send(frame(PING, 0, 0, '12345678'))
  await eventually(() => frames.over || frames.all().some(({ type, payload }) => type === PING && payload.length === 8))
  t.notOk(frames.over, 'a hundred')
  frames.send(...storm(201, 1))
  await eventually(() => frames.over)
  t.equal(frames.goaway, ENHANCE_YOUR_CALM)
  t.same(frames.bench.refused, [{ status: 429, why: 'client-reset-flood' }])
  await frames.bench.until(() => frames.bench.closed.length === 1)
  t.same(frames.bench.upstream.peers, [], 'no work was done')
})

t.test('a client that resets most of its streams slowly ends its session too', async (t) => {
  const frames = await start(t)
  let sent = 0
  while (!frames.over && sent < 400) {
    const stream = 1 + 2 * sent++
    frames.send(
      frame(HEADERS, END_HEADERS | END_STREAM, stream, block(GET)),
      frame(RST_STREAM, 0, stream, RESET),
      frame(PING, 0, 0, '12345678')
    )
    const wanted = sent
    await eventually(() => frames.over || frames.all().filter(({ type }) => type === PING).length === wanted)
    frames.bench.clock.advance(50)
  }
  t.equal(sent, 101)
  t.equal(frames.goaway, ENHANCE_YOUR_CALM)
})

t.test('a flood of PING or SETTINGS ends the session', async (t) => {
  for (const [what, one] of [
    ['PING', frame(PING, 0, 0, '12345678')],
    ['SETTINGS', frame(SETTINGS, 0, 0)]
  ] as const) {
    const frames = await start(t)
    frames.send(...Array.from({ length: 1500 }, () => one))
    await eventually(() => frames.over)
    t.same(frames.bench.refused, [{ status: 429, why: 'client-malformed' }], what)
    await frames.bench.until(() => frames.bench.closed.length === 1)
  }
})

t.test('resets that the client provokes count as its own', async (t) => {
  const frames = await start(t)
  for (let i = 0; i < 101; i++) {
    const stream = 1 + 2 * i
    // More than was announced is an error of the stream (RFC 9113 8.1.1), and its reset is ours.
    const head = block([...GET, ['content-length', '1']])
    frames.send(frame(HEADERS, END_HEADERS, stream, head), frame(DATA, 0, stream, 'xx'))
  }
  await eventually(() => frames.over)
  t.same(frames.bench.refused, [{ status: 429, why: 'client-reset-flood' }])
  await frames.bench.until(() => frames.bench.closed.length === 1)
})

t.test('single bytes of bodies that are not read take memory in proportion', async (t) => {
  const running = await bench(t, make, { exchange: () => undefined })
  const frames = new Frames(running.listening.address.port)
  t.teardown(() => frames.socket.destroy())
  frames.start()
  const before = heldMemory()
  const [streams, bytes, step] = [8, 60_000, 1000]
  for (let stream = 1; stream < 2 * streams; stream += 2) {
    frames.send(frame(HEADERS, END_HEADERS, stream, block([...GET.slice(1), [':method', 'POST']])))
    const crumbs = Buffer.concat(Array.from({ length: step }, () => frame(DATA, 0, stream, 'x')))
    for (let sent = 0; sent < bytes; sent += step) frames.socket.write(crumbs)
  }
  frames.send(frame(PING, 0, 0, '12345678'))
  await eventually(() => frames.all().some(({ type, flags }) => type === PING && flags === ACK))
  t.equal(running.exchanges.length, streams)
  const taken = heldMemory() - before
  t.ok(taken < 20_000_000, `${taken} bytes for ${streams * bytes} that wait`)
})

t.test('a silent session is asked for a sign of life, and given up without one', async (t) => {
  const dead = await start(t)
  const { clock, upstream, exchanges, listening } = dead.bench
  const live = new Frames(listening.address.port)
  t.teardown(() => live.socket.destroy())
  live.start()
  const get = frame(HEADERS, END_HEADERS | END_STREAM, 1, block(GET))
  for (const one of [dead, live]) one.send(frame(SETTINGS, ACK, 0), get)
  const peers = [await upstream.next(), await upstream.next()]
  for (const peer of peers) await peer.request()
  const pings = (frames: Frames) => frames.all().filter(({ type }) => type === PING)
  const swept = async (): Promise<void> => await new Promise((resolve) => setTimeout(resolve, 600))
  await swept()
  t.equal(pings(live).length, 0, 'nobody is asked before')
  clock.advance(60_001)
  await eventually(() => pings(live).length === 1 && pings(dead).length === 1)
  t.equal(dead.over, false)
  live.send(frame(PING, ACK, 0, pings(live)[0]?.payload))
  await swept()
  clock.advance(59_000)
  await swept()
  t.equal(dead.over, false, 'not before')
  clock.advance(1_500)
  await eventually(() => exchanges.some(({ signal }) => signal.aborted !== undefined))
  await eventually(() => dead.over)
  t.same(exchanges.map(({ signal }) => signal.aborted).sort(), ['client-timeout', undefined])
  t.equal(live.over, false)
  t.equal(upstream.peers.filter(({ ended }) => ended).length, 1)
})

t.test('no more than so many events pass in any second, however they come', async (t) => {
  const next = random(9113)
  for (let round = 0; round < 20; round++) {
    const floods = new FloodWatch()
    const times: number[] = []
    // Bursts with pauses of up to two seconds between them; never so many resets of a block that these end the session.
    for (let event = 0, now = 0; event < 800; event++) {
      floods.stream()
      floods.stream()
      floods.stream()
      now += next() < 0.01 ? next() * 2000 : next() * 20
      times.push(now)
      const within = times.filter((time) => now - time < 1000).length
      t.equal(floods.reset(now), within > 100, `${within} within a second`)
    }
  }
})
