import { GUARD_STATES } from '../control/guard/guard-note.js'
import { ACCOUNT_RIGHTS, memberRights } from '../control/rights.js'
import { eventDestination } from '../resources/event-destinations.js'
import { tunnelSession } from '../resources/live.js'
import { title } from '../schema/json-schema.js'
import { LETTER_PATH, LETTERS_PATH, REDELIVER_PATH, TEST_PATH } from './event-routes.js'
import { describeExplanations } from './openapi-explain.js'
import { answer, binary, operation, type Paths, parametersOf, plain, ref, text } from './openapi-parts.js'
import { describeSite } from './openapi-site.js'
import { BACKUP_TYPE, COMMANDS, METRICS_TYPE, REVERT_PATH, type Readiness } from './service-routes.js'

const textOrNull = { type: ['string', 'null'] } as const

const count = { type: 'integer', minimum: 0 } as const

const time = { ...text, format: 'date-time' } as const

/** An object that has all of its members, always. */
function object(title: string | undefined, properties: Readonly<Record<string, object>>): object {
  const named = title === undefined ? {} : { title }
  return { type: 'object', ...named, properties, required: Object.keys(properties) }
}

const orNull = (schema: object) => ({ anyOf: [schema, { type: 'null' }] })

const listOf = (items: object) => ({ type: 'array', items })

const PROCESS = object(undefined, {
  id: text,
  applied_revision: { type: 'integer', description: 'The last revision that it serves.' },
  last_error: { ...textOrNull, description: 'What it could not apply.' },
  diverged_at: {
    ...textOrNull,
    description:
      'When it last found that the store was not the one that it had followed (a backup was restored, a standby that lagged took over) and read everything again.'
  },
  seen_at: time,
  gone_since: {
    ...orNull(time),
    description:
      'When the process that answers heard of it last, by the clock of that one; null while it gives signs of life. It is shown for 15 minutes more.'
  },
  self: { type: 'boolean', description: 'Is it the one that answers?' }
})

const REVISION = object('Revision', {
  id: { type: 'integer', minimum: 1, description: 'Its number: one more than that of the revision before.' },
  uri: text,
  created_at: { ...time, description: 'When it was made (RFC 3339).' },
  operation_id: { ...text, description: 'The service-operation-id of the write that made it.' },
  principal: {
    ...orNull(object(undefined, { id: text, subject: text })),
    description: 'The user or bot who made it; null when it was the service itself.'
  },
  api_key: {
    ...orNull(object(undefined, { id: text, uri: textOrNull })),
    description: 'The API key that was used; null when it was not one of the account.'
  },
  created: { ...count, description: 'How many records it created.' },
  updated: { ...count, description: 'How many records it updated.' },
  deleted: { ...count, description: 'How many records it deleted.' },
  reverts: {
    ...orNull(object(undefined, { id: { type: 'integer' }, uri: text })),
    description: 'The revision that it undid; null: none.'
  },
  reason: { ...textOrNull, description: 'Why the service made it by itself; null: a caller asked for it.' },
  guard: {
    ...orNull(ref('RevisionGuard')),
    description: 'The conditions under which it stays; null: it was written without.'
  }
})

const GUARD = object('RevisionGuard', {
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
    ...orNull(object(undefined, { id: { type: 'integer' }, uri: text })),
    description: 'The revision that reverted or superseded it; null: none did.'
  }
})

const REVISION_CHANGE = object('RevisionChange', {
  resource: { ...text, description: 'Kind of the record.' },
  id: text,
  uri: { ...textOrNull, description: 'URL of the record, which may be gone by now.' },
  change: { ...text, enum: ['created', 'updated', 'deleted'] },
  fields: {
    type: ['object', 'null'],
    description:
      'What differs, by field as answers show it, with URLs below the base of the API. No secret. null when it was not recorded.',
    additionalProperties: object(undefined, {
      before: { description: 'null when it was not set or there was no record.' },
      after: { description: 'null when it is not set or there is no record.' }
    })
  },
  secrets: { ...listOf(text), description: 'Paths of the secrets that differ. Their values are not kept.' }
})

const LETTER = {
  id: { ...text, description: 'dl_ and a number that counts within the destination.' },
  uri: text,
  created_at: { ...time, description: 'When it was refused for good.' },
  event_id: { ...textOrNull, description: 'null, as the type and the time, when the event is damaged.' },
  event_type: textOrNull,
  event_timestamp: { ...orNull(time), description: 'When the event happened.' },
  attempts: { ...count, description: 'How often it was refused.' },
  reason: { ...text, description: 'The last refusal.' },
  size: { ...count, description: 'Bytes of the event.' }
}

