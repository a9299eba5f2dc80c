import type { Principal } from '../../control/calls.js'
import type { ChangedDecisions } from '../../control/changed-decisions.js'
import { ControlError, controlErrors } from '../../control/errors.js'
import { BAKING, type EndedGuard, type GuardEnd } from '../../control/guard-note.js'
import { readNote } from '../../control/revision-note.js'
import type { UndoRevision } from '../../control/write-guards.js'
import type { Clock } from '../../lib/clock.js'
import { newId } from '../../lib/id.js'
import { type Json, timestampText } from '../../lib/json.js'
import type { Store, StoreLog, StoreTransaction } from '../../store/store.js'
import { percent } from './conditions.js'
import type { BakingWrite, GuardedWrites } from './guarded-writes.js'
import { type Break, comparable, exceeds, judgeRates } from './judgement.js'

interface GuardJudgeParts {
  readonly store: Pick<Store, 'history' | 'amend'>
  readonly guarded: GuardedWrites
  readonly undo: UndoRevision
  readonly clock: Clock
  readonly log: StoreLog
  /** Called when this process has ended a guard. Must not throw. */
  readonly ended: (end: EndedGuard) => void
}

/** Interval between checks for a completed second (ms). */
const EVERY = 250
/** Time that a process with too little traffic waits for the verdict of other processes (ms). */
const OTHERS = 5_000
/** Maximum number of revisions by other processes that one query reads. */
const READ_AT_ONCE = 200
/** Codes of errors that a later attempt may not meet. */
const PASSING: ReadonlySet<string> = new Set([
  controlErrors.UNAVAILABLE.code,
  controlErrors.BUSY.code,
  controlErrors.OUTCOME_UNKNOWN.code,
  controlErrors.SEAL_KEY_LOST.code
])

/** Users see this name as the writer of a revert. */
const OURSELVES: Principal = { id: 'guard', role: 'administrator', subject: 'guard of a write', key: null }

/** Another process has ended the guard. */
class EndedElsewhere extends Error {}

/** Judges guarded writes every second and reverts those that violate a condition. */
export class GuardJudge {
  readonly #parts: GuardJudgeParts
  readonly #timer: NodeJS.Timeout
  #running: Promise<void> | undefined
  #stopped = false
  #troubled = false

  constructor(parts: GuardJudgeParts) {
    this.#parts = parts
    this.#timer = setInterval(() => this.#look(), EVERY).unref()
  }

