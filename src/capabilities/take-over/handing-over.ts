import { rm } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import type { HeldConnections } from '../../api/held-connections.js'
import type { ApiServer } from '../../api/server.js'
import type { Foundation } from '../../app/foundation.js'
import type { KeepingCounters } from '../../app/kept-counters.js'
import type { StartingStore } from '../../app/store-copy.js'
import type { ControlPlane } from '../../control/control-plane.js'
import type { SessionKeeper } from '../../features/login/session-keeper.js'
import { atMost } from '../../lib/concurrency.js'
import { isShared, storeAddress } from '../../options/catalogue.js'
import type { Options } from '../../options/options.js'
import { IN_MEMORY } from '../../options/values.js'
import type { GivenAway } from '../../store/store.js'
import type { CurrentCertificates } from '../certificates/open.js'
import type { Events } from '../events/events.js'

/** Maximum time of a step that releases a resource (ms). */
const STEP = 1_500
/** The store as it was before a newer version had it, in the data folder. */
const BEFORE = 'take-over.before'

interface HandingOverParts {
  readonly control: ControlPlane
  readonly store: StartingStore
  /** See `Controlled`. */
  readonly isBack: () => Promise<void>
  readonly events: Events
  readonly logins: Pick<SessionKeeper, 'pause' | 'resume'>
  readonly api: ApiServer
  readonly certificates: Pick<CurrentCertificates, 'open' | 'stop'>
  /** Saves the counters of limits; undefined if they are not saved. */
  readonly counters: KeepingCounters | undefined
}

/** Resources that only one process may hold while a successor starts. All of them can be taken back. */
export class HandingOver {
  readonly #options: Options
  readonly #foundation: Foundation
  readonly #parts: HandingOverParts
  #held: HeldConnections | undefined
  #away: GivenAway | undefined
  #undo: string | undefined
  #isGone = false

  constructor(options: Options, foundation: Foundation, parts: HandingOverParts) {
    this.#options = options
    this.#foundation = foundation
    this.#parts = parts
  }

  /**
   * Releases the store, event delivery and certificates; API connections wait, and traffic continues. `migrates`: the other
   * process may migrate the store to a schema unknown to this version, so the store is copied first.
   */
  async release(migrates: boolean): Promise<void> {
    const { api, certificates, store, events, logins, counters } = this.#parts
    this.#held = await api.hold()
    // Of two processes one writes the file of counters.
    const paused = counters?.pause() ?? Promise.resolve()
    await Promise.all([
      atMost(STEP, paused),
      atMost(STEP, certificates.stop()),
      atMost(STEP, store.stop()),
      atMost(STEP, events.handOver()),
      atMost(STEP, logins.pause())
    ])
    if (migrates) this.#undo = await this.#copyOf(store)
    this.#away = await store.store.giveAway()
    if (this.#away !== undefined) return
    this.#isGone = true
    await this.#foundation.lifecycle.release()
  }

  /** Resumes ownership, also after a failed `release`. Rejects if that is impossible: then another process must take over, see `give`. */
  async takeBack(): Promise<void> {
    const { certificates, store, events, logins, isBack, control, counters } = this.#parts
    if (this.#isGone) throw new TypeError('what serves is a copy of the store, which cannot be taken back')
    await this.#away?.back(this.#undo)
    this.#away = undefined
    await this.#forget()
    counters?.resume()
    logins.resume()
    await isBack()
    await events.start()
    await certificates.open()
    await store.keep(this.#options, () => control.configuration.place)
    this.#held?.resume()
    this.#held = undefined
  }

  /** Final hand-over: pending and new API connections are passed to `take`. Calls that wait for the store fail. */
  async give(take: (socket: Socket) => void): Promise<void> {
    this.#foundation.lifecycle.succeeds()
    this.#held?.give(take)
    await this.#forget()
    if (this.#away !== undefined) await atMost(STEP, this.#parts.store.store.close())
  }

  /** Returns the path of the copy; undefined for PostgreSQL, which has its own tools and is shared by processes of several versions. */
  async #copyOf({ store }: StartingStore): Promise<string | undefined> {
    const { data } = this.#options
    if (data === IN_MEMORY || isShared(storeAddress(this.#options))) return undefined
    const path = join(data, BEFORE)
    await rm(path, { force: true })
    await store.copyTo(path)
    return path
  }

  async #forget(): Promise<void> {
    if (this.#undo !== undefined) await rm(this.#undo, { force: true })
    this.#undo = undefined
  }
}
