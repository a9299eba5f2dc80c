import type { Action } from './action.js'

/** What every action publishes, by result name: field → CEL type. The expression layer declares `actions.service.*` from it. */
export function resultsOf(actions: readonly Action[]): Readonly<Record<string, Readonly<Record<string, string>>>> {
  const results: Record<string, Readonly<Record<string, string>>> = {}
  for (const action of actions) {
    if (action.availability !== 'unsupported' && action.results !== undefined) {
      results[action.results.name] = action.results.fields
    }
  }
  return results
}
