import type { Scope } from '../action.js'
import type { NodePath } from '../problem.js'
import { isPlaceholderWord } from './placeholder.js'

/** Reports a URL that does not match `pattern`; `${…}` in it is only known later, and with a placeholder the policy does not run. */
export function checkUrl(url: string, pattern: RegExp, expected: string, at: NodePath, scope: Scope): void {
  if (pattern.test(url) || url.includes('${')) return
  if (isPlaceholderWord(url)) {
    scope.unavailable(at, `"${url}" is a placeholder: put ${expected} in its place`, 'PLACEHOLDER')
  } else scope.problem(at, 'CONFIG_INVALID', `"${url}" is not ${expected}`)
}
