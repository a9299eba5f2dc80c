import { Relay } from '../../lib/relay.js'
import type { Options } from '../../options/options.js'
import type { FromTrafficThread } from '../workers/thread-protocol.js'
import { exchangeFilter } from './exchange-conditions.js'
import { ExchangeRecorder, type RecorderParts } from './exchange-recorder.js'
import { type ExchangeFollower, type Following, followerOf } from './followers.js'
import { type RecorderSettings, recorderSettings } from './recorder-settings.js'
import type { RelayedExchange, ToThreadRecorder } from './recording-threads.js'

/** Bytes of recorded exchanges that may be on their way. */
const MOST_UNDER_WAY = 16 * 1024 * 1024
/** Memory of one beside its text. Bytes. */
const OVERHEAD = 128

/** The recorder of a worker: it records for followers and by the options, and sends the records to the main thread. */
export class ThreadRecorder {
  readonly #parts: Pick<RecorderParts, 'clock' | 'expressions'>
  readonly #post: (message: FromTrafficThread) => void
  readonly #recorder: ExchangeRecorder
  readonly #relay: Relay<RelayedExchange>
  readonly #numbers = new Map<ExchangeFollower, number>()
  readonly #stops = new Map<number, () => void>()
  /** Exchanges that followers did not get, since that was last said. */
  #leftOut = new Map<number, number>()

  constructor(
    options: Options,
    parts: Pick<RecorderParts, 'observers' | 'clock' | 'expressions' | 'log'>,
    post: (message: FromTrafficThread) => void
  ) {
    this.#parts = parts
    this.#post = post
    this.#relay = new Relay({
      most: MOST_UNDER_WAY,
      sizeOf: ({ text }) => text.length + OVERHEAD,
      post: (exchanges, bytes, dropped) => post({ kind: 'exchanges', exchanges, bytes, dropped })
    })
    this.#recorder = new ExchangeRecorder({
      ...parts,
      settings: settingsOf(options),
      // The main thread builds displayed URLs.
      baseUrl: () => '',
      relay: (recorded, wanted, followers) => {
        const { id, explanation } = recorded
        const numbers = followers.flatMap((follower) => this.#numbers.get(follower) ?? [])
        const text = JSON.stringify(recorded)
        this.#relay.put({ id, text, explained: explanation !== null, wanted, followers: numbers })
      }
    })
  }

  receive(message: ToThreadRecorder): void {
    if (message.kind === 'follow') this.#follow(message.follower, message.following)
    else if (message.kind === 'unfollow') this.#unfollow(message.follower)
    else this.#recorder.learnKey(message.known)
  }

  /** Applies options that the main thread has validated. */
  take(options: Options): void {
    this.#recorder.prepare(settingsOf(options)).use()
  }

  /** Records bytes acknowledged by the main thread. */
  taken(bytes: number): void {
    this.#relay.taken(bytes)
  }

  /** Sends the batched records. */
  flush(): void {
    this.#relay.flush()
    if (this.#leftOut.size === 0) return
    this.#post({ kind: 'left-out', counts: this.#leftOut })
    this.#leftOut = new Map()
  }

  #follow(number: number, following: Following): void {
    const { clock, expressions } = this.#parts
    const compiled = exchangeFilter(expressions, following.query)
    // The main thread has compiled this query.
    if (!compiled.ok) throw new TypeError(compiled.message)
    const follower = followerOf(following, compiled.filter, {
      clock,
      leftOut: () => this.#leftOut.set(number, (this.#leftOut.get(number) ?? 0) + 1),
      take: () => undefined,
      over: () => undefined
    })
    this.#numbers.set(follower, number)
    const stop = this.#recorder.follow(follower, following)
    this.#stops.set(number, () => {
      stop()
      this.#numbers.delete(follower)
      this.#leftOut.delete(number)
    })
  }

  #unfollow(number: number): void {
    this.#stops.get(number)?.()
    this.#stops.delete(number)
  }
}

/** Memory and file are those of the process. */
function settingsOf({ recorder }: Options): RecorderSettings {
  return { ...recorderSettings(recorder), memory: 0, file: undefined }
}
