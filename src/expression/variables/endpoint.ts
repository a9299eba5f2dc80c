import { formatAuthority } from '../../lib/host.js'
import type { VariableDefinition } from './definition.js'

const DEFAULT_PORTS: Readonly<Record<string, number>> = { http: 80, https: 443, tls: 443 }

/** `endpoint.*`: the entry through which the traffic came. */
export const endpointVariables: readonly VariableDefinition[] = [
  { path: 'endpoint.addr', type: 'string', read: ({ entry }) => formatAuthority(entry.host, entry.port) },
  { path: 'endpoint.host', type: 'string', read: ({ entry }) => entry.host },
  { path: 'endpoint.id', type: 'string', read: ({ entry }) => entry.id },
  { path: 'endpoint.port', type: 'int', read: ({ entry }) => BigInt(entry.port) },
  { path: 'endpoint.protocol', type: 'string', read: ({ entry }) => entry.protocol },
  {
    path: 'endpoint.url',
    type: 'string',
    read: ({ entry: { protocol, host, port } }) => {
      const authority = formatAuthority(host, port)
      const shown = DEFAULT_PORTS[protocol] === port ? authority.slice(0, authority.lastIndexOf(':')) : authority
      return `${protocol}://${shown}`
    }
  }
]
