import type { Writable } from 'node:stream'
import type { Clock } from '../../lib/clock.js'
import type { Outbound } from '../../lib/outbound.js'
import type { ResourceRecord } from '../../resources/field.js'
import type { Chosen } from '../../resources/objects.js'
import { Datadog } from './datadog.js'
import { File } from './file.js'
import type { Sender } from './sender.js'
import { Stdout } from './stdout.js'
import { Webhook } from './webhook.js'

export interface SenderParts {
  readonly outbound: Outbound
  readonly clock: Clock
  readonly stdout: Writable
}

/** The configuration of one target, with its sealed values by their names in it. */
export interface TargetConfig {
  readonly body: Readonly<Record<string, unknown>>
  secret(name: string): string | undefined
}

/** The way to a destination, or why there is none. */
export type Way = { readonly sender: Sender } | { readonly unsupported: string }

/** How one kind of target gets its events. */
interface Kind {
  open(config: TargetConfig, parts: SenderParts): Sender
  /** Why nothing is sent to such a target; undefined when something is. */
  unsupported?(body: TargetConfig['body']): string | undefined
}

const KINDS: Readonly<Record<string, Kind>> = {
  webhook: {
    open: ({ body, secret }, { outbound, clock }) =>
      new Webhook({ url: String(body.url), secret: secret('secret'), outbound, clock })
  },
  file: { open: ({ body }) => new File(String(body.path)) },
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
  }
}

/** Why nothing is sent to an event destination with this body; undefined when something is. */
export function unsupported(body: Readonly<Record<string, unknown>>): string | undefined {
  const { name, value } = body.target as Chosen
  const kind = KINDS[name]
  return kind === undefined ? `this version keeps ${name} and sends nothing there` : kind.unsupported?.(value)
}

/** Opens the way to the target of an event destination. */
export function wayTo({ body, secrets }: ResourceRecord, parts: SenderParts): Way {
  const reason = unsupported(body)
  const { name, value } = body.target as Chosen
  const kind = KINDS[name]
  if (reason !== undefined || kind === undefined) return { unsupported: reason ?? name }
  return { sender: kind.open({ body: value, secret: (path) => secrets[`target.${name}.${path}`] }, parts) }
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}
