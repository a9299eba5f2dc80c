import type { VariableDefinition } from './definition.js'

const EMPTY: ReadonlyMap<string, unknown> = new Map()

/** `vars` as a whole; `vars.<name>` is resolved by the environment, for any name. */
export const varsVariables: readonly VariableDefinition[] = [
  { path: 'vars', type: 'map<string, dyn>', read: (flow) => flow.vars ?? EMPTY }
]
