import { existsSync } from 'node:fs'
import { readdir, unlink } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from '../../lib/clock.js'
import { CodedError, codeOf } from '../../lib/errors.js'
import { copyErrors } from '../errors.js'
import { keyText, pieces } from '../queries.js'
import { type Place, type Store, type StoreLog, samePlace } from '../store.js'
import { type CopyEnd, type CopyPart, type CopyPlace, copiesOf, endOfCopy, writeCopy } from './copy-file.js'

/** Records per read, few enough not to block the event loop. */
const PAGE = 100
/** Delay from a revision to its copy, in which further revisions are collected (ms). */
const GATHER = 100
/** Pause after a copy, as a multiple of its duration, to limit its share of the time. */
const PAUSES = 7
/** Maximum pause after a copy (ms). */
const LONGEST_PAUSE = 60_000
/** Delay after a failed copy (ms). */
const RETRY = 10_000
/** Maximum number of checks for changes written during the copy. */
const LOOKS = 100
/** Delay after a check without changes (ms). */
const LOOK_PAUSE = 20

export interface CopyKeeperParts {
  readonly at: CopyPlace
  readonly store: Store
  /** Returns the account id. */
  readonly account: () => string
  /** Returns the place of the snapshot in use. */
  readonly applied: () => Place
  readonly clock: Clock
  readonly log: StoreLog
}

/**
 * Keeps a copy of the running configuration. No write waits for it, and revisions in quick succession share one copy. On failure the
 * previous copy is kept.
 */
export class CopyKeeper {
  readonly #parts: CopyKeeperParts
  #copied: Place | undefined
  /** Summary of the existing copy; undefined if not read yet. */
  #last: { readonly end: CopyEnd | undefined } | undefined
  #timer: NodeJS.Timeout | undefined
  #copying: Promise<void> | undefined
  #again = false
  #stopped = false
  #failing = false

  constructor(parts: CopyKeeperParts) {
    this.#parts = parts
  }

  /** Schedules a copy of a new revision. */
  soon(): void {
    this.#after(GATHER)
  }

