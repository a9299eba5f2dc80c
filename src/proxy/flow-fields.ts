import type { ConnectionFacts } from '../flow/connection.js'
import type { Flow } from '../flow/flow.js'
import { unmapIpv4 } from '../lib/ip.js'
import { REFUSALS } from './failures.js'
import { redact } from './redaction.js'

/** What is known of an exchange and of a connection to a TCP edge alike. */
export interface FlowRecord {
  readonly connection: ConnectionFacts
  readonly flow: Flow | undefined
  /** Why Sluice refused it. */
  readonly code: string | undefined
}

/** Values of the fields of one event by their dotted paths; null for what does not apply. */
export type FieldReaders<R> = Readonly<Record<string, (record: R) => unknown>>

/** Fields of both events of traffic. */
export const FLOW_FIELDS: FieldReaders<FlowRecord> = {
  'conn.client_ip': ({ connection, flow }) => flow?.clientAddress ?? unmapIpv4(connection.peer.address),
  'conn.server_ip': ({ connection }) => unmapIpv4(connection.local.address),
  'conn.server_name': ({ connection }) => connection.tls?.sni ?? '',
  'conn.server_port': ({ connection }) => connection.local.port,
  'conn.start_ts': ({ connection }) => timeText(connection.startedAt),
  'ip_policy.decision': ipDecision,
  ja4_fingerprint: () => null,
  'traffic_policy.decided_by.action': ({ flow }) => flow?.decidedBy?.action ?? null,
  'traffic_policy.decided_by.phase': ({ flow }) => flow?.decidedBy?.phase ?? null,
  'traffic_policy.decided_by.rule': ({ flow }) => flow?.decidedBy?.rule ?? null,
  'traffic_policy.logs': ({ flow }) => (flow?.logs ?? []).map((entry) => redact(entry, 0))
}

/** What an action or a module published under this name when it ran last. */
export function published(flow: Flow | undefined, name: string): Readonly<Record<string, unknown>> | undefined {
  return flow?.results?.get(name)
}

/** The word for a decision that somebody took; null when nobody did. */
export function decision(passes: boolean | undefined): 'allow' | 'block' | null {
  return passes === undefined ? null : passes ? 'allow' : 'block'
}

/** RFC 3339; `at`: milliseconds since the Unix epoch. */
export function timeText(at: number): string {
  return new Date(at).toISOString()
}

function ipDecision({ flow, code }: FlowRecord): string | null {
  const found = [published(flow, 'ip_policy')?.decision, published(flow, 'restrict_ips')?.action]
  if (code === REFUSALS.restricted.code || found.includes('deny')) return decision(false)
  return decision(found.includes('allow') ? true : undefined)
}
