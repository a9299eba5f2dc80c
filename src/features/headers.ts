import { EvaluationError } from '../expression/expression.js'
import type { Flow } from '../flow/flow.js'
import {
  type HeaderFields,
  NEVER_REMOVED,
  NEVER_WRITTEN,
  refusalToRemove,
  refusalToWrite,
  wireValue
} from '../flow/headers.js'
import { parseAuthority } from '../lib/host.js'
import { defineAction } from '../policy/action.js'
import { config, headerMap } from '../policy/fields.js'
import { policyErrors } from '../policy/problems.js'
import { compileHeaders } from '../policy/values.js'
import { headerName } from '../schema/editor.js'
import { map, texts } from '../schema/fields.js'
import { type RuleView, refuseUnwritable } from '../schema/objects.js'
import { list, text } from '../schema/values.js'
import { defineFeature, defineModule, type ModuleScope } from './contract.js'

const RESERVED = { 'user-agent': '"user-agent" cannot be added or removed' }

/** Response fields that must be unique: clients reject a second one, or use either. */
const ONCE = new Set(
  (
    'access-control-allow-credentials access-control-allow-origin access-control-max-age age content-disposition content-location content-type date ' +
    'etag expires last-modified location referrer-policy retry-after server strict-transport-security x-content-type-options x-frame-options'
  ).split(' ')
)

/**
 * Appends header fields to the request, or to the response in its phase; `host` is replaced. On Sluice's own responses, such as that of an
 * earlier rule to a preflight request, no field is duplicated: a unique one is replaced, and an equal one is kept.
 */
