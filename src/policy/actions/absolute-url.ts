import type { Scope } from '../action.js'
import type { NodePath } from '../problem.js'
import { isPlaceholder } from './placeholder.js'

/** Reports a URL that does not match `pattern`; `${…}` in it is only known later, and a placeholder is warned of. */
export function checkUrl(url: string, pattern: RegExp, expected: string, at: NodePath, scope: Scope): void {
  if (pattern.test(url) || url.includes('${')) return
  if (isPlaceholder(url)) scope.warn(at, 'PLACEHOLDER', `"${url}" is a placeholder: put ${expected} in its place`)
  else scope.problem(at, 'CONFIG_INVALID', `"${url}" is not ${expected}`)
}
