const SECOND = 1000
/** Maximum number of resets per second. */
const RESETS = 100
/** Number of streams of which at most half may be reset. */
const STREAM_BLOCK = 200
/** Maximum number of PING and SETTINGS frames per second. Each needs a response; some clients send one PING per round trip. */
const CONTROLS = 1000

/** Allows `most` events in any second. Stores the times of the last second only, because most connections have one or two events. */
class Rate {
  readonly #most: number
  /** A ring once it has `most` entries. */
  #times: number[] = []
  #next = 0
  #last = Number.NEGATIVE_INFINITY

  constructor(most: number) {
    this.#most = most
  }

  /** Counts an event at `now` (ms). Returns true if it exceeds the limit. */
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

/** Detects clients that flood a session. Its methods return true if the session must be closed. `now`: monotonic time (ms). */
export class FloodWatch {
  readonly #resets = new Rate(RESETS)
  readonly #controls = new Rate(CONTROLS)
  #streamsOfBlock = 0
  #resetsOfBlock = 0

  /** Counts a new stream. */
  stream(): void {
    if (++this.#streamsOfBlock <= STREAM_BLOCK) return
    this.#streamsOfBlock = 1
    this.#resetsOfBlock = 0
  }

  /** Counts a reset by the client. */
  reset(now: number): boolean {
    return this.#resets.exceeds(now) || ++this.#resetsOfBlock > STREAM_BLOCK / 2
  }

  /** Counts a frame that carries nothing of a request, such as PING, SETTINGS or empty DATA. */
  control(now: number): boolean {
    return this.#controls.exceeds(now)
  }
}
