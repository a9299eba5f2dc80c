import type { ChangedDecisions } from '../../control/changed-decisions.js'
import type { SnapshotHolder } from '../../runtime/snapshot.js'
import type { RunningShadows } from '../shadow/running-shadows.js'
import type { Beside } from '../shadow/shadow-runner.js'

/** Compares all clients, with limits that continue from the current counters. `budget` is the maximum time for each request (ms). */
const SETTINGS = { name: '', share: 1, budget: 2, counters: 'running', duration: 0, examples: 0 } as const

/** Runs the configuration of before a guarded write beside the one that the write has made. */
export function changedDecisions(
  shadows: Pick<RunningShadows, 'beside'>,
  holder: Pick<SnapshotHolder, 'current'>
): ChangedDecisions {
  const running = new Map<number, Beside>()
  return {
    begin(revision, routes) {
      running.set(revision, shadows.beside(holder.current(), routes, SETTINGS))
    },
    since: (revision) => running.get(revision)?.counts,
    end(revision) {
      running.get(revision)?.end()
      running.delete(revision)
    }
  }
}
