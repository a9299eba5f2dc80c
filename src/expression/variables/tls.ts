import type { VariableDefinition } from './definition.js'
export const tlsVariables: readonly VariableDefinition[] = []