  /** Stops; an incomplete copy is discarded. */
  async stop(): Promise<void> {
    this.#stopped = true
    clearTimeout(this.#timer)
    await this.#copying
  }

  #after(milliseconds: number): void {
    if (this.#stopped) return
    this.#again = true
    if (this.#timer !== undefined || this.#copying !== undefined) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.#again = false
      this.#copying = this.#copy().then((pause) => {
        this.#copying = undefined
        this.#rest(pause)
      })
    }, milliseconds).unref()
  }

  /** Pauses copying; changes during the pause are copied afterwards. */
  #rest(pause: number): void {
    if (this.#stopped) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      if (this.#again) this.#after(0)
    }, pause).unref()
  }

  /** Makes a copy and returns the pause before the next one. Never rejects. */
  async #copy(): Promise<number> {
    const { at, applied, clock, log } = this.#parts
    if (this.#copied !== undefined && samePlace(this.#copied, applied())) return 0
    const begun = clock.monotonic()
    try {
      this.#last ??= { end: await endOfCopy(at) }
      let copied: CopyEnd | undefined
      await writeCopy(
        at,
        this.#configuration(this.#last.end, (end) => {
          copied = end
        })
      )
      this.#copied = copied?.place
      this.#last = { end: copied }
      if (this.#failing) log.info({ path: at.path }, 'the copy of the configuration can be written again')
      this.#failing = false
      return Math.min(LONGEST_PAUSE, PAUSES * (clock.monotonic() - begun))
    } catch (error) {
      this.#again = true
      if (this.#stopped || codeOf(error) === OVERTAKEN.code) return RETRY
      if (!this.#failing) {
        const { place } = this.#last?.end ?? {}
        const about = { path: at.path, copied: place?.revision }
        if (codeOf(error) === FOREIGN.code) log.warn({ ...about, reason: (error as Error).message }, KEPT_COPY)
        else log.warn({ err: error, path: at.path }, 'the configuration cannot be copied; the copy before it stays')
      }
      this.#failing = true
      // The file may have been moved meanwhile.
      this.#last = undefined
      return RETRY
    }
  }

  /**
   * Reads all records as of one place, page by page while writes continue. Records changed meanwhile are read again, until none has changed
   * and this process runs exactly that revision.
   */
  async *#configuration(last: CopyEnd | undefined, ended: (end: CopyEnd) => void): AsyncGenerator<CopyPart> {
    const { store, applied, account } = this.#parts
    let place = await store.placeOf(await store.revision())
    if (last !== undefined) await this.#mustFollow(last, place)
    let after: { readonly kind: string; readonly id: string } | undefined
    do {
      const records = await store.wholeRecords({ after, limit: PAGE })
      if (records.length > 0) yield { records }
      after = records.length < PAGE ? undefined : records.at(-1)
      this.#mustGoOn()
    } while (after !== undefined)
    for (let look = 0; ; look++) {
      const { complete, changes, place: last } = await store.changesAfter(place)
      if (!complete || look === LOOKS) throw overtaken()
      place = last
      if (changes.length === 0) {
        if (samePlace(place, applied())) break
        await sleep(LOOK_PAUSE)
      }
      const keys = new Map(changes.map(({ kind, id }) => [keyText({ kind, id }), { kind, id }]))
      for (const some of pieces([...keys.values()], PAGE)) {
        const records = await store.wholeRecords({ keys: some })
        const found = new Set(records.map(keyText))
        yield { gone: some.filter((key) => !found.has(keyText(key))) }
        yield { records }
      }
      this.#mustGoOn()
    }
    const [entry] = await store.history({ limit: 1, before: place.revision + 1 })
    const { at = 0, detail = null } = entry?.revision === place.revision ? entry : {}
    const end = { place, at, detail, account: account() }
    yield { end }
    ended(end)
  }

  /** Throws unless the store continues the history of the copy: an emptied, replaced or restored store must not overwrite the good copy. */
  async #mustFollow({ place: copied, account }: CopyEnd, { revision }: Place): Promise<void> {
    if (account !== this.#parts.account()) throw foreign('the store is another one than that of the copy')
    if (revision < copied.revision) throw foreign(`the store is at revision ${revision}, before the copy`)
    const { mark } = await this.#parts.store.placeOf(copied.revision)
    if (mark !== undefined && copied.mark !== undefined && mark !== copied.mark)
      throw foreign(`revision ${copied.revision} of the store is another one than that of the copy`)
  }

  #mustGoOn(): void {
    if (this.#stopped) throw overtaken()
  }
}

/** Deletes incomplete copies of a crash and, unless `wanted`, the copies themselves. Fails with the system's error. */
export async function clearCopies(path: string, wanted: boolean): Promise<void> {
  const folder = dirname(path)
  const name = basename(path)
  // At the first start on PostgreSQL there is no data folder yet.
  if (!existsSync(folder)) return
  for (const found of await readdir(folder)) {
    const half = found.startsWith(`${name}.`) && HALF.test(found.slice(name.length + 1))
    if (half || (!wanted && copiesOf(name).includes(found))) await unlink(join(folder, found))
  }
}

/** Name suffix of an incomplete copy. */
const HALF = /^[0-9a-f]{12}$/

const OVERTAKEN = copyErrors.COPY_OVERTAKEN

const FOREIGN = copyErrors.COPY_KEPT
const KEPT_COPY =
  'the copy of the configuration is newer than the store, or of another one: it stays as it is; put that store back, or move the file away'

function foreign(message: string): CodedError {
  return new CodedError(FOREIGN, message)
}

function overtaken(): CodedError {
  return new CodedError(OVERTAKEN, 'the configuration changed faster than it could be copied')
}
