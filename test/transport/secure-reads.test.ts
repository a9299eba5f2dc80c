import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, connect as connectTcp, createServer, type Socket } from 'node:net'
import { type Duplex, PassThrough } from 'node:stream'
import { connect, createServer as createTlsServer, type TLSSocket } from 'node:tls'
import t, { type Test } from 'tap'
import { readsIntoOwn } from '../../src/transport/http1/own-reads.js'
import { READ_BYTES, Wire, type WireOwner } from '../../src/transport/http1/wire.js'
import { fixture } from '../helpers/files.js'
import { eventually } from './suite/harness.js'

const at = (path: string) => readFileSync(fixture(path))
const SERVER = { cert: at('engine/upstream.crt'), key: at('engine/upstream.key') }
const RECORD = 16_384

/** A client of TLS, and the server's side, which nobody has read. */
async function connection(t: Test, allowHalfOpen = true): Promise<{ client: TLSSocket; secure: TLSSocket }> {
  const server = createTlsServer({ ...SERVER, allowHalfOpen }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const client = connect({ host: '127.0.0.1', port, rejectUnauthorized: false })
  client.on('error', () => undefined)
  const [secure] = (await once(server, 'secureConnection')) as [TLSSocket]
  t.teardown(() => {
    client.destroy()
    secure.destroy()
    server.close()
  })
  return { client, secure }
}

/** Reads a wire; `took` is called after each piece. */
class Reader implements WireOwner {
  readonly pieces: Buffer[] = []
  readonly shared = Buffer.alloc(READ_BYTES)
  /** Pieces that were read into the shared buffer. */
  direct = 0
  events: string[] = []
  readonly wire: Wire
  readonly #took: (wire: Wire) => void

  constructor(stream: Duplex, took: (wire: Wire) => void) {
    this.#took = took
    this.wire = new Wire(stream, this.shared, this)
  }

  received(chunk: Buffer, length: number): void {
    if (chunk === this.shared) this.direct++
    this.pieces.push(Buffer.from(chunk.subarray(0, length)))
    this.events.push('bytes')
    this.#took(this.wire)
  }

  drained(): void {
    this.events.push('drained')
  }

  wireEnded(): void {
    this.events.push('ended')
  }

  wireClosed(): void {
    this.events.push('closed')
  }
}

t.test('records that were decrypted after a pause wait for its end, in order and before the end', async (t) => {
  const { client, secure } = await connection(t)
  const reader = new Reader(secure, (wire) => wire.pause())
  const content = randomBytes(3 * RECORD)
  client.end(content)
  await eventually(() => reader.pieces.length === 1)
  t.ok(reader.direct === 1, 'no stream carried the first one')
  t.same(reader.events, ['bytes'])
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
  t.same(reader.events, ['bytes'], 'nothing comes to a paused reader')
  while (!reader.events.includes('ended')) {
    const before = reader.events.length
    reader.wire.resume()
    await eventually(() => reader.events.length > before)
  }
  t.ok(Buffer.concat(reader.pieces).equals(content))
  t.equal(reader.events.at(-1), 'ended')
  t.ok(reader.pieces.length >= 3, 'a piece for each record')
  t.ok(reader.wire.ended)
  reader.wire.end()
  await eventually(() => reader.events.includes('closed'))
})

t.test('what waits is lost with a connection that was cut', async (t) => {
  const { client, secure } = await connection(t)
  const reader = new Reader(secure, (wire) => wire.pause())
  client.write(randomBytes(3 * RECORD))
  await eventually(() => reader.pieces.length === 1)
  reader.wire.destroy()
  await eventually(() => reader.events.includes('closed'))
  reader.wire.resume()
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
  t.same(reader.events, ['bytes', 'closed'])
})

t.test('other streams are read as before', async (t) => {
  const onread = { buffer: () => Buffer.alloc(READ_BYTES), callback: () => true }
  t.notOk(readsIntoOwn(new PassThrough(), onread), 'a stream')
  const closing = await connection(t, false)
  t.notOk(readsIntoOwn(closing.secure, onread), 'one that closes at its end, with bytes that wait')
  const read = await connection(t)
  read.secure.unshift(Buffer.from('x'))
  t.notOk(readsIntoOwn(read.secure, onread), 'bytes that were read')
  const destroyed = await connection(t)
  destroyed.secure.destroy()
  t.notOk(readsIntoOwn(destroyed.secure, onread), 'a destroyed socket')
  const reader = new Reader(closing.secure, () => undefined)
  closing.client.write('ping')
  await eventually(() => String(Buffer.concat(reader.pieces)) === 'ping')
  t.equal(reader.direct, 0)
})

t.test('a buffer is not read into again before TLS has taken its bytes', async (t) => {
  const { client, secure } = await connection(t)
  const sink = new Reader(secure, () => undefined)
  const content = randomBytes(8 * 2 ** 20)
  const upstream = createServer((socket) => socket.end(content)).listen(0, '127.0.0.1')
  await once(upstream, 'listening')
  t.teardown(() => upstream.close())
  const from: Socket = connectTcp({ host: '127.0.0.1', port: (upstream.address() as AddressInfo).port })
  await once(from, 'connect')
  const shared = Buffer.alloc(READ_BYTES)
  const source: Wire = new Wire(from, shared, {
    received(chunk, length) {
      source.bulk = true
      // In two parts, as chunks of a body are.
      const middle = Math.floor(length / 3)
      sink.wire.forward(source, chunk, 0, middle)
      sink.wire.forward(source, chunk, middle, length)
      // It does not wait for the sink, so that writes queue up.
    },
    drained: () => undefined,
    wireEnded: () => sink.wire.end(),
    wireClosed: () => undefined
  })
  t.teardown(() => source.destroy())
  const hash = createHash('sha256')
  let bytes = 0
  for await (const chunk of client) {
    hash.update(chunk as Buffer)
    bytes += (chunk as Buffer).length
  }
  t.equal(bytes, content.length)
  t.equal(hash.digest('hex'), createHash('sha256').update(content).digest('hex'))
})
