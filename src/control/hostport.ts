import { parseAuthority } from '../lib/host.js'
import type { HostPort } from '../runtime/plan.js'

/** Parts of a `host:port` that a field has checked; an IPv6 host loses its brackets. */
export function splitHostport(hostport: string): HostPort {
  const parsed = parseAuthority(hostport)
  if (parsed?.port === undefined) throw new RangeError('a stored hostport is no host and port')
  return { host: parsed.host, port: parsed.port }
}
