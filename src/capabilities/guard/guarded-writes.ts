import type { Units } from '../../control/apply.js'
import { CERTIFICATE_SERVICE } from '../../control/calls.js'
import type { ChangedDecisions } from '../../control/changed-decisions.js'
import { SITE } from '../../control/declared-records.js'
import { ControlError } from '../../control/errors.js'
import type { Baseline, Guard, GuardNote, GuardScope } from '../../control/guard-note.js'
import type { Catalogue } from '../../control/records.js'
import { MOST_CHANGES, type RecordedChange, type RevisionNote } from '../../control/revision-note.js'
import type { OpeningGuard } from '../../control/write-guards.js'
import type { Clock } from '../../lib/clock.js'
import type { ShardedMap } from '../../lib/sharded-map.js'
import type { Unit } from '../../runtime/plan.js'
import type { StoreLog } from '../../store/store.js'
import { guardText, readGuard } from './conditions.js'
import { guardErrors } from './errors.js'
import { baselineOf, type Tally } from './judgement.js'
import { scopesOf } from './scope.js'

interface CountedScope {
  readonly all: boolean
  readonly routes: ReadonlySet<string>
  readonly edges: ReadonlySet<string>
  readonly hosts: ReadonlySet<string>
}

/** Counters of a scope since a write. */
interface TrafficWatch {
  seconds(): readonly Tally[]
  total(): Tally
  end(): void
}

/** Traffic counters of this process. Times are monotonic milliseconds. */
export interface CountedTraffic {
  /** By blocks of time that had traffic, oldest first; none of the time since `revision` serves. */
  before(scope: CountedScope, now: number, revision: number): readonly Tally[]
  /** Starts counting traffic of `revision` and later ones. */
  watch(scope: CountedScope, revision: number, now: number): TrafficWatch
  /** Excludes traffic since a time, and later traffic of these revisions, from the baselines of later writes. `to` is exclusive. */
  forget(scope: CountedScope, from: number, revisions: { readonly from: number; readonly to: number }): void
}

interface GuardedWritesParts {
  readonly catalogue: Catalogue
  readonly clock: Clock
  readonly log: StoreLog
  /** Counters of traffic. Without traffic in this process it is undefined, and guards are rejected. */
  readonly traffic: CountedTraffic | undefined
  /** Comparison of decisions. Without one it is undefined, and `changed-decisions` is rejected. */
  readonly changedDecisions: ChangedDecisions | undefined
}

/** A note with a guard. */
type GuardedNote = RevisionNote & { readonly guard: GuardNote }

/** A write whose guard bakes. */
export interface BakingWrite {
  readonly revision: number
  readonly guard: Guard
  /** The note as stored. */
  readonly note: GuardedNote
  readonly watched: readonly { readonly scope: CountedScope; readonly before: Baseline; readonly watch: TrafficWatch }[]
  /** Monotonic milliseconds. */
  readonly begun: number
  /** Seconds since then that were judged. */
  judged: number
  /** A later revision with overlapping changes; undefined if there is none. */
  superseded: number | undefined
  /** Reason for the revert in progress; undefined if none. */
  broken: string | undefined
}

/**
 * Guarded writes of a store that this process knows: its own writes from their commit, those of other processes once read.
 * Each process judges by its own traffic.
 */
export class GuardedWrites {
  readonly #parts: GuardedWritesParts
  readonly #baking = new Map<number, BakingWrite>()
  #served = 0
  #read = 0

  constructor(parts: GuardedWritesParts) {
    this.#parts = parts
  }

