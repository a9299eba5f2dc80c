import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { Duplex } from 'node:stream'
import t from 'tap'
import {
  dataFrame,
  Flag,
  FrameReader,
  type FrameSink,
  goAwayFrame,
  resetFrame,
  WINDOW,
  windowIncrementFrame
} from '../../../src/capabilities/tunnel/protocol/frame.js'
import { MuxSession, type SessionEnd } from '../../../src/capabilities/tunnel/protocol/session.js'
import type { MuxStream } from '../../../src/capabilities/tunnel/protocol/stream.js'
import { heldMemory } from '../../helpers/memory.js'

/** Numbers from 0 to below `below`, the same for the same seed (mulberry32). */
function numbers(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}

/** One end of a connection that cuts what it carries into pieces of any size. */
class Cable extends Duplex {
  other: Cable | undefined = undefined
  readonly #cut: (below: number) => number

  constructor(cut: (below: number) => number) {
    super()
    this.#cut = cut
  }

  override _read(): void {
    // What comes is pushed.
  }

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    setImmediate(() => {
      for (let at = 0; at < chunk.length; ) {
        const end = at + 1 + this.#cut(this.#cut(4) === 0 ? 12 : 100_000)
        this.other?.push(chunk.subarray(at, end))
        at = end
      }
      done()
    })
  }

  override _final(done: () => void): void {
    this.other?.push(null)
    done()
  }
}

interface Pair {
  readonly server: MuxSession
  readonly agent: MuxSession
  readonly ends: Record<'server' | 'agent', SessionEnd | undefined>
  readonly pipes: readonly [Cable, Cable]
}

function pair(opened: (stream: MuxStream) => void, seed = 1): Pair {
  const cut = numbers(seed)
  const pipes = [new Cable(cut), new Cable(cut)] as const
  pipes[0].other = pipes[1]
  pipes[1].other = pipes[0]
  const ends: Pair['ends'] = { server: undefined, agent: undefined }
  const make = (role: 'server' | 'agent', pipe: Duplex) =>
    new MuxSession(pipe, {
      role,
      peerStreams: 64,
      owner: {
        opened: (stream) => {
          opened(stream)
          return true
        },
        closed: (end) => {
          ends[role] = end
        }
      }
    })
  return { server: make('server', pipes[0]), agent: make('agent', pipes[1]), ends, pipes }
}

t.test('single bytes that nobody reads take memory in proportion', async (t) => {
  const sent = { streams: 4, bytes: 250_000 }
  const { agent, pipes } = pair(() => undefined)
  const before = heldMemory()
  const crumbs: Buffer[] = []
  for (let id = 2; id <= 2 * sent.streams; id += 2) {
    crumbs.push(dataFrame(id, Flag.syn))
    for (let i = 0; i < sent.bytes; i++) crumbs.push(dataFrame(id, 0, Buffer.of(1)))
  }
  const all = Buffer.concat(crumbs)
  crumbs.length = 0
  pipes[1].push(all)
  while (agent.open < sent.streams) await new Promise(setImmediate)
  const taken = heldMemory() - before - all.length
  t.ok(taken < 20_000_000, `${taken} bytes for ${sent.streams * sent.bytes} that wait`)
})

t.test('a reader finds the same frames however the bytes are cut', async (t) => {
  const random = numbers(20)
  for (let round = 0; round < 300; round++) {
    const expected: string[] = []
    const bytes = Buffer.concat(
      Array.from({ length: 1 + random(12) }, () => {
        const id = 1 + random(1000)
        const number = random(0x7fff_ffff)
        switch (random(4)) {
          case 0:
            expected.push(`reset ${id} ${number}`)
            return resetFrame(id, number)
          case 1:
            expected.push(`credit ${id} ${number}`)
            return windowIncrementFrame(id, number)
          case 2:
            expected.push(`goaway ${id} ${number} text`)
            return goAwayFrame(id, number, 'text')
          default: {
            const body = Buffer.alloc(random(3) === 0 ? 0 : random(200), id)
            const flags = random(4)
            expected.push(`data ${id} ${flags} ${body.toString('hex')}`)
            return dataFrame(id, flags, body)
          }
        }
      })
    )
    const found: string[] = []
    let body = Buffer.alloc(0)
    let current = 0
    const sink: FrameSink = {
      data: (id) => {
        current = id
        body = Buffer.alloc(0)
        return true
      },
      body: (piece) => {
        body = Buffer.concat([body, piece])
      },
      end: (flags) => found.push(`data ${current} ${flags} ${body.toString('hex')}`),
      reset: (id, code) => found.push(`reset ${id} ${code}`),
      windowIncrement: (id, count) => found.push(`credit ${id} ${count}`),
      goAway: (last, code, message) => found.push(`goaway ${last} ${code} ${message}`),
      malformed: (_code, message) => found.push(`malformed ${message}`)
    }
    const reader = new FrameReader(sink)
    for (let at = 0; at < bytes.length; ) {
      const end = at + 1 + random(random(2) === 0 ? 3 : 300)
      reader.read(Buffer.from(bytes.subarray(at, end)))
      at = end
    }
    if (JSON.stringify(found) !== JSON.stringify(expected)) t.same(found, expected, `round ${round}`)
  }
  t.pass('300 rounds')
})

