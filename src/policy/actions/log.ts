import Type from 'typebox'
import { defineAction, type Scope } from '../action.js'
import { anyValue, config } from '../fields.js'
import type { NodePath } from '../problem.js'
import { compileValue } from './values.js'

/** Records data with the exchange; it goes to the access log when the exchange ends. */
export const log = defineAction({
  type: 'log',
  phases: ['on_tcp_connect', 'on_http_request', 'on_http_response'],
  config: config({
    metadata: Type.Optional(
      Type.Record(Type.String(), anyValue({ description: 'Any value; strings may hold ${…} at any depth.' }), {
        description: 'What to record.'
      })
    )
  }),
  configOptional: true,
  terminates: 'never',
  results: { name: 'log', fields: { metadata: 'map<string, dyn>' } },
  compile({ metadata = {} }, scope) {
    warnOfSecrets(metadata, ['metadata'], scope)
    const value = compileValue(metadata, ['metadata'], scope)
    const { expressions } = scope.services
    return (flow) => {
      const recorded = value.evaluate(flow)
      flow.logs ??= []
      flow.logs.push(expressions.dataOf(recorded) as Readonly<Record<string, unknown>>)
      flow.publish('log', { metadata: recorded })
      return undefined
    }
  }
})

/** What is logged is kept and read by others; a secret written there by mistake is best found before it is. */
function warnOfSecrets(value: unknown, at: NodePath, scope: Scope): void {
  if (typeof value === 'string') {
    if (/\$\{.*\bsecrets\.get\b/s.test(value)) {
      scope.warn(at, 'SECRET_LOGGED', 'this expression reads a secret; its value would stand in the log')
    }
  } else if (typeof value === 'object' && value !== null) {
    for (const [key, item] of Object.entries(value)) {
      warnOfSecrets(item, [...at, Array.isArray(value) ? Number(key) : key], scope)
    }
  }
}
