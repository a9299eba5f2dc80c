import { refuse } from '../../flow/verdict.js'
import { defineAction } from '../action.js'
import { config } from '../fields.js'
import { compileContentReplacing } from './body-find-replace.js'
import { replacements } from './replacements.js'

const requestErrors = {
  tooLarge: refuse(413, 'BODY_TOO_LARGE'),
  coding: refuse(415, 'BODY_ENCODING'),
  malformed: refuse(400, 'BODY_ENCODING')
}

/**
 * Replaces text in the body of the request, whatever its media type: a client chooses that, and must not choose by it
 * what the upstream gets to see. The whole body is buffered first.
 */
export const requestBodyFindReplace = defineAction({
  type: 'request-body-find-replace',
  phases: ['on_http_request'],
  config: config({ replacements: replacements() }),
  configOptional: false,
  terminates: 'never',
  results: { name: 'request_body_find_replace', fields: { replacements: 'list<dyn>' } },
  compile({ replacements: list }, scope) {
    const replacing = compileContentReplacing(list, scope, requestErrors)
    const { bodies } = scope.services
    return async (flow) => {
      const { request } = flow
      if (request === undefined) return undefined
      const body = await bodies.request(flow)
      if (!(body instanceof Uint8Array)) return body
      const outcome = await replacing(flow, body, request.headers)
      if (outcome.kind !== 'changed' && outcome.kind !== 'unchanged') return outcome
      if (outcome.kind === 'changed') request.body = outcome.bytes
      flow.publish('request_body_find_replace', { replacements: outcome.found })
      return undefined
    }
  }
})
