import { createHmac, randomBytes } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { LRUCache } from 'lru-cache'
import { threadBeside } from '../../lib/files.js'
import { ThreadPool, TOO_SLOW } from '../../lib/thread-pool.js'
import { serviceKey } from '../../policy/services.js'

/** Job for a thread: verify a password against a hash. */
export interface HashJob {
  readonly password: Uint8Array
  readonly hash: string
}

/** The password could not be checked now: the queue is full, or the thread failed. */
export const BUSY = Symbol('busy')

/** Maximum number of waiting checks, of about 50 ms each. */
const MAX_WAITING = 64
/** Timeout of one check (ms). */
const LONGEST = 10_000
/** Maximum number of threads. */
const MAX_THREADS = 2
/** Maximum number of cached correct passwords. */
const MAX_REMEMBERED = 4_096

/**
 * Checks passwords against hashes in separate threads. Clients send the password with each request, so correct ones are cached by a digest
 * keyed with a secret of the process. Wrong ones are checked each time, and the queue is limited.
 */
export class HashChecker {
  readonly #pool: Pick<ThreadPool<HashJob, boolean>, 'run'>
  readonly #key = randomBytes(32)
  readonly #right = new LRUCache<string, true>({ max: MAX_REMEMBERED })
  /** Waiting and running checks by digest, because a browser sends many requests at once. */
  readonly #checks = new Map<string, Promise<boolean | typeof BUSY>>()

  constructor(pool: Pick<ThreadPool<HashJob, boolean>, 'run'>) {
    this.#pool = pool
  }

  /**
   * Returns true at once for a cached password. `user`: owner of the hash; undefined for an unknown user, for whom nothing is cached, so
   * that a password that is correct for another user gets no faster response.
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
      // The thread crashed, for example out of memory; the pool replaces it.
      return BUSY
    } finally {
      this.#checks.delete(digest)
    }
  }
}

/** Single checker of a process or thread: its limit applies to all policies together. */
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
