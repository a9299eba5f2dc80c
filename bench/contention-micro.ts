import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { LimiterTable } from '../src/features/rate-limit/limiter/table.js'
import { clockOrigin, systemClock } from '../src/lib/clock.js'
import type { Flags, Taken, TakingRound, TakingThread } from './contention-thread.js'
import { median } from './table.js'
import type { MicroResult } from './timing.js'

const ROUNDS = 40
const STRETCHES = 400
/** Rounds before those that count: compilers are at work. */
const WARM_UP = 4

/** Each but the first two in a line of the processor's cache of its own. */
const FLAGS: Flags & { readonly words: number } = { ready: 0, finished: 1, progress: [32, 64], words: 96 }

/** Buckets of each thread, made in turns, so that those of the two stand beside each other in memory. */
const BUCKETS = 64
const own = [0, 1].map((thread) => Array.from({ length: BUCKETS }, (_, index) => `203.0.113.${2 * index + thread}`))
const [mine, theirs] = own as [string[], string[]]
const one = ['198.51.100.7']

/** What threads take from, in one round; each that is alone stands before the one that is held against it. */
const MEETINGS = [
  { name: 'its own buckets, alone', keys: [mine] },
  { name: 'its own buckets, beside another thread', keys: [mine, theirs] },
  { name: 'one bucket, alone', keys: [one] },
  { name: 'one bucket, both threads', keys: [one, one] }
]
const KINDS = [
  { name: 'admitted', capacity: 2_000_000_000 },
  { name: 'refused', capacity: 10 }
]

/**
 * How long decisions of the limiter take a thread when another one decides at the same time. Time on the clock, of stretches of a few hundred
 * decisions in which both threads had a core: so a busy machine has fewer of them, and they are the same.
 */
export async function contentionMicro(): Promise<MicroResult[]> {
  const results: MicroResult[] = []
  for (const { name, capacity } of KINDS) {
    const threads = await TakingThreads.start()
    for (let index = 0; index < BUCKETS; index++)
      for (const keys of own) threads.window.take(keys[index] as string, capacity)
    const taken = MEETINGS.map(() => [] as number[])
    for (let round = -WARM_UP; round < ROUNDS; round++)
      for (const [place, { keys }] of MEETINGS.entries()) {
        const stretches = await threads.round(keys, capacity)
        if (round >= 0) taken[place]?.push(...stretches)
      }
    await threads.end()
    const times = taken.map(median)
    for (const [place, meeting] of MEETINGS.entries()) {
      const [time, alone] = [times[place] as number, times[place - (place % 2)] as number]
      const ratio = place % 2 === 0 ? '' : `${(time / alone).toFixed(2)} × alone, `
      const [first, second] = meeting.keys
      // Two decide meanwhile.
      const shared = first === second ? `${(time / 2).toFixed(0)} ns from one decision of the bucket to the next, ` : ''
      const note = `${ratio}${shared}median of ${taken[place]?.length} stretches`
      results.push({ name: `limiter, ${name}: ${meeting.name}`, nanoseconds: time, note })
    }
  }
  return results
}

/** Two threads over one table. */
class TakingThreads {
  readonly #workers: readonly Worker[]
  readonly #flags: Int32Array
  readonly window: ReturnType<LimiterTable['window']>

  private constructor(table: LimiterTable) {
    this.window = table.window('bench', 60)
    const flags = new SharedArrayBuffer(4 * FLAGS.words)
    this.#flags = new Int32Array(flags)
    this.#workers = ([0, 1] as const).map((place) => {
      const handle = table.share(place + 1)
      const about: TakingThread = { handle, clockOrigin: clockOrigin(systemClock), flags, at: FLAGS, place }
      return new Worker(new URL('./contention-thread.js', import.meta.url), { workerData: about })
    })
  }

  static async start(): Promise<TakingThreads> {
    const threads = new TakingThreads(new LimiterTable({ clock: systemClock }))
    await Promise.all(threads.#workers.map((worker) => once(worker, 'online')))
    return threads
  }

  /** Each list of keys has a thread. */
  async round(keys: readonly (readonly string[])[], capacity: number): Promise<Taken> {
    this.#flags.fill(0)
    const taken = keys.map(async (of, place) => {
      const worker = this.#workers[place] as Worker
      const answer = once(worker, 'message')
      const round: TakingRound = { keys: of, capacity, stretches: STRETCHES, threads: keys.length }
      worker.postMessage(round)
      return ((await answer) as [Taken])[0]
    })
    return (await Promise.all(taken)).flat()
  }

  async end(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.terminate()))
  }
}
