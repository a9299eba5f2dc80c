import t from 'tap'
import { HEADER, UNDO_ENTRIES } from '../../../../src/features/rate-limit/limiter/layout.js'
import type { Views } from '../../../../src/features/rate-limit/limiter/memory.js'
import { SlidingWindow } from '../../../../src/features/rate-limit/limiter/sliding-window.js'
import { LimiterTable } from '../../../../src/features/rate-limit/limiter/table.js'
import { Locks } from '../../../../src/lib/locks.js'
import { HandClock } from './support/exact-log.js'
import { EXISTING, explore, MAKING, REPAIR, type Step } from './support/lock-model.js'
import { Stopped, Stops } from './support/stops.js'

/** Steps of the model, whatever their number: a step of the journal writes as many words as it needs. */
function shape(steps: readonly Step[]): Step[] {
  const known = new Set<Step>(['read count', 'answer'])
  const text: Step[] = []
  for (const step of steps) {
    if (known.has(step)) continue
    const end = text.slice(-3)
    const repeats = step === 'store' && end.join() === 'store,note,raise'
    if (repeats) text.splice(-2)
    else if (step !== 'count' || text.at(-1) !== 'count') text.push(step)
  }
  return text
}

/** Takes down which steps of the model the product's own code does. */
class Recorder {
  readonly steps: Step[] = []
  #entries = 0

  /** A table whose stores and locks are taken down while `work` runs. */
  run(table: LimiterTable, handle: ReturnType<LimiterTable['share']>, work: (table: LimiterTable) => void): void {
    const words = new Uint32Array(handle.buffer)
    this.#entries = words[HEADER.undone] as number
    const clock = new HandClock(1_000_000)
    const views = ({ words, halves, doubles }: Views): Views => ({
      words: this.#seen(words, (place, value) => this.#word(place, value)),
      halves: this.#seen(halves, () => this.#add('count')),
      doubles
    })
    const other = new LimiterTable({ clock, handle, views })
    const unseen = this.#locks()
    try {
      work(other)
    } finally {
      unseen()
    }
    void table
  }

  #add(step: Step): void {
    this.steps.push(step)
  }

  #word(place: number, value: number): void {
    if (place === HEADER.undone) {
      if (value === 0 && this.#entries !== 1) this.#add(this.#rolls ? 'lower' : 'commit')
      else if (value > this.#entries) this.#add('raise')
      else this.#add(value === 0 && !this.#rolls ? 'commit' : 'lower')
      this.#entries = value
    } else if (place >= HEADER.undo && place < HEADER.undo + 2 * UNDO_ENTRIES) {
      if ((place - HEADER.undo) % 2 === 1) this.#add('note')
    } else if (this.#rolls && this.#entries > 0) this.#add('roll back')
    else if (this.#entries > 0) {
      // What a step writes beside its entries is of places that nobody reads before it is done: free slots and free memory.
      if (this.steps.at(-1) === 'raise') this.#add('store')
    } else this.#add('count')
  }

  get #rolls(): boolean {
    return this.steps[0] === 'take over structure'
  }

  #locks(): () => void {
    const { acquire, release, takeOver } = Locks.prototype
    const { steps } = this
    const nameOf = (word: number, verb: 'acquire' | 'release' | 'take over') =>
      `${verb} ${word === HEADER.structureLock ? 'structure' : 'segment'}` as Step
    Locks.prototype.acquire = function (word) {
      const got = acquire.call(this, word)
      if (got) steps.push(nameOf(word, 'acquire'))
      return got
    }
    Locks.prototype.release = function (word) {
      steps.push(nameOf(word, 'release'))
      release.call(this, word)
    }
    Locks.prototype.takeOver = function (word, thread) {
      const got = takeOver.call(this, word, thread)
      if (got) steps.push(nameOf(word, 'take over'))
      return got
    }
    return () => Object.assign(Locks.prototype, { acquire, release, takeOver })
  }

  #seen<T extends Uint32Array | Uint16Array>(numbers: T, store: (place: number, value: number) => void): T {
    return new Proxy(numbers, {
      set: (target, place, value) => {
        store(Number(place), value)
        return Reflect.set(target, place, value)
      },
      get: (target, place) => {
        const value = Reflect.get(target, place)
        return typeof value === 'function' ? value.bind(target) : value
      }
    })
  }
}

t.test('no order of steps and ends of threads breaks what the locks promise', async (t) => {
  for (const kills of [0, 1, 2]) {
    const { states, wrong } = explore(kills)
    t.same(wrong, [])
    t.ok(states > 50 * 10 ** kills, `${states} states with ${kills} ends`)
  }
})

t.test('each part of the protocol is needed', async (t) => {
  const without = (steps: readonly Step[], ...left: Step[]) => steps.filter((step) => !left.includes(step))
  const late = MAKING.map((step, place) => (step === 'store' ? 'raise' : MAKING[place] === 'raise' ? 'store' : step))
  for (const [what, wrong] of [
    ['no journal', { making: without(MAKING, 'note', 'raise') }],
    ['words before their entries', { making: late }],
    ['no roll-back', { repair: without(REPAIR, 'roll back', 'lower') }],
    ['no repair of segments', { repair: REPAIR.slice(0, 4) }],
    ['no lock of the segment', { making: without(MAKING, 'acquire segment') }],
    ['locks of others are taken over', { seizes: true }]
  ] as const) {
    t.not(explore(2, wrong).wrong.length, 0, what)
  }
})

t.test('the code does what the model says, in its order', async (t) => {
  const clock = new HandClock(1_000_000)
  const table = new LimiterTable({ clock, budgetBytes: 256 * 1_024, seed: new Uint8Array(16).fill(3) })
  const take = (one: LimiterTable, key: string) => void new SlidingWindow(one, 'model', 60).take(key, 10)
  // The first bucket makes the segment, too.
  for (let key = 0; key < 50; key++) take(table, `before ${key}`)
  const made = new Recorder()
  made.run(table, table.share(1), (one) => take(one, 'new'))
  t.same(shape(made.steps), shape(MAKING))
  const counted = new Recorder()
  counted.run(table, table.share(1), (one) => take(one, 'new'))
  t.same(shape(counted.steps), shape(EXISTING))

  // A thread that ends with two entries in the journal.
  const stops = new Stops()
  const words = new Uint32Array(table.share(2).buffer)
  for (let left = 1; words[HEADER.undone] !== 2; left++) {
    table.repair(2)
    const ends = new LimiterTable({ clock, handle: table.share(2), views: stops.views })
    stops.left = left
    try {
      take(ends, `ends ${left}`)
    } catch (error) {
      if (!(error instanceof Stopped)) throw error
    }
  }
  const repaired = new Recorder()
  repaired.run(table, table.share(3), (one) => void one.repair(2))
  const rolled: Step[] = ['roll back', 'lower', 'roll back', 'lower']
  const [first, , , ...rest] = REPAIR
  t.same(
    repaired.steps.filter((step) => step !== 'count' && step !== 'commit'),
    [first, ...rolled, ...rest]
  )
})
