import t from 'tap'
import { SlidingWindow } from '../../../../src/features/rate-limit/limiter/sliding-window.js'
import { LimiterTable } from '../../../../src/features/rate-limit/limiter/table.js'
import { ExactLog, HandClock } from './support/exact-log.js'
import { inspect } from './support/inspection.js'
import { random, whole } from './support/random.js'
import { Recording, Stopped, Stops } from './support/stops.js'

const LONG = process.env.SLUICE_TEST_LONG === '1'
/** Ends of one operation: at each of its stores when there are so many. In a full table one end takes longer to look at. */
const MOST = LONG ? 2_000 : 60
const MOST_WHEN_FULL = LONG ? 2_000 : 20
/** How often, where they are more, a trial ends on both sides of the same change of what is unfinished. */
const REPEATS = 10
const SEED = new Uint8Array(16).fill(3)
const ENDED = 7

interface Expected {
  readonly name: string
  readonly window: SlidingWindow
  readonly key: string
  readonly least: number
  readonly most: number
}

/**
 * A table that one thread uses, and another one that ends at the stores of an operation: each time from the same
 * beginning, and each time the first one repairs it and looks at everything.
 */
class Trial {
  readonly wrong: string[] = []
  readonly met = new Set<string>()
  readonly clock = new HandClock(2 ** 32 - 40_000)
  readonly logs = new Map<string, { readonly rate: number; readonly key: string; readonly log: ExactLog }>()
  readonly table: LimiterTable
  readonly buffer: SharedArrayBuffer
  readonly next: () => number
  stops = 0
  readonly #changes = new Map<string, number>()

  constructor(
    seed: number,
    readonly rates: readonly number[],
    readonly most = MOST
  ) {
    this.next = random(seed)
    this.table = new LimiterTable({ clock: this.clock, budgetBytes: 256 * 1_024, seed: SEED })
    this.buffer = this.table.share(ENDED).buffer
  }

  window(rate: number, table = this.table): SlidingWindow {
    return new SlidingWindow(table, 'ends', rate)
  }

  take(rate: number, key: string, cost = 1, capacity = 2 ** 31): void {
    if (!this.window(rate).take(key, capacity, cost).admitted) return
    const name = `${rate} ${key}`
    const known = this.logs.get(name) ?? { rate, key, log: new ExactLog() }
    known.log.add(this.clock.now, cost)
    this.logs.set(name, known)
  }

  /** Lets the other thread do `operation`, ended at many of its stores, each time from the same beginning. */
  end(what: string, operation: (table: LimiterTable) => void, forgotten?: string): void {
    const before = new Uint8Array(this.buffer).slice()
    const recording = this.record(ENDED, operation)
    const after = new Uint8Array(this.buffer).slice()
    const expected = this.#expected(forgotten)
    for (const store of this.#points(recording)) {
      new Uint8Array(this.buffer).set(recording.leaves(store))
      for (const word of recording.unfinished[store]!) this.met.add(word)
      this.table.repair(ENDED)
      this.#look(`${what}, ended at store ${store} of ${recording.stores}`, expected)
      this.stops += 1
    }
    if (!recording.ends(after)) this.wrong.push(`${what}: something else changes than stores and locks`)
    new Uint8Array(this.buffer).set(before)
  }

  /** Does `operation` rebuild a segment? */
  rebuilds(operation: (table: LimiterTable) => void): boolean {
    const before = new Uint8Array(this.buffer).slice()
    const { unfinished } = this.record(ENDED, operation)
    new Uint8Array(this.buffer).set(before)
    return unfinished.some((words) => words.includes('rebuild 1'))
  }

  /** What thread number `thread` does, which it has then done. */
  record(thread: number, operation: (table: LimiterTable) => void): Recording {
    const handle = this.table.share(thread)
    return new Recording(this.buffer, (views) => operation(new LimiterTable({ clock: this.clock, handle, views })))
  }

