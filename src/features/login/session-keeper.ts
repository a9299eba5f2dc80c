import { randomBytes } from 'node:crypto'
import type { Clock } from '../../lib/clock.js'
import { atMost, Backoff } from '../../lib/concurrency.js'
import { CLOCK_DIFFERENCE } from './attempt-state.js'
import { ProviderFailure } from './provider-fetch.js'

/** Generation of a session, sealed; '' for one that has ended. */
export interface KeptSession {
  readonly number: number
  readonly sealed: string
}

/** Generation to keep. Times: wall clock, milliseconds. */
export interface SavedSession extends KeptSession {
  readonly id: string
  readonly ends: number
  readonly at: number
  /** Cookies hold a reference alone. */
  readonly needed: boolean
  /** Holder of the lease; '' for the first generation. */
  readonly holder: string
  /** Releases the lease too. */
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

/** Where the processes of a cluster keep sessions together. Methods reject while it is out of reach. */
export interface SessionStore {
  /** `at`: now. */
  read(id: string, at: number): Promise<KeptSession | undefined>
  claim(lease: Lease): Promise<'claimed' | 'busy' | KeptSession>
  /** False: there is no room. The oldest make room for a new one. */
  save(session: SavedSession, room: Room): Promise<boolean>
  release(lease: Pick<Lease, 'id' | 'holder'>): Promise<void>
  forget(now: number, spare: Room): Promise<void>
}

/** What a thread asks of the one that has the store. */
export type SessionCall =
  | { readonly op: 'read'; readonly id: string }
  | { readonly op: 'claim'; readonly lease: Lease }
  | { readonly op: 'save'; readonly session: SavedSession }
  | { readonly op: 'release'; readonly lease: Pick<Lease, 'id' | 'holder'> }
/** Answer of the store to such a call; `none`: there is nothing to say. */
export type SessionAnswer = KeptSession | 'claimed' | 'busy' | 'kept' | 'full' | 'none'

/** Rows of each kind, and bytes of sessions that cookies hold too. */
const MOST_ROWS = 100_000
const SPARE_BYTES = 64 * 1024 * 1024
/** Milliseconds for one call of the store, for the result of another holder, and between two looks at it. */
const CALL = 5_000
const WAIT = 10_000
/** Milliseconds after which a holder does not answer any more: longer than all questions to a provider together. */
const DEAD = 30_000
const LOOKS = { first: 25, longest: 200 }
/** Milliseconds that a result which could not be written is tried again: as long as its lease lasts. */
const RETRIES = { first: 250, longest: 2_000, within: 80_000 }

/** Without a store, as in a lab: what one process knows is all there is. */
async function alone({ op }: SessionCall): Promise<SessionAnswer> {
  if (op === 'claim') return 'claimed'
  return op === 'save' ? 'kept' : 'none'
}

/**
 * Sessions beyond cookies: those that do not fit into them, and the last generation of renewed tokens, which an answer that never
 * reached its browser must not lose. A lease for each session makes its refresh happen once, whatever thread or process asks.
 * Methods reject with a ProviderFailure `unstored` while the store is out of reach.
 */
export class SessionKeeper {
  readonly #clock: Clock
  #ask: (call: SessionCall) => Promise<SessionAnswer> = alone
  #store: SessionStore | undefined
  #bytes = 0
  #paused = false
  /** Holders of leases that were given away here, and when: monotonic milliseconds. */
  readonly #leases = new Map<string, number>()
  readonly #reading = new Map<string, Promise<KeptSession | undefined>>()
  #idle: (() => void) | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** `bytes`: of sessions that cookies cannot hold; 0: their logins are refused. */
  attach(store: SessionStore, bytes: number): void {
    this.#store = store
    this.#bytes = bytes
    this.#ask = (call) => this.serve(call)
  }

  /** In a thread: another one has the store. */
  relay(ask: (call: SessionCall) => Promise<SessionAnswer>): void {
    this.#ask = ask
  }

  /** Answers one call of this thread or of another one. Fails with the store's error. */
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
    this.#done(call.lease.holder)
    await store.release(call.lease)
    return 'none'
  }

  /** The last generation of a session; undefined: it is not there. Requests for one session wait for one answer. */
  read(id: string): Promise<KeptSession | undefined> {
    const reading = this.#reading.get(id)
    if (reading !== undefined) return reading
    const read = this.#call({ op: 'read', id })
      .then((kept) => (typeof kept === 'string' ? undefined : kept))
      .finally(() => this.#reading.delete(id))
    this.#reading.set(id, read)
    return read
  }

  /**
   * The lease of a session, or the generation that another holder has made of it. Waits for that one; undefined: its result did not come
   * in time.
   */
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

  /** Keeps the first generation of a session that cookies cannot hold. Rejects also when there is no room at all. */
  async create(session: Omit<SavedSession, 'at' | 'needed' | 'holder' | 'last'>): Promise<void> {
    refuseFull(await this.#call(this.#saving({ ...session, needed: true, holder: '', last: true })))
  }

  /**
   * Keeps what a holder has made. What cannot be written now is written as soon as the store answers, because the tokens of before
   * may be spent. Rejects when there is no room.
   */
  async save(session: Omit<SavedSession, 'at'>): Promise<void> {
    const call = this.#saving(session)
    const answer = await this.#call(call).catch(() => void this.#retry(call))
    if (answer !== undefined) refuseFull(answer)
  }

  /** Gives a lease back; one that cannot be given back ends by itself. */
  release(id: string, holder: string): void {
    this.#call({ op: 'release', lease: { id, holder } }).catch(() => undefined)
  }

  /** Drops what has ended by itself. Fails with the store's error. */
  async forget(): Promise<void> {
    await this.#store?.forget(this.#clock.wall() - CLOCK_DIFFERENCE, { rows: MOST_ROWS, bytes: SPARE_BYTES })
  }

  /** Gives no lease away until `resume`; resolves when the results of those that were are written. */
  async pause(): Promise<void> {
    this.#paused = true
    // A holder whose thread has died says nothing any more.
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