const addHeaders = defineAction({
  type: 'add-headers',
  summary: 'Adds header fields.',
  example: {
    policy: `on_http_request:
  - actions:
      - type: add-headers
        config:
          headers:
            x-client-address: \${conn.client_ip}
`,
    request: 'GET /',
    status: 200
  },
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
  results: { name: 'add_headers', fields: { headers_added: ['map<string, string>', 'The fields that were added.'] } },
  compile({ headers }, scope) {
    const writing = compileHeaders(headers, ['headers'], scope, RESERVED)
    const answering = scope.phase === 'on_http_response'
    return (flow) => {
      const fields = answering ? flow.response?.headers : flow.request?.headers
      if (fields === undefined) return undefined
      const list = writing.fields(flow)
      const added = new Map<string, string>()
      for (let i = 0; i < list.length; i += 2) {
        const [name, value] = [list[i] as string, list[i + 1] as string]
        if (name === 'host' && !answering) overrideHost(fields, value)
        else if (answering && flow.response?.local === true) addToOwn(fields, name, value)
        else fields.append(name, value)
        added.set(name, added.has(name) ? `${added.get(name)},${value}` : value)
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

/**
 * Removes all fields with the given names from the request, or from the response in its phase. For requests `_` counts as `-`: an upstream
 * that treats both alike would accept a client's `X_User`.
 */
const removeHeaders = defineAction({
  type: 'remove-headers',
  summary: 'Removes header fields.',
  example: {
    policy: `on_http_response:
  - actions:
      - type: remove-headers
        config:
          headers: [server, x-powered-by]
`,
    request: 'GET /',
    status: 200
  },
  phases: ['on_http_request', 'on_http_response'],
  config: config({
    headers: list(
      text({ description: 'Name of a field, in any case.', editor: headerName([...NEVER_REMOVED, 'user-agent']) }),
      {
        description: 'Names of the fields to remove.',
        min: 1,
        max: 10
      }
    )
  }),
  configOptional: false,
  terminates: 'never',
  edits: ({ headers }) => ({ remove: headers }),
  results: {
    name: 'remove_headers',
    fields: { headers_removed: ['list<string>', 'The names of the fields that were removed.'] }
  },
  compile({ headers }, scope) {
    for (const [i, name] of headers.entries()) {
      const refusal =
        name.toLowerCase() === 'user-agent' ? '"user-agent" cannot be added or removed' : refusalToRemove(name)
      if (refusal !== undefined) scope.problem(['headers', i], policyErrors.CONFIG_INVALID, refusal)
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

/**
 * Removes fields, in requests in every spelling that an upstream may treat as the same name, then adds others beside existing ones. Framing
 * and hop-by-hop fields are skipped and logged: older versions stored them before they were rejected.
 */
function compileHeaderEdits(
  { add, remove }: { readonly add: Readonly<Record<string, string>>; readonly remove: readonly string[] },
  side: 'request' | 'response',
  { owner, services }: ModuleScope
) {
  const leftOut: string[] = []
  const removing = remove.filter((name) => {
    const refusal = refusalToRemove(name)
    if (refusal !== undefined) leftOut.push(refusal)
    return refusal === undefined
  })
  const adding: (readonly [name: string, value: string])[] = []
  for (const [name, written] of Object.entries(add)) {
    const value = wireValue(written)
    const refusal = refusalToAdd(name, value)
    if (refusal !== undefined) leftOut.push(refusal)
    else if (value !== undefined) adding.push([name, value])
  }
  if (leftOut.length > 0) services.log.warn({ owner, leftOut }, 'header fields cannot be edited as configured')
  return (fields: HeaderFields): void => {
    for (const name of removing) {
      if (side === 'request') fields.deleteSpellings(name)
      else fields.delete(name)
    }
    for (const [name, value] of adding) {
      if (name === 'host') fields.set(name, value)
      else fields.append(name, value)
    }
  }
}

function refusalToAdd(name: string, value: string | undefined): string | undefined {
  if (value === undefined) return `the value for "${name}" cannot stand in a header`
  if (name === 'host' && parseAuthority(value) === undefined)
    return 'the value for "host" is no host with an optional port'
  return refusalToWrite(name)
}

const MAX_HEADERS = 50

/** Returns the common fields of both modules: they remove first and then add, so a name in both is replaced. */
function edited(of: 'requests' | 'responses') {
  return {
    description: `Removes and then adds header fields of ${of}. Names come back in lower case.`,
    on: ['https'] as const,
    fields: {
      add: map<string>({
        description: 'Names and values to add.',
        keys: 'header_name',
        values: text({ description: 'A header value.', max: 4096, bytes: 4096, form: 'header_value' }),
        max: MAX_HEADERS
      }),
      remove: texts({
        description: 'Names to remove.',
        item: 'A header name.',
        form: 'header_name',
        max: MAX_HEADERS,
        distinct: true
      })
    },
    rules: [{ on: ['add', 'remove'], check: whole }]
  }
}

/** Edits request fields before the policy and the upstream. `host` replaces the client's. */
const requestHeaders = defineModule({
  ...edited('requests'),
  name: 'request_headers',
  compile(config, scope) {
    const edit = compileHeaderEdits(config, 'request', scope)
    return {
      request: ({ request }) => {
        if (request !== undefined) edit(request.headers)
        return undefined
      }
    }
  }
})

/** Edits response fields after the policy, also for Sluice's own responses. */
const responseHeaders = defineModule({
  ...edited('responses'),
  name: 'response_headers',
  compile(config, scope) {
    const edit = compileHeaderEdits(config, 'response', scope)
    return {
      response: ({ response }) => {
        if (response !== undefined) edit(response.headers)
        return undefined
      }
    }
  }
})

/** Rejects framing and hop-by-hop fields. */
function whole({ body, report }: RuleView): void {
  const add = body.add as Readonly<Record<string, string>>
  refuseUnwritable(add, 'add', report)
  for (const name of body.remove as readonly string[]) {
    const refusal = refusalToRemove(name)
    if (refusal !== undefined) report('remove', 'FIELD_INVALID', refusal)
  }
  if (Object.hasOwn(add, 'host') && parseAuthority(add.host as string) === undefined)
    report('add', 'FIELD_INVALID', 'the value of host must be a host with an optional port')
}

export const headers = defineFeature({
  name: 'headers',
  summary: 'Adds header fields to requests and responses, and removes them.',
  actions: [addHeaders, removeHeaders],
  modules: [requestHeaders, responseHeaders]
})
