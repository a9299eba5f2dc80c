/**
 * Clock as a parameter. Only this file reads the machine's clocks. `monotonic` never goes back and does not follow the wall clock: use it
 * for limits, timeouts and durations. `wall` is for people: logs, `time.now`, dates in headers.
 */
export interface Clock {
  /** Milliseconds since an arbitrary start, with a fraction; never decreases. */
  monotonic(): number
  /** Milliseconds since the Unix epoch. */
  wall(): number
  /** CPU time that the process has used (ms), if the clock knows it. */
  cpu?(): number
}

const { hrtime } = process

/**
 * The clocks of this machine. The monotonic one is the same for all threads and processes of the machine, and does not go
 * back from one to another; `performance.now()` begins anew in each thread.
 */
export const systemClock: Clock = {
  monotonic: () => {
    const time = hrtime()
    return time[0] * 1e3 + time[1] / 1e6
  },
  wall: () => Date.now(),
  cpu: () => {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1e3
  }
}

/** Monotonic clock with another origin than the machine's. */
class ShiftedClock implements Clock {
  readonly wall = systemClock.wall
  readonly cpu = systemClock.cpu as () => number

  /** @param origin milliseconds of `systemClock` at which it reads 0 */
  constructor(readonly origin: number) {}

  readonly monotonic = (): number => systemClock.monotonic() - this.origin
}

/** Origin of a monotonic clock on the clock shared by all processes of the machine (ms); 0 for `systemClock`. */
export function clockOrigin(clock: Pick<Clock, 'monotonic'> = systemClock): number {
  if (clock === systemClock) return 0
  // Exact, so that the clocks of two threads read the same.
  return clock instanceof ShiftedClock ? clock.origin : systemClock.monotonic() - clock.monotonic()
}

/** Returns a clock whose `clockOrigin` is `origin`. */
export function clockFrom(origin: number): Clock {
  return origin === 0 ? systemClock : new ShiftedClock(origin)
}

/** Returns `clock` shifted to the monotonic time `at`. */
export function clockThatReads(clock: Clock, at: number): Clock {
  const shift = clock.monotonic() - at
  if (clock === systemClock) return clockFrom(shift)
  return { monotonic: () => clock.monotonic() - shift, wall: () => clock.wall() }
}
