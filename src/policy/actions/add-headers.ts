import { EvaluationError } from '../../expression/expression.js'
import type { Flow } from '../../flow/flow.js'
import type { HeaderFields } from '../../flow/headers.js'
import { parseAuthority } from '../../lib/host.js'
import { defineAction } from '../action.js'
import { config, headerMap } from '../fields.js'
import { NEVER_WRITTEN } from './header-rules.js'
import { compileHeaders } from './header-writing.js'

const RESERVED = { 'user-agent': '"user-agent" cannot be added or removed' }

/** Fields of a response that stand once: a client takes a second one for a mistake, or believes either. */
const ONCE = new Set([
  ...['access-control-allow-credentials', 'access-control-allow-origin', 'access-control-max-age', 'age'],
  ...[
    'content-disposition',
    'content-location',
    'content-type',
    'date',
    'etag',
    'expires',
    'last-modified',
    'location'
  ],
  ...['referrer-policy', 'retry-after', 'server', 'strict-transport-security'],
  ...['x-content-type-options', 'x-frame-options']
])

/**
 * Appends header fields to the request, or to the response in its phase; `host` replaces what is there. On an answer that
 * was made here, such as that of an earlier rule to a preflight request, no field comes twice: one that can stand only
 * once is replaced, and one that is there with the same value stays.
 */
export const addHeaders = defineAction({
  type: 'add-headers',
  phases: ['on_http_request', 'on_http_response'],
  config: config({
    headers: headerMap({
      description: 'Fields to append, name to value.',
      refused: [...NEVER_WRITTEN, 'user-agent'],
      min: 1,
      max: 10
    })
  }),
  configOptional: false,
  terminates: 'never',
  edits: ({ headers }) => ({ add: headers }),
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
        else if (answering && flow.response?.local === true) addToOwn(fields, name, value)
        else fields.append(name, value)
        added.set(name, value)
      }
      publish(flow, added)
      return undefined
    }
  }
})

function addToOwn(fields: HeaderFields, name: string, value: string): void {
  if (ONCE.has(name)) fields.set(name, value)
  else if (!fields.values(name).includes(value)) fields.append(name, value)
}

function publish(flow: Flow, added: ReadonlyMap<string, string>): void {
  flow.publish('add_headers', { headers_added: added })
}

function overrideHost(fields: HeaderFields, value: string): void {
  if (parseAuthority(value) === undefined) {
    throw new EvaluationError('failed', 'the value for the header "host" is no host with an optional port')
  }
  fields.set('host', value)
}
