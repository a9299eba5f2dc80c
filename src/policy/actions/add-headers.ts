import type { Flow } from '../../exchange/flow.js'
import type { HeaderFields } from '../../exchange/headers.js'
import { EvaluationError } from '../../expression/expression.js'
import { parseAuthority } from '../../lib/host.js'
import { defineAction } from '../action.js'
import { config, headerMap } from '../fields.js'
import { compileHeaders } from './header-writing.js'

const RESERVED = { 'user-agent': '"user-agent" cannot be added or removed' }

/** Appends header fields to the request, or to the response in its phase; only `host` replaces what is there. */
export const addHeaders = defineAction({
  type: 'add-headers',
  phases: ['on_http_request', 'on_http_response'],
  config: config({
    headers: headerMap({ description: 'Fields to append, name to value.', min: 1, max: 10 })
  }),
  configOptional: false,
  terminates: 'never',
  results: { name: 'add_headers', fields: { headers_added: 'map<string, string>' } },
  compile({ headers }, scope) {
    const writing = compileHeaders(headers, ['headers'], scope, RESERVED)
    const answering = scope.phase === 'on_http_response'
    return (flow) => {
      const fields = answering ? flow.response?.headers : flow.request?.headers
      if (fields === undefined) return undefined
      const values = writing.values(flow)
      const added = new Map<string, string>()
      for (const [i, name] of writing.names.entries()) {
        const value = values[i] as string
        if (name === 'host' && !answering) overrideHost(fields, value)
        else fields.append(name, value)
        added.set(name, value)
      }
      publish(flow, added)
      return undefined
    }
  }
})

function publish(flow: Flow, added: ReadonlyMap<string, string>): void {
  flow.publish('add_headers', { headers_added: added })
}

function overrideHost(fields: HeaderFields, value: string): void {
  if (parseAuthority(value) === undefined) {
    throw new EvaluationError('failed', 'the value for the header "host" is no host with an optional port')
  }
  fields.set('host', value)
}
