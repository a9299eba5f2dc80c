import t from 'tap'
import type { Exchange } from '../../src/flow/exchange.js'
import { random } from '../features/rate-limit/limiter/support/random.js'
import { MemoryConnection } from './http2-memory.js'
import { huffmanBlock } from './huffman-block.js'
import {
  ACK,
  block,
  CONTINUATION,
  DATA,
  END_HEADERS,
  END_STREAM,
  frame,
  GOAWAY,
  HEADERS,
  PADDED,
  PING,
  PREFACE,
  PRIORITY,
  SETTINGS,
  WITH_PRIORITY
} from './raw-frames.js'

/** Frames by chance: what is allowed means the same however it is cut, and what is not harms nobody. */

interface Request {
  readonly path: string
  readonly fields: readonly (readonly [string, string])[]
  readonly body: string
  readonly trailers: readonly (readonly [string, string])[]
}

type Below = (most: number) => number

function text(below: Below, most: number): string {
  return Array.from({ length: below(most) }, () => String.fromCharCode(0x61 + below(26))).join('')
}

function request(below: Below): Request {
  const pairs = (most: number) =>
    Array.from({ length: below(most) }, () => [`x-${text(below, 6)}`, text(below, 100)] as const)
  const body = below(2) === 0 ? '' : text(below, 3000)
  return { path: `/${text(below, 30)}`, fields: pairs(8), body, trailers: below(3) === 0 ? pairs(3) : [] }
}

/** A block in HEADERS and CONTINUATION, sometimes with padding and a priority. */
function headers(below: Below, stream: number, flags: number, bytes: Buffer): Buffer[] {
  const cuts = Array.from({ length: below(3) }, () => below(bytes.length + 1)).sort((a, b) => a - b)
  const parts = [...cuts, bytes.length].map((end, i) => bytes.subarray(cuts[i - 1] ?? 0, end))
  return parts.map((part, i) => {
    const last = i === parts.length - 1 ? END_HEADERS : 0
    if (i > 0) return frame(CONTINUATION, last, stream, part)
    const padding = below(2) === 0 ? below(20) : -1
    const priority = below(3) === 0 ? Buffer.from([0, 0, 0, 0, below(256)]) : Buffer.alloc(0)
    const more = (padding >= 0 ? PADDED : 0) | (priority.length > 0 ? WITH_PRIORITY : 0)
    const head = padding >= 0 ? Buffer.from([padding]) : Buffer.alloc(0)
    return frame(
      HEADERS,
      flags | last | more,
      stream,
      Buffer.concat([head, priority, part, Buffer.alloc(Math.max(0, padding))])
    )
  })
}

/** The frames of one request, in their order. */
function framesOf(below: Below, stream: number, { path, fields, body, trailers }: Request): Buffer[][] {
  const encode = below(2) === 0 ? block : huffmanBlock
  const pseudo: (readonly [string, string])[] = [
    [':method', 'POST'],
    [':scheme', 'https'],
    [':authority', 'a.test'],
    [':path', path]
  ]
  const only = body === '' && trailers.length === 0 && below(2) === 0
  // A block must not be torn apart by other frames.
  const frames: Buffer[][] = [
    [Buffer.concat(headers(below, stream, only ? END_STREAM : 0, encode([...pseudo, ...fields])))]
  ]
  for (let at = 0; at < body.length; ) {
    const size = 1 + below(1000)
    const padding = below(4) === 0 ? below(30) : -1
    const content = Buffer.from(body.slice(at, at + size), 'latin1')
    const padded = [Buffer.from([padding & 0xff]), content, Buffer.alloc(Math.max(0, padding))]
    frames.push([padding < 0 ? frame(DATA, 0, stream, content) : frame(DATA, PADDED, stream, Buffer.concat(padded))])
    at += size
  }
  if (only) return frames
  if (trailers.length > 0) frames.push([Buffer.concat(headers(below, stream, END_STREAM, encode(trailers)))])
  else frames.push([frame(DATA, END_STREAM, stream)])
  return frames
}

