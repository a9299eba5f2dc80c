import type { ShardedMap } from '../lib/sharded-map.js'
import type { Unit } from '../runtime/plan.js'
import { fieldErrors } from '../schema/errors.js'
import type { Store } from '../store/store.js'
import type { Units } from './apply.js'
import type { Call } from './calls.js'
import { ControlError } from './errors.js'
import type { Guard, GuardedRevert, GuardNote } from './guard-note.js'
import type { Catalogue } from './records.js'
import type { RecordedChange, RevisionNote } from './revision-note.js'

/** A guard that is accepted, until its write is committed. */
export interface OpeningGuard {
  readonly guard: Guard
  readonly note: GuardNote
}

/** Reverts a revision. Resolves with the reverting revision, or undefined if there was nothing to revert. Fails with a `ControlError`. */
export type UndoRevision = (revision: number, why: GuardedRevert, call: Call) => Promise<number | undefined>

/** Accepts and judges the guards of writes; the control plane reports each write and each revision to it. */
export interface WriteGuards {
  /** Reads the text of a guard. Fails with a `ControlError`. */
  read(text: string): Guard
  /**
   * Opens the guard of a write with these changes. Returns undefined if there is no guard, or nothing to watch. Fails with a
   * `ControlError` when the guard cannot be judged or its write not be reverted.
   */
  opening(
    guard: Guard | undefined,
    changes: readonly RecordedChange[],
    units: ShardedMap<Unit>,
    change: Pick<Units, 'put' | 'drop'>
  ): OpeningGuard | undefined
  /** The write is committed and about to serve. */
  begin(revision: number, note: RevisionNote, opening: OpeningGuard): void
  /** This process has committed a write, with or without a guard. */
  wrote(revision: number, note: RevisionNote): void
  /** A revision serves here, from any process. */
  served(revision: number): void
  /** Starts judging; `undo` reverts writes whose guard breaks. */
  start(undo: UndoRevision): void
  /** Waits for the judgement that runs, and ends. */
  stop(): Promise<void>
}

/** Parts of the control plane that guards build on. */
interface WriteGuardParts {
  readonly store: Pick<Store, 'history' | 'amend'>
  readonly catalogue: Catalogue
}

/** Opens the guards of a control plane. */
export type OpenWriteGuards = (parts: WriteGuardParts) => WriteGuards

/** Refuses every guard. */
export const noGuards: WriteGuards = {
  read() {
    throw new ControlError(fieldErrors.FIELD_INVALID, 'this process has no guards of writes', { field: 'guard' })
  },
  opening: () => undefined,
  begin: () => undefined,
  wrote: () => undefined,
  served: () => undefined,
  start: () => undefined,
  stop: async () => undefined
}
