import type { RegexCache } from '../../lib/regex.js'
import { EvaluationError } from '../expression.js'
import type { FunctionDefinition } from '../function-definition.js'

const BAD_PATTERN = new EvaluationError('failed', 'matches(): the pattern is not valid RE2 syntax')

/** `matches` for patterns that are known at run time only; `compile-call.ts` compiles constant ones beforehand. */
export function regexFunctions(regexes: RegexCache): readonly FunctionDefinition[] {
  const matches = (text: string, pattern: string) => {
    const compiled = regexes.get(pattern)
    if (!compiled.ok) throw BAD_PATTERN
    return compiled.regex.test(text)
  }
  return [
    { signature: 'string.matches(string): bool', run: matches },
    { signature: 'matches(string, string): bool', run: matches }
  ]
}
