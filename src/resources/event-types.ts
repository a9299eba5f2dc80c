/** Nouns of the events that tell of a created, changed or deleted record. They are older than the names of the resources. */
export const EVENT_NOUNS = [
  'agent_ingress',
  'api_key',
  'backend',
  'bot_user',
  'certificate_authority',
  'domain',
  'edge_https',
  'edge_https_route',
  'edge_tcp',
  'event_destination',
  'event_subscription',
  'ip_policy',
  'ip_policy_rule',
  'ip_restriction',
  'secret',
  'ssh_certificate_authority',
  'ssh_host_certificate',
  'ssh_user_certificate',
  'tls_certificate',
  'tunnel_credential',
  'vault'
] as const

export type EventNoun = (typeof EVENT_NOUNS)[number]

/** Nouns of events that others know and nothing here can cause: there are no such resources. */
const ABSENT_NOUNS: readonly string[] = ['ssh_public_key', 'tcp_address']

/** Events of traffic and of agents, which no resource makes. */
const TRAFFIC = ['agent_session_start', 'agent_session_stop', 'http_request_complete', 'tcp_connection_closed'] as const

const CHANGES = ['created', 'updated', 'deleted'] as const

export type Change = (typeof CHANGES)[number]

/** The type of the event of one change. */
export function eventType(noun: EventNoun, change: Change): string {
  return `${noun}_${change}.v0`
}

/** The resource that an event of this type would tell of, when others have it and this version does not. */
export function absentNoun(type: string): string | undefined {
  return ABSENT_NOUNS.find((noun) => CHANGES.some((change) => type === `${noun}_${change}.v0`))
}

/** Every type that a subscription may name, sorted. */
export const EVENT_TYPES: readonly string[] = [
  ...EVENT_NOUNS.flatMap((noun) => CHANGES.map((change) => eventType(noun, change))),
  ...TRAFFIC.map((name) => `${name}.v0`)
].sort()
