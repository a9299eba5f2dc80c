import type { Logger } from 'pino'
import type { Clock } from '../lib/clock.js'
import { CodedError } from '../lib/coded-error.js'
import { formatAuthority } from '../lib/host.js'
import { CidrSet, parseCidr } from '../lib/ip.js'
import { selfSigned } from '../lib/self-signed.js'
import type { Options } from '../options/options.js'
import { trustingProxies } from '../proxy/client-address.js'
import type { TrafficParts } from '../proxy/data-plane.js'

type OfOptions = 'accessLog' | 'region' | 'limits' | 'timeouts' | 'forwarding' | 'development' | 'tcp' | 'reserved'

/** What the options say of traffic. */
export async function trafficOptions(options: Options, clock: Clock): Promise<Pick<TrafficParts, OfOptions>> {
  const { timeouts, limits, access_log, access_log_sample, region, trusted_proxies, zone } = options
  const { listen, listeners, agents, api, tcp_host, tcp_proxy_protocol } = options
  return {
    accessLog: access_log ? access_log_sample : undefined,
    region,
    limits: {
      headerBytes: limits.header_bytes,
      headers: limits.headers,
      targetBytes: limits.target_bytes,
      connections: limits.connections,
      handshakes: limits.handshakes,
      connectionsPerAddress: limits.connections_per_address,
      handshakesPerAddress: limits.handshakes_per_address,
      headTimeout: timeouts.headers,
      bodyIdle: timeouts.request_body,
      keepAlive: timeouts.keep_alive
    },
    timeouts,
    forwarding: trustingProxies(trustedSet(trusted_proxies)),
    development: await selfSigned('Sluice development', developmentNames(zone), clock.wall()),
    tcp: { host: tcp_host ?? listen.host, proxyProtocol: tcp_proxy_protocol },
    reserved: [listen, api.listen, ...(agents === undefined ? [] : [agents]), ...listeners.map((one) => one.listen)]
  }
}

/** Takes the lines of the access log, which has a switch of its own: the level of the other log does not silence it. */
export function accessLines(log: Logger): Logger {
  return log.child({}, { level: 'info' })
}

/**
 * Do agents come in through one of these listeners? Throws a CodedError `AGENTS_ADDRESS` when that one speaks no TLS. Port 0 is any
 * that is free, so two of them are never the same.
 */
export function sharesListener(
  { agents, listen }: Pick<Options, 'agents' | 'listen'>,
  listeners: Options['listeners']
): boolean {
  if (agents === undefined || agents.port === 0) return false
  const same = (at: Options['listen']) => at.host === agents.host && at.port === agents.port
  const shared = listeners.find((one) => same(one.listen))
  if (shared?.tls !== true && (shared !== undefined || same(listen))) {
    const message = `agents: ${formatAuthority(agents.host, agents.port)} is a listener without TLS, which agents cannot share`
    throw new CodedError('AGENTS_ADDRESS', message)
  }
  return shared !== undefined
}

/** What the certificate of development is good for. */
function developmentNames(zone: string): string[] {
  return ['localhost', '*.localhost', zone, `*.${zone}`, '127.0.0.1', '::1']
}

/** The networks of trusted proxies; undefined: there are none. */
export function trustedSet(networks: readonly string[]): CidrSet | undefined {
  if (networks.length === 0) return undefined
  return new CidrSet(networks.flatMap((network) => parseCidr(network) ?? []))
}
