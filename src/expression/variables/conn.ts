import type { Flow } from '../../flow/flow.js'
import { unmapIpv4 } from '../../lib/ip.js'
import type { VariableDefinition } from './definition.js'

/** The local address; that of an IPv4 connection on an IPv6 socket without its prefix. */
export function serverAddress({ connection }: Flow): string {
  return unmapIpv4(connection.local.address)
}

const KUBERNETES = 'a Kubernetes binding'

/** `conn.*` and `conn.k8s.*`. */
export const connVariables: readonly VariableDefinition[] = [
  { path: 'conn.bytes_in', type: 'int', read: ({ connection }) => BigInt(connection.bytesIn) },
  { path: 'conn.bytes_out', type: 'int', read: ({ connection }) => BigInt(connection.bytesOut) },
  { path: 'conn.client_ip', type: 'string', read: (flow) => flow.clientAddress },
  { path: 'conn.client_port', type: 'int', read: (flow) => BigInt(flow.clientPort) },
  { path: 'conn.server_ip', type: 'string', read: serverAddress },
  { path: 'conn.server_port', type: 'int', read: ({ connection }) => BigInt(connection.local.port) },
  { path: 'conn.server_region', type: 'string', read: ({ entry }) => entry.region },
  { path: 'conn.ts.start', type: 'timestamp', read: ({ connection }) => new Date(connection.startedAt) },
  { path: 'conn.k8s.pod.id', type: 'string', missing: KUBERNETES, read: () => '' },
  { path: 'conn.k8s.pod.metadata.name', type: 'string', missing: KUBERNETES, read: () => '' },
  { path: 'conn.k8s.pod.metadata.namespace', type: 'string', missing: KUBERNETES, read: () => '' },
  {
    path: 'conn.k8s.pod.metadata.annotations',
    type: 'map<string, string>',
    missing: KUBERNETES,
    read: () => new Map()
  },
  { path: 'conn.k8s.pod.metadata.error_code', type: 'string', missing: KUBERNETES, read: () => '' },
  { path: 'conn.k8s.pod.metadata.error_message', type: 'string', missing: KUBERNETES, read: () => '' }
]