const SCHEMAS = {
  ProcessList: object('ProcessList', { processes: listOf(PROCESS), uri: text, next_page_uri: { type: 'null' } }),
  Revision: REVISION,
  RevisionGuard: GUARD,
  RevisionList: object('RevisionList', { revisions: listOf(ref('Revision')), uri: text, next_page_uri: textOrNull }),
  RevisionChange: REVISION_CHANGE,
  RevisionReverted: object('RevisionReverted', {
    reverts: object(undefined, { id: { type: 'integer' }, uri: text }),
    revision: {
      ...orNull(object(undefined, { id: { type: 'integer' }, uri: text })),
      description: 'The revision that did it; null when there was nothing to change.'
    },
    changes: listOf(
      object(undefined, {
        resource: { ...text, description: 'Kind of the record.' },
        id: text,
        uri: { ...text, description: 'URL of the record, which may be gone by now.' },
        change: { ...text, enum: ['created', 'updated', 'deleted'] }
      })
    )
  }),
  EventDestinationTest: object('EventDestinationTest', {
    delivered: { type: 'boolean' },
    error: { ...textOrNull, description: 'Why it was not delivered.' },
    duration_ms: { type: 'integer' }
  }),
  DeadLetter: object('DeadLetter', LETTER),
  DeadLetterWithEvent: object('DeadLetterWithEvent', {
    ...LETTER,
    event: { description: 'The event; its text when it is damaged.' }
  }),
  DeadLetterList: object('DeadLetterList', {
    dead_letters: listOf(ref('DeadLetter')),
    uri: text,
    next_page_uri: textOrNull
  }),
  DeadLettersRedelivered: object('DeadLettersRedelivered', {
    redelivered: { ...count, description: 'How many go to the destination again, behind what waits for it.' }
  }),
  RevisionDiff: object('RevisionDiff', {
    id: { type: 'integer' },
    uri: text,
    revision: object(undefined, { id: { type: 'integer' }, uri: text }),
    changes: listOf(ref('RevisionChange'))
  })
}

/** What supervisors of the process may ask. */
export interface Supervision {
  /** Is there a /metrics? */
  readonly metrics: boolean
  /** Why a process may be degraded; absent: not known here. */
  readonly reasons?: readonly { readonly name: string; readonly means: string }[] | undefined
}

const TAGS = [
  { name: 'Health', description: 'How the process that answers is, for supervisors and load balancers.' },
  { name: 'Processes', description: 'The processes of the service.' },
  { name: 'Backup', description: 'A copy of everything that the store holds.' },
  { name: 'Revisions', description: 'The history of the account: one revision for each write that was accepted.' }
]

/** The paths that belong to no resource. Adds them and their schemas; returns their tags. */
export function describeService(
  paths: Paths,
  schemas: Record<string, object>,
  supervision: Supervision
): readonly object[] {
  Object.assign(schemas, SCHEMAS)
  describeHealth(paths, supervision)
  paths['/processes'] = {
    get: operation('processes_list', 'Processes', 'The processes of the service and what they serve.', {
      responses: { 200: answer('The processes.', ref('ProcessList')) }
    })
  }
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
    get: operation('revisions_diff', 'Revisions', 'What the revision changed, record by record.', {
      responses: { 200: answer('The changes.', ref('RevisionDiff')) }
    })
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
  paths['/backup'] = {
    get: operation(
      'backup_get',
      'Backup',
      'A consistent copy of the store as a SQLite file, for administrators; "sluice restore" takes it. Secrets stay sealed, and no key is in it. Not on PostgreSQL, which has tools of its own (409).',
      { responses: { 200: binary('The copy.', BACKUP_TYPE) } }
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
  paths[TEST_PATH] = {
    ...parametersOf(TEST_PATH),
    post: operation(
      'event_destination_test',
      title(eventDestination.name),
      'Sends a test event and says what came of it.',
      {
        member: memberRights(eventDestination).update,
        responses: { 200: answer('What came of it.', ref('EventDestinationTest')) }
      }
    )
  }
  describeDeadLetters(paths)
  return [...TAGS, describeSite(paths, schemas), describeExplanations(paths, schemas)]
}

function describeDeadLetters(paths: Paths): void {
  const member = ACCOUNT_RIGHTS.dead_letters.member ? 'any' : 'none'
  const tag = title(eventDestination.name)
  const name = `${eventDestination.name}_dead_letters`
  const redelivered = { 200: answer('How many.', ref('DeadLettersRedelivered')) }
  paths[LETTERS_PATH] = {
    ...parametersOf(LETTERS_PATH),
    get: operation(`${name}_list`, tag, 'Lists, newest first, the events that the destination refused for good.', {
      member,
      parameters: ['limit', 'before_id'],
      responses: { 200: answer('One page.', ref('DeadLetterList')) }
    }),
    delete: operation(`${name}_drop_all`, tag, 'Drops all dead letters of the destination.', {
      member,
      responses: { 204: answer('They are gone.') }
    })
  }
  paths[REDELIVER_PATH] = {
    ...parametersOf(REDELIVER_PATH),
    post: operation(`${name}_redeliver_all`, tag, 'Delivers all dead letters again, the oldest first.', {
      member,
      responses: redelivered
    })
  }
  paths[LETTER_PATH] = {
    ...parametersOf(LETTER_PATH),
    get: operation(`${name}_get`, tag, 'Reads one dead letter with its event.', {
      member,
      responses: { 200: answer('The dead letter.', ref('DeadLetterWithEvent')) }
    }),
    delete: operation(`${name}_drop`, tag, 'Drops one dead letter.', {
      member,
      responses: { 204: answer('It is gone.') }
    })
  }
  paths[`${LETTER_PATH}/redeliver`] = {
    ...parametersOf(LETTER_PATH),
    post: operation(`${name}_redeliver`, tag, 'Delivers one dead letter again.', { member, responses: redelivered })
  }
}

/** What /healthz and /readyz answer, by whether traffic should come here. */
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
        200: plain(serves, object(undefined, { status: statusOf('ok', 'degraded') })),
        503: plain(shut, object(undefined, { status: statusOf('starting', 'draining') }))
      }
    })
  }
  const means = (reasons ?? []).map((reason) => ` ${reason.name}: ${reason.means}.`).join('')
  const reason = reasons === undefined ? text : { ...text, enum: reasons.map(({ name }) => name) }
  const readiness = (...words: readonly Readiness[]) =>
    object(undefined, {
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