  /** Stores to end at: all of them, or both sides of each change of what is unfinished, and others evenly between. */
  #points({ stores, unfinished }: Recording): readonly number[] {
    const points = new Set<number>()
    for (let store = 1; store < stores; store += 1) {
      const change = `${unfinished[store - 1]!.join()} to ${unfinished[store]!.join()}`
      const times = this.#changes.get(change) ?? 0
      if (unfinished[store - 1]!.join() === unfinished[store]!.join() || times >= REPEATS) continue
      this.#changes.set(change, times + 1)
      points.add(store - 1).add(store)
    }
    const even = Math.min(stores, this.most)
    const shift = this.next()
    for (let place = 0; place < even; place += 1)
      points.add(stores <= this.most ? place : Math.floor(((place + shift) * stores) / even))
    return [...points].sort((one, other) => one - other)
  }

  /** What each key holds at least and at most while the clock stands. */
  #expected(forgotten: string | undefined): readonly Expected[] {
    const windows = new Map(this.rates.map((rate) => [rate, this.window(rate)]))
    return [...this.logs].map(([name, { rate, key, log }]) => {
      const least = name === forgotten ? 0 : log.count(this.clock.now, rate * 1_000)
      const most = log.count(this.clock.now, rate * 1_000 + Math.max(60_000, rate * 10)) + 70_000
      return { name, key, window: windows.get(rate)!, least, most }
    })
  }

  /** Then other keys may count for a key, too. */
  get #folds(): boolean {
    const { folded, sketchDecisions } = this.table.statistics()
    return folded + sketchDecisions > 0
  }

  #look(what: string, expected: readonly Expected[]): void {
    this.wrong.push(...inspect(this.buffer).map((wrong) => `${what}: ${wrong}`))
    for (const { name, window, key, least, most } of expected) {
      const { used } = window.peek(key, 2 ** 32)
      if (used < least) this.wrong.push(`${what}: ${name} has ${used}, ${least} were admitted`)
      if (used > most && !this.#folds) this.wrong.push(`${what}: ${name} has ${used} of ${most}`)
    }
  }
}

t.test('a thread that ends at any store of a decision loses no admission and no memory', async (t) => {
  const trial = new Trial(1, [60, 600, 86_400])
  for (const rate of trial.rates) {
    for (const [beginning, cost] of [
      ...[0, 1, 2, 4, 16, 32, 63, 64, 65, 100].map((count) => [count, 1] as const),
      ...([0, 1, 64, 100, 65_530] as const).flatMap((count) => [[count, 70_000] as const, [count, 6] as const])
    ]) {
      const key = `${beginning} and ${cost}`
      if (beginning > 0) trial.take(rate, key, beginning)
      for (const rest of [0, rate * 400, rate * 650, rate * 1_000]) {
        trial.clock.now += rest
        trial.end(`${rate} s, ${key}`, (table) => void trial.window(rate, table).take(key, 2 ** 31, cost))
        trial.take(rate, key, rest === 0 ? 1 : 3)
      }
    }
    trial.table.sweep(1_000)
  }
  t.same(trial.wrong.slice(0, 5), [])
  t.ok(trial.stops > 1_000, `${trial.stops} stops`)
  for (const name of ['building 0', 'leaving 0', 'undone 0']) t.ok(trial.met.has(name), name)
})

t.test('a thread that ends while the directory grows, shrinks or loses an entry loses no other one', async (t) => {
  const trial = new Trial(2, [600])
  const window = (table: LimiterTable) => trial.window(600, table)
  let keys = 0
  for (let round = 0; round < 7; round += 1) {
    for (let added = 0; added < 66; added += 1) {
      const key = `key ${keys++}`
      const insertion = (table: LimiterTable) => void window(table).take(key, 5)
      if (added === 0 || trial.rebuilds(insertion)) trial.end('insertion', insertion)
      trial.take(600, key)
    }
    const key = `key ${whole(trial.next, 0, keys - 1)}`
    trial.end('removal', (table) => window(table).forget(key), `600 ${key}`)
  }
  const { buckets } = trial.table.statistics()
  t.equal(buckets, keys)
  trial.clock.now += 590_000
  trial.take(600, 'stays')
  trial.clock.now += 20_000
  trial.end('sweep', (table) => void table.sweep(1_000))
  t.same(trial.wrong.slice(0, 5), [])
  for (const name of ['undone 1', 'undone 3', 'rebuild 1', 'rebuild 2', 'rebuild 3', 'removing 0'])
    t.ok(trial.met.has(name), name)
})

