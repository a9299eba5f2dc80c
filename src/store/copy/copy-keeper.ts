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

/** Records that are read at once: few enough to hold up no loop. */
const PAGE = 100
/** Milliseconds from a revision to its copy, in which further revisions join it. */
const GATHER = 100
/** A copy may take this part of the time only: the pause behind it is so many times as long as it took. */
const PAUSES = 7
const LONGEST_PAUSE = 60_000
/** After a copy that could not be made. Milliseconds. */
const RETRY = 10_000
/** Looks for what was written while the copy was made, and the milliseconds between those that find nothing. */
const LOOKS = 100
const LOOK_PAUSE = 20

export interface CopyKeeperParts {
  readonly at: CopyPlace
  readonly store: Store
  /** The id of the account. */
  readonly account: () => string
  /** The place that serves in this process. */
  readonly applied: () => Place
  readonly clock: Clock
  readonly log: StoreLog
}

/**
 * Keeps a copy of the configuration that serves, beside the writes: no write waits for it, and revisions that follow each
 * other closely share one. What cannot be copied leaves the copy before as it is.
 */
export class CopyKeeper {
  readonly #parts: CopyKeeperParts
  #copied: Place | undefined
  /** What the copy that is there says of itself; undefined: it is not read yet. */
  #last: { readonly end: CopyEnd | undefined } | undefined
  #timer: NodeJS.Timeout | undefined
  #copying: Promise<void> | undefined
  #again = false
  #stopped = false
  #failing = false

  constructor(parts: CopyKeeperParts) {
    this.#parts = parts
  }

  /** A revision serves: it is to be copied soon. */
  soon(): void {
    this.#after(GATHER)
  }

  /** A copy that is not whole yet is given up. */
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

  /** Nothing is copied during the pause; what is to be copied then follows. */
  #rest(pause: number): void {
    if (this.#stopped) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      if (this.#again) this.#after(0)
    }, pause).unref()
  }

  /** Answers how long to leave it alone. Never rejects. */
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
      // The file may be moved away meanwhile.
      this.#last = undefined
      return RETRY
    }
  }

  /**
   * All records as of one place. They are read page by page while others are written; so what has changed meanwhile is read
   * again, until nothing has and this process serves exactly that.
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

  /** A copy is replaced by what has come of it alone: a store that was emptied, exchanged or put back leaves the good one. */
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

/** Takes copies away that a crash has left half written and, unless they are `wanted`, the copies themselves. Fails with the system's error. */
export async function clearCopies(path: string, wanted: boolean): Promise<void> {
  const folder = dirname(path)
  const name = basename(path)
  // A first start on PostgreSQL has no data folder yet.
  if (!existsSync(folder)) return
  for (const found of await readdir(folder)) {
    const half = found.startsWith(`${name}.`) && HALF.test(found.slice(name.length + 1))
    if (half || (!wanted && copiesOf(name).includes(found))) await unlink(join(folder, found))
  }
}

/** What the name of a file ends with that is being written. */
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
