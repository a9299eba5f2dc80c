import { randomBytes } from 'node:crypto'
import type { Clock } from '../../lib/clock.js'
import { atMost, Backoff } from '../../lib/concurrency.js'
import { CLOCK_DIFFERENCE } from './attempt-state.js'
import { ProviderFailure } from './provider-fetch.js'
import type { VisitorNews } from './visitors.js'

/** Session generation, sealed; '' for an ended session. */
export interface KeptSession {
  readonly number: number
  readonly sealed: string
}

/** Session generation to store. Times: wall clock, milliseconds. */
export interface SavedSession extends KeptSession {
  readonly id: string
  readonly ends: number
  readonly at: number
  /** Cookies hold only a reference. */
  readonly needed: boolean
  /** Holder of the lease; '' for the first generation. */
  readonly holder: string
  /** Releases the lease as well. */
  readonly last: boolean
}

interface Lease {
  readonly id: string
  readonly number: number
  readonly holder: string
  readonly at: number
  readonly ends: number
}

interface Room {
  readonly rows: number
  readonly bytes: number
}

/** Shared session store of a cluster. Methods reject while it is unreachable. */
export interface SessionStore {
  /** Reads a session. `at`: now. */
  read(id: string, at: number): Promise<KeptSession | undefined>
  claim(lease: Lease): Promise<'claimed' | 'busy' | KeptSession>
  /** Returns false if the session is too large for the store. A new session replaces the oldest. */
  save(session: SavedSession, room: Room): Promise<boolean>
  release(lease: Pick<Lease, 'id' | 'holder'>): Promise<void>
  forget(now: number, spare: Room): Promise<void>
}

/** List of users and their sessions in the store. Methods reject while it is unreachable. */
interface VisitorStore {
  add(news: VisitorNews): Promise<void>
  forget(now: number): Promise<void>
}

/** Call from a thread to the one with the store. */
export type SessionCall =
  | { readonly op: 'read'; readonly id: string }
  | { readonly op: 'claim'; readonly lease: Lease }
  | { readonly op: 'save'; readonly session: SavedSession }
  | { readonly op: 'release'; readonly lease: Pick<Lease, 'id' | 'holder'> }
  | { readonly op: 'visitors'; readonly news: VisitorNews }
/** Response to such a call; `none`: no result. */
export type SessionAnswer = KeptSession | 'claimed' | 'busy' | 'kept' | 'full' | 'none'

/** Maximum number of sessions of each kind. */
const MOST_ROWS = 100_000
/** Maximum size of sessions that cookies hold as well (bytes). */
const SPARE_BYTES = 64 * 1024 * 1024
/** Timeout of one store call (ms). */
const CALL = 5_000
/** Maximum wait for another holder's result (ms). */
const WAIT = 10_000
/** Time after which a holder counts as dead (ms): longer than all requests to a provider together. */
const DEAD = 30_000
/** Delays between checks for another holder's result (ms). */
const LOOKS = { first: 25, longest: 200 }
/** Retries of a failed write (ms), up to the duration of its lease. */
const RETRIES = { first: 250, longest: 2_000, within: 80_000 }

/** Handles calls without a store, as in a lab, where the process has no shared sessions. */
async function alone({ op }: SessionCall): Promise<SessionAnswer> {
  if (op === 'claim') return 'claimed'
  return op === 'save' ? 'kept' : 'none'
}

/**
 * Sessions that do not fit into cookies, and the last generation of renewed tokens, which must survive a lost response. A lease for each
 * session ensures a single refresh across threads and processes. Methods reject with a ProviderFailure `unstored` while the store is
 * unreachable.
 */
export class SessionKeeper {
  readonly #clock: Clock
  #ask: (call: SessionCall) => Promise<SessionAnswer> = alone
  #store: SessionStore | undefined
  #visitors: VisitorStore | undefined
  #bytes = 0
  #paused = false
  /** Leases granted here by holder, with the time: monotonic milliseconds. */
  readonly #leases = new Map<string, number>()
  readonly #reading = new Map<string, Promise<KeptSession | undefined>>()
  #idle: (() => void) | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * Attaches the store. `bytes`: size limit of sessions that cookies cannot hold; 0: their logins are refused. `visitors`: list of users for
   * the API.
   */
  attach(store: SessionStore, bytes: number, visitors?: VisitorStore): void {
    this.#store = store
    this.#visitors = visitors
    this.#bytes = bytes
    this.#ask = (call) => this.serve(call)
  }

  /** Forwards all calls to the thread with the store. */
  relay(ask: (call: SessionCall) => Promise<SessionAnswer>): void {
    this.#ask = ask
  }