t.test('a thread that ends while room is made in a full table loses no admission and no memory', async (t) => {
  const trial = new Trial(3, [60, 3_600, 86_400], MOST_WHEN_FULL)
  for (let index = 0; index < 12_000; index += 1) {
    if (index % 200 === 0) trial.take(3_600, `kept ${index}`, whole(trial.next, 1, 60))
    trial.window(3_600).take(`flood ${index}`, 100, whole(trial.next, 1, 3))
    trial.clock.now += 1
  }
  t.ok(trial.table.statistics().folded > 0)
  for (let step = 0; step < (LONG ? 400 : 40); step += 1) {
    trial.clock.now += whole(trial.next, 0, 30_000)
    const rate = trial.rates[step % 3]!
    const key = step % 4 === 0 ? `kept ${whole(trial.next, 0, 59) * 200}` : `more ${whole(trial.next, 0, 40)}`
    const cost = [1, 3, 40, 70, 400][step % 5]!
    trial.end(`decision ${step}`, (table) => void trial.window(rate, table).take(key, 2 ** 31, cost))
    trial.take(rate, key, cost)
    for (let index = 0; index < 50; index += 1) trial.window(3_600).take(`flood ${step} ${index}`, 100)
  }
  t.same(trial.wrong.slice(0, 5), [])
  t.ok(trial.stops > 1_000, `${trial.stops} stops`)
})

t.test('who repairs may end as well', async (t) => {
  const trial = new Trial(4, [600])
  for (let index = 0; index < 300; index += 1) trial.take(600, `key ${index}`, 1 + (index % 70))
  const before = new Uint8Array(trial.buffer).slice()
  const operations: readonly ((table: LimiterTable) => void)[] = [
    (table) => void trial.window(600, table).take('key 64', 100),
    (table) => void trial.window(600, table).take('key 3', 100),
    (table) => trial.window(600, table).forget('key 77'),
    (table) => void trial.window(600, table).take('another', 100)
  ]
  const wrong: string[] = []
  for (const [number, operation] of operations.entries()) {
    new Uint8Array(trial.buffer).set(before)
    const recording = trial.record(ENDED, operation)
    for (let store = 0; store < Math.min(recording.stores, 60); store += 3) {
      new Uint8Array(trial.buffer).set(recording.leaves(store))
      const repairing = trial.record(ENDED + 1, (table) => void table.repair(ENDED))
      for (let later = 0; later < Math.min(repairing.stores, 40); later += 3) {
        new Uint8Array(trial.buffer).set(repairing.leaves(later))
        trial.table.repair(ENDED)
        trial.table.repair(ENDED + 1)
        wrong.push(...inspect(trial.buffer).map((what) => `${number}, ${store}, ${later}: ${what}`))
      }
    }
  }
  t.same(wrong.slice(0, 5), [])
})

t.test('a decision of the same thread that was interrupted is repaired by its next one', async (t) => {
  const trial = new Trial(5, [60])
  const stops = new Stops()
  const table = new LimiterTable({ clock: trial.clock, handle: trial.table.share(1), views: stops.views })
  const window = new SlidingWindow(table, 'ends', 60)
  for (let left = 0; left < 40; left += 1) {
    stops.left = left
    try {
      window.take('k', 100, 3)
    } catch (error) {
      if (!(error instanceof Stopped)) throw error
    }
    stops.left = Number.POSITIVE_INFINITY
    t.ok(window.take('k', 10_000).admitted)
    t.same(inspect(trial.buffer), [])
  }
})
