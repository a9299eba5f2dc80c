import { ACCOUNT_RIGHTS, type Extent, memberRights, type Right } from '../control/rights.js'
import { eventDestination } from '../resources/event-destinations.js'
import { tunnelSession } from '../resources/live.js'
import type { Resource } from '../resources/resource.js'
import { title } from '../schema/json-schema.js'
import { LETTER_PATH, LETTERS_PATH, REDELIVER_PATH, TEST_PATH } from './event-routes.js'
import { BACKUP_TYPE, COMMANDS, METRICS_TYPE, type Readiness } from './service-routes.js'

/** What the descriptions of all operations share. */
export type Operations = Record<string, object>
export type Paths = Record<string, Operations>

interface OperationParts {
  readonly parameters?: readonly (keyof typeof PARAMETERS)[]
  /** Which records a member may do this to; all of them unless named. */
  readonly member?: Extent
  /** Answered without a version of the API; `open`: without a key too. */
  readonly bare?: 'unversioned' | 'open'
  /** Schema of the request's body. */
  readonly body?: object
  /** The success; errors have one form. */
  readonly responses: Readonly<Record<number, object>>
}

export function ref(schema: string): { readonly $ref: string } {
  return { $ref: `#/components/schemas/${schema}` }
}

const MEMBERS: Readonly<Record<Extent, string>> = {
  any: '',
  own: ' Members: what is their own.',
  none: ' Administrators only.'
}

export function operation(id: string, tag: string, description: string, parts: OperationParts): object {
  const { parameters = [], member = 'any', bare, body, responses } = parts
  const shared = [...(bare === undefined ? (['service_version'] as const) : []), ...parameters]
  return {
    operationId: id,
    tags: [tag],
    description: `${description}${MEMBERS[member]}`,
    'x-member-rights': member,
    ...(bare === 'open' ? { security: [] } : {}),
    parameters: shared.map((name) => ({ $ref: `#/components/parameters/${name}` })),
    ...(body === undefined ? {} : { requestBody: { required: true, content: json(body) } }),
    // Among the responses it would make every write of a generated client end in one of two types.
    ...(parameters.includes('dry_run') ? { 'x-dry-run-response': { 200: ref('DryRun') } } : {}),
    responses: { ...responses, default: { description: 'What was wrong.', content: json(ref('Error')) } }
  }
}

/** An answer; without a schema it has no body. */
export function answer(description: string, schema?: object, headers: readonly (keyof typeof HEADERS)[] = []): object {
  const named = Object.fromEntries([...headers, 'service-revision' as const].map((name) => [name, HEADERS[name]]))
  return { description, headers: named, ...(schema === undefined ? {} : { content: json(schema) }) }
}

/** An answer that is a file of this type. */
function binary(description: string, type: string): object {
  const content = { [type]: { schema: { type: 'string', format: 'binary' } } }
  return { ...answer(description), content }
}

/** An answer that shows no revision. */
function plain(description: string, schema: object, type = 'application/json'): object {
  return { description, content: { [type]: { schema } } }
}

/** The parameters of a path, for its path item. */
export function parametersOf(path: string): { parameters: object[] } | Record<string, never> {
  const parameters = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => {
    return { name, in: 'path', required: true, schema: { type: 'string' } }
  })
  return parameters.length === 0 ? {} : { parameters }
}

function json(schema: object): object {
  return { 'application/json': { schema } }
}

const HEADERS = {
  etag: { description: 'Version of the record, for If-Match.', schema: { type: 'string' } },
  'service-revision': { description: 'Revision of the account that the answer shows.', schema: { type: 'string' } }
} as const

export const PARAMETERS = {
  service_version: {
    name: 'service-version',
    in: 'header',
    required: true,
    description: 'Version of this API.',
    schema: { type: 'string', enum: ['2'], default: '2' }
  },
  if_match: {
    name: 'if-match',
    in: 'header',
    description: 'Goes on only while the record has this ETag; else 412.',
    schema: { type: 'string' }
  },
  if_none_match: {
    name: 'if-none-match',
    in: 'header',
    description: 'ETags that the client has: while one of them is the current one the answer is 304 without a body.',
    schema: { type: 'string' }
  },
  limit: {
    name: 'limit',
    in: 'query',
    description: 'Most entries of the page.',
    schema: { type: 'integer', minimum: 1, maximum: 100, default: 100 }
  },
  before_id: {
    name: 'before_id',
    in: 'query',
    description: 'Only what was created before the record with this id, which may be deleted since.',
    schema: { type: 'string' }
  },
  force: {
    name: 'force',
    in: 'query',
    description: 'Goes on even when it shuts the caller out of this API. Administrators only.',
    schema: { type: 'boolean', default: false }
  },
  dry_run: {
    name: 'dry_run',
    in: 'query',
    description: 'Does everything but the commit; the answer is 200 with a DryRun instead (x-dry-run-response).',
    schema: { type: 'boolean', default: false }
  }
} as const

