/**
 * Time as a parameter. This is the only file that reads the machine's clocks.
 *
 * `monotonic` never goes back and does not follow the wall clock: use it for limits, time-outs and durations.
 * `wall` is for people: logs, `time.now`, dates in headers.
 */
export interface Clock {
  /** Milliseconds since an arbitrary start, with a fraction; never decreases. */
  monotonic(): number
  /** Milliseconds since the Unix epoch. */
  wall(): number
}

/** The global name is an accessor, which costs as much as the reading. */
const machine = performance

/** The clocks of this machine. */
export const systemClock: Clock = {
  monotonic: () => machine.now(),
  wall: () => Date.now()
}
