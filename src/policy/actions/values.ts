import { engineValue } from '../../expression/values.js'
import type { Flow } from '../../flow/flow.js'
import type { Scope } from '../action.js'
import type { NodePath } from '../problem.js'

/** Deepest nesting of lists and maps in a config value. */
const MAX_DEPTH = 10

/** A config value with `${…}` in its strings, at any depth; evaluates to the expression engine's representation. */
export interface CompiledValue {
  readonly constant: boolean
  /** Throws `EvaluationError`. */
  evaluate(flow: Flow): unknown
}

/**
 * Compiles a YAML value. A string that is one whole `${…}` keeps the type of its expression; what holds no expression is
 * made once. Whole numbers become int, other numbers double.
 */
export function compileValue(value: unknown, at: NodePath, scope: Scope, depth = 0): CompiledValue {
  if (depth > MAX_DEPTH) {
    scope.problem(at, 'CONFIG_INVALID', `lists and maps nest at most ${MAX_DEPTH} deep`)
    return fixed(null)
  }
  if (typeof value === 'string') {
    const template = scope.template(value, at)
    if (template.constant !== undefined) return fixed(template.constant)
    return { constant: false, evaluate: (flow) => template.value(flow) }
  }
  if (Array.isArray(value)) {
    return compileList(value.map((item, i) => compileValue(item, [...at, i], scope, depth + 1)))
  }
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value).map(
      ([key, item]) => [key, compileValue(item, [...at, key], scope, depth + 1)] as const
    )
    return compileMap(entries)
  }
  return fixed(engineValue(value))
}

function fixed(value: unknown): CompiledValue {
  return { constant: true, evaluate: () => value }
}

function compileList(items: readonly CompiledValue[]): CompiledValue {
  const evaluate = (flow: Flow) => items.map((item) => item.evaluate(flow))
  return items.every((item) => item.constant) ? fixed(evaluate(NO_FLOW)) : { constant: false, evaluate }
}

function compileMap(entries: readonly (readonly [string, CompiledValue])[]): CompiledValue {
  const evaluate = (flow: Flow) => new Map(entries.map(([key, item]) => [key, item.evaluate(flow)]))
  return entries.every(([, item]) => item.constant) ? fixed(evaluate(NO_FLOW)) : { constant: false, evaluate }
}

/** Constants do not look at their flow. */
const NO_FLOW = undefined as unknown as Flow
