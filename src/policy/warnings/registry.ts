import { actionUnreachable } from './action-unreachable.js'
import { conditionAlwaysTrue } from './condition-always-true.js'
import { groupMissing } from './group-missing.js'
import { headerForgeable } from './header-forgeable.js'
import type { WarningKind } from './kind.js'
import { limitKeyShared } from './limit-key-shared.js'
import { limitNameRepeated } from './limit-name-repeated.js'
import { ruleFailsOpen } from './rule-fails-open.js'
import { ruleNeverMatches } from './rule-never-matches.js'
import { ruleShadowed } from './rule-shadowed.js'
import { ruleUnreachable } from './rule-unreachable.js'

/** All kinds of warnings about policy documents, one file per kind. */
export const warningKinds: readonly WarningKind[] = [
  ruleFailsOpen,
  ruleNeverMatches,
  conditionAlwaysTrue,
  ruleUnreachable,
  ruleShadowed,
  actionUnreachable,
  groupMissing,
  limitNameRepeated,
  limitKeyShared,
  headerForgeable
]
