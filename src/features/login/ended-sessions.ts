import type { Clock } from '../../lib/clock.js'
import { Mutex } from '../../lib/concurrency.js'
import { CLOCK_DIFFERENCE } from './attempt-state.js'

/** A session that has ended, or all of one name that were begun until `begun`, and when what they left can be forgotten. */
export type Ended = { readonly id: string; readonly begun: number; readonly ends: number }

/** What another thread of the process learns of logouts. Times: wall clock, milliseconds. */
export interface EndedNews {
  readonly sessions: readonly Ended[]
  /** Sessions that were begun before count as ended. */
  readonly before: number
  readonly blindBefore: number
}

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
  readonly #waiting = new Map<string, Ended>()
  #before = 0
  /** While it is not known which sessions were ended: those that were begun before this process are held to be. */
  #blindBefore = 0
  #number = 0
  #store: Pick<EndedStore, 'add' | 'forget'> | undefined
  #shared: EndedStore | undefined
  readonly #followers = new Set<(news: EndedNews) => void>()
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
    this.#shared = store
    await this.follow()
  }

  /** In a thread that learns of logouts from another one: `keep` tells that one, which keeps them. */
  relay(add: EndedStore['add']): void {
    this.#store = { add, forget: async () => undefined }
  }

  /** Calls `follower` with what is known, now and whenever that is more. It must not throw. Answers the way to end it. */
  onNews(follower: (news: EndedNews) => void): () => void {
    this.#followers.add(follower)
    follower(this.#news([...this.#known.values()]))
    return () => this.#followers.delete(follower)
  }

  /** What the other thread knows. */
  learn({ sessions, before, blindBefore }: EndedNews): void {
    for (const session of sessions) this.#note(session)
    this.#before = Math.max(this.#before, before)
    this.#blindBefore = blindBefore
  }

  /** `names`: further ones, of more sessions than this one. */
  has({ id, begun }: Pick<Ended, 'id' | 'begun'>, names: readonly string[] = []): boolean {
    if (begun < Math.max(this.#before, this.#blindBefore) || this.#known.has(id)) return true
    for (const name of names) if (begun <= (this.#known.get(name)?.begun ?? -1)) return true
    return false
  }

  /** Counts here at once, and everywhere after `keep`. A name that is known takes the later `begun`. */
  end({ id, begun, ends }: Ended): void {
    const ended = { id, begun, ends }
    if (begun < this.#before || !this.#note(ended)) return
    this.#waiting.set(id, ended)
    this.#report([ended])
  }

  /** False: it is known already. */
  #note(ended: Ended): boolean {
    const known = this.#known.get(ended.id)
    if (known !== undefined && known.begun >= ended.begun) return false
    this.#known.set(ended.id, ended)
    return true
  }

  /** Writes what is not in the store yet. Fails with the store's error; then it is written by the next call. */
  async keep(): Promise<void> {
    await this.#turn(async (store) => {
      while (this.#waiting.size > 0) {
        const some = [...this.#waiting.values()].slice(0, PIECE)
        await store.add(some)
        for (const one of some) if (this.#waiting.get(one.id) === one) this.#waiting.delete(one.id)
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

  #news(sessions: readonly Ended[]): EndedNews {
    return { sessions, before: this.#before, blindBefore: this.#blindBefore }
  }

  #report(sessions: readonly Ended[]): void {
    for (const follower of this.#followers) follower(this.#news(sessions))
  }

  async #follow(): Promise<void> {
    await this.keep()
    const store = this.#shared
    if (store === undefined) return
    await this.#mutex.run(async () => {
      const known = this.#news([])
      let since = await store.since(this.#number)
      if (since.number < this.#number) {
        // A backup was put in its place: it lacks what happened since.
        since = await store.since(0)
        for (const [id, one] of this.#known) this.#waiting.set(id, one)
      }
      const { sessions, number, before } = since
      if (since.blind !== true) this.#blindBefore = 0
      else if (this.#blindBefore === 0) this.#blindBefore = this.#clock.wall()
      for (const session of sessions) this.#note(session)
      this.#number = number
      this.#before = Math.max(this.#before, before)
      if (sessions.length > 0 || known.before !== this.#before || known.blindBefore !== this.#blindBefore)
        this.#report(sessions)
    })
  }

  #turn(work: (store: Pick<EndedStore, 'add' | 'forget'>) => Promise<void>): Promise<void> {
    const store = this.#store
    if (store === undefined) return Promise.resolve()
    return this.#mutex.run(() => work(store))
  }
}
