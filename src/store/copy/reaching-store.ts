import { setTimeout as sleep } from 'node:timers/promises'
import { atMost, pauseAfter } from '../../lib/concurrency.js'
import { codeOf } from '../../lib/errors.js'
import { StoreError } from '../errors.js'
import type { Place, Store, StoreLog } from '../store.js'
import type { CopiedStore } from './copied-store.js'
import { StandbyStore } from './standby-store.js'

/** Maximum time that a start waits for an unresponsive store if there may be a copy (ms). */
const PATIENCE = 3_000
/** Delays between attempts (ms): first, longest, and after a store that was lost during the initial read. */
const PAUSES = { first: 1_000, longest: 10_000, lost: 3_000 }

export interface ReachingParts {
  /** Name of the store, without password. */
  readonly name: string
  /** Opens the store; fails with `STORE_UNAVAILABLE` also if it is read-only. */
  readonly open: () => Promise<Store>
  /** Returns the copy to start from; undefined if none is usable. Must not reject. */
  readonly copied: () => Promise<CopiedStore | undefined>
  /** Called with the last revision once the store responds after a start from the copy. Must not throw. */
  readonly answered: (place: Place) => void
  /** Error of an opened store during the initial read. @default no error */
  readonly lost?: unknown
  readonly log: StoreLog
  /** Aborts waiting and attempts. */
  readonly signal: AbortSignal
}

/**
 * Opens the store of a starting process. While the store is unreachable, the process starts from its copy; without one it retries and logs
 * each attempt. Fails as `open` does if a retry cannot help, and with `STORE_CLOSED` on a stop request.
 */
export async function reachStore(parts: ReachingParts): Promise<Store> {
  const { name, log, signal, lost } = parts
  let copied: CopiedStore | undefined
  if (lost !== undefined) {
    copied = await parts.copied()
    const attempt = () => paused(PAUSES.lost, signal).then(() => attemptOf(parts))
    if (copied !== undefined) return standBy(copied, { attempt: attempt(), reason: lost, tries: 1 }, parts)
  }
  for (let tries = 1; ; tries++) {
    const pause = pauseAfter(tries, PAUSES)
    const attempt = attemptOf(parts)
    let reason: unknown
    try {
      const store = await atMost(PATIENCE, attempt)
      if (store !== undefined) return store
    } catch (error) {
      mustPass(error)
      reason = error
    }
    copied ??= await parts.copied()
    if (copied !== undefined) return standBy(copied, { attempt, reason, tries }, parts)
    try {
      return await attempt
    } catch (error) {
      mustPass(error)
      const about = { store: name, reason: reasonOf(error), again_in: `${pause / 1_000}s` }
      log.warn(about, 'the store is out of reach and there is no copy to start from; trying again')
    }
    await paused(pause, signal)
  }
}

/**
 * Retries `work` until the store responds and logs `message` each time. Fails as `work` does if a retry cannot help, and with
 * `STORE_CLOSED` on a stop request.
 */
export async function untilAnswered<T>(
  work: () => Promise<T>,
  { name, log, signal, message }: Pick<ReachingParts, 'name' | 'log' | 'signal'> & { readonly message: string }
): Promise<T> {
  for (let tries = 1; ; tries++) {
    const pause = pauseAfter(tries, PAUSES)
    try {
      return await unlessStopped(work(), signal)
    } catch (error) {
      mustPass(error)
      log.warn({ store: name, reason: reasonOf(error), again_in: `${pause / 1_000}s` }, `${message}; trying again`)
    }
    await paused(pause, signal)
  }
}

interface Trying {
  /** Current attempt. */
  readonly attempt: Promise<Store>
  /** Reason of the last failure, if any. */
  readonly reason: unknown
  /** Number of attempts, the current one included. */
  readonly tries: number
}

function standBy(copied: CopiedStore, trying: Trying, parts: ReachingParts): StandbyStore {
  const stop = new AbortController()
  const standby = new StandbyStore(copied, () => stop.abort())
  const reason = trying.reason === undefined ? 'it does not answer' : reasonOf(trying.reason)
  parts.log.warn({ store: parts.name, reason }, standby.degraded ?? '')
  void goOver(standby, trying, { ...parts, signal: AbortSignal.any([parts.signal, stop.signal]) })
  return standby
}

/** Retries until the store responds. Never rejects. */
async function goOver(standby: StandbyStore, { attempt, reason, tries }: Trying, parts: ReachingParts): Promise<void> {
  const { name, log, signal, answered } = parts
  let logged = reason === undefined ? undefined : reasonOf(reason)
  let trying = attempt
  for (let n = tries; !signal.aborted; n++) {
    try {
      const store = await trying
      const place = await placeOf(store)
      if (signal.aborted) return await store.close()
      standby.goOver(store)
      log.info({ store: name, revision: place.revision }, 'the store answers again; following it')
      return answered(place)
    } catch (error) {
      const why = reasonOf(error)
      if (why !== logged && !signal.aborted) log.warn({ store: name, reason: why }, 'the store is still out of reach')
      logged = why
    }
    try {
      await paused(pauseAfter(n, PAUSES), signal)
    } catch {
      return
    }
    trying = attemptOf(parts)
    trying.catch(() => undefined)
  }
}

async function placeOf(store: Store): Promise<Place> {
  try {
    return await store.placeOf(await store.revision())
  } catch (error) {
    await store.close()
    throw error
  }
}

/** Makes one attempt. Fails with `STORE_CLOSED` on a stop request; a store that opens later is closed. */
async function attemptOf({ open, signal }: ReachingParts): Promise<Store> {
  const opening = open()
  try {
    return await unlessStopped(opening, signal)
  } catch (error) {
    opening.then((store) => store.close()).catch(() => undefined)
    throw error
  }
}

/** Fails with `STORE_CLOSED` on a stop request before `work` is done. */
async function unlessStopped<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const over = new AbortController()
  try {
    return await Promise.race([work, stop(signal, over.signal)])
  } finally {
    over.abort()
  }
}

/** Rejects when `signal` is aborted. `done`: stops waiting. */
async function stop(signal: AbortSignal, done: AbortSignal): Promise<never> {
  await new Promise<void>((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true, signal: done })
  })
  throw closed()
}

async function paused(milliseconds: number, signal: AbortSignal): Promise<void> {
  try {
    await sleep(milliseconds, undefined, { signal })
  } catch (error) {
    throw closed(error)
  }
}

function closed(cause?: unknown): StoreError {
  return new StoreError('STORE_CLOSED', 'stopped while waiting for the store', { cause })
}

/** Throws errors that a retry cannot fix. */
function mustPass(error: unknown): void {
  if (codeOf(error) !== 'STORE_UNAVAILABLE') throw error
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
