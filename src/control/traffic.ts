import type { StopFollowing } from './calls.js'
import type { TrafficDayView, TrafficMap, TrafficSecondView, TrafficView } from './traffic-answers.js'

/** Traffic of this process as numbers, as the API sees it. */
export interface TrafficSource {
  /** The last `seconds` seconds, one by one, and the last minute in all. */
  history(seconds: number): TrafficView
  /** The last `minutes` minutes in steps of `step`, and the last five beside those of an hour and of a day before. */
  day(minutes: number, step: number): TrafficDayView
  /** Calls `take` with each second that is over, and `over` when the process stops; neither throws. */
  follow(take: (second: TrafficSecondView) => void, over: () => void): StopFollowing
  /** Returns the running configuration, from listeners to backends, with the rates of the last minute. */
  map(): TrafficMap
}

/** Traffic statistics and map. Every valid key may read them: they contain no data of a single request. */
export class Traffic {
  readonly #source: TrafficSource | undefined

  /** `source` is undefined without a data plane. */
  constructor(source: TrafficSource | undefined) {
    this.#source = source
  }

  /** The last `seconds` seconds, one by one, and the last minute in all. */
  history(seconds: number): TrafficView {
    return this.#known.history(seconds)
  }

  /** The last `minutes` minutes in steps of `step`, and the last five beside those of an hour and of a day before. */
  day(minutes: number, step: number): TrafficDayView {
    return this.#known.day(minutes, step)
  }

  /** Follows the seconds that are over. */
  follow(take: (second: TrafficSecondView) => void, over: () => void): StopFollowing {
    return this.#known.follow(take, over)
  }

  /** Returns the map of the running configuration. */
  map(): TrafficMap {
    return this.#known.map()
  }

  get #known(): TrafficSource {
    if (this.#source === undefined) throw new TypeError('a process without a data plane has no traffic')
    return this.#source
  }
}
