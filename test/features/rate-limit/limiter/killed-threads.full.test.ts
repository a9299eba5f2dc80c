import { once } from 'node:events'
import { setImmediate as turnOfLoop } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import { LimiterTable } from '../../../../src/features/rate-limit/limiter/table.js'
import { clockOrigin, systemClock } from '../../../../src/lib/clock.js'
import { inspect } from './support/inspection.js'
import { random, whole } from './support/random.js'
import type { TakingData } from './taking-thread.js'

const LONG = process.env.SLUICE_TEST_LONG === '1'
const THREADS = 3
const RATE = 60
/** So that several windows pass while threads are killed. */
const HASTE = 250
const KILLS = LONG ? 300 : 10
const ADMISSIONS = 400_000

/** Threads that take from the same buckets, of which one after the other is killed wherever it is. */
class Takers {
  readonly logs: SharedArrayBuffer[] = []
  readonly table: LimiterTable
  readonly #settings: { readonly keys: number; readonly capacity: number }
  readonly #next: () => number
  readonly #running = new Map<number, Worker>()
  /** Locks that killed threads had. */
  locks = 0

  constructor(keys: number, capacity: number, seed: number) {
    this.#settings = { keys, capacity }
    this.#next = random(seed)
    const clock = { monotonic: () => systemClock.monotonic() * HASTE, wall: () => 0 }
    this.table = new LimiterTable({ clock, budgetBytes: 2 ** 24 })
    for (let number = 1; number <= THREADS; number++) this.#start(number)
  }

  /** Kills one of the threads after a while, repairs what it left, and starts another one under its number. */
  async kill(): Promise<void> {
    const number = whole(this.#next, 1, THREADS)
    const worker = this.#running.get(number) as Worker
    const log = this.logs.at(-1) as SharedArrayBuffer
    const before = Atomics.load(new Int32Array(log), 0)
    // The one that was started last works; then some moments that nothing depends on.
    while (Atomics.load(new Int32Array(log), 0) === before) await turnOfLoop()
    for (let turns = whole(this.#next, 0, 3_000); turns > 0; turns--) await turnOfLoop()
    const ended = once(worker, 'exit')
    await worker.terminate()
    await ended
    this.locks += this.table.repair(number)
    this.#start(number)
  }

  /** Kills all. */
  async end(): Promise<void> {
    for (const [number, worker] of this.#running) {
      await worker.terminate()
      this.locks += this.table.repair(number)
    }
  }

  /** Times of all that was admitted, in order, by key. */
  admitted(): Map<number, number[]> {
    const byKey = new Map<number, number[]>()
    for (const log of this.logs) {
      const count = Atomics.load(new Int32Array(log), 0)
      const numbers = new Float64Array(log, 8)
      for (let place = 0; place < count; place++) {
        const key = numbers[2 * place] as number
        const times = byKey.get(key) ?? []
        times.push(numbers[2 * place + 1] as number)
        byKey.set(key, times)
      }
    }
    for (const times of byKey.values()) times.sort((a, b) => a - b)
    return byKey
  }

  #start(number: number): void {
    const log = new SharedArrayBuffer(8 + ADMISSIONS * 16)
    this.logs.push(log)
    const data: TakingData = {
      ...this.#settings,
      handle: this.table.share(number),
      clockOrigin: clockOrigin(systemClock),
      haste: HASTE,
      seed: whole(this.#next, 1, 2 ** 30),
      rate: RATE,
      log
    }
    this.#running.set(number, new Worker(new URL('./taking-thread.js', import.meta.url), { workerData: data }))
  }
}

let locks = 0
for (const [keys, capacity] of [
  [1, 500],
  [100, 40],
  [100_000, 2]
] as const) {
  t.test(
    `threads that are killed take no more than ${capacity} from each of ${keys} buckets in any window`,
    async (t) => {
      const takers = new Takers(keys, capacity, keys)
      for (let kill = 0; kill < KILLS; kill++) await takers.kill()
      await takers.end()
      locks += takers.locks
      t.same(inspect(takers.table.share(THREADS + 1).buffer), [])
      let [all, full, beyond] = [0, 0, 0]
      for (const times of takers.admitted().values()) {
        all += times.length
        if (times.length >= capacity) full++
        // One more than the capacity within a window.
        for (let last = capacity; last < times.length; last++)
          if ((times[last] as number) - (times[last - capacity] as number) < RATE * 1_000) beyond++
      }
      t.equal(beyond, 0, `${all} admissions`)
      t.ok(full > 0, 'buckets were full')
      t.equal(takers.table.statistics().folded, 0, 'none was moved into the sketch')
    }
  )
}

t.test('threads were killed inside of locks', async (t) => {
  t.ok(locks > 0, `${locks} locks`)
})
