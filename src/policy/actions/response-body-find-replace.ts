import { defineUnavailable } from '../action.js'
import { config } from '../fields.js'
import { replacements } from './replacements.js'

/** Replaces text in the body of the response. */
export const responseBodyFindReplace = defineUnavailable({
  type: 'response-body-find-replace',
  phases: ['on_http_response'],
  config: config({ replacements: replacements() }),
  configOptional: false,
  terminates: 'never',
  results: { name: 'response_body_find_replace', fields: { replacements: 'list<dyn>' } }
})
