import type { LookupFunction } from 'node:net'
import { join, relative } from 'node:path'
import type { Clock } from '../lib/clock.js'
import { codeOf } from '../lib/errors.js'
import { postgresName } from '../lib/host.js'
import { newId } from '../lib/id.js'
import type { Sealer } from '../lib/seal.js'
import { COPY_FILE, isShared, storeAddress } from '../options/catalogue.js'
import type { Options } from '../options/options.js'
import { IN_MEMORY } from '../options/values.js'
import { type CopiedStore, openCopy } from '../store/copy/copied-store.js'
import { type CopyPlace, copiesOf } from '../store/copy/copy-file.js'
import { CopyKeeper, clearCopies } from '../store/copy/copy-keeper.js'
import { reachStore } from '../store/copy/reaching-store.js'
import { StandbyStore } from '../store/copy/standby-store.js'
import { openStore } from '../store/open-store.js'
import type { Place, Store, StoreLog } from '../store/store.js'
import type { StoreHealth } from '../store/store-health.js'

export interface StartingStoreParts {
  readonly seal: Sealer
  readonly clock: Clock
  readonly log: StoreLog
  readonly onRevision: (place: Place) => void
  /** Checks an opened store before its use. Rejects if this process must not use it. */
  readonly settle: (store: Store) => Promise<void>
  /** Learns how the store is from each of its operations. */
  readonly health: StoreHealth
  /** Error of the last attempt to read the opened store; undefined if there was none. */
  readonly lost: unknown
  /** Finds the addresses of a database server. */
  readonly lookup: LookupFunction
  /** Ends the waiting for the store. */
  readonly signal: AbortSignal
}

interface ReachedStore {
  readonly store: Store
  readonly answered: Promise<void>
  readonly account: () => string
  readonly at: CopyPlace | undefined
}

/** The store as a process starts with it, and the copy that it keeps for a start without one. */
export class StartingStore {
  readonly store: Store
  /** Resolves once the real store is used: immediately, or when it responds after a start from the copy. */
  readonly answered: Promise<void>
  readonly #at: CopyPlace | undefined
  readonly #parts: StartingStoreParts
  readonly #account: () => string
  #keeper: CopyKeeper | undefined

  private constructor({ store, answered, account, at }: ReachedStore, parts: StartingStoreParts) {
    this.store = store
    this.answered = answered
    this.#account = account
    this.#at = at
    this.#parts = parts
  }

  /** Fails as `reachStore` does. */
  static async open(options: Options, parts: StartingStoreParts): Promise<StartingStore> {
    const { seal, clock, log, onRevision, health, settle, lost, lookup, signal } = parts
    const address = storeAddress(options)
    const at = copyPlace(options, seal)
    let there: () => void = () => undefined
    const answered = new Promise<void>((resolve) => {
      there = resolve
    })
    let account = ''
    const open = async () => {
      const store = await openStore(address, { log, clock, onRevision, health, lookup })
      try {
        // A write: a store that takes none is of no use to a start.
        account = await store.outbox.account(newId('ac', clock.wall()))
        await settle(store)
        return store
      } catch (error) {
        await store.close()
        throw error
      }
    }
    const store = await reachStore({
      name: storeName(options),
      open,
      copied: async () => (at === undefined ? undefined : await copied(at, parts)),
      answered: (place) => {
        onRevision(place)
        there()
      },
      lost,
      log,
      signal
    })
    if (!(store instanceof StandbyStore)) there()
    return new StartingStore({ store, answered, account: () => account, at }, parts)
  }

  /** Reason for reading the copy, for display; null if the store is used. */
  get degraded(): string | null {
    return this.store instanceof StandbyStore ? this.store.degraded : null
  }

  /** Starts saving a copy of the running configuration; an unwanted copy is deleted. `applied`: returns the served position. */
  async keep(options: Options, applied: () => Place): Promise<void> {
    const { clock, log } = this.#parts
    try {
      if (options.data !== IN_MEMORY) await clearCopies(join(options.data, COPY_FILE), this.#at !== undefined)
    } catch (error) {
      log.warn({ err: error }, 'old copies of the configuration cannot be removed')
    }
    if (this.#at === undefined) return
    this.#keeper = new CopyKeeper({ at: this.#at, store: this.store, account: this.#account, applied, clock, log })
    this.served()
  }

  /** A revision serves. */
  served(): void {
    if (this.degraded === null) this.#keeper?.soon()
  }

  /** Before the store is closed. */
  async stop(): Promise<void> {
    await this.#keeper?.stop()
  }
}

/** Returns the location of the copy; undefined if none is kept. */
function copyPlace(options: Options, seal: Sealer): CopyPlace | undefined {
  const { cache, data } = options
  if (!cache || data === IN_MEMORY || storeAddress(options) === IN_MEMORY) return undefined
  return { path: join(data, COPY_FILE), store: storeName(options), seal }
}

/** Returns the name of the store, independent of the data folder; without user and password. */
export function storeName(options: Options): string {
  const address = storeAddress(options)
  if (!isShared(address)) return options.data === IN_MEMORY ? address : relative(options.data, address)
  return postgresName(address) ?? 'PostgreSQL'
}

/** A copy that cannot be used is no reason to stop: the one before it may do, and without any the store is waited for. */
async function copied(at: CopyPlace, { log, clock }: StartingStoreParts): Promise<CopiedStore | undefined> {
  for (const path of copiesOf(at.path)) {
    try {
      const found = await openCopy({ ...at, path }, { log, clock })
      if (path !== at.path)
        log.warn({ path, revision: found.place.revision }, 'an earlier copy of the configuration is used')
      return found
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') log.warn({ err: error, path }, 'the copy of the configuration is of no use')
    }
  }
  return undefined
}

/**
 * Runs work once the real store is reachable, unless the process stops. Resolves when it is done, or immediately if the process has started from
 * its copy.
 */
export async function onceThere(
  { lifecycle }: { readonly lifecycle: { readonly phase: string } },
  { degraded, answered }: Pick<StartingStore, 'degraded' | 'answered'>,
  work: () => Promise<unknown>
): Promise<void> {
  const begin = async () => {
    if (lifecycle.phase !== 'draining') await work()
  }
  if (degraded === null) await begin()
  else void answered.then(begin)
}
