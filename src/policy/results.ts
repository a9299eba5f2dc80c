import type { Action } from './action.js'

/** What actions publish, by result name: `actions.service.<name>.<field>` with the CEL type of each field. */
export function resultsOf(actions: readonly Action[]): Readonly<Record<string, Readonly<Record<string, string>>>> {
  const results: Record<string, Record<string, string>> = {}
  for (const action of actions) {
    if (action.availability === 'unsupported' || action.results === undefined) continue
    const { name, fields } = action.results
    // Two actions may share a name: an alias publishes what its original does.
    results[name] = { ...results[name], ...fields }
  }
  return results
}
