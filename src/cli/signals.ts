import type { Clock } from '../lib/clock.js'

const STOPPING = ['SIGINT', 'SIGTERM'] as const
const INTERRUPTED = 130

/** `npm start` passes a Ctrl-C on that the terminal has sent already: two signals so close together are one wish. */
const SAME_WISH = 500

/** The signals that end the process: the first asks it to finish, a later one ends it at once with 130. */
export class StopSignals {
  readonly #first: Promise<NodeJS.Signals>

  constructor(clock: Clock) {
    let since: number | undefined
    this.#first = new Promise((resolve) => {
      for (const signal of STOPPING) {
        process.on(signal, () => {
          if (since === undefined) {
            since = clock.monotonic()
            resolve(signal)
          } else if (clock.monotonic() - since > SAME_WISH) process.exit(INTERRUPTED)
        })
      }
    })
  }

  /** Resolves with the first signal, also when it came before the call. */
  next(): Promise<NodeJS.Signals> {
    return this.#first
  }
}
