const SECOND = 1000
/** Resets that a client may send within a second. */
const RESETS = 100
/** Number of streams of which at most half may be reset. */
const STREAM_BLOCK = 200
/** PING and SETTINGS frames within a second; each costs an answer. Some clients measure the way with a PING per round trip. */
const CONTROLS = 1000

/** At most `most` events in any second. Only what came within a second is kept: most connections have one event or two. */
class Rate {
  readonly #most: number
  /** A ring once it has `most` entries. */
  #times: number[] = []
  #next = 0
  #last = Number.NEGATIVE_INFINITY

  constructor(most: number) {
    this.#most = most
  }

  /** True when this one is too many. `now` in milliseconds. */
  exceeds(now: number): boolean {
    const silent = now - this.#last >= SECOND
    this.#last = now
    if (silent) {
      this.#times = [now]
      this.#next = 0
      return false
    }
    const times = this.#times
    if (times.length < this.#most) {
      times.push(now)
      return false
    }
    const oldest = times[this.#next] as number
    times[this.#next] = now
    this.#next = (this.#next + 1) % this.#most
    return now - oldest < SECOND
  }
}

/**
 * Distinguishes a client that floods a session from one that changes its mind. Each method is true when the session must end;
 * `now` is of the monotonic clock, in milliseconds.
 */
export class FloodWatch {
  readonly #resets = new Rate(RESETS)
  readonly #controls = new Rate(CONTROLS)
  #streamsOfBlock = 0
  #resetsOfBlock = 0

  /** A stream began. */
  stream(): void {
    if (++this.#streamsOfBlock <= STREAM_BLOCK) return
    this.#streamsOfBlock = 1
    this.#resetsOfBlock = 0
  }

  /** The client reset a stream. */
  reset(now: number): boolean {
    return this.#resets.exceeds(now) || ++this.#resetsOfBlock > STREAM_BLOCK / 2
  }

  /** A PING or SETTINGS frame came. */
  control(now: number): boolean {
    return this.#controls.exceeds(now)
  }
}
