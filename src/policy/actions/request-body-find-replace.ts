import { defineUnavailable } from '../action.js'
import { config } from '../fields.js'
import { replacements } from './replacements.js'

/** Replaces text in the body of the request. */
export const requestBodyFindReplace = defineUnavailable({
  type: 'request-body-find-replace',
  phases: ['on_http_request'],
  config: config({ replacements: replacements() }),
  configOptional: false,
  terminates: 'never',
  results: { name: 'request_body_find_replace', fields: { replacements: 'list<dyn>' } }
})
