import { workerData } from 'node:worker_threads'
import type { LimiterHandle } from '../../../../src/features/rate-limit/limiter/memory.js'
import { SlidingWindow } from '../../../../src/features/rate-limit/limiter/sliding-window.js'
import { LimiterTable } from '../../../../src/features/rate-limit/limiter/table.js'
import { clockFrom } from '../../../../src/lib/clock.js'
import { random, whole } from './support/random.js'

/** What a thread that takes from buckets until it is ended is given. */
export interface TakingData {
  readonly handle: LimiterHandle
  readonly clockOrigin: number
  /** How many times as fast the clock goes. */
  readonly haste: number
  readonly seed: number
  readonly keys: number
  readonly capacity: number
  readonly rate: number
  /** What was admitted: the number of admissions, then for each its key and its time. */
  readonly log: SharedArrayBuffer
}

const { handle, clockOrigin, haste, seed, keys, capacity, rate, log } = workerData as TakingData
const real = clockFrom(clockOrigin)
const clock = { monotonic: () => real.monotonic() * haste, wall: () => real.wall() }
const window = new SlidingWindow(new LimiterTable({ clock, handle }), 'shared', rate)
const next = random(seed)
const numbers = new Float64Array(log, 8)
const count = new Int32Array(log, 0, 1)
const room = Math.floor(numbers.length / 2)
while ((count[0] as number) < room) {
  const key = whole(next, 0, keys - 1)
  const decision = window.take(`key ${key}`, capacity)
  if (!decision.admitted) continue
  const place = count[0] as number
  numbers[2 * place] = key
  numbers[2 * place + 1] = decision.at
  // What is counted here is whole, wherever the thread ends.
  Atomics.store(count, 0, place + 1)
}
