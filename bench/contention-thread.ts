import { parentPort, workerData } from 'node:worker_threads'
import type { LimiterHandle } from '../src/features/rate-limit/limiter/memory.js'
import { SlidingWindow } from '../src/features/rate-limit/limiter/sliding-window.js'
import { LimiterTable } from '../src/features/rate-limit/limiter/table.js'
import { clockFrom } from '../src/lib/clock.js'

/** Words of `flags`: how many threads are ready, whether one has finished, and how far each of the two is. */
export interface Flags {
  readonly ready: number
  readonly finished: number
  readonly progress: readonly [number, number]
}

/** What a thread that takes from buckets begins with. */
export interface TakingThread {
  readonly handle: LimiterHandle
  readonly clockOrigin: number
  readonly flags: SharedArrayBuffer
  readonly at: Flags
  readonly place: 0 | 1
}

export interface TakingRound {
  readonly keys: readonly string[]
  readonly capacity: number
  /** Stretches, unless another thread has finished before. */
  readonly stretches: number
  /** Threads that begin together. */
  readonly threads: number
}

/** Nanoseconds of a decision, on the clock, in each stretch in which the other thread decided too; where there is none, in all. */
export type Taken = readonly number[]

/** Decisions of a stretch, and between two looks of the other thread at how far this one is. */
const STRETCH = 256
const STEP = 32

const { handle, clockOrigin, flags: buffer, at, place } = workerData as TakingThread
const flags = new Int32Array(buffer)
const window = new SlidingWindow(new LimiterTable({ clock: clockFrom(clockOrigin), handle }), 'bench', 60)
const [own, other] = place === 0 ? at.progress : ([at.progress[1], at.progress[0]] as const)

parentPort?.on('message', ({ keys, capacity, stretches, threads }: TakingRound) => {
  Atomics.add(flags, at.ready, 1)
  while (Atomics.load(flags, at.ready) < threads);
  const taken: number[] = []
  let [done, key] = [0, 0]
  for (let stretch = 0; stretch < stretches && Atomics.load(flags, at.finished) === 0; stretch++) {
    const [before, begun] = [Atomics.load(flags, other), performance.now()]
    for (let step = 0; step < STRETCH; step += STEP) {
      for (let i = 0; i < STEP; i++) {
        window.take(keys[key] as string, capacity)
        key = key + 1 === keys.length ? 0 : key + 1
      }
      done += STEP
      Atomics.store(flags, own, done)
    }
    const nanoseconds = ((performance.now() - begun) * 1e6) / STRETCH
    const meanwhile = Atomics.load(flags, other) - before
    // Else one of the two had no core.
    if (threads === 1 || (meanwhile >= STRETCH / 2 && meanwhile <= STRETCH * 2)) taken.push(nanoseconds)
  }
  Atomics.store(flags, at.finished, 1)
  parentPort?.postMessage(taken satisfies Taken)
})
