import { CALLER_LIMITS, counted } from '../lib/caller-limits.js'
import { atMost, Mutex } from '../lib/concurrency.js'
import type { Slices } from '../lib/slices.js'
import { loggedWarning } from '../policy/warnings/codes.js'
import { refuses, sameAddressRules, sameRestriction } from '../runtime/address-filter.js'
import type { Snapshot, SnapshotHolder } from '../runtime/snapshot.js'
import type { Staged as StagedChange } from '../runtime/stage.js'
import { type Outcome, type Store, type StoreLog, type StoreTransaction, samePlace } from '../store/store.js'
import type { Principals } from './access.js'
import type { AppliedRevision } from './applied.js'
import { type Live, touchedRoutes, type Units } from './apply.js'
import type { Call, Done, EventRecorder, Principal, RecordEvent, WriteMode } from './calls.js'
import { ControlError, controlErrors, orUnavailable, refusedPolicy, refusedPort } from './errors.js'
import { refusedOnPaths } from './path-forms.js'
import { type FoundWarning, policyWarnings } from './record-rules.js'
import { type RevisionNote, revisionNote } from './revision-note.js'
import { mayChangeAddresses, mayForce, mayOpenPorts, mayReach, mayTakeEveryHost, mayUseSockets } from './rights.js'
import { Draft, type DraftParts } from './transaction.js'
import { type Derived, deriving } from './units.js'
import { concernsReach, newReaches } from './vault-reach.js'
import type { OpeningGuard, WriteGuards } from './write-guards.js'

export interface WriterParts {
  readonly store: Store
  readonly applied: AppliedRevision
  readonly live: Live
  readonly holder: SnapshotHolder
  readonly principals: Principals
  readonly log: StoreLog
  /** Creates the time slices of one write, so that traffic is not blocked. */
  readonly slices: () => Slices
  readonly draft: DraftParts
  readonly guards: Pick<WriteGuards, 'opening' | 'begin' | 'wrote'>
  /** Stores events in the transaction of their cause; undefined if events are not stored. */
  readonly recorder: EventRecorder | undefined
  /** Called once a revision of this process serves. Must not throw. */
  readonly committed: () => void
  /** Must not throw. */
  readonly published: (event: RecordEvent) => void
  /** Waits for the followers of these kinds. Must not reject. */
  readonly settled: (kinds: ReadonlySet<string>) => Promise<void>
}

/** Maximum wait for followers, so that a slow store does not delay the response to a committed write (ms). */
const LONGEST_SETTLING = 2_000

/** Maximum time that a write waits for earlier work in this process (ms). */
const LONGEST_WAIT = 15_000
/** Maximum number of retries after other processes have written more revisions than a transaction may apply. */
const ATTEMPTS = 5

/** Other processes have written more revisions than a transaction may apply. */
class FarBehind extends Error {}

/** Result of a write without its commit. */
export interface Rehearsed extends Derived {
  /** Ids of the routes that it touches. */
  readonly routes: readonly string[]
}

/** A write that is ready for its commit. */
interface Staged<T> {
  readonly value: T
  readonly draft: Draft
  readonly derived: Derived
  readonly ready: StagedChange & { readonly ok: true }
  readonly opening: OpeningGuard | undefined
  readonly note: RevisionNote
  readonly warnings: readonly FoundWarning[]
}

/**
 * Serializes all changes of the running configuration: a write runs prepare → commit → swap → events without interruption. A
 * committed write is served when it returns; a failed one has changed nothing.
 */
export class Writer {
  readonly #parts: WriterParts
  readonly #mutex = new Mutex()

  constructor(parts: WriterParts) {
    this.#parts = parts
  }

  /** Runs `run` without concurrent changes of the running configuration. */
  async alone<T>(run: () => Promise<T>): Promise<T> {
    return await this.#mutex.run(run)
  }

  /** Runs `work` as one transaction and serves its result. Fails with a `ControlError`. */
  async write<T>(call: Call, mode: WriteMode, work: (draft: Draft) => Promise<T>): Promise<{ value: T; done: Done }> {
    mayForce(call.principal, mode)
    const { touched, value, done } = await this.#write(call, mode, work)
    if (touched.size > 0) await this.#settle(touched)
    return { value, done }
  }

