import { GUARD_STATES } from '../control/guard-note.js'
import { memberRights } from '../control/rights.js'
import { tunnelSession } from '../resources/live.js'
import { listOf, object, orNull, ref, text, textOrNull, time, titledObject } from '../schema/answer.js'
import { title } from '../schema/json-schema.js'
import { describeGroup, type RouteGroup } from './define-route.js'
import { answer, operation, type Paths, parametersOf, plain, withWarnings } from './openapi-parts.js'
import { describeSessions } from './openapi-sessions.js'
import { describeTraffic } from './openapi-traffic.js'
import { COMMANDS, METRICS_TYPE, REVERT_PATH, type Readiness } from './service-routes.js'

const count = { type: 'integer', minimum: 0 } as const

const REVISION = titledObject('Revision', {
  id: { type: 'integer', minimum: 1, description: 'Its number: one more than that of the revision before.' },
  uri: text,
  created_at: { ...time, description: 'When it was made (RFC 3339).' },
  operation_id: { ...text, description: 'The service-operation-id of the write that made it.' },
  principal: {
    ...orNull(object({ id: text, subject: text })),
    description: 'The user or bot who made it; null when it was the service itself.'
  },
  api_key: {
    ...orNull(object({ id: text, uri: textOrNull })),
    description: 'The API key that was used; null when it was not one of the account.'
  },
  created: { ...count, description: 'How many records it created.' },
  updated: { ...count, description: 'How many records it updated.' },
  deleted: { ...count, description: 'How many records it deleted.' },
  reverts: {
    ...orNull(object({ id: { type: 'integer' }, uri: text })),
    description: 'The revision that it undid; null: none.'
  },
  reason: { ...textOrNull, description: 'Why the service made it by itself; null: a caller asked for it.' },
  guard: {
    ...orNull(ref('RevisionGuard')),
    description: 'The conditions under which it stays; null: it was written without.'
  }
})

const GUARD = titledObject('RevisionGuard', {
  conditions: { ...text, description: 'As the header guard has them, with every default.' },
  state: {
    ...text,
    enum: [...GUARD_STATES],
    description:
      'baking: it is judged. passed: no condition broke. inconclusive: too few requests came to judge it. broken: a condition ' +
      'broke, and it was reverted. conflict: one broke, and it could not be reverted. superseded: a later write changed the same.'
  },
  reason: { ...textOrNull, description: 'Why it came to its state; null: it bakes, or has passed.' },
  ended_at: { ...orNull(time), description: 'Since when it bakes no more; null: it bakes.' },
  by: {
    ...orNull(object({ id: { type: 'integer' }, uri: text })),
    description: 'The revision that reverted or superseded it; null: none did.'
  }
})

const DIFFERENCE = {
  type: 'object',
  properties: {
    field: { ...text, description: 'Path of the value in the answer that shows the record, such as backend.id.' },
    before: { description: 'null when it was not set or there was no record.' },
    after: { description: 'null when it is not set or there is no record.' },
    text_diff: {
      ...text,
      description:
        'For policies and other texts of several lines, in place of both sides: a unified diff. JSON in one line is written in several.'
    }
  },
  required: ['field']
}

const REVISION_CHANGE = titledObject('RevisionChange', {
  resource: { ...text, description: 'Kind of the record.' },
  id: text,
  uri: { ...textOrNull, description: 'URL of the record, which may be gone by now.' },
  change: { ...text, enum: ['created', 'updated', 'deleted'] },
  description: { ...textOrNull, description: 'Of the record; null: it has none, or is gone.' },
  fields: {
    type: ['object', 'null'],
    description:
      'What differs, by field as answers show it, with URLs below the base of the API. No secret. null when it was not recorded.',
    additionalProperties: object({
      before: { description: 'null when it was not set or there was no record.' },
      after: { description: 'null when it is not set or there is no record.' }
    })
  },
  differences: {
    type: ['array', 'null'],
    description: 'The same for people, value by value; null when fields is null.',
    items: DIFFERENCE
  },
  secrets: { ...listOf(text), description: 'Paths of the secrets that differ. Their values are not kept.' }
})

const SCHEMAS = {
  Revision: REVISION,
  RevisionGuard: GUARD,
  RevisionList: titledObject('RevisionList', {
    revisions: listOf(ref('Revision')),
    uri: text,
    next_page_uri: textOrNull
  }),
  RevisionChange: REVISION_CHANGE,
  RevisionReverted: withWarnings(
    titledObject('RevisionReverted', {
      reverts: object({ id: { type: 'integer' }, uri: text }),
      revision: {
        ...orNull(object({ id: { type: 'integer' }, uri: text })),
        description: 'The revision that did it; null when there was nothing to change.'
      },
      changes: listOf(
        object({
          resource: { ...text, description: 'Kind of the record.' },
          id: text,
          uri: { ...text, description: 'URL of the record, which may be gone by now.' },
          change: { ...text, enum: ['created', 'updated', 'deleted'] }
        })
      )
    })
  ),
  RevisionDiff: titledObject('RevisionDiff', {
    id: { type: 'integer' },
    uri: text,
    revision: object({ id: { type: 'integer' }, uri: text }),
    from: {
      ...object({ id: { type: 'integer' }, uri: textOrNull }),
      description: 'The revision that it is compared with.'
    },
    created_at: { ...time, description: 'When the revision was made (RFC 3339).' },
    principal: {
      ...orNull(object({ id: text, subject: text })),
      description: 'Who made the revision; null when it was the service itself.'
    },
    changes: listOf(ref('RevisionChange'))
  })
}

