import { documentedFunctions } from '../expression/catalogue.js'
import { EvaluationError } from '../expression/expression.js'
import { Language } from '../expression/expressions.js'
import { connVariables, endpointVariables, tlsVariables } from '../expression/variables/connection.js'
import { requestVariables } from '../expression/variables/http.js'
import type { Flow } from '../flow/flow.js'

/** Returns the text that selects the server of a request; undefined if the value is missing or empty. */
export type HashKey = (flow: Flow) => string | undefined

export type CompiledHashKey =
  | { readonly ok: true; readonly key: HashKey }
  /** `start`: character offset of the error, from 0. */
  | { readonly ok: false; readonly message: string; readonly start: number }

/** CEL types that convert to one text. */
const ONE_VALUE: ReadonlySet<string> = new Set(['string', 'int', 'uint', 'double', 'bool', 'bytes', 'dyn'])
/** Functions excluded from hash keys: random ones, because the key would change with each request, and vaults. */
const LEFT_OUT = /^(?:rand|secrets)\./

let language: Language | undefined

/**
 * Compiles a hash key: CEL over the variables of the connection, the endpoint and the request, with the functions of traffic policies
 * except random ones and vaults.
 */
export function compileHashKey(source: string): CompiledHashKey {
  language ??= new Language(
    [...connVariables, ...tlsVariables, ...endpointVariables, ...requestVariables],
    documentedFunctions({ random: () => 0 }).filter(({ signature }) => !LEFT_OUT.test(signature))
  )
  const { textOf } = language
  const compiled = language.expression(source, 'on_http_request')
  if (!compiled.ok) {
    const [first] = compiled.problems
    return { ok: false, message: first?.message ?? 'the expression is refused', start: first?.start ?? 0 }
  }
  const { value: expression } = compiled
  if (!ONE_VALUE.has(expression.type)) {
    const first = expression.type.startsWith('list') ? '; write [0] behind it for the first one' : ''
    return { ok: false, message: `must be one value, and this is of type ${expression.type}${first}`, start: 0 }
  }
  return {
    ok: true,
    key(flow) {
      const value = expression.outcome(flow)
      if (typeof value === 'string') return value === '' ? undefined : value
      if (value instanceof Error || value === null) return undefined
      try {
        return textOf(value)
      } catch (error) {
        // The value exceeds the size limit of texts.
        if (!(error instanceof EvaluationError)) throw error
        return undefined
      }
    }
  }
}
