import t from 'tap'
import { ByteQueue, compact, PIECE_OVERHEAD } from '../../src/lib/byte-queue.js'

const KIB = 1024

t.test('what comes out is what went in, however it was cut', async (t) => {
  let state = 7
  const below = (most: number) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0
    return (state >>> 8) % most
  }
  for (let round = 0; round < 200; round++) {
    const queue = new ByteQueue()
    const [given, taken]: [Buffer[], Buffer[]] = [[], []]
    for (let step = below(60); step >= 0; step--) {
      if (below(4) === 0) {
        const piece = queue.shift()
        if (piece !== undefined) taken.push(Buffer.from(piece))
      } else {
        const bytes = Buffer.alloc(below(3) === 0 ? below(40_000) : below(20), below(256))
        given.push(Buffer.from(bytes))
        queue.push(bytes)
      }
      const waiting = Buffer.concat(given).length - Buffer.concat(taken).length
      if (queue.length !== waiting) t.equal(queue.length, waiting)
      if (queue.memory < waiting) t.fail('it takes at least the bytes')
    }
    taken.push(queue.takeAll())
    if (!Buffer.concat(given).equals(Buffer.concat(taken))) t.fail(`round ${round}`)
    if (queue.length !== 0 || queue.memory !== 0) t.fail('an empty queue takes nothing')
  }
  t.pass()
})

t.test('memory is in proportion to the bytes', async (t) => {
  const crumbs = new ByteQueue()
  const one = Buffer.from('x')
  for (let i = 0; i < 1024 * KIB; i++) crumbs.push(one)
  t.ok(crumbs.memory < 1200 * KIB, `${crumbs.memory} bytes for a MiB of single bytes`)
  const scraps = new ByteQueue()
  for (let i = 0; i < 16; i++) scraps.push(Buffer.alloc(64 * KIB).subarray(0, 5 * KIB))
  t.ok(scraps.memory < 200 * KIB, `${scraps.memory} bytes for 16 parts of larger buffers`)
  const large = Buffer.alloc(64 * KIB)
  const whole = new ByteQueue()
  whole.push(large)
  t.equal(whole.memory, 64 * KIB + PIECE_OVERHEAD)
  t.equal(whole.shift(), large, 'large pieces are not copied')
  t.equal(whole.shift(), undefined)
})

t.test('a part of a large buffer is kept as a copy', async (t) => {
  const large = Buffer.alloc(64 * KIB, 'a')
  const kept = compact(large.subarray(0, 10))
  t.not(kept.buffer, large.buffer)
  t.equal(kept.toString(), 'aaaaaaaaaa')
  t.equal(compact(large), large)
})
