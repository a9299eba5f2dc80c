import type { Clock } from '../../lib/clock.js'

/** A clock that advances only when it is moved. Both readings move together. */
export class VirtualClock implements Clock {
  #monotonic: number
  #wall: number

  /** Milliseconds. */
  constructor(wall: number, monotonic = 0) {
    this.#wall = wall
    this.#monotonic = monotonic
  }

  monotonic(): number {
    return this.#monotonic
  }

  wall(): number {
    return this.#wall
  }

  /** Sets the wall clock for a new run; the monotonic clock is unchanged. */
  begin(wall: number): void {
    this.#wall = wall
  }

  /** Milliseconds forward, 0 or more. */
  advance(milliseconds: number): void {
    this.#monotonic += milliseconds
    this.#wall += milliseconds
  }
}