  /** Waits for the running judgement. The next process continues watching the guarded writes. */
  async stop(): Promise<void> {
    this.#stopped = true
    clearInterval(this.#timer)
    await this.#running
  }

  #look(): void {
    const { guarded } = this.#parts
    const { served, read } = guarded.place
    if (this.#stopped || this.#running !== undefined || (guarded.baking.length === 0 && served === read)) return
    this.#running = this.#round().finally(() => {
      this.#running = undefined
    })
  }

  /** Runs one round. Never rejects: failures are retried. */
  async #round(): Promise<void> {
    try {
      await this.#follow()
      for (const one of this.#parts.guarded.baking) await this.#judge(one)
      this.#troubled = false
    } catch (error) {
      if (!this.#troubled) this.#parts.log.warn({ err: error }, 'guards of writes cannot be followed; trying again')
      this.#troubled = true
    }
  }

  /** Reads revisions that other processes wrote, or that this process left unread when it stopped. */
  async #follow(): Promise<void> {
    const { guarded, store } = this.#parts
    const { served, read } = guarded.place
    if (served === read) return
    const [limit, before] = [READ_AT_ONCE, served + 1]
    let after = read
    if (guarded.baking.length === 0) {
      const baking = await store.history({ limit, before, after, noting: BAKING })
      after = (baking.at(-1)?.revision ?? before) - 1
    }
    const entries = await store.history({ limit, before, after })
    const noted = entries.reverse().flatMap(({ revision, detail }) => {
      const note = readNote(detail)
      return note === undefined ? [] : [{ revision, note }]
    })
    guarded.follow(noted, served)
  }

  async #judge(one: BakingWrite): Promise<void> {
    if (one.broken !== undefined) return await this.#revert(one, one.broken)
    if (one.superseded !== undefined) {
      const reason = `revision ${one.superseded} has changed the same`
      return await this.#end(one, { state: 'superseded', reason, by: one.superseded })
    }
    const elapsed = this.#parts.clock.monotonic() - one.begun
    const second = Math.floor(elapsed / 1_000)
    if (second <= one.judged) return
    one.judged = second
    const broken = this.#broken(one, elapsed)
    if (broken !== undefined) {
      one.broken = broken.reason
      return await this.#revert(one, broken.reason)
    }
    if (elapsed < one.guard.bake) return
    const end = endOf(one, this.#compared(one)?.judged ?? 0)
    if (end.state === 'passed' || elapsed >= one.guard.bake + OTHERS) await this.#end(one, end)
  }

  /** Returns the changed decisions counted since the write, if its guard has such a condition. */
  #compared({ guard, revision }: BakingWrite): ReturnType<ChangedDecisions['since']> {
    return guard.changed === undefined ? undefined : this.#parts.guarded.changedDecisions?.since(revision)
  }

  #broken(one: BakingWrite, elapsed: number): Break | undefined {
    const { guard, watched } = one
    for (const { before, watch } of watched) {
      const found = judgeRates(guard, { before, seconds: watch.seconds(), elapsed })
      if (found !== undefined) return found
    }
    const { changed: most, least } = guard
    const counts = this.#compared(one)
    if (most === undefined || counts === undefined || counts.judged < least) return undefined
    const { judged, changed } = counts
    if (!exceeds(changed, judged, most, 1)) return undefined
    const reason = `changed-decisions: ${percent(changed / judged)} of ${judged} requests are decided otherwise, more than ${percent(most)}`
    return { condition: 'changed-decisions', reason }
  }

  async #revert(one: BakingWrite, reason: string): Promise<void> {
    const { clock, log, undo, guarded } = this.#parts
    const { revision, note } = one
    const call = { principal: OURSELVES, address: undefined, operationId: newId('op', clock.wall()) }
    const why = `the guard of revision ${revision} broke: ${reason}`
    const also = async (tx: StoreTransaction) => {
      const ended = this.#ended(one, { state: 'broken', reason, by: tx.number })
      if (!(await tx.amend(revision, note, ended))) throw new EndedElsewhere()
    }
    let by: number | undefined
    try {
      by = await undo(revision, { reason: why, author: note.principal, also }, call)
    } catch (error) {
      if (error instanceof EndedElsewhere) return guarded.end(one)
      if (error instanceof ControlError && PASSING.has(error.code)) throw error
      if (!(error instanceof ControlError)) log.warn({ err: error, revision }, 'a revert failed inside Sluice')
      const text = error instanceof ControlError ? error.message : controlErrors.INTERNAL.text
      return await this.#end(one, { state: 'conflict', reason: `${reason}; it cannot be reverted: ${text}`, by: null })
    }
    if (by === undefined)
      return await this.#end(one, { state: 'broken', reason: `${reason}; nothing was left to revert`, by: null })
    guarded.forgetTraffic(one, by)
    this.#report(one, { state: 'broken', reason, by })
  }

  /** Ends a guard, unless another process has. */
  async #end(one: BakingWrite, end: GuardEnd): Promise<void> {
    const { store, guarded } = this.#parts
    if (await store.amend(one.revision, one.note, this.#ended(one, end))) this.#report(one, end)
    else guarded.end(one)
  }

  #ended({ note }: BakingWrite, end: GuardEnd) {
    return {
      ...note,
      guard: { ...note.guard, ...end, ended_at: timestampText(this.#parts.clock.wall()) }
    } satisfies Json
  }

  #report(one: BakingWrite, end: GuardEnd): void {
    const { guarded, log, ended } = this.#parts
    const { revision, note } = one
    guarded.end(one)
    const { state, reason, by } = end
    const fields = { revision, guard: note.guard.conditions, state, ...(reason === null ? {} : { reason }) }
    if (state === 'broken')
      log.warn({ ...fields, reverted_by: by }, 'the guard of a write broke: the write is reverted')
    else if (state === 'conflict') log.warn(fields, 'the guard of a write broke, and the write cannot be reverted')
    else log.info(fields, 'the guard of a write has ended')
    ended({ ...end, revision, note: this.#ended(one, end).guard })
  }
}

/** Returns the end of a guard. `compared`: number of compared requests. */
function endOf({ guard, watched }: BakingWrite, compared: number): GuardEnd {
  const most = Math.max(compared, ...watched.map(({ watch }) => watch.total().requests))
  const inconclusive = (reason: string) => ({ state: 'inconclusive', reason, by: null }) as const
  if (most < guard.least) return inconclusive(`${most} requests came while it baked, fewer than ${guard.least}`)
  const known =
    guard.changed !== undefined || guard.rates.some((limit) => watched.some(({ before }) => comparable(limit, before)))
  return known
    ? { state: 'passed', reason: null, by: null }
    : inconclusive('there were no requests before the write that its rates could be compared with')
}
