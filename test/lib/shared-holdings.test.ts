import t from 'tap'
import { clearHoldings, holdingsMemory, SharedHoldings } from '../../src/lib/shared-holdings.js'

/** Integers from 0 to below a number, the same for each seed (xorshift). */
function randomFrom(seed: number): (below: number) => number {
  let state = Math.imul(seed, 0x9e3779b1)
  return (below) => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) % below
  }
}

const THREADS = 3
const CLIENTS = ['192.0.2.1', '192.0.2.2', '192.0.2.3', '42:7']

t.test(
  'threads together never hold more than all or than one client may, and what is given back is free again',
  (t) => {
    for (let seed = 1; seed <= 200; seed++) {
      const memory = holdingsMemory(THREADS, seed)
      const threads = Array.from({ length: THREADS }, (_, i) => new SharedHoldings(memory, i))
      let held: { thread: number; client: string; bytes: number }[] = []
      const most = { total: 2_000, perClient: 900 }
      const sum = (of: (one: (typeof held)[number]) => boolean) =>
        held.filter(of).reduce((total, { bytes }) => total + bytes, 0)
      const random = randomFrom(seed)
      for (let i = 0; i < 80; i++) {
        const thread = random(THREADS)
        const client = CLIENTS[random(CLIENTS.length)] as string
        const bytes = 1 + random(700)
        const what = random(12)
        if (what === 0) {
          clearHoldings(memory, thread)
          threads[thread] = new SharedHoldings(memory, thread)
          held = held.filter((one) => one.thread !== thread)
        } else if (what < 4) {
          const one = held.find((other) => other.thread === thread)
          if (one === undefined) continue
          held = held.filter((other) => other !== one)
          threads[thread]?.give(one.client, one.bytes)
        } else {
          const full = threads[thread]?.take(client, bytes, most)
          const [all, own] = [sum(() => true) + bytes, sum((one) => one.client === client) + bytes]
          if (full === undefined) held.push({ thread, client, bytes })
          // Other threads are known to 16 bytes each.
          if (full === 'total' && all + 16 * THREADS <= most.total) t.fail(`seed ${seed}: ${all} bytes were refused`)
          if (full === 'client' && own + 16 * THREADS <= most.perClient) t.fail(`seed ${seed}: ${own} were refused`)
        }
        if (sum(() => true) > most.total) t.fail(`seed ${seed}: all hold too much`)
        if (CLIENTS.some((one) => sum((other) => other.client === one) > most.perClient))
          t.fail(`seed ${seed}: a client holds too much`)
        if (threads.some((one, place) => one.bytes !== sum((other) => other.thread === place)))
          t.fail(`seed ${seed}: a thread has lost count`)
      }
    }
    t.pass('200 runs')
    t.end()
  }
)

t.test('a thread alone is held to the byte', (t) => {
  const one = new SharedHoldings(holdingsMemory(2, 1), 1)
  const most = { total: 100, perClient: 60 }
  t.equal(one.take('a', 60, most), undefined)
  t.equal(one.take('a', 1, most), 'client')
  t.equal(one.take('b', 41, most), 'total')
  t.equal(one.take('b', 40, most), undefined)
  one.give('a', 1)
  t.equal(one.take('a', 1, most), undefined)
  t.equal(one.bytes, 100)
  t.end()
})
