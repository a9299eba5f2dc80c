import { defineModule } from './contract.js'
import { compileHeaderEdits, type HeaderEdits } from './header-edits.js'

/** Edits the fields of the request before the policy and the upstream see them. `host` replaces the client's. */
export const requestHeaders = defineModule<HeaderEdits>('request_headers', (config, scope) => {
  const edit = compileHeaderEdits(config, 'request', scope)
  return {
    request: ({ request }) => {
      if (request !== undefined) edit(request.headers)
      return undefined
    }
  }
})