  /** Handles a call from this or another thread. Fails with the store's error. */
  async serve(call: SessionCall): Promise<SessionAnswer> {
    const store = this.#store
    if (store === undefined) return alone(call)
    if (call.op === 'read') return (await store.read(call.id, this.#clock.wall())) ?? 'none'
    if (call.op === 'claim') {
      if (this.#paused) throw new Error('the store is given away')
      const { holder } = call.lease
      this.#leases.set(holder, this.#clock.monotonic())
      const claimed = await store.claim(call.lease).catch((error: unknown) => {
        this.#done(holder)
        throw error
      })
      if (claimed !== 'claimed') this.#done(holder)
      return claimed
    }
    if (call.op === 'save') {
      const { session } = call
      const kept = await store.save(session, { rows: MOST_ROWS, bytes: this.#bytes })
      if (session.last) this.#done(session.holder)
      return kept ? 'kept' : 'full'
    }
    if (call.op === 'visitors') {
      await this.#visitors?.add(call.news)
      return 'none'
    }
    this.#done(call.lease.holder)
    await store.release(call.lease)
    return 'none'
  }

  /** Returns the last generation of a session; undefined if missing. Concurrent requests share the read. */
  read(id: string): Promise<KeptSession | undefined> {
    const reading = this.#reading.get(id)
    if (reading !== undefined) return reading
    const read = this.#call({ op: 'read', id })
      .then((kept) => (typeof kept === 'string' ? undefined : kept))
      .finally(() => this.#reading.delete(id))
    this.#reading.set(id, read)
    return read
  }

  /** Returns a lease, or the generation that another holder created. Waits for that holder; undefined on timeout. */
  async claim(id: string, number: number, ends: number): Promise<string | KeptSession | undefined> {
    const holder = randomBytes(12).toString('base64url')
    const backoff = new Backoff(LOOKS)
    for (let waited = 0; waited < WAIT; ) {
      const answer = await this.#call({ op: 'claim', lease: { id, number, holder, at: this.#clock.wall(), ends } })
      if (answer === 'claimed') return holder
      if (typeof answer !== 'string') return answer
      const pause = backoff.next()
      waited += pause
      await sleep(pause)
    }
    return undefined
  }

  /**
   * Marks a value that is valid once as used, in all threads and processes until `ends` (ms). Returns false if it was used before.
   */
  async spend(id: string, ends: number): Promise<boolean> {
    const holder = randomBytes(12).toString('base64url')
    const lease = { id, number: 0, holder, at: this.#clock.wall(), ends }
    if ((await this.#call({ op: 'claim', lease })) !== 'claimed') return false
    await this.#call(this.#saving({ id, number: 1, sealed: '', ends, needed: false, holder, last: true }))
    return true
  }

  /** Stores the first generation of a session that cookies cannot hold. Rejects also if there is no room. */
  async create(session: Omit<SavedSession, 'at' | 'needed' | 'holder' | 'last'>): Promise<void> {
    refuseFull(await this.#call(this.#saving({ ...session, needed: true, holder: '', last: true })))
  }

  /**
   * Stores a holder's result. A failed write is retried until the store responds, because the old tokens may be used up. Rejects if there
   * is no room.
   */
  async save(session: Omit<SavedSession, 'at'>): Promise<void> {
    const call = this.#saving(session)
    const answer = await this.#call(call).catch(() => void this.#retry(call))
    if (answer !== undefined) refuseFull(answer)
  }

  /** Releases a lease; if that fails, it expires. */
  release(id: string, holder: string): void {
    this.#call({ op: 'release', lease: { id, holder } }).catch(() => undefined)
  }

  /** Deletes expired sessions. Fails with the store's error. */
  async forget(): Promise<void> {
    const now = this.#clock.wall() - CLOCK_DIFFERENCE
    await this.#store?.forget(now, { rows: MOST_ROWS, bytes: SPARE_BYTES })
    await this.#visitors?.forget(now)
  }

  /** Writes users and sessions for the API. Rejects with a ProviderFailure. */
  async list(news: VisitorNews): Promise<void> {
    await this.#call({ op: 'visitors', news })
  }

  /** Grants no lease until `resume`; resolves when the results of current leases are written. */
  async pause(): Promise<void> {
    this.#paused = true
    // A holder in a crashed thread never responds.
    const now = this.#clock.monotonic()
    for (const [holder, since] of this.#leases) if (now - since > DEAD) this.#leases.delete(holder)
    if (this.#leases.size === 0) return
    await new Promise<void>((resolve) => {
      this.#idle = resolve
    })
  }

  resume(): void {
    this.#paused = false
  }

  #saving(session: Omit<SavedSession, 'at'>): Extract<SessionCall, { op: 'save' }> {
    return { op: 'save', session: { ...session, at: this.#clock.wall() } }
  }

  async #retry(call: SessionCall): Promise<void> {
    const backoff = new Backoff(RETRIES)
    for (let waited = 0; waited < RETRIES.within; ) {
      const pause = backoff.next()
      waited += pause
      await sleep(pause)
      if ((await this.#call(call).catch(() => undefined)) !== undefined) return
    }
  }

  async #call(call: SessionCall): Promise<SessionAnswer> {
    let answer: SessionAnswer | undefined
    try {
      answer = await atMost(CALL, this.#ask(call))
    } catch (cause) {
      throw new ProviderFailure('unstored', 'the store that keeps the session cannot be used', { cause })
    }
    if (answer === undefined) throw new ProviderFailure('unstored', 'the store that keeps the session does not answer')
    return answer
  }

  #done(holder: string): void {
    this.#leases.delete(holder)
    if (this.#leases.size === 0) this.#idle?.()
  }
}

function refuseFull(answer: SessionAnswer): void {
  if (answer === 'full')
    throw new ProviderFailure('too-large', 'the session does not fit into cookies, nor into what the store may keep')
}

function sleep(milliseconds: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, milliseconds).unref()
  })
}
