import { nodeAt } from '../tree.js'
import { policyWarnings } from './codes.js'
import type { ActionFacts, WarningKind } from './kind.js'

/** Warns of two limits with one name: they share no bucket, although their metrics and response fields have the same name. */
export const limitNameRepeated: WarningKind = {
  warning: policyWarnings.LIMIT_NAME_REPEATED,
  judge(document) {
    const known = new Map<string, ActionFacts>()
    return (facts) => {
      for (const one of facts.actions) {
        const name = one.action.counterName?.(one.config)
        if (name === undefined || one.node.config === undefined) continue
        const key = JSON.stringify([one.node.type, name])
        const first = known.get(key)
        if (first === undefined) {
          known.set(key, one)
          continue
        }
        const { line } = document.source.place(first.node.typeNode.span.start)
        const message = `a limit in line ${line} is called ${JSON.stringify(name)} too: they share nothing, each counts in buckets of its own, so more pass than one of them says, and metrics and the fields RateLimit mix them; give each a name of its own, or use one limit`
        const path = [...one.node.path, 'config', 'name']
        document.report.warning(
          path,
          policyWarnings.LIMIT_NAME_REPEATED,
          message,
          nodeAt(one.node.config, ['name']).span
        )
      }
    }
  }
}