t.test('bytes stay whole on many streams both ways, whatever the chunks and the readers do', async (t) => {
  for (let seed = 1; seed <= 6; seed++) {
    const random = numbers(seed * 77)
    const { server, agent } = pair((stream) => {
      // Echoes, at times slowly, and ends when the other has ended.
      stream.on('data', (chunk: Buffer) => {
        if (!stream.write(chunk)) {
          stream.pause()
          stream.once('drain', () => stream.resume())
        }
        if (random(20) === 0) {
          stream.pause()
          setImmediate(() => stream.resume())
        }
      })
      stream.on('end', () => stream.end())
    }, seed)
    await Promise.all(
      Array.from({ length: 20 }, async (_, index) => {
        const stream = (index % 2 === 0 ? server : agent).openStream(Buffer.from('head'))
        if (stream === undefined) throw new Error('no stream')
        const sent = createHash('sha256').update('head')
        const sizes = Array.from({ length: 1 + random(8) }, () => random(random(3) === 0 ? 400_000 : 9000))
        const sending = (async () => {
          for (const size of sizes) {
            const chunk = Buffer.alloc(size, random(256))
            sent.update(chunk)
            if (!stream.write(chunk)) await once(stream, 'drain')
          }
          stream.end()
        })()
        const came = createHash('sha256')
        let bytes = 0
        for await (const chunk of stream) {
          came.update(chunk as Buffer)
          bytes += (chunk as Buffer).length
        }
        await sending
        t.equal(came.digest('hex'), sent.digest('hex'), `seed ${seed}, stream ${index}: ${bytes} bytes`)
      })
    )
    t.equal(server.open, 0, 'no stream is left')
    t.equal(agent.open, 0)
    server.close()
  }
})

t.test('a writer may use its buffer again when its write has ended', async (t) => {
  const { server } = pair((stream) => {
    stream.on('data', (chunk: Buffer) => {
      came.push(Buffer.from(chunk))
      seen?.()
    })
  })
  const came: Buffer[] = []
  let seen: (() => void) | undefined
  const stream = server.openStream(Buffer.from('x'))
  const buffer = Buffer.alloc(100_000)
  for (let round = 1; round <= 10; round++) {
    buffer.fill(round)
    await new Promise<void>((resolve) => stream?.write(buffer, () => resolve()))
  }
  buffer.fill(99)
  await new Promise<void>((resolve) => {
    seen = () => {
      if (came.reduce((sum, { length }) => sum + length, 0) === 1_000_001) resolve()
    }
    seen()
  })
  const all = Buffer.concat(came)
  for (let round = 1; round <= 10; round++) {
    const part = all.subarray(1 + (round - 1) * 100_000, 1 + round * 100_000)
    t.ok(
      part.every((byte) => byte === round),
      `round ${round}`
    )
  }
})

t.test('a reader that does not read stops its writer at the window, and no other', async (t) => {
  const streams: MuxStream[] = []
  const { server } = pair((stream) => streams.push(stream))
  const stuck = server.openStream(Buffer.from('1'))
  const other = server.openStream(Buffer.from('2'))
  if (stuck === undefined || other === undefined) throw new Error('no stream')
  stuck.write(Buffer.alloc(1_000_000))
  other.write(Buffer.alloc(100_000))
  other.end()
  while (streams.length < 2) await new Promise(setImmediate)
  const [held, free] = streams as [MuxStream, MuxStream]
  const got = Buffer.concat(await free.toArray())
  t.equal(got.length, 100_001)
  for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate)
  t.equal(held.received, WINDOW, 'exactly one window came')
  t.equal(held.receiveWindow, 0)
  t.equal(held.unread, WINDOW)
  let left = 1_000_001
  held.on('data', (chunk: Buffer) => {
    left -= chunk.length
  })
  while (left > 0) await new Promise(setImmediate)
  t.equal(left, 0, 'the rest follows when it reads')
})

