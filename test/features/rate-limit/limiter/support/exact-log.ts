/** Every admission of one key with its time: what a limiter would remember that had no bound on memory. */
export class ExactLog {
  private readonly times: number[] = []
  private readonly costs: number[] = []

  add(time: number, cost: number): void {
    this.times.push(time)
    this.costs.push(cost)
  }

  /** Admissions in the trailing `length` milliseconds: later than `now - length`, up to `now`. */
  count(now: number, length: number): number {
    let sum = 0
    for (let place = this.times.length - 1; place >= 0; place -= 1) {
      if (this.times[place]! <= now - length) break
      sum += this.costs[place]!
    }
    return sum
  }

  get last(): number {
    return this.times.at(-1) ?? Number.NEGATIVE_INFINITY
  }
}

/** A clock that stands still until the test moves it. */
export class HandClock {
  constructor(public now = 0) {}

  monotonic(): number {
    return this.now
  }

  wall(): number {
    return 0
  }
}