/** Describes a response that is also available as text lines. */
function withText(described: object & { readonly content?: object }): object {
  return { ...described, content: { ...described.content, 'text/plain': { schema: text } } }
}

/** Routes for supervisors of the process. */
export interface Supervision {
  /** Routes that are defined with their responses. */
  readonly groups?: readonly RouteGroup<never>[]
  /** Is /metrics served? */
  readonly metrics: boolean
  /** Is the dashboard served? @default true */
  readonly dashboard?: boolean
  /** Reasons of a degraded state. @default not documented */
  readonly reasons?: readonly { readonly name: string; readonly means: string }[] | undefined
}

const TAGS = [
  { name: 'Health', description: 'How the process that answers is, for supervisors and load balancers.' },
  { name: 'Revisions', description: 'The history of the account: one revision for each write that was accepted.' }
]

/** The paths that belong to no resource. Adds them and their schemas; returns their tags. */
export function describeService(
  paths: Paths,
  schemas: Record<string, object>,
  parameters: Record<string, object>,
  supervision: Supervision
): readonly object[] {
  Object.assign(schemas, SCHEMAS)
  describeHealth(paths, supervision)
  paths['/revisions'] = {
    get: operation('revisions_list', 'Revisions', 'Lists, newest first, what the history keeps.', {
      parameters: ['limit', 'before_id'],
      responses: { 200: answer('One page.', ref('RevisionList')) }
    })
  }
  paths['/revisions/{id}'] = {
    ...parametersOf('/revisions/{id}'),
    get: operation('revisions_get', 'Revisions', 'Reads one revision; 404 when the history does not keep it.', {
      responses: { 200: answer('The revision.', ref('Revision')) }
    })
  }
  paths['/revisions/{id}/diff'] = {
    ...parametersOf('/revisions/{id}/diff'),
    get: operation(
      'revisions_diff',
      'Revisions',
      'What the revision changed, or how it differs from another one, record by record. With Accept: text/plain as lines for people. ' +
        '404 when the history does not keep one of the revisions between both.',
      { parameters: ['from'], responses: { 200: withText(answer('The changes.', ref('RevisionDiff'))) } }
    )
  }
  paths[REVERT_PATH] = {
    ...parametersOf(REVERT_PATH),
    post: operation(
      'revisions_revert',
      'Revisions',
      'Undoes what the revision changed, in one write: records come back with their ids. Refused (409) when a later write ' +
        'stands in the way, or when the history lacks what is needed, such as secrets. The caller needs the rights of each change.',
      {
        parameters: ['force', 'dry_run'],
        responses: { 200: answer('What was changed back.', ref('RevisionReverted')) }
      }
    )
  }
  for (const command of COMMANDS) {
    const path = `${tunnelSession.path}/{id}/${command}`
    const tag = title(tunnelSession.name)
    paths[path] = {
      ...parametersOf(path),
      post: operation(`${tunnelSession.name}_${command}`, tag, `Tells the agent to ${command}.`, {
        member: memberRights(tunnelSession).command,
        responses: { 204: answer('The agent was told.') }
      })
    }
  }
  return [
    ...TAGS,
    describeTraffic(paths, schemas),
    ...(supervision.groups ?? []).flatMap((group) => describeGroup(group, { paths, schemas, parameters })),
    ...(supervision.dashboard === false ? [] : [describeSessions(paths, schemas)])
  ]
}

/** Returns the schema of the responses of /healthz and /readyz. */
function statusOf(...words: readonly (Readiness | 'ok')[]): object {
  return { ...text, enum: words }
}

function describeHealth(paths: Paths, { metrics, reasons }: Supervision): void {
  const serves = 'It serves; degraded: not as it should.'
  const shut = 'It does not serve yet, or ends.'
  paths['/healthz'] = {
    get: operation('health_get', 'Health', 'Does the process live and serve? Needs no key.', {
      bare: 'open',
      responses: {
        200: plain(serves, object({ status: statusOf('ok', 'degraded') })),
        503: plain(shut, object({ status: statusOf('starting', 'draining') }))
      }
    })
  }
  const means = (reasons ?? []).map((reason) => ` ${reason.name}: ${reason.means}.`).join('')
  const reason = reasons === undefined ? text : { ...text, enum: reasons.map(({ name }) => name) }
  const readiness = (...words: readonly Readiness[]) =>
    object({
      status: statusOf(...words),
      reasons: { ...listOf(reason), description: `Why it is degraded; empty: it is not.${means}` },
      revisions_behind: { ...count, description: 'How many revisions of the store it has not applied in time.' }
    })
  paths['/readyz'] = {
    get: operation('readiness_get', 'Health', 'Should traffic come here, and what is wrong? Needs no key.', {
      bare: 'open',
      responses: {
        200: plain(serves, readiness('ready', 'degraded')),
        503: plain(shut, readiness('starting', 'draining'))
      }
    })
  }
  if (!metrics) return
  paths['/metrics'] = {
    get: operation('metrics_get', 'Health', 'The metrics of the process, in the text format of Prometheus.', {
      bare: 'unversioned',
      responses: { 200: plain('The metrics.', text, METRICS_TYPE) }
    })
  }
}
