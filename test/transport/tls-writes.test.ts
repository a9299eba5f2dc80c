import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, connect as connectTcp, createServer as createTcpServer, type Socket } from 'node:net'
import { connect, createServer, type TLSSocket } from 'node:tls'
import t, { type Test } from 'tap'
import type { PieceLender } from '../../src/flow/exchange.js'
import { READ_BYTES, Wire, type WireOwner } from '../../src/transport/http1/wire.js'
import { ignore } from '../../src/transport/pipes.js'
import { fixture } from '../helpers/files.js'

const at = (path: string) => readFileSync(fixture(path), 'utf8')
const SIZE = 100_000

/** Both ends of a connection over TLS; `received` resolves with the text of `length` bytes at the client. */
async function connection(t: Test): Promise<{ server: TLSSocket; received: (length: number) => Promise<string> }> {
  const listening = createServer({ cert: at('engine/upstream.crt'), key: at('engine/upstream.key') })
  listening.listen(0, '127.0.0.1')
  await once(listening, 'listening')
  const { port } = listening.address() as AddressInfo
  const client = connect({ port, host: '127.0.0.1', rejectUnauthorized: false })
  const [server] = (await once(listening, 'secureConnection')) as [TLSSocket]
  t.teardown(() => {
    client.destroy()
    server.destroy()
    listening.close()
  })
  let text = ''
  client.setEncoding('latin1').on('data', (chunk: string) => {
    text += chunk
  })
  const received = async (length: number) => {
    while (text.length < length) await once(client, 'data')
    return text
  }
  return { server, received }
}

t.test('node encrypts the bytes of a write before it returns if no earlier write is pending', async (t) => {
  const { server, received } = await connection(t)
  const piece = Buffer.alloc(SIZE, 'a')
  server.write(piece)
  piece.fill('-')
  t.ok(server.writableLength > 0, 'the write is pending, and its memory is free')
  t.equal(await received(SIZE), 'a'.repeat(SIZE))
})

t.test('node encrypts the bytes of several writes together before they are uncorked', async (t) => {
  const { server, received } = await connection(t)
  const piece = Buffer.alloc(SIZE, 'b')
  server.cork()
  server.write('head', 'latin1')
  server.write(piece)
  server.uncork()
  piece.fill('-')
  t.equal(await received(SIZE + 4), `head${'b'.repeat(SIZE)}`)
})

const owner: WireOwner = { received: ignore, drained: ignore, wireEnded: ignore, wireClosed: ignore }

/** A lender whose memory is overwritten after each piece, unless it was kept or lent; counts how often. */
function lender(): PieceLender & { readonly counts: { kept: number; lent: number } } {
  const counts = { kept: 0, lent: 0 }
  return {
    counts,
    keep(piece, from, to) {
      counts.kept++
      return Buffer.from(piece.subarray(from, to))
    },
    lend() {
      counts.lent++
      return undefined
    }
  }
}

t.test('a wire over TLS borrows a piece only behind a pending write', async (t) => {
  const { server, received } = await connection(t)
  const wire = new Wire(server, Buffer.alloc(READ_BYTES), owner)
  const source = lender()
  const chunk = Buffer.alloc(SIZE)
  const forward = (letter: string, before = ''): void => {
    chunk.fill(letter)
    wire.forward(source, chunk, 0, SIZE, before)
    chunk.fill('-')
  }
  forward('c', 'first')
  t.same(source.counts, { kept: 0, lent: 0 }, 'encrypted at once, with the text')
  forward('d')
  t.same(source.counts, { kept: 0, lent: 1 }, 'the first write is pending: it is copied, since it is not lent')
  let expected = `first${'c'.repeat(SIZE)}${'d'.repeat(SIZE)}`
  t.equal(await received(expected.length), expected)
  wire.write('text')
  forward('e', 'more')
  t.same(source.counts, { kept: 0, lent: 1 }, 'text that waits for the end of the turn goes with it')
  expected += `textmore${'e'.repeat(SIZE)}`
  t.equal(await received(expected.length), expected)
})

t.test('a wire over TLS forwards after a flush', async (t) => {
  const { server, received } = await connection(t)
  const wire = new Wire(server, Buffer.alloc(READ_BYTES), owner)
  const source = lender()
  const chunk = Buffer.alloc(SIZE, 'f')
  wire.forward(source, chunk, 0, SIZE)
  const flushed = new Promise<void>((resolve) => {
    wire.flushed(() => {
      chunk.fill('h')
      wire.forward(source, chunk, 0, SIZE)
      chunk.fill('-')
      resolve()
    })
  })
  await flushed
  const expected = 'f'.repeat(SIZE) + 'h'.repeat(SIZE)
  t.equal(await received(expected.length), expected)
})

t.test(
  'a wire in clear text sends a piece that is not lent from memory of its own, with the text before it',
  async (t) => {
    const server = createTcpServer({ pauseOnConnect: true }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const client = connectTcp((server.address() as AddressInfo).port, '127.0.0.1')
    const [accepted] = (await once(server, 'connection')) as [Socket]
    const wire = new Wire(accepted, Buffer.alloc(READ_BYTES), owner)
    t.teardown(() => {
      wire.destroy()
      client.destroy()
      server.close()
    })
    const source = lender()
    const chunk = Buffer.alloc(SIZE)
    let expected = ''
    // More than the kernel takes at once while nothing is read.
    for (let i = 0; i < 100; i++) {
      const letter = String.fromCharCode(97 + (i % 26))
      chunk.fill(letter)
      wire.forward(source, chunk, 0, SIZE, `${i};`)
      chunk.fill('-')
      expected += `${i};${letter.repeat(SIZE)}`
    }
    t.ok(wire.congested)
    t.equal(source.counts.kept, 0)
    let text = ''
    client.setEncoding('latin1').on('data', (data: string) => {
      text += data
    })
    while (text.length < expected.length) await once(client, 'data')
    t.ok(text === expected, 'each piece as it was')
  }
)
