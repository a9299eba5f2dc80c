import type { Phase } from '../flow/flow.js'
import type { FunctionTable } from './signatures.js'
import { isAvailable, type VariableDefinition } from './variables/definition.js'

/** What a chain of names such as `req.url.path.size` means. */
export interface Resolution {
  readonly variable: VariableDefinition
  /** How many of the names it takes. */
  readonly length: number
}

/** Names that CEL has for types. */
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

/** The variables and functions that an expression can name. */
export class Environment {
  readonly functions: FunctionTable
  readonly #variables = new Map<string, VariableDefinition>()
  /** Every prefix of a documented path that is no variable itself: `req`, `conn.ts`. */
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

  /** An environment that also knows these variables. */
  with(variables: readonly VariableDefinition[]): Environment {
    return variables.length === 0 ? this : new Environment([...this.#variables.values(), ...variables], this.functions)
  }

  /** True when a chain that begins with `name` is about variables. */
  isRoot(name: string): boolean {
    return this.#roots.has(name)
  }

  isNamespace(path: string): boolean {
    return this.#namespaces.has(path) && !this.#variables.has(path)
  }

  /** The longest documented path that begins the chain. `names` are canonical. */
  resolve(names: readonly string[]): Resolution | undefined {
    if (names[0] === 'vars' && names.length > 1) return { variable: variableOfVars(names[1] as string), length: 2 }
    for (let length = names.length; length > 0; length--) {
      const variable = this.#variables.get(names.slice(0, length).join('.'))
      if (variable !== undefined) return { variable, length }
    }
    return undefined
  }

  /** Paths of all variables that can be used in `phase`. */
  *paths(phase: Phase): Iterable<string> {
    for (const { path, phases } of this.#variables.values()) if (isAvailable(phases, phase)) yield path
  }
}

/** `actions.ngrok` is another name of `actions.service`. */
export function canonical(names: readonly string[]): readonly string[] {
  return names[0] === 'actions' && names[1] === 'ngrok' ? ['actions', 'service', ...names.slice(2)] : names
}

function variableOfVars(name: string): VariableDefinition {
  return { path: `vars.${name}`, type: 'dyn', optional: true, read: (flow) => flow.vars?.get(name) }
}
