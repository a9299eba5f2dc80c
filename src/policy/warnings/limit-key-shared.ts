import { isAskedFor } from '../../expression/absence.js'
import type { MaybeAbsent } from '../../expression/expression.js'
import type { DocumentScope } from '../scope.js'
import { nodeAt } from '../tree.js'
import { policyWarnings } from './codes.js'
import { EarlierRules, isLeft, leftBy, leftByAction } from './earlier-rules.js'
import type { ActionFacts, RuleFacts, WarningKind } from './kind.js'

/** Distinguishes every client, regardless of what it sends. */
const ADDRESS = 'conn.client_ip'

/**
 * Warns of limits whose key is optional for clients, such as a header: all clients without it share one bucket, and each of them can
 * exhaust it. No warning if the key includes the address, if the rule requires the value, or if an earlier action has set it.
 */
export const limitKeyShared: WarningKind = {
  warning: policyWarnings.LIMIT_KEY_SHARED,
  judge(document) {
    const before = new EarlierRules()
    return (facts) => {
      for (const [i, one] of facts.actions.entries()) warn(document, facts, one, { i, before })
      before.add(facts)
    }
  }
}

function warn(
  document: DocumentScope,
  facts: RuleFacts,
  { node, action, config }: ActionFacts,
  { i, before }: { readonly i: number; readonly before: EarlierRules }
): void {
  const keys = action.keys?.(config) ?? []
  const compiled = keys.map(({ source, at }) => {
    return { at, source, expression: document.services.expressions.expression(source, facts.phase) }
  })
  if (compiled.some(({ expression }) => expression.ok && expression.value.variables.has(ADDRESS))) return
  const asked = new Set(facts.expressions.flatMap(({ absence }) => [...(absence?.asked ?? [])]))
  let left: ReadonlySet<string> | undefined
  for (const { at, source, expression } of compiled) {
    const absence = expression.ok ? expression.absence : undefined
    for (const value of absence?.values ?? []) {
      if (isAskedFor(value, asked) || isAskedFor(value, absence?.asked ?? new Set())) continue
      left ??= new Set([
        ...before.runBefore(facts).flatMap((earlier) => leftBy(earlier, facts)),
        ...facts.actions.slice(0, i).flatMap(leftByAction)
      ])
      if (isLeft(value, left) || node.config === undefined) continue
      const message = `clients without ${value.shown} share one bucket, which any of them can use up for all; to leave them out, give the rule the expression ${present(value)}; to give each a bucket of its own, write bucket_key: [${source}, ${ADDRESS}]`
      const path = [...node.path, 'config', ...at]
      document.report.warning(path, policyWarnings.LIMIT_KEY_SHARED, message, nodeAt(node.config, at).span)
      return
    }
  }
}

/** Returns an expression that is true if the value is present. */
function present({ missing }: MaybeAbsent): string {
  if (missing.startsWith('!(') && missing.endsWith(')')) return missing.slice(2, -1)
  return missing.startsWith('!') ? missing.slice(1) : missing.replace(/ (?:==|<=) (\d+)$/, ' > $1')
}
