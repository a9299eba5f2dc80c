import type { Clock } from '../../src/lib/clock.js'

/** A clock that stands still until a test moves it. Both readings move together. */
export class ManualClock implements Clock {
  #monotonic = 1000
  #wall: number

  constructor(wall = Date.UTC(2026, 0, 1)) {
    this.#wall = wall
  }

  monotonic(): number {
    return this.#monotonic
  }

  wall(): number {
    return this.#wall
  }

  /** Milliseconds forward. */
  advance(milliseconds: number): void {
    this.#monotonic += milliseconds
    this.#wall += milliseconds
  }

  /** Moves the wall clock alone, as an administrator would; may go back. */
  setWall(wall: number): void {
    this.#wall = wall
  }
}