  get baking(): readonly BakingWrite[] {
    return [...this.#baking.values()]
  }

  /** `served` is the last revision served here; `read` the last one whose guard state is known. */
  get place(): { readonly served: number; readonly read: number } {
    return { served: this.#served, read: this.#read }
  }

  /** Can this process say how many decisions a write has changed? */
  get changedDecisions(): ChangedDecisions | undefined {
    return this.#parts.changedDecisions
  }

  /**
   * Opens the guard of a write with these changes. Returns undefined if there is no guard, or nothing to watch. Fails with
   * `GUARD_UNSUPPORTED` and `GUARD_IMPOSSIBLE`.
   */
  opening(
    guard: Guard | undefined,
    changes: readonly RecordedChange[],
    units: ShardedMap<Unit>,
    change: Pick<Units, 'put' | 'drop'>
  ): OpeningGuard | undefined {
    if (guard === undefined || changes.length === 0) return undefined
    const { traffic, changedDecisions, clock } = this.#parts
    if (traffic === undefined) throw unsupported('it carries no traffic')
    if (guard.changed !== undefined && changedDecisions === undefined) {
      throw unsupported('changed-decisions needs policies that run beside those of before, which it does not have')
    }
    this.#mustBeRevertible(changes)
    const now = clock.monotonic()
    const scopes = scopesOf(units, change).map((scope) => {
      return { ...scope, before: baselineOf(traffic.before(counted(scope), now, Number.POSITIVE_INFINITY)) }
    })
    const note = {
      conditions: guardText(guard),
      state: 'baking',
      reason: null,
      ended_at: null,
      by: null,
      scopes
    } as const
    return { guard, note }
  }

  /** The write is committed and about to serve. */
  begin(revision: number, note: RevisionNote, { guard }: OpeningGuard): void {
    if (note.guard === undefined) return
    this.#add(revision, { ...note, guard: note.guard }, guard)
    if (guard.changed !== undefined) this.#parts.changedDecisions?.begin(revision, comparedRoutes(note.guard.scopes))
  }

  /** This process has committed a write, with or without a guard. */
  wrote(revision: number, { changes, principal }: RevisionNote): void {
    if (this.#read === revision - 1) this.#read = revision
    if (changes === null) return
    for (const one of this.#baking.values()) {
      const current = one.revision >= revision || one.broken !== undefined || one.superseded !== undefined
      if (!current && this.#overlap(one.note.changes ?? [], changes, principal)) one.superseded = revision
    }
  }

  /** A revision serves here, from any process. */
  served(revision: number): void {
    this.#served = revision
    // The store went back in time, or is another one.
    if (revision < this.#read) this.#read = revision
  }

  /** Notes of revisions that other processes wrote, or this one before it started, oldest first. */
  follow(entries: readonly { readonly revision: number; readonly note: RevisionNote }[], upTo: number): void {
    for (const { revision, note } of entries) {
      if (note.guard?.state === 'baking' && !this.#baking.has(revision))
        this.#adopt(revision, { ...note, guard: note.guard })
      this.wrote(revision, note)
    }
    this.#read = Math.max(this.#read, upTo)
  }

  /** Stops watching a write. */
  end(one: BakingWrite): void {
    for (const { watch } of one.watched) watch.end()
    this.#parts.changedDecisions?.end(one.revision)
    this.#baking.delete(one.revision)
  }

  /** Excludes the traffic of a reverted write from the baseline of the next one. */
  forgetTraffic({ watched, begun, revision }: BakingWrite, by: number): void {
    for (const { scope } of watched) this.#parts.traffic?.forget(scope, begun, { from: revision, to: by })
  }

  #adopt(revision: number, note: GuardedNote): void {
    try {
      this.#add(revision, note, readGuard(note.guard.conditions))
    } catch (error) {
      this.#parts.log.warn({ err: error, revision }, 'the guard of a revision cannot be read here')
    }
  }

  #add(revision: number, note: GuardedNote, guard: Guard): void {
    const { traffic, clock } = this.#parts
    if (traffic === undefined) return
    const now = clock.monotonic()
    const watched = note.guard.scopes.map(({ before, ...noted }) => {
      const scope = counted(noted)
      const own = baselineOf(traffic.before(scope, now, revision))
      const known = own.requests >= guard.least ? own : before
      return { scope, before: known, watch: traffic.watch(scope, revision, now) }
    })
    const state = { judged: 0, superseded: undefined, broken: undefined }
    this.#baking.set(revision, { revision, guard, note, watched, begun: now, ...state })
  }

  /** Do later changes affect the results of earlier ones? Other fields of the same record do not matter. */
  #overlap(earlier: readonly RecordedChange[], later: readonly RecordedChange[], writer: string): boolean {
    const before = new Map(earlier.map((change) => [`${change.kind} ${change.id}`, change]))
    return later.some((change) => {
      const former = before.get(`${change.kind} ${change.id}`)
      if (former === undefined) return false
      if (change.change !== 'updated' || former.change === 'deleted') return true
      // The certificate service writes its status into a new domain, for example.
      if (former.change === 'created') return writer !== CERTIFICATE_SERVICE
      const names = new Set(this.#namesOf(former))
      return this.#namesOf(change).some((name) => names.has(name))
    })
  }

  /** Fields that differ, but for those that every write changes. */
  #namesOf({ kind, fields, secrets, stored }: RecordedChange): string[] {
    const declared = this.#parts.catalogue.find(kind)?.fields ?? {}
    return [...Object.keys(fields), ...secrets, ...(stored?.names ?? []), ...(stored?.hidden ?? [])].filter(
      (name) => declared[name]?.onUpdate === undefined
    )
  }

  #mustBeRevertible(changes: readonly RecordedChange[]): void {
    if (changes.length > MOST_CHANGES) throw impossible(`it changes more than ${MOST_CHANGES} records`)
    for (const { kind, id, change, secrets, stored } of changes) {
      if (kind === SITE.kind) {
        if (changes.length > 1) throw impossible('it removes records of the API together with the site file')
        continue
      }
      if (this.#parts.catalogue.find(kind) === undefined) throw impossible(`it changes a ${kind}`)
      const lost = change === 'created' ? [] : [...secrets, ...(stored?.hidden ?? [])]
      if (lost.length > 0) throw impossible(`the history does not keep ${lost.join(', ')} of ${kind} ${id}`)
    }
  }
}

function counted({ all, routes, edges, hosts }: GuardScope): CountedScope {
  return { all, routes: new Set(routes), edges: new Set(edges), hosts: new Set(hosts) }
}

/** The routes that a write touches; every one where it reaches further. */
function comparedRoutes(scopes: readonly GuardScope[]): ReadonlySet<string> | 'every' {
  const routes = scopes.flatMap((scope) => scope.routes)
  return routes.length === 0 ? 'every' : new Set(routes)
}

function unsupported(why: string): ControlError {
  return new ControlError(guardErrors.GUARD_UNSUPPORTED, `this process cannot judge the guard: ${why}`)
}

function impossible(why: string): ControlError {
  return new ControlError(
    guardErrors.GUARD_IMPOSSIBLE,
    `the write cannot carry a guard, because no revert could undo it: ${why}`
  )
}
