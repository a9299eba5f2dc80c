import { formatAuthority } from '../../lib/host.js'
import type { VariableDefinition } from './definition.js'

const DEFAULT_PORTS: Readonly<Record<string, number>> = { http: 80, https: 443, tls: 443 }

/** `endpoint.*`: what serves the traffic. */
export const endpointVariables: readonly VariableDefinition[] = [
  { path: 'endpoint.addr', type: 'string', read: ({ endpoint }) => formatAuthority(endpoint.host, endpoint.port) },
  { path: 'endpoint.host', type: 'string', read: ({ endpoint }) => endpoint.host },
  { path: 'endpoint.id', type: 'string', read: ({ endpoint }) => endpoint.id },
  { path: 'endpoint.port', type: 'int', read: ({ endpoint }) => BigInt(endpoint.port) },
  { path: 'endpoint.protocol', type: 'string', read: ({ endpoint }) => endpoint.protocol },
  {
    path: 'endpoint.url',
    type: 'string',
    read: ({ endpoint: { protocol, host, port } }) => {
      const authority = formatAuthority(host, port)
      const shown = DEFAULT_PORTS[protocol] === port ? authority.slice(0, authority.lastIndexOf(':')) : authority
      return `${protocol}://${shown}`
    }
  }
]
