import type { Clock } from '../../lib/clock.js'
import { Mutex } from '../../lib/concurrency.js'
import { CLOCK_DIFFERENCE } from './attempt-state.js'

type Ended = { readonly id: string; readonly begun: number; readonly ends: number }

/** Where logouts outlive the process and reach the others. */
export interface EndedStore {
  add(sessions: readonly Ended[]): Promise<void>
  since(number: number): Promise<{
    readonly sessions: readonly Ended[]
    readonly number: number
    readonly before: number
    readonly blind?: true
  }>
  forget(now: number, most: number): Promise<void>
}

/** Logouts that are kept one by one: some 20 MB. */
const MOST = 100_000
/** Logouts of one statement. */
const PIECE = 500

/**
 * Sessions that were ended before their time: sealed cookies would be good until then, on every process and after a restart. Each
 * is remembered until it would have ended by itself. Asking costs one look into a map in memory.
 */
export class EndedSessions {
  readonly #clock: Clock
  readonly #begun: { readonly wall: number; readonly monotonic: number }
  readonly #known = new Map<string, Ended>()
  /** Not in the store yet. */
  #waiting: Ended[] = []
  #before = 0
  /** While it is not known which sessions were ended: those that were begun before this process are held to be. */
  #blindBefore = 0
  #number = 0
  #store: EndedStore | undefined
  readonly #mutex = new Mutex()
  #following: Promise<void> | undefined

  constructor(clock: Clock) {
    this.#clock = clock
    this.#begun = { wall: clock.wall(), monotonic: clock.monotonic() }
  }

  /**
   * Learns what the store knows. Where it knows nothing just now, sessions that were begun before count as ended until it does: a
   * logout must not be undone by an outage. Fails with its error.
   */
  async attach(store: EndedStore): Promise<void> {
    this.#store = store
    await this.follow()
  }

  has({ id, begun }: Pick<Ended, 'id' | 'begun'>): boolean {
    return begun < Math.max(this.#before, this.#blindBefore) || this.#known.has(id)
  }

  /** Counts here at once, and everywhere after `keep`. */
  end({ id, begun, ends }: Ended): void {
    if (begun < this.#before || this.#known.has(id)) return
    const ended = { id, begun, ends }
    this.#known.set(id, ended)
    this.#waiting.push(ended)
  }

  /** Writes what is not in the store yet. Fails with the store's error; then it is written by the next call. */
  async keep(): Promise<void> {
    await this.#turn(async (store) => {
      while (this.#waiting.length > 0) {
        const some = this.#waiting.slice(0, PIECE)
        await store.add(some)
        this.#waiting = this.#waiting.slice(some.length)
      }
    })
  }

  /** Learns what other processes have ended, and keeps what waits. Fails with the store's error. */
  follow(): Promise<void> {
    this.#following ??= this.#follow().finally(() => {
      this.#following = undefined
    })
    return this.#following
  }

  /**
   * Forgets what has ended by itself, here and in the store. Fails with the store's error. A wall clock that goes ahead for a while
   * makes nothing be forgotten sooner: sessions would be good again when it is set right.
   */
  async forget(): Promise<void> {
    const { wall, monotonic } = this.#begun
    const passed = wall + this.#clock.monotonic() - monotonic
    const now = Math.min(this.#clock.wall(), passed) - CLOCK_DIFFERENCE
    await this.#turn((store) => store.forget(now, MOST))
    await this.follow()
    for (const { id, begun, ends } of this.#known.values())
      if (ends < now || begun < this.#before) this.#known.delete(id)
  }

  async #follow(): Promise<void> {
    await this.keep()
    await this.#turn(async (store) => {
      let since = await store.since(this.#number)
      if (since.number < this.#number) {
        // A backup was put in its place: it lacks what happened since.
        since = await store.since(0)
        this.#waiting = [...this.#known.values()]
      }
      const { sessions, number, before } = since
      if (since.blind !== true) this.#blindBefore = 0
      else if (this.#blindBefore === 0) this.#blindBefore = this.#clock.wall()
      for (const session of sessions) this.#known.set(session.id, session)
      this.#number = number
      this.#before = Math.max(this.#before, before)
    })
  }

  #turn(work: (store: EndedStore) => Promise<void>): Promise<void> {
    const store = this.#store
    if (store === undefined) return Promise.resolve()
    return this.#mutex.run(() => work(store))
  }
}
