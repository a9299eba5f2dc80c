import { policyWarnings } from './codes.js'
import { alwaysEnds, type WarningKind } from './kind.js'

/** Warns of actions after one that always ends the phase; not an error, because published examples have them. */
export const actionUnreachable: WarningKind = {
  warning: policyWarnings.ACTION_UNREACHABLE,
  judge: (document) => (facts) => {
    const ending = facts.actions.find(alwaysEnds)
    if (ending === undefined) return
    const { actions } = facts.rule
    const next = actions[actions.indexOf(ending.node) + 1]
    if (next === undefined) return
    const message = `${next.type} can never run, because ${ending.node.type} before it always ends the phase`
    const path = [...next.path, 'type']
    document.report.warning(path, policyWarnings.ACTION_UNREACHABLE, message, next.typeNode.span)
  }
}
