import { defineModule } from './contract.js'
import { compileHeaderEdits, type HeaderEdits } from './header-edits.js'

/** Edits the fields of the response after the policy has seen it, also of answers that are made here. */
export const responseHeaders = defineModule<HeaderEdits>('response_headers', (config, scope) => {
  const edit = compileHeaderEdits(config, 'response', scope)
  return {
    response: ({ response }) => {
      if (response !== undefined) edit(response.headers)
      return undefined
    }
  }
})
