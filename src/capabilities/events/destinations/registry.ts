import type { ResourceRecord } from '../../../schema/field.js'
import type { Chosen } from '../../../schema/objects.js'
import { awsKind } from './aws.js'
import { CloudWatchLogs, Firehose, Kinesis } from './aws-streams.js'
import { AzureLogs } from './azure-logs.js'
import { EventFolders } from './folders.js'
import { Datadog, Webhook } from './http.js'
import { File, Stdout } from './local.js'
import { type Kind, type Sender, type SenderParts, textOf } from './sender.js'

/** Sender of a destination, or the reason why there is none. */
export type Way = { readonly sender: Sender } | { readonly unsupported: string }

const KINDS: Readonly<Record<string, Kind>> = {
  webhook: {
    open: ({ body, secret }, { outbound, clock }) =>
      new Webhook({ url: String(body.url), secret: secret('secret'), outbound, clock })
  },
  file: {
    unsupported(body, folders) {
      const outside = folders.outside(textOf(body.path))
      return outside === undefined ? undefined : `the path ${outside}`
    },
    open: ({ body }, { folders = EventFolders.none }) => new File(String(body.path), folders)
  },
  stdout: { open: (_config, { stdout }) => new Stdout(stdout) },
  datadog: {
    open: ({ body, secret }, { outbound }) =>
      new Datadog({
        apiKey: secret('api_key') ?? '',
        site: textOf(body.ddsite),
        tags: textOf(body.ddtags),
        service: textOf(body.service),
        outbound
      })
  },
  kinesis: awsKind({
    member: 'stream_arn',
    service: 'kinesis',
    resource: /^stream\/([\w.-]+)$/,
    open: (service, { arn }) => new Kinesis(service, arn)
  }),
  firehose: awsKind({
    member: 'delivery_stream_arn',
    service: 'firehose',
    resource: /^deliverystream\/([\w.-]+)$/,
    open: (service, { name }) => new Firehose(service, name)
  }),
  cloudwatch_logs: awsKind({
    member: 'log_group_arn',
    service: 'logs',
    resource: /^log-group:([\w.#/-]+)(?::\*)?$/,
    open: (service, { name }, { clock }) => new CloudWatchLogs({ service, group: name, clock })
  }),
  azure_logs_ingestion: {
    unsupported: ({ logs_ingestion_uri: uri }) =>
      textOf(uri).startsWith('https:') ? undefined : 'logs_ingestion_uri must be https: a token is sent there',
    open: ({ body, secret }, { outbound, clock }) =>
      new AzureLogs({
        tenant: textOf(body.tenant_id),
        clientId: textOf(body.client_id),
        clientSecret: secret('client_secret') ?? '',
        uri: textOf(body.logs_ingestion_uri),
        rule: textOf(body.data_collection_rule_id),
        stream: textOf(body.data_collection_stream_name),
        outbound,
        clock
      })
  }
}

/** Returns the reason why an event destination with this body receives no events; undefined if it does. */
export function unsupported(
  body: Readonly<Record<string, unknown>>,
  folders: EventFolders = EventFolders.none
): string | undefined {
  const { name, value } = body.target as Chosen
  const kind = KINDS[name]
  return kind === undefined ? `this version keeps ${name} and sends nothing there` : kind.unsupported?.(value, folders)
}

/** Opens the way to the target of an event destination. */
export function wayTo({ body, secrets }: ResourceRecord, parts: SenderParts): Way {
  const reason = unsupported(body, parts.folders)
  const { name, value } = body.target as Chosen
  const kind = KINDS[name]
  if (reason !== undefined || kind === undefined) return { unsupported: reason ?? name }
  return { sender: kind.open({ body: value, secret: (path) => secrets[`target.${name}.${path}`] }, parts) }
}
