import type { Phase } from '../flow/flow.js'
import type { FunctionTable } from './signatures.js'
import { isAvailable, type VariableDefinition } from './variables/definition.js'

/** Resolution of a chain of names such as `req.url.path.size`. */
export interface Resolution {
  readonly variable: VariableDefinition
  /** Number of names that belong to the variable. */
  readonly length: number
}

/** Names of CEL types. */
export const TYPE_NAMES: readonly string[] = [
  'int',
  'uint',
  'double',
  'string',
  'bool',
  'bytes',
  'list',
  'map',
  'null_type',
  'type'
]

/** Variables and functions available to an expression. */
export class Environment {
  readonly functions: FunctionTable
  readonly #variables = new Map<string, VariableDefinition>()
  /** Every prefix of a documented path that is not a variable itself: `req`, `conn.ts`. */
  readonly #namespaces = new Set<string>()
  readonly #roots = new Set<string>()

  constructor(variables: Iterable<VariableDefinition>, functions: FunctionTable) {
    this.functions = functions
    for (const variable of variables) {
      if (this.#variables.has(variable.path)) throw new Error(`Two variables named ${variable.path}`)
      this.#variables.set(variable.path, variable)
      const names = variable.path.split('.')
      this.#roots.add(names[0] as string)
      for (let i = 1; i < names.length; i++) this.#namespaces.add(names.slice(0, i).join('.'))
    }
  }

  /** Returns an environment extended by these variables. */
  with(variables: readonly VariableDefinition[]): Environment {
    return variables.length === 0 ? this : new Environment([...this.#variables.values(), ...variables], this.functions)
  }

  /** Returns whether a chain that begins with `name` refers to variables. */
  isRoot(name: string): boolean {
    return this.#roots.has(name)
  }

  isNamespace(path: string): boolean {
    return this.#namespaces.has(path) && !this.#variables.has(path)
  }

  /** Returns the longest documented path at the start of the chain. `names` are canonical. */
  resolve(names: readonly string[]): Resolution | undefined {
    if (names[0] === 'vars' && names.length > 1) return { variable: variableOfVars(names[1] as string), length: 2 }
    for (let length = names.length; length > 0; length--) {
      const variable = this.#variables.get(names.slice(0, length).join('.'))
      if (variable !== undefined) return { variable, length }
    }
    return undefined
  }

  /** Yields the paths of all variables available in `phase`. */
  *paths(phase: Phase): Iterable<string> {
    for (const { path, phases } of this.#variables.values()) if (isAvailable(phases, phase)) yield path
  }
}

/** Resolves the alias `actions.ngrok` to `actions.service`. */
export function canonical(names: readonly string[]): readonly string[] {
  return names[0] === 'actions' && names[1] === 'ngrok' ? ['actions', 'service', ...names.slice(2)] : names
}

function variableOfVars(name: string): VariableDefinition {
  return { path: `vars.${name}`, type: 'dyn', optional: true, read: (flow) => flow.vars?.get(name) }
}
