import { ACCOUNT_RIGHTS, type Extent, memberRights, type Right } from '../control/rights.js'
import type { Resource } from '../resources/resource.js'
import { ref, type Shape, text, type ValueOf } from '../schema/answer.js'

/** Common parts of the descriptions of all operations. */
export type Operations = Record<string, object>

export type Paths = Record<string, Operations>

interface OperationParts {
  /** Names among the components. */
  readonly parameters?: readonly string[]
  /** Records to which a member may apply the operation. @default all of them */
  readonly member?: Extent
  /** The right that a member needs, in place of `member`. */
  readonly right?: keyof typeof ACCOUNT_RIGHTS
  /** Answered without a version of the API; `open`: without a key too. */
  readonly bare?: 'unversioned' | 'open'
  /** Schema of the request's body. */
  readonly body?: object
  /** The success; errors have one form. */
  readonly responses: Readonly<Record<number, object>>
}

const MEMBERS: Readonly<Record<Extent, string>> = {
  any: '',
  own: ' Members: what is their own.',
  none: ' Administrators only.'
}

export function operation(id: string, tag: string, description: string, parts: OperationParts): object {
  const { parameters = [], right, bare, body, responses } = parts
  const member = right === undefined ? (parts.member ?? 'any') : ACCOUNT_RIGHTS[right].member ? 'any' : 'none'
  const guarded = parameters.includes('dry_run') ? (['guard'] as const) : []
  const shared = [...(bare === undefined ? (['service_version'] as const) : []), ...parameters, ...guarded]
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

/** Describes a response; without a schema it has no body. */
export function answer(
  description: string,
  schema?: object,
  headers: readonly (keyof typeof HEADERS)[] = [],
  example?: unknown
): object {
  const named = Object.fromEntries([...headers, 'service-revision' as const].map((name) => [name, HEADERS[name]]))
  return { description, headers: named, ...(schema === undefined ? {} : { content: json(schema, example) }) }
}

/** Describes a response with a file of this type. */
export function binary(description: string, type: string): object {
  const content = { [type]: { schema: { type: 'string', format: 'binary' } } }
  return { ...answer(description), content }
}

/** Describes a response without a revision. */
export function plain(description: string, schema?: object, type = 'application/json'): object {
  return schema === undefined ? { description } : { description, content: { [type]: { schema } } }
}

/** Describes a response that is also available as text of this type. */
export function withText(described: object & { readonly content?: object }, type: string): object {
  return { ...described, content: { ...described.content, [type]: { schema: text } } }
}

/** The parameters of a path, for its path item. */
export function parametersOf(path: string): { parameters: object[] } | Record<string, never> {
  const parameters = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => {
    return { name, in: 'path', required: true, schema: { type: 'string' } }
  })
  return parameters.length === 0 ? {} : { parameters }
}

function json(schema: object, example?: unknown): object {
  return { 'application/json': { schema, ...(example === undefined ? {} : { example }) } }
}

const HEADERS = {
  etag: { description: 'Version of the record, for If-Match.', schema: { type: 'string' } },
  'service-revision': { description: 'Revision of the account that the answer shows.', schema: { type: 'string' } }
} as const

export const PARAMETERS = {
  service_version: {
    name: 'service-version',
    in: 'header',
    // A required parameter would be in every call of a generated client, which can set the field once for all of them.
    description: 'Version of this API. Every request needs it; a client sets it once for all of its calls.',
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
  filter: {
    name: 'filter',
    in: 'query',
    description:
      'Only the objects for which this CEL expression over `obj` is true, such as `obj.description == "shop" && ' +
      'obj.created_at > timestamp(time.now).subtract("7d")`.',
    schema: { type: 'string', maxLength: 4096 }
  },
  force: {
    name: 'force',
    in: 'query',
    description: 'Goes on even when it shuts the caller out of this API. Administrators only.',
    schema: { type: 'boolean', default: false }
  },
  guard: {
    name: 'guard',
    in: 'header',
    description:
      'Conditions under which the write stays, such as `bake=30s; error-rate=+2%; refusal-rate=+5%; min-requests=50`. When one ' +
      'breaks while it bakes, the write is reverted by itself; the revision says how its guard stands.',
    schema: { type: 'string', maxLength: 1000 }
  },
  dry_run: {
    name: 'dry_run',
    in: 'query',
    description: 'Does everything but the commit; the answer is 200 with a DryRun instead (x-dry-run-response).',
    schema: { type: 'boolean', default: false }
  }
} as const

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

export const WARNING_SCHEMA = {
  type: 'object',
  title: 'PolicyWarning',
  properties: {
    code: { ...text, description: 'One of the warnings of policy documents, such as RULE_FAILS_OPEN.' },
    message: { ...text, description: 'What the document does, and what to write instead; for people.' },
    path: { ...text, description: 'Place in the document, such as on_http_request[0].expressions[0].' },
    line: { type: 'integer', description: 'From 1.' },
    column: { type: 'integer', description: 'From 1.' },
    file: { ...text, description: 'Of an applied site file: which of its documents.' },
    length: { type: 'integer', description: 'With file: how many characters are meant.' }
  },
  required: ['code', 'message', 'path', 'line', 'column']
} as const

const WARNINGS = { type: 'array', items: WARNING_SCHEMA } as const

export const DRY_RUN_SCHEMA = {
  type: 'object',
  title: 'DryRun',
  properties: {
    warnings: {
      ...WARNINGS,
      description: 'What is doubtful in policies that the write makes serve; absent without any.'
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

/** Adds warnings to the schema of a response to a write. */
export function withWarnings<S extends object>(schema: S): object & Shape<ValueOf<S>> {
  const { properties, ...rest } = schema as unknown as { readonly properties: object }
  const description =
    'What is doubtful in policies that the write makes serve; only in the answer of a write, and absent without any.'
  return { ...rest, properties: { ...properties, warnings: { ...WARNINGS, readOnly: true, description } } } as never
}

const COLUMNS: readonly Right[] = ['read', 'create', 'update', 'delete', 'secrets', 'command']

/** Returns the table of rights in Markdown, for the description of the API. */
export function rightsText(resources: readonly Resource[]): string {
  const rows = resources.map((resource) => {
    const rights = memberRights(resource)
    return `| ${[resource.name, ...COLUMNS.map((right) => rights[right])].join(' | ')} |`
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
    `| resource | ${COLUMNS.join(' | ')} |`,
    `| --- |${' --- |'.repeat(COLUMNS.length)}`,
    ...rows,
    '',
    ...refusals,
    '- only an administrator may change what an IP restriction of the account decides by address, rules of IP policies included',
    '- only an administrator may open ports below 1024 for TCP edges',
    '- a policy of a member reads secrets only of vaults that the member may use (`usable_by` of the vault), and a member sends such secrets nowhere else: by a backend, host, route, internal edge, policy, revert or guard; else `ERR_SLUICE_VAULT_NOT_ALLOWED`'
  ].join('\n')
}
