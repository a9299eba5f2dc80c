import Type from 'typebox'
import { defineUnavailable } from '../action.js'
import { config, template } from '../fields.js'
import { replacements } from './replacements.js'

/** Replaces text in each message of an event stream. */
export const sseFindReplace = defineUnavailable({
  type: 'sse-find-replace',
  phases: ['on_event_stream_message'],
  config: config({
    replacements: replacements({
      field: Type.Optional(template({ description: 'Field of the message: data (when left out) or retry.' }))
    })
  }),
  configOptional: false,
  terminates: 'never',
  results: { name: 'sse_find_replace', fields: { replacements: 'list<dyn>' } },
  check({ replacements }, scope) {
    for (const [i, entry] of replacements.entries()) {
      const { field } = entry as { field?: string }
      if (field === undefined || field.includes('${') || field === 'data' || field === 'retry') continue
      scope.problem(
        ['replacements', i, 'field'],
        'CONFIG_INVALID',
        `"${field}" is not a field that can be replaced: data and retry are`
      )
    }
  }
})
