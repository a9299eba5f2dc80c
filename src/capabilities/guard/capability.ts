import { defineCapability } from '../../app/capability.js'
import type { Foundation } from '../../app/foundation.js'
import { WRITE_GUARDS } from '../../app/ports.js'
import type { EndedGuard } from '../../control/guard-note.js'
import { RUNNING_SHADOWS } from '../shadow/running-shadows.js'
import { guardErrors } from './errors.js'
import { changedDecisions } from './running-changed-decisions.js'
import { writeGuards } from './write-guards.js'

/** Judges writes by the traffic after them, and reverts those that break their conditions. */
export const guard = defineCapability({
  name: 'guard',
  errors: { 'Management API': [guardErrors] },
  stages: {
    ruled({ foundation, opened }) {
      const { clock, log, metrics, holder } = foundation
      const guards = writeGuards({
        clock,
        log,
        traffic: metrics.rates,
        changedDecisions: changedDecisions(opened.get(RUNNING_SHADOWS), holder),
        ended: guardReports(foundation)
      })
      opened.put(WRITE_GUARDS, guards)
    }
  }
})

/** Counts a guard that has ended, and makes its event. */
function guardReports({ metrics, bus, publicUrl }: Foundation): (end: EndedGuard) => void {
  return ({ revision, state, reason, by, note }) => {
    metrics.guardEnded(state)
    const type = state === 'broken' || state === 'conflict' ? 'guard_broken.v0' : 'guard_ended.v0'
    if (!bus.wants(type)) return
    const named = (id: number) => ({ id, uri: `${publicUrl.read()}/revisions/${id}` })
    const { conditions, ended_at } = note
    const about = { conditions, state, reason, ended_at, by: by === null ? null : named(by) }
    bus.publish(type, { revision: named(revision), ...about })
  }
}
