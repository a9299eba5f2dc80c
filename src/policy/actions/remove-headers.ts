import Type from 'typebox'
import { defineAction } from '../action.js'
import { headerName } from '../editor.js'
import { config, text } from '../fields.js'
import { NEVER_REMOVED, refusalToRemove } from './header-rules.js'

/**
 * Removes every field of the given names from the request, or from the response in its phase. From the request it takes
 * names with `_` for `-` too: an upstream that reads both alike would believe a client's `X_User`.
 */
export const removeHeaders = defineAction({
  type: 'remove-headers',
  phases: ['on_http_request', 'on_http_response'],
  config: config({
    headers: Type.Array(
      text({ description: 'Name of a field, in any case.', editor: headerName([...NEVER_REMOVED, 'user-agent']) }),
      {
        description: 'Names of the fields to remove.',
        minItems: 1,
        maxItems: 10
      }
    )
  }),
  configOptional: false,
  terminates: 'never',
  edits: ({ headers }) => ({ remove: headers }),
  results: { name: 'remove_headers', fields: { headers_removed: 'list<string>' } },
  compile({ headers }, scope) {
    for (const [i, name] of headers.entries()) {
      const refusal =
        name.toLowerCase() === 'user-agent' ? '"user-agent" cannot be added or removed' : refusalToRemove(name)
      if (refusal !== undefined) scope.problem(['headers', i], 'CONFIG_INVALID', refusal)
    }
    const names = headers.map((name) => name.toLowerCase())
    return (flow) => {
      const answering = scope.phase === 'on_http_response'
      const fields = answering ? flow.response?.headers : flow.request?.headers
      if (fields === undefined) return undefined
      const headers_removed = names.filter((name) => (answering ? fields.delete(name) : fields.deleteSpellings(name)))
      flow.publish('remove_headers', { headers_removed })
      return undefined
    }
  }
})
