import Type from 'typebox'
import { upstreamKey } from '../runtime/plan.js'
import { computed, described, integer, map, number, text } from '../schema/fields.js'
import { type RuleView, refuseUnwritable } from '../schema/objects.js'
import { liveRefs, refIds, refNumbers } from '../schema/references.js'
import * as values from '../schema/values.js'
import { balanceFields, balanceOf, balanceRules } from './balance.js'
import { fileBackend } from './file-backend.js'
import { tunnel } from './live.js'
import { defineResource } from './resource.js'
import { stateFields, staticBackend } from './static-backend.js'
import { namedBackend, planned } from './units.js'

const MAX_LABELS = 20
const STATES = 'What the process that answers knows of each of its tunnels.'
const statesSchema = Type.Array(
  Type.Object(
    { id: Type.String({ description: 'Id of the tunnel.' }), ...stateFields },
    { description: 'What is known of one tunnel.' }
  ),
  { description: STATES }
)

/** Backend of the tunnels that carry all of its labels. */
export const tunnelGroupBackend = defineResource({
  name: 'tunnel_group_backend',
  description: 'The tunnels that carry all of its labels.',
  path: '/backends/tunnel_group',
  listKey: 'backends',
  idPrefix: 'bkdtg',
  events: 'backend',
  fields: {
    ...described,
    labels: map<string>({
      description: 'Labels that a tunnel must carry, at least one.',
      keys: 'label',
      values: values.text({ description: 'Value of the label.', min: 1, max: 255, bytes: 255, form: 'label' }),
      min: 1,
      max: MAX_LABELS,
      required: true
    }),
    ...balanceFields('tunnel'),
    tunnels: liveRefs(tunnel, 'The tunnels that it selects now.', ({ id }, { tunnelsOf }) => tunnelsOf(id)),
    states: computed(statesSchema, STATES, (_stored, _path, { id }, { healthOf }) => healthOf?.(id) ?? [])
  },
  rules: balanceRules
})

/** Backend that sends a fixed response without an upstream. */
export const httpResponseBackend = defineResource({
  name: 'http_response_backend',
  description: 'A fixed HTTP response.',
  path: '/backends/http_response',
  listKey: 'backends',
  idPrefix: 'bkdhr',
  events: 'backend',
  fields: {
    ...described,
    body: text({ description: 'Body of the response.', bytes: 64 * 1024 }),
    headers: map<string>({
      description: 'Headers of the response; names come back in lower case.',
      keys: 'header_name',
      values: values.text({ description: 'A header value.', max: 4096, bytes: 4096, form: 'header_value' }),
      max: 50
    }),
    status_code: integer({ description: 'Status of the response.', min: 200, max: 599, default: 200 })
  },
  rules: [
    {
      on: ['headers'],
      check: ({ body, report }) => refuseUnwritable(body.headers as Readonly<Record<string, string>>, 'headers', report)
    },
    { on: ['body', 'status_code'], check: bodyFits }
  ]
})

/** Statuses whose responses never have a body (RFC 9110 15.3.5, 15.3.6, 15.4.5). */
const BODILESS: readonly unknown[] = [204, 205, 304]

function bodyFits({ body: { body, status_code: status }, report }: RuleView): void {
  if (body !== '' && BODILESS.includes(status)) {
    report('body', 'CONFLICTING_FIELDS', `must be empty: an answer with status ${status} has no body`)
  }
}

const SINGLE = [tunnelGroupBackend, staticBackend, httpResponseBackend, fileBackend] as const
const MAX_MEMBERS = 100

/** Backend that shares traffic between other backends. */
export const weightedBackend = defineResource({
  name: 'weighted_backend',
  description: 'Shares traffic between backends in proportion to their weights.',
  path: '/backends/weighted',
  listKey: 'backends',
  idPrefix: 'bkdwd',
  events: 'backend',
  fields: {
    ...described,
    backends: refNumbers(SINGLE, {
      description: 'Ids of backends with their weights, 0 to 10000.',
      min: 0,
      max: 10_000,
      most: MAX_MEMBERS,
      required: true
    }),
    ...balanceFields('backend'),
    panic_threshold: integer({
      description:
        'When fewer than this percentage of its backends are up, all of them are tried; 0: never while one is up.',
      min: 0,
      max: 100,
      default: 0
    }),
    slow_start: number({
      description: 'Seconds in which a backend that has come back rises to its weight; 0: at once.',
      min: 0,
      max: 3600,
      default: 0,
      unit: 'seconds'
    })
  },
  rules: [{ on: ['backends'], check: someWeight }, ...balanceRules]
})

