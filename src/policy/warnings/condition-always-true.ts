import { policyWarnings } from './codes.js'
import { type WarningKind, warnInside } from './kind.js'

/**
 * Warns of conditions that are true for every request, such as `req.method != 'GET' || req.method != 'POST'`: the rule has fewer effective
 * conditions than its author may expect.
 */
export const conditionAlwaysTrue: WarningKind = {
  warning: policyWarnings.CONDITION_ALWAYS_TRUE,
  judge: (document) => (facts) => {
    for (const expression of facts.expressions) {
      for (const condition of expression.conditions) {
        // A literal `true` is intended.
        if (condition.source === 'true' || (condition.always ?? condition.isTrueIfThere) !== true) continue
        const either = condition.text === undefined && isEither(condition.source)
        const advice = either
          ? '; nothing has two values at once, so one of its sides always holds: for none of them write &&'
          : ''
        const which = condition.always === true ? '' : ' that has what it compares'
        const message = `this condition is true for every request${which}${advice}`
        warnInside(document, policyWarnings.CONDITION_ALWAYS_TRUE, expression, condition, message)
      }
    }
  }
}

/** Returns whether `||` joins two `!=` comparisons. */
function isEither(source: string): boolean {
  const first = source.indexOf('!=')
  const or = first === -1 ? -1 : source.indexOf('||', first)
  return or !== -1 && source.includes('!=', or)
}