  /** Returns the result of `work` without committing. Fails with a `ControlError`, as the write would. */
  async rehearse(call: Call, work: (draft: Draft) => Promise<void>): Promise<Rehearsed> {
    const { derived, done } = await this.#write(call, { dryRun: true }, work)
    return { ...derived, routes: done.difference.routes ?? [] }
  }

  async #write<T>(
    call: Call,
    mode: WriteMode,
    work: (draft: Draft) => Promise<T>
  ): Promise<{ value: T; done: Done; derived: Derived; touched: ReadonlySet<string> }> {
    const run = async () => {
      const { applied } = this.#parts
      let last: Staged<T> | undefined
      const transaction = this.#transact(call.operationId, async (tx) => {
        // Another process may have written meanwhile: checks must use the current state.
        if (!samePlace(await tx.placeOf(tx.previous), applied.place) && !(await applied.followWithin(tx))) {
          throw new FarBehind()
        }
        last?.ready.abandon()
        last = undefined
        const staged = await this.#stage(new Draft(tx, draftPartsFor(call, this.#parts.draft)), call, mode, work)
        last = staged
        tx.note(staged.note)
        if (mode.dryRun === true || !staged.draft.wrote) tx.abandon()
        return staged
      })
      const outcome = await orUnavailable(transaction).catch((error: unknown) => {
        last?.ready.abandon()
        throw error
      })
      const { value: staged, committed, revision } = outcome
      const { put, drop } = staged.derived
      // Before the swap, while dropped units still exist.
      const routes = mode.dryRun === true ? { routes: touchedRoutes(this.#parts.live.units, { put, drop }) } : {}
      if (committed) await this.#serve(staged, call, revision)
      else staged.ready.abandon()
      const difference = { put: put.map(([key]) => key), drop, ...routes }
      const warnings = staged.warnings.map(({ warning }) => warning)
      const touched = new Set(committed ? staged.draft.touched.map(({ kind }) => kind) : [])
      const done = { committed: applied.revision, difference, warnings }
      return { value: staged.value, done, derived: staged.derived, touched }
    }
    return await this.#mutex.run(run, { milliseconds: LONGEST_WAIT, refusal: busyHere })
  }

  /**
   * Runs a transaction from the applied revision. A large backlog is applied first, because no other process can write during the transaction.
   */
  async #transact<T>(operationId: string, work: (tx: StoreTransaction) => Promise<T>): Promise<Outcome<T>> {
    const { applied, store } = this.#parts
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      try {
        return await store.transact(operationId, work)
      } catch (error) {
        if (!(error instanceof FarBehind)) throw error
      }
      await applied.follow(store)
    }
    throw new ControlError(
      controlErrors.BUSY,
      'other processes write faster than this one can apply; nothing was changed, try again'
    )
  }

  /** Runs after the lock is released: a follower may have to write first. */
  async #settle(kinds: ReadonlySet<string>): Promise<void> {
    await atMost(LONGEST_SETTLING, this.#parts.settled(kinds))
  }

  /** Does the work and everything that can refuse it. */
  async #stage<T>(draft: Draft, call: Call, mode: WriteMode, work: (draft: Draft) => Promise<T>): Promise<Staged<T>> {
    const value = await work(draft)
    const { live, holder, recorder } = this.#parts
    const events = [...draft.events, ...draft.commands]
    await recorder?.record(draft.tx, { call, events, touched: draft.touched })
    const derived = await this.#parts.slices().run(deriving(live.units, draft.touched))
    const units = draft.own === undefined ? derived : await live.withOwn(derived, draft.own)
    const ready = await live.ready(units)
    if (!ready.ok) throw ready.ports[0] === undefined ? refusedPolicy(ready.problems) : refusedPort(ready.ports[0])
    let opening: OpeningGuard | undefined
    try {
      opening = this.#parts.guards.opening(mode.guard, draft.changes, live.units, units)
      const writer = draft.author ?? call.principal
      mayChangeAddresses(writer, (entrance) => sameRestriction(holder.current(), ready.snapshot, entrance))
      const refused = refusedOnPaths(units.put, live.units, ready.snapshot)
      if (refused.length > 0) throw refusedPolicy(refused)
      mayOpenPorts(call.principal, units.put, live.units)
      mayUseSockets(call.principal, units.put, live.units)
      mayTakeEveryHost(call.principal, units.put, live.units)
      await this.#mayReach(writer, units, ready.snapshot, opening !== undefined)
      if (mode.force !== true) mustAdmit(holder.current(), ready.snapshot, call.address)
    } catch (error) {
      ready.abandon()
      throw error
    }
    const { id: principal, subject, key } = call.principal
    const { changes, reverts, reason } = draft
    const note = revisionNote({ principal, subject, key }, changes, { reverts, reason, guard: opening?.note })
    const about = { snapshot: ready.snapshot, declared: draft.own?.units }
    const warnings = policyWarnings(units.put, ready.warnings, about)
    return { value, draft, derived, ready, opening, note, warnings }
  }

  /** Fails with `VAULT_NOT_ALLOWED`; for a guarded write also if the caller may not do what its revert would. */
  async #mayReach(
    writer: Principal,
    { put, drop }: Pick<Units, 'put' | 'drop'>,
    next: Snapshot,
    guarded: boolean
  ): Promise<void> {
    const { holder, live, slices } = this.#parts
    if (writer.role === 'administrator') return
    const changed = [...put.map(([, unit]) => unit), ...drop.map((key) => live.units.get(key))]
    if (!changed.some(concernsReach)) return
    const now = holder.current()
    for (const reach of await slices().run(newReaches(now, next))) mayReach(writer, reach, false)
    if (!guarded) return
    for (const reach of await slices().run(newReaches(next, now))) mayReach(writer, reach, true)
  }

  async #serve(staged: Staged<unknown>, call: Call, revision: number): Promise<void> {
    const { draft, derived, ready, opening, note, warnings } = staged
    const { applied, principals, guards } = this.#parts
    principals.forget(draft.touched)
    if (opening !== undefined) guards.begin(revision, note, opening)
    guards.wrote(revision, note)
    await ready.swap(revision)
    if (draft.own !== undefined) {
      this.#parts.live.owns(draft.own)
      this.#parts.draft.declared.replace(draft.own.declared)
    }
    applied.committed({ revision, mark: call.operationId }, derived)
    this.#parts.committed()
    for (const { source, warning } of warnings) {
      const { code, path, line, column } = warning
      const fields = { operation: call.operationId, revision, source, code, path, line, column }
      this.#parts.log.warn(fields, loggedWarning(warning))
    }
    this.#publish(draft, call, revision)
  }

  #publish({ events, tx }: { events: Draft['events']; tx: StoreTransaction }, call: Call, revision: number): void {
    const { id, subject, key } = call.principal
    const about = { at: tx.at, revision, operationId: call.operationId, principal: { id, subject, key } }
    for (const event of events) this.#parts.published({ ...event, ...about })
  }
}

/** Tests that a member's write runs have its bounds and count for it. */
function draftPartsFor({ principal, spend }: Call, parts: DraftParts): DraftParts {
  const { testPolicy } = parts
  if (principal.role !== 'member' || testPolicy === undefined) return parts
  const { tests: limits } = CALLER_LIMITS.member
  return { ...parts, testPolicy: (stored) => counted(spend, () => testPolicy({ ...stored, limits })) }
}

function busyHere(): ControlError {
  const message =
    `this process has been writing or applying other changes for ${LONGEST_WAIT / 1000} s, such as an import; ` +
    'nothing was changed, try again'
  return new ControlError(controlErrors.BUSY, message)
}

/** Fails with `LOCKOUT` when a restriction that changes would refuse the caller itself. */
function mustAdmit(now: Snapshot, then: Snapshot, address: string | undefined): void {
  if (address === undefined || sameAddressRules(now, then) || !refuses(then, 'api', address)) return
  const message = `the API would refuse ${address}, where this request comes from; with ?force=true it is done anyway`
  throw new ControlError(controlErrors.LOCKOUT, message, { details: { address } })
}
