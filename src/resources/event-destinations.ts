import Type from 'typebox'
import { defineField } from '../schema/field.js'
import { allowedPath, computed, constant, described, nullable, text } from '../schema/fields.js'
import { type Chosen, object, oneOf, type RuleView } from '../schema/objects.js'
import { secret } from '../schema/secrets.js'
import { defineResource } from './resource.js'

const name = (description: string) => text({ description, bytes: 1024, required: true })
const arn = (description: string) => text({ description, bytes: 2048, form: 'arn', required: true })
const url = (description: string) => text({ description, bytes: 2048, form: 'url', required: true })
const hidden = (description: string, required = true) => secret({ description, bytes: 4096, required, shown: 'null' })

const aws = oneOf(
  {
    role: object(
      { role_arn: arn('Role to assume.') },
      { description: 'Log in by a role. Kept, and nothing is sent: this version assumes no roles.' }
    ),
    creds: object(
      { aws_access_key_id: name('Id of the key.'), aws_secret_access_key: hidden('The key.') },
      { description: 'Log in by a key. Requests are signed with Signature Version 4.' }
    )
  },
  { description: 'How to log in at AWS.', required: true }
)

const targets = {
  kinesis: object(
    { auth: aws, stream_arn: arn('The stream.') },
    {
      description: 'Amazon Kinesis: a record for each event. Audit events share one partition key and keep their order.'
    }
  ),
  firehose: object(
    { auth: aws, delivery_stream_arn: arn('The stream.') },
    {
      description: 'Amazon Data Firehose: a line for each event.'
    }
  ),
  cloudwatch_logs: object(
    { auth: aws, log_group_arn: arn('The log group.') },
    {
      description:
        'Amazon CloudWatch Logs: a log event for each event, in the log stream sluice, which is made when it is missing.'
    }
  ),
  datadog: object(
    {
      api_key: secret({
        description: 'Key of the Datadog API.',
        bytes: 4096,
        form: 'header_value',
        required: true,
        shown: 'null'
      }),
      ddtags: text({ description: 'Tags.', bytes: 1024 }),
      service: text({ description: 'Name of the service.', bytes: 255 }),
      ddsite: text({ description: 'Site of Datadog.', bytes: 255 })
    },
    { description: 'Logs of Datadog: an entry for each event.' }
  ),
  azure_logs_ingestion: object(
    {
      tenant_id: name('Tenant.'),
      client_id: name('Application.'),
      client_secret: hidden('Secret of the application.'),
      logs_ingestion_uri: url('Where logs are taken.'),
      data_collection_rule_id: name('Rule.'),
      data_collection_stream_name: name('Stream.')
    },
    { description: 'Logs Ingestion of Azure Monitor: lists of events, as they are.' }
  ),
  webhook: object(
    {
      url: url('Where events are posted to.'),
      secret: hidden('What the posts are signed with; base64 after whsec_, else as it stands.', false)
    },
    { description: 'A POST for each event; those of traffic as lists. Signed with HMAC-SHA256 when there is a secret.' }
  ),
  file: object(
    {
      path: allowedPath(
        'Absolute path, in a folder that the operator names for files of events (option events.folders).',
        (path, { checkFile }) => checkFile?.(path)
      )
    },
    { description: 'A line for each event, appended to a file of the server.' }
  ),
  stdout: object({ supported: constant(true, 'Always true.') }, { description: 'A line for each event.' })
}

/** The only supported format, case-insensitive and returned as written. */
const format = defineField<string>({
  description: 'Format of the events: json.',
  initial: 'json',
  request: Type.String({ description: 'Format of the events: json.', default: 'json', pattern: '^[Jj][Ss][Oo][Nn]$' }),
  response: Type.String({ description: 'Format of the events.' }),
  read(value, at, _path, reading) {
    if (typeof value === 'string' && value.toLowerCase() === 'json') return value
    reading.report({ field: at, code: 'FIELD_INVALID', message: 'must be json' })
    return undefined
  },
  present: (stored) => stored
})

const textOrNull = (description: string) => nullable(Type.String({ description }))

/** Delivery state as known to this process. */
const delivery = computed(
  nullable(
    Type.Object({
      state: Type.Enum(['ok', 'failing', 'unsupported'], {
        description: 'failing: it is tried again; unsupported: nothing is sent.'
      }),
      reason: textOrNull('Why nothing is sent; null when it is.'),
      delivered: Type.Integer({ description: 'Events that were taken.' }),
      dropped: Type.Integer({
        description: 'Traffic events for which there was no room, or that were refused for good.'
      }),
      waiting: Type.Integer({ description: 'Other events that waited when the delivery failed last.' }),
      failures: Type.Integer({ description: 'Attempts since the last success.' }),
      last_error: textOrNull('Why the last attempt that failed did; null: none has.'),
      last_failure_at: textOrNull('When an attempt failed last (RFC 3339).'),
      last_success_at: textOrNull('When an attempt succeeded last (RFC 3339).'),
      dead_letters: Type.Integer({ description: 'Events other than traffic that were refused for good and are kept.' }),
      dead_letters_dropped: Type.Integer({ description: 'Dead letters that were dropped because their list was full.' })
    })
  ),
  'How the delivery goes; null before it has begun.',
  (_stored, _path, { id }, { deliveryOf }) => deliveryOf?.(id) ?? null
)

/** Destination of events. */
export const eventDestination = defineResource({
  name: 'event_destination',
  description: 'Where events are sent to.',
  path: '/event_destinations',
  listKey: 'event_destinations',
  idPrefix: 'ed',
  events: 'event_destination',
  fields: {
    ...described,
    format,
    target: oneOf(targets, { description: 'Exactly one kind of destination, the same for ever.', required: true }),
    delivery
  },
  rules: [{ on: ['target'], check: sameKind }]
})

function sameKind({ body, before, report }: RuleView): void {
  const [now, then] = [body.target as Chosen, before?.target as Chosen | undefined]
  if (then !== undefined && then.name !== now.name) report('target', 'IMMUTABLE', `must stay a ${then.name}`)
}