/** Rejects weights that are all 0, which leave no backend to choose. */
function someWeight({ body, report }: RuleView): void {
  const weights = Object.values(body.backends as Readonly<Record<string, number>>)
  if (weights.some((weight) => weight > 0)) return
  report('backends', 'FIELD_INVALID', 'must have a weight above 0: a backend with weight 0 gets no traffic')
}

/** Backend that uses the first healthy one of its list. */
export const failoverBackend = defineResource({
  name: 'failover_backend',
  description: 'Sends traffic to the first of its backends that works.',
  path: '/backends/failover',
  listKey: 'backends',
  idPrefix: 'bkdfo',
  events: 'backend',
  fields: {
    ...described,
    backends: refIds([...SINGLE, weightedBackend], {
      description: 'Ids of backends, the first one preferred.',
      min: 1,
      max: MAX_MEMBERS,
      required: true
    })
  },
  rules: [{ on: ['backends'], check: responseLast }]
})

/** Rejects a fixed response before the end of the list: it is always healthy, so later backends would never be used. */
function responseLast({ body, report }: RuleView): void {
  const backends = body.backends as readonly string[]
  const response = backends.findIndex((id) => id.startsWith(`${httpResponseBackend.idPrefix}_`))
  if (response === -1 || response === backends.length - 1) return
  const message = `has ${backends[response]} before others: a fixed response always works, so it must be the last`
  report('backends', 'CONFLICTING_FIELDS', message)
}

/** Backends that a route may forward to. */
export const HTTP_BACKENDS = [...SINGLE, weightedBackend, failoverBackend] as const

/** Backends that a TCP edge may forward to; not a fixed HTTP response. */
export const TCP_BACKENDS = [tunnelGroupBackend, staticBackend, weightedBackend, failoverBackend] as const

/** Names of all kinds of backends. */
export const backendKinds: readonly string[] = HTTP_BACKENDS.map(({ name }) => name)

const keys = (id: string) => [upstreamKey(id)]

/** Units of fixed responses. */
export const httpResponseBackends = planned(httpResponseBackend, keys, (one) => {
  const { id, body } = one.record
  const { status_code: status, headers, body: text } = body
  return [[upstreamKey(id), namedBackend(one, { kind: 'upstream', form: 'response', status, headers, body: text })]]
})

/** Units of backends that share traffic by weight. */
export const weightedBackends = planned(weightedBackend, keys, (one) => {
  const { id, body } = one.record
  const members = Object.entries(body.backends).map(([backend, weight]) => ({ upstream: upstreamKey(backend), weight }))
  const { panic_threshold: panic = 0, slow_start: slow = 0 } = body
  const settings = {
    ...balanceOf(id, body),
    ...(panic > 0 ? { panicThreshold: panic / 100 } : {}),
    ...(slow > 0 ? { slowStart: slow * 1000 } : {})
  }
  return [[upstreamKey(id), namedBackend(one, { kind: 'upstream', form: 'weighted', members, ...settings })]]
})

/** Units of failover backends. */
export const failoverBackends = planned(failoverBackend, keys, (one) => {
  const { id, body } = one.record
  const members = body.backends.map(upstreamKey)
  return [[upstreamKey(id), namedBackend(one, { kind: 'upstream', form: 'failover', members })]]
})

/** Units of tunnel groups. */
export const tunnelGroups = planned(tunnelGroupBackend, keys, (one) => {
  const { id, body } = one.record
  const { labels } = body
  return [
    [upstreamKey(id), namedBackend(one, { kind: 'upstream', form: 'tunnels', id, labels, ...balanceOf(id, body) })]
  ]
})
