import type { Clock } from '../../lib/clock.js'
import { Mutex } from '../../lib/concurrency.js'
import { CLOCK_DIFFERENCE } from './attempt-state.js'

/** Ended session, or all sessions of one name that began until `begun`, and when the entry can be deleted. */
export type Ended = { readonly id: string; readonly begun: number; readonly ends: number }

/** News about logouts for another thread. Times: wall clock, milliseconds. */
export interface EndedNews {
  readonly sessions: readonly Ended[]
  /** Earlier sessions count as ended. */
  readonly before: number
  readonly blindBefore: number
}

/** Persistent logouts, shared with other processes. */
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

/** Applies news elsewhere. The promise, if any, resolves when they apply there or take too long. Must neither throw nor reject. */
type Follower = (news: EndedNews) => Promise<unknown> | undefined

/** Maximum number of individual logouts: about 20 MB. */
const MOST = 100_000
/** Logouts per statement. */
const PIECE = 500

/**
 * Sessions ended early, because their sealed cookies would stay valid on every process and after a restart. Each is kept until its regular
 * expiry. A check is one lookup in memory.
 */
export class EndedSessions {
  readonly #clock: Clock
  readonly #begun: { readonly wall: number; readonly monotonic: number }
  readonly #known = new Map<string, Ended>()
  /** Not yet in the store. */
  readonly #waiting = new Map<string, Ended>()
  #before = 0
  /** While ended sessions are unknown, those that began before this process count as ended. */
  #blindBefore = 0
  #number = 0
  #store: Pick<EndedStore, 'add' | 'forget'> | undefined
  #shared: EndedStore | undefined
  readonly #followers = new Set<Follower>()
  /** News that threads have not acknowledged yet. */
  readonly #unacknowledged = new Set<Promise<unknown>>()
  readonly #mutex = new Mutex()
  #following: Promise<void> | undefined

  constructor(clock: Clock) {
    this.#clock = clock
    this.#begun = { wall: clock.wall(), monotonic: clock.monotonic() }
  }

  /**
   * Loads the ended sessions. While the store cannot provide them, sessions that began before count as ended: an outage must not undo a
   * logout. Fails with the store's error.
   */
  async attach(store: EndedStore): Promise<void> {
    this.#store = store
    this.#shared = store
    await this.follow()
  }

  /** Forwards logouts to the thread with the store; `keep` sends them. */
  relay(add: EndedStore['add']): void {
    this.#store = { add, forget: async () => undefined }
  }

  /** Calls `follower` with the known logouts, now and after each addition. Returns the function that stops it. */
  onNews(follower: Follower): () => void {
    this.#followers.add(follower)
    this.#send(follower, [...this.#known.values()])
    return () => this.#followers.delete(follower)
  }

  /** Applies the other thread's news. */
  learn({ sessions, before, blindBefore }: EndedNews): void {
    for (const session of sessions) this.#note(session)
    this.#before = Math.max(this.#before, before)
    this.#blindBefore = blindBefore
  }

  /** Returns true if the session ended. `names`: names shared with other sessions. */
  has({ id, begun }: Pick<Ended, 'id' | 'begun'>, names: readonly string[] = []): boolean {
    if (begun < Math.max(this.#before, this.#blindBefore) || this.#known.has(id)) return true
    for (const name of names) if (begun <= (this.#known.get(name)?.begun ?? -1)) return true
    return false
  }

  /** Ends a session here at once, and everywhere after `keep`. A known name gets the later `begun`. */
  end({ id, begun, ends }: Ended): void {
    const ended = { id, begun, ends }
    if (begun < this.#before || !this.#note(ended)) return
    this.#waiting.set(id, ended)
    this.#report([ended])
  }

  /** Returns false if it is already known. */
  #note(ended: Ended): boolean {
    const known = this.#known.get(ended.id)
    if (known !== undefined && known.begun >= ended.begun) return false
    this.#known.set(ended.id, ended)
    return true
  }

  /**
   * Writes pending entries to the store, and resolves when every thread applies them: the next request of an ended session is refused. Fails
   * with the store's error; the next call retries.
   */
  async keep(): Promise<void> {
    await this.#keep()
    await Promise.all(this.#unacknowledged)
  }

  async #keep(): Promise<void> {
    await this.#turn(async (store) => {
      while (this.#waiting.size > 0) {
        const some = [...this.#waiting.values()].slice(0, PIECE)
        await store.add(some)
        for (const one of some) if (this.#waiting.get(one.id) === one) this.#waiting.delete(one.id)
      }
    })
  }

  /** Loads logouts of other processes and writes pending ones. Fails with the store's error. */
  follow(): Promise<void> {
    this.#following ??= this.#follow().finally(() => {
      this.#following = undefined
    })
    return this.#following
  }

  /**
   * Deletes expired entries here and in the store. Fails with the store's error. A wall clock that is temporarily ahead deletes nothing
   * early: sessions would become valid again when it is corrected.
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
    for (const follower of this.#followers) this.#send(follower, sessions)
  }

  #send(follower: Follower, sessions: readonly Ended[]): void {
    const acknowledged = follower(this.#news(sessions))
    if (acknowledged === undefined) return
    this.#unacknowledged.add(acknowledged)
    void acknowledged.then(() => this.#unacknowledged.delete(acknowledged))
  }

  async #follow(): Promise<void> {
    await this.#keep()
    const store = this.#shared
    if (store === undefined) return
    await this.#mutex.run(async () => {
      const known = this.#news([])
      let since = await store.since(this.#number)
      if (since.number < this.#number) {
        // A restored backup lacks recent logouts.
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
