import { fixedTextsOf } from '../../expression/template.js'
import { foreignReference, groupReferences, missingGroups } from '../../lib/regex.js'
import type { Replacing } from '../action.js'
import type { DocumentScope } from '../scope.js'
import { nodeAt } from '../tree.js'
import { policyWarnings } from './codes.js'
import type { ActionFacts, WarningKind } from './kind.js'

/** Warns of `$2` in a replacement whose pattern has one group: it becomes an empty text. */
export const groupMissing: WarningKind = {
  warning: policyWarnings.GROUP_MISSING,
  judge: (document) => (facts) => {
    for (const one of facts.actions) {
      for (const replacing of one.action.replaces?.(one.config) ?? []) warn(document, one, replacing)
    }
  }
}

function warn(document: DocumentScope, { node }: ActionFacts, { from, to, at }: Replacing): void {
  const message = from === undefined ? withoutPattern(to) : (withPattern(from, to) ?? foreign(to))
  if (message === undefined || node.config === undefined) return
  const { span } = nodeAt(node.config, at)
  document.report.warning([...node.path, 'config', ...at], policyWarnings.GROUP_MISSING, message, span)
}

/** `\1`, the reference syntax of other programs. */
function foreign(to: string): string | undefined {
  const found = foreignReference(fixedTextsOf(to).join(''))
  return found === undefined ? undefined : `"${found.written}" is no reference to a group here; write ${found.right}`
}

function withoutPattern(to: string): string | undefined {
  const [first] = fixedTextsOf(to).flatMap(groupReferences)
  return first === undefined
    ? undefined
    : `without a pattern in from, ${first} is no group and stays as it is written; give from, or write an expression in \${…}`
}

/** Patterns built at run time are not checked. */
function withPattern(from: string, to: string): string | undefined {
  if (fixedTextsOf(from).join('') !== from) return undefined
  const missing = [...new Set(fixedTextsOf(to).flatMap((text) => missingGroups(from, text)))]
  if (missing.length === 0) return undefined
  const are = missing.length === 1 ? 'is' : 'are'
  return `the pattern has no group for ${missing.join(', ')}, which ${are} replaced by an empty text; put parentheses around what it shall stand for, or write $$ for a dollar`
}
