import t from 'tap'
import { BufferPool } from '../../src/transport/lent-buffer.js'

t.test('a buffer is used again after all writers have returned it and its owner has left it', async (t) => {
  const pool = new BufferPool(16, 4)
  const first = pool.take()
  t.ok(first.reusable)
  const [one, other] = [first.lend(), first.lend()]
  t.notOk(first.reusable)
  one()
  other()
  t.ok(first.reusable, 'its owner may fill it again')
  const last = first.lend()
  first.leave()
  t.not(pool.take(), first, 'a writer still needs it')
  last()
  t.equal(pool.take(), first)
  t.ok(first.reusable)
  first.leave()
  t.equal(pool.take(), first, 'again')
})

t.test('a buffer of which a part was given away is never used again', async (t) => {
  const pool = new BufferPool(16, 4)
  const buffer = pool.take()
  const written = buffer.lend()
  buffer.keep()
  buffer.leave()
  written()
  t.notOk(buffer.reusable)
  t.not(pool.take(), buffer)
})

t.test('a pool holds no more than it may', async (t) => {
  const pool = new BufferPool(16, 1)
  const [first, second] = [pool.take(), pool.take()]
  first.leave()
  second.leave()
  t.equal(pool.take(), first)
  t.not(pool.take(), second)
})