t.test('an abort is no end', async (t) => {
  const streams: MuxStream[] = []
  const { server, agent } = pair((stream) => streams.push(stream))
  const ours = agent.openStream(Buffer.from('1'))
  while (streams.length < 1) await new Promise(setImmediate)
  const [theirs] = streams as [MuxStream]
  let ended = false
  theirs.on('end', () => {
    ended = true
  })
  theirs.resume()
  const closed = once(theirs, 'close').catch((error: Error) => error)
  ours?.destroy()
  await closed
  t.notOk(ended, 'what an agent breaks off does not look whole')
  t.match(theirs.errored, { code: 'TUNNEL_STREAM_RESET' })
  const again = server.openStream(Buffer.from('2'))
  while (streams.length < 2) await new Promise(setImmediate)
  const order: string[] = []
  streams[1]?.on('end', () => order.push('end'))
  streams[1]?.on('close', () => order.push('close'))
  streams[1]?.on('error', () => order.push('error'))
  streams[1]?.resume()
  again?.destroy()
  while (!order.includes('close')) await new Promise(setImmediate)
  t.ok(order.includes('error'), 'the server sends an end first and then a reset')
})

t.test('an agent that has said all and closes leaves its answer to a reader that is slow', async (t) => {
  for (const close of ['destroySoon', 'destroy'] as const) {
    const answer = Buffer.alloc(200_000, 'x')
    const { server, agent } = pair((stream) => {
      stream.resume()
      stream.end(answer, () => stream[close]())
    })
    const stream = server.openStream(Buffer.from('request'))
    if (stream === undefined) throw new Error('no stream')
    while (!stream.remoteEnded || agent.open > (close === 'destroy' ? 0 : 1)) await new Promise(setImmediate)
    // One more trip there and back: a reset would have come by then.
    for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate)
    const read = await stream.toArray()
    t.equal(Buffer.concat(read).length, answer.length, close)
    stream.end()
    while (server.open + agent.open > 0) await new Promise(setImmediate)
  }
})

t.test('a stream counts its bytes as a socket does', async (t) => {
  const { server } = pair((stream) => stream.end('answer'))
  const stream = server.openStream(Buffer.from('first'))
  if (stream === undefined) throw new Error('no stream')
  stream.cork()
  stream.write('12345')
  t.equal(stream.bytesWritten, 5, 'what waits is counted')
  stream.uncork()
  t.equal(String(Buffer.concat(await stream.toArray())), 'answer')
  t.same([stream.bytesRead, stream.bytesWritten], [6, 5])
  stream.destroy()
})

t.test('the end of a session breaks its streams off', async (t) => {
  const streams: MuxStream[] = []
  const { server, agent, ends } = pair((stream) => streams.push(stream))
  const ours = server.openStream(Buffer.from('1'))
  while (streams.length < 1) await new Promise(setImmediate)
  server.close(0, 'a test')
  t.ok(ours?.destroyed)
  t.match(ends.server, { by: 'us', code: 0, detail: 'a test' })
  while (ends.agent === undefined) await new Promise(setImmediate)
  t.match(ends.agent, { by: 'peer', code: 0 })
  t.match(streams[0]?.errored, { code: 'TUNNEL_SESSION_ENDED' })
  t.equal(server.openStream(Buffer.from('2')), undefined)
  t.equal(agent.openStream(Buffer.from('2')), undefined)
})

t.test('frames that break the rules', async (t) => {
  const cases: [name: string, bytes: Buffer][] = [
    ['a type that does not exist', Buffer.from([0, 0, 0, 0x70, 0, 0, 0, 5])],
    ['DATA on stream 0', dataFrame(0, Flag.syn)],
    ['GOAWAY on a stream', Buffer.concat([Buffer.from([0, 0, 8, 0x30, 0, 0, 0, 3]), Buffer.alloc(8)])],
    ['RST of 5 bytes', Buffer.from([0, 0, 5, 0, 0, 0, 0, 3])],
    ['GOAWAY of 7 bytes', Buffer.from([0, 0, 7, 0x30, 0, 0, 0, 0])],
    ['GOAWAY of 16 MiB', Buffer.from([0xff, 0xff, 0xff, 0x30, 0, 0, 0, 0])],
    ["a stream of the other side's parity", dataFrame(4, Flag.syn)],
    ['an id that goes back', Buffer.concat([dataFrame(7, Flag.syn), dataFrame(5, Flag.syn)])]
  ]
  for (const [name, bytes] of cases) {
    const { server, pipes, ends } = pair(() => undefined)
    pipes[0].push(bytes)
    while (ends.server === undefined) await new Promise(setImmediate)
    t.match(ends.server, { by: 'us' }, `${name}: ${ends.server.detail}`)
    t.ok(server.over)
  }
})
