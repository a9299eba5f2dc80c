import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import t from 'tap'
import type { Failure, PieceLender } from '../../src/flow/exchange.js'
import { type BodySource, CodecBody } from '../../src/transport/http1/body.js'
import type { BodySink } from '../../src/transport/http1/held-bytes.js'
import { type Borrower, READ_BYTES, Wire } from '../../src/transport/http1/wire.js'
import { ignore } from '../../src/transport/pipes.js'

const SIZE = 10_000
const source: BodySource = { bodyWanted: ignore, pauseBody: ignore, resumeBody: ignore, bodyAbandoned: ignore }

/** A body, and the wire that it comes on: `push` fills the memory of all chunks, `endOfCall` ends their validity. */
function arriving() {
  const body = new CodecBody({ kind: 'open' }, source, 'upstream-gone')
  const chunk = Buffer.alloc(SIZE)
  let borrower: Borrower | undefined
  let kept = 0
  const wire = {
    keep(piece: Buffer, from: number, to: number) {
      kept++
      return Buffer.from(piece.subarray(from, to))
    },
    lend: () => undefined,
    borrow(by: Borrower) {
      borrower = by
    }
  } as unknown as Wire
  return {
    body,
    push(letter: string): void {
      chunk.fill(letter)
      body.push(chunk, 0, SIZE, wire)
    },
    endOfCall(): void {
      borrower?.keepBorrowed()
      borrower = undefined
      chunk.fill('-')
    },
    get kept() {
      return kept
    }
  }
}

/** Takes what a body sends. */
function sink(): BodySink & { text: () => void; readonly got: () => string; readonly why: () => Failure | undefined } {
  let got = ''
  let why: Failure | undefined
  return {
    text: (data?: string) => {
      got += data
    },
    chunk: (bytes: Buffer, from: number, to: number, _lender: PieceLender | undefined) => {
      got += bytes.toString('latin1', from, to)
    },
    flush: ignore,
    end: ignore,
    broke: (reason) => {
      why = reason
    },
    got: () => got,
    why: () => why
  }
}

t.test('a reader in the same call gets the first piece without a copy', async (t) => {
  const one = arriving()
  const to = sink()
  one.push('a')
  one.body.sendTo(to)
  one.endOfCall()
  t.equal(to.got(), 'a'.repeat(SIZE))
  t.equal(one.kept, 0)
})

t.test('a later reader gets the first piece as it came', async (t) => {
  const one = arriving()
  const to = sink()
  one.push('a')
  one.endOfCall()
  one.push('b')
  one.endOfCall()
  one.body.sendTo(to)
  t.equal(to.got(), 'a'.repeat(SIZE) + 'b'.repeat(SIZE))
  t.equal(one.kept, 2)
})

t.test('a body that is buffered holds bytes of its own', async (t) => {
  const one = arriving()
  one.push('a')
  const whole = one.body.buffer(SIZE)
  one.endOfCall()
  one.body.finish([])
  t.equal(Buffer.from(await whole).toString(), 'a'.repeat(SIZE))
})

t.test('a watcher of a first piece sees it, and it is sent once', async (t) => {
  const one = arriving()
  const to = sink()
  let seen = ''
  one.push('a')
  one.body.watch((chunk) => {
    seen += Buffer.from(chunk).toString()
  })
  one.endOfCall()
  one.body.sendTo(to)
  t.equal(seen, 'a'.repeat(SIZE))
  t.equal(to.got(), seen)
})

t.test('the first piece of a body that breaks in the same call stays as it came', async (t) => {
  const one = arriving()
  const to = sink()
  one.push('a')
  one.body.fail('upstream-malformed')
  one.endOfCall()
  one.body.sendTo(to)
  t.equal(to.got(), 'a'.repeat(SIZE))
  t.equal(to.why(), 'upstream-malformed')
})

t.test('a wire ends what was borrowed of its memory after each read, one borrower at a time', async (t) => {
  const server = createServer({ pauseOnConnect: true }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
  const [accepted] = (await once(server, 'connection')) as [Socket]
  const ended: string[] = []
  const borrower = (name: string): Borrower => ({ keepBorrowed: () => ended.push(name) })
  const read = new Promise<string>((resolve) => {
    const wire = new Wire(accepted, Buffer.alloc(READ_BYTES), {
      received() {
        wire.borrow(borrower('first'))
        t.same(ended, [])
        wire.borrow(borrower('second'))
        t.same(ended, ['first'])
        setImmediate(() => resolve(ended.join()))
      },
      drained: ignore,
      wireEnded: ignore,
      wireClosed: ignore
    })
    t.teardown(() => wire.destroy())
  })
  t.teardown(() => {
    client.destroy()
    server.close()
  })
  client.write('x')
  t.equal(await read, 'first,second')
})