const text = { type: 'string' } as const

export const ERROR_SCHEMA = {
  type: 'object',
  title: 'Error',
  properties: {
    error_code: { ...text, description: 'Stable name of what is wrong: ERR_SLUICE_<WORD>.' },
    status_code: { type: 'integer', description: 'The status of the answer.' },
    msg: { ...text, description: 'For people.' },
    details: {
      type: 'object',
      description: 'operation_id always; field and more where they are known.',
      properties: { operation_id: text },
      required: ['operation_id'],
      additionalProperties: text
    },
    problems: {
      type: 'array',
      description: 'All that is wrong with the body, where it is more than one thing; strings only.',
      items: { type: 'object', additionalProperties: text }
    }
  },
  required: ['error_code', 'status_code', 'msg', 'details']
} as const

export const DRY_RUN_SCHEMA = {
  type: 'object',
  title: 'DryRun',
  properties: {
    warnings: {
      type: 'array',
      description: 'What is doubtful in policies that the write makes serve; absent without any.',
      items: {
        type: 'object',
        properties: { code: text, message: text, path: text, line: { type: 'integer' }, column: { type: 'integer' } },
        required: ['code', 'message', 'path', 'line', 'column']
      }
    },
    dry_run: { type: 'boolean', enum: [true] },
    status_code: { type: 'integer', description: 'Status of the write itself.' },
    body: { description: 'Body of the write itself; null when it has none.' },
    difference: {
      type: 'object',
      description: 'Keys of the parts of the running configuration that the write changes.',
      properties: { put: { type: 'array', items: text }, drop: { type: 'array', items: text } },
      required: ['put', 'drop']
    },
    routes: { type: 'array', items: text, description: 'Ids of the routes that the write touches.' }
  },
  required: ['dry_run', 'status_code', 'body', 'difference', 'routes']
} as const

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
  deleted: { ...count, description: 'How many records it deleted.' }
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
  RevisionList: object('RevisionList', { revisions: listOf(ref('Revision')), uri: text, next_page_uri: textOrNull }),
  RevisionChange: REVISION_CHANGE,
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
  return TAGS
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

const COLUMNS: readonly Right[] = ['read', 'create', 'update', 'delete', 'secrets', 'command']

/** The table of rights, in Markdown, for people who read the description of the API. */
export function rightsText(resources: readonly Resource[]): string {
  const rows = resources.map((resource) => {
    const rights = memberRights(resource)
    const { field = '', values = [] } = rights.reserved ?? {}
    const besides = values.length === 0 ? '' : `not where ${field} is ${values.join(' or ')}`
    return `| ${[resource.name, ...COLUMNS.map((right) => rights[right]), besides].join(' | ')} |`
  })
  const refusals = Object.values(ACCOUNT_RIGHTS).map(({ refusal }) => `- ${refusal}`)
  return [
    '## Rights',
    '',
    'Administrators may do everything. Members, which bots are, may do what this table says: to `any` record, to their `own` ' +
      '(those whose `owner_id` they are), or to `none`. `secrets` are those that answers show to their owner; `command` are ' +
      'commands to connected agents, whose owner is that of their credential. Anything else is refused with ' +
      '`ERR_SLUICE_ADMIN_REQUIRED`.',
    '',
    `| resource | ${COLUMNS.join(' | ')} | besides |`,
    `| --- |${' --- |'.repeat(COLUMNS.length + 1)}`,
    ...rows,
    '',
    ...refusals,
    '- only an administrator may change what decides by address who reaches this API or its pages, rules of IP policies included',
    '- a policy of a member reads secrets only of vaults that the member may use (`usable_by` of the vault); else `ERR_SLUICE_VAULT_NOT_ALLOWED`'
  ].join('\n')
}
