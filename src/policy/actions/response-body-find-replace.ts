import { PassThrough } from 'node:stream'
import type { FlowResponse } from '../../flow/flow.js'
import { refuse } from '../../flow/verdict.js'
import { defineAction } from '../action.js'
import { config } from '../fields.js'
import { compileContentReplacing } from './body-find-replace.js'
import { replacements } from './replacements.js'
import { isTextMedia } from './text-media.js'

const responseErrors = {
  tooLarge: refuse(502, 'RESPONSE_TOO_LARGE'),
  coding: refuse(502, 'RESPONSE_ENCODING'),
  malformed: refuse(502, 'RESPONSE_ENCODING')
}
/** What is looked for may begin in one part and end in another, so no part can be told to be free of it. */
const PARTIAL = refuse(502, 'RESPONSE_PARTIAL')

/**
 * Replaces text in the body of the response. The whole body is buffered first. Media that hold no text (images, archives,
 * …) and event streams, which have an action of their own, pass untouched.
 */
export const responseBodyFindReplace = defineAction({
  type: 'response-body-find-replace',
  phases: ['on_http_response'],
  config: config({ replacements: replacements() }),
  configOptional: false,
  terminates: 'never',
  readsResponse: 'whole',
  results: { name: 'response_body_find_replace', fields: { replacements: 'list<dyn>' } },
  compile({ replacements: list }, scope) {
    const replacing = compileContentReplacing(list, scope, responseErrors)
    const { bodies } = scope.services
    return async (flow) => {
      const { response, request } = flow
      if (response === undefined) return undefined
      if (!isTextMedia(response.headers.get('content-type')) || response.status === 304) {
        flow.publish('response_body_find_replace', { replacements: [] })
        return undefined
      }
      if (request?.method === 'HEAD' && !(response.body instanceof Uint8Array)) {
        withoutLength(response)
        flow.publish('response_body_find_replace', { replacements: [] })
        return undefined
      }
      if (response.status === 206) return PARTIAL
      const body = await bodies.response(flow)
      if (!(body instanceof Uint8Array)) return body
      const outcome = await replacing(flow, body, response.headers)
      if (outcome.kind !== 'changed' && outcome.kind !== 'unchanged') return outcome
      if (outcome.kind === 'changed') response.body = outcome.bytes
      flow.publish('response_body_find_replace', { replacements: outcome.found })
      return undefined
    }
  }
})

/** An answer to HEAD cannot say how long the body would be after replacements (RFC 9110 9.3.2 allows to leave it out). */
function withoutLength(response: FlowResponse): void {
  for (const name of ['content-length', 'content-md5', 'digest', 'content-digest', 'repr-digest']) {
    response.headers.delete(name)
  }
  // The engine frames by the body, whose length it knows from the upstream.
  response.transforms.push(() => new PassThrough())
}
