import type { ChangedDecisions } from '../../control/changed-decisions.js'
import type { EndedGuard } from '../../control/guard-note.js'
import type { OpenWriteGuards } from '../../control/write-guards.js'
import type { Clock } from '../../lib/clock.js'
import type { StoreLog } from '../../store/store.js'
import { readGuard } from './conditions.js'
import { GuardJudge } from './guard-judge.js'
import { type CountedTraffic, GuardedWrites } from './guarded-writes.js'

export interface WriteGuardOptions {
  readonly clock: Clock
  readonly log: StoreLog
  /** Counters of traffic. Without traffic in this process it is undefined, and guards are rejected. */
  readonly traffic: CountedTraffic | undefined
  /** Comparison of decisions. Without one it is undefined, and `changed-decisions` is rejected. */
  readonly changedDecisions: ChangedDecisions | undefined
  /** Called when this process has ended a guard. Must not throw. */
  readonly ended: (end: EndedGuard) => void
}

/** Returns the function that opens the guards of a control plane. */
export function writeGuards({ clock, log, traffic, changedDecisions, ended }: WriteGuardOptions): OpenWriteGuards {
  return ({ store, catalogue }) => {
    const guarded = new GuardedWrites({ catalogue, clock, log, traffic, changedDecisions })
    let judge: GuardJudge | undefined
    return {
      read: readGuard,
      opening: (...about) => guarded.opening(...about),
      begin: (...about) => guarded.begin(...about),
      wrote: (...about) => guarded.wrote(...about),
      served: (revision) => guarded.served(revision),
      start(undo) {
        judge = new GuardJudge({ store, guarded, undo, clock, log, ended })
      },
      stop: async () => await judge?.stop()
    }
  }
}
