import type { UnitProblems } from '../policy/problems.js'
import type { PortProblem } from '../runtime/ports.js'

/** What came of applying units. */
export type Applied =
  /** `revision` serves now; `changed` is false when it already did. */
  | {
      readonly ok: true
      readonly revision: number
      readonly changed: boolean
      readonly warnings: readonly UnitProblems[]
    }
  /** Nothing has changed. */
  | {
      readonly ok: false
      readonly revision: number
      readonly problems: readonly UnitProblems[]
      readonly ports: readonly PortProblem[]
    }
