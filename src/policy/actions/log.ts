import Type from 'typebox'
import { defineAction } from '../action.js'
import { anyValue, config } from '../fields.js'
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
