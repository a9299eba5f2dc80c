import { createHmac, randomBytes } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { LRUCache } from 'lru-cache'
import { threadBeside } from '../../lib/files.js'
import { ThreadPool, TOO_SLOW } from '../../lib/thread-pool.js'
import { serviceKey } from '../../policy/services.js'

/** What a thread is asked: is the hash that of the password? */
export interface HashJob {
  readonly password: Uint8Array
  readonly hash: string
}

/** The password could not be checked now: too many others are waiting, or the thread has failed. */
export const BUSY = Symbol('busy')

/** Passwords that wait to be checked; a check takes some 50 ms. */
const MAX_WAITING = 64
/** Milliseconds that one check may take. */
const LONGEST = 10_000
const MAX_THREADS = 2
/** Right passwords that need not be checked again. */
const MAX_REMEMBERED = 4_096

/**
 * Checks passwords against hashes in threads of their own, so that traffic does not wait for them. Clients send their password with
 * each request, so the right ones are remembered: by a keyed digest, whose key nothing but this process has. What is wrong is checked each
 * time, and the number of checks that wait is bounded.
 */
export class HashChecker {
  readonly #pool: Pick<ThreadPool<HashJob, boolean>, 'run'>
  readonly #key = randomBytes(32)
  readonly #right = new LRUCache<string, true>({ max: MAX_REMEMBERED })
  /** Checks that run or wait, by digest: a browser asks for many things at once. */
  readonly #checks = new Map<string, Promise<boolean | typeof BUSY>>()

  constructor(pool: Pick<ThreadPool<HashJob, boolean>, 'run'>) {
    this.#pool = pool
  }

  /**
   * True, at once, for what has been right before. `user`: whose hash it is; undefined for a user who is not known, of whom nothing is
   * remembered, so that no answer comes sooner for a password that is right for another.
   */
  check(password: Uint8Array, hash: string, user: string | undefined): true | Promise<boolean | typeof BUSY> {
    const parts = JSON.stringify([user ?? null, hash])
    const digest = createHmac('sha256', this.#key).update(parts).update('\0').update(password).digest('base64')
    if (this.#right.get(digest) === true) return true
    const running = this.#checks.get(digest)
    if (running !== undefined) return running
    if (this.#checks.size >= MAX_WAITING) return Promise.resolve(BUSY)
    const check = this.#run({ password, hash }, digest, user !== undefined)
    this.#checks.set(digest, check)
    return check
  }

  async #run(job: HashJob, digest: string, remembers: boolean): Promise<boolean | typeof BUSY> {
    try {
      const matches = await this.#pool.run(job)
      if (matches === true && remembers) this.#right.set(digest, true)
      return matches === TOO_SLOW ? BUSY : matches
    } catch {
      // The thread has died, for example of memory; another takes its place.
      return BUSY
    } finally {
      this.#checks.delete(digest)
    }
  }
}

/** The one checker of a process or thread: its bound holds for all policies together. */
export const hashChecker = serviceKey(
  'password_hashes',
  () =>
    new HashChecker(
      new ThreadPool<HashJob, boolean>({
        start: () => threadBeside(import.meta.url, 'hash-thread', undefined),
        size: Math.min(MAX_THREADS, availableParallelism()),
        longest: LONGEST
      })
    )
)