/** Some requests, whose frames go between each other and between others that mean nothing. */
function conversation(below: Below): { requests: Request[]; bytes: Buffer } {
  const requests = Array.from({ length: 1 + below(6) }, () => request(below))
  const queues = requests.map((one, i) => framesOf(below, 1 + 2 * i, one))
  const all: Buffer[] = [Buffer.from(PREFACE), frame(SETTINGS, 0, 0)]
  let opened = 0
  while (queues.some((queue) => queue.length > 0)) {
    // Streams begin in the order of their ids.
    const ready = queues.flatMap((queue, i) => (queue.length > 0 && i <= opened ? [i] : []))
    const at = ready[below(ready.length)] as number
    if (at === opened) opened++
    all.push(...(queues[at]?.shift() ?? []))
    if (below(8) === 0) all.push(frame(0x42, below(256), below(20), text(below, 20)))
    if (below(8) === 0) all.push(frame(PING, 0, 0, '12345678'))
    if (below(8) === 0) all.push(frame(PRIORITY, 0, 101, Buffer.alloc(5)))
    if (below(8) === 0) all.push(frame(SETTINGS, ACK, 0))
  }
  return { requests, bytes: Buffer.concat(all) }
}

/** Feeds `bytes`, cut at random places; what reached the handler. */
async function talk(bytes: Buffer, below: Below): Promise<{ connection: MemoryConnection; got: unknown[] }> {
  const got: unknown[] = []
  const read = async (exchange: Exchange): Promise<void> => {
    const { target, headers: list, body } = exchange.request
    const place = got.push(undefined) - 1
    const content = await body.buffer(1_000_000).catch(() => 'broken')
    got[place] = [target, list, typeof content === 'string' ? content : Buffer.from(content).toString(), body.trailers]
    await exchange.respond({ status: 200, headers: [] }, Buffer.from('ok'))
  }
  const connection = new MemoryConnection(read)
  for (let at = 0; at < bytes.length; ) {
    const end = Math.min(bytes.length, at + 1 + below(below(3) === 0 ? 5 : 2000))
    connection.feed(bytes.subarray(at, end))
    at = end
    if (below(4) === 0) await new Promise(setImmediate)
  }
  for (let turn = 0; turn < 6; turn++) await new Promise(setImmediate)
  return { connection, got }
}

t.test('what is allowed means the same however its bytes are cut', async (t) => {
  const next = random(9113)
  const below: Below = (most) => Math.floor(next() * most)
  for (let round = 0; round < 150; round++) {
    const { requests, bytes } = conversation(below)
    const { connection, got } = await talk(bytes, below)
    const wanted = requests.map(({ path, fields, body, trailers }) => [
      path,
      ['host', 'a.test', ...fields.flat()],
      body,
      trailers.flat()
    ])
    t.same(got, wanted, `round ${round}`)
    t.same(
      connection.sent.all().filter(({ type }) => type === GOAWAY),
      []
    )
    for (let stream = 1; stream < 2 * requests.length; stream += 2) {
      t.equal(connection.sent.resetOf(stream), undefined)
      t.ok(connection.sent.all().some((one) => one.stream === stream && (one.flags & END_STREAM) !== 0))
    }
    connection.pipe.destroy()
    await new Promise(setImmediate)
    t.equal(connection.gone, 1)
  }
})

t.test('bytes that were changed by chance end their stream or the connection, and leave nothing behind', async (t) => {
  const next = random(540)
  const below: Below = (most) => Math.floor(next() * most)
  let ended = 0
  for (let round = 0; round < 400; round++) {
    const { bytes } = conversation(below)
    for (let changes = 1 + below(4); changes > 0; changes--) {
      const at = PREFACE.length + below(bytes.length - PREFACE.length)
      bytes[at] = below(2) === 0 ? below(256) : (bytes[at] as number) ^ (1 << below(8))
    }
    const { connection } = await talk(bytes, below)
    const goaway = connection.sent.goaway
    if (goaway !== undefined) {
      ended++
      t.ok(goaway > 0, `round ${round}: GOAWAY ${goaway}`)
      t.ok(connection.pipe.writableEnded, 'and the end of the connection')
    }
    connection.pipe.destroy()
    await new Promise(setImmediate)
    t.equal(connection.gone, 1)
    for (const exchange of connection.exchanges) {
      const { aborted } = exchange.signal
      t.ok(
        aborted === undefined ? exchange.request.body.trailers !== undefined : /^client-/.test(aborted),
        aborted ?? ''
      )
    }
  }
  t.ok(ended > 50 && ended < 390, `${ended} of 400 connections ended`)
})
