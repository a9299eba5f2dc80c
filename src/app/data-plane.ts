import type { Logger } from 'pino'
import { CodedError } from '../lib/errors.js'
import { formatAuthority } from '../lib/host.js'
import { timestampText } from '../lib/json.js'
import { selfSigned } from '../lib/self-signed.js'
import type { Options } from '../options/options.js'
import { trustingProxies } from '../proxy/client-address.js'
import { createTraffic, type Traffic, type TrafficParts } from '../proxy/data-plane.js'
import { HeaderKinds } from '../proxy/header-sanitizing.js'
import { HealthChecks } from '../proxy/health.js'
import type { NameChange, ServerChange } from '../proxy/unit-servers.js'
import { Upstreams } from '../proxy/upstreams.js'
import type { ClientTransport } from '../transport/contract.js'
import { httpProxyBack } from '../transport/http-proxy/client.js'
import { nodeServerTransport } from '../transport/http-proxy/server.js'
import { codecBack } from '../transport/http1/forwarding.js'
import { codecServerTransport } from '../transport/http1/server.js'
import { byVersion, http2Back } from '../transport/http2/client.js'
import type { Agents } from '../tunnel/agents/agents.js'
import { agentListenerErrors } from '../tunnel/agents/listener-identity.js'
import type { Foundation } from './foundation.js'

type OfOptions = 'accessLog' | 'region' | 'limits' | 'timeouts' | 'forwarding' | 'development' | 'tcp' | 'reserved'

/** What carries traffic: the client side and the upstream side. */
const ENGINES = {
  'http-proxy': { front: nodeServerTransport, back: httpProxyBack },
  codec: { front: codecServerTransport, back: codecBack }
} as const

/** What carries traffic, and nothing yet: its ports open with the configuration. */
export interface DataPlane {
  readonly traffic: Traffic
  readonly upstreams: Upstreams
  /** The upstream side. */
  readonly clientTransport: ClientTransport
}

/** The data plane over `agents` and the network. Rejects with a CodedError `AGENTS_ADDRESS`. */
export async function openDataPlane(options: Options, foundation: Foundation, agents: Agents): Promise<DataPlane> {
  const { clock, log, names, holder, observers, metrics, turnedAway, bus, challenges, lifecycle } = foundation
  const engine = ENGINES[options.engine]
  const clientTransport = byVersion(engine.back({ clock }), http2Back({ clock }))
  const checks = new HealthChecks({ clientTransport, clock })
  const upstreams = new Upstreams({
    clock,
    tunnels: agents.groups,
    lookup: names.forSockets,
    names,
    certificate: (key) => holder.current().tables.certificates.at(key),
    checks,
    changed: serverChanges(log, bus),
    named: nameChanges(log),
    retain: (keys) => clientTransport.retainUpstreams(keys)
  })
  lifecycle.opens({ clientTransport: { close: () => closeUpstreams(clientTransport, checks) } })
  const traffic = createTraffic({
    ...(await trafficOptions(options, foundation)),
    serverTransport: engine.front({ clock }),
    turnedAway,
    clientTransport,
    upstreams,
    challenge: (host, path) => challenges.answer(host, path),
    observers,
    holder,
    metrics,
    kinds: new HeaderKinds(),
    clock,
    log,
    lines: accessLines(log),
    events: bus,
    ...(options.agents !== undefined && sharesListener(options, options.listeners)
      ? { beside: { at: options.agents, handler: agents.shared } }
      : {})
  })
  lifecycle.opens({ traffic })
  return { traffic, upstreams, clientTransport }
}

const DOWN = 'backend_server_down.v0'
const UP = 'backend_server_up.v0'
const LINES = {
  check: 'an upstream is down: its health check fails',
  traffic: 'an upstream is down: requests to it fail'
}

/** One line and one event for each server that goes down or comes back. */
function serverChanges(log: Logger, bus: Foundation['bus']): (change: ServerChange) => void {
  return ({ backend, server, state: { state, reason, since }, by }) => {
    const fields = { backend, upstream: server, reason, by }
    if (state === 'down') log.warn(fields, LINES[by])
    else log.info(fields, 'an upstream is up again')
    const type = state === 'down' ? DOWN : UP
    if (!bus.wants(type)) return
    const at = since === undefined ? null : timestampText(since)
    bus.publish(type, { backend_id: backend, server, status: state, reason, seen_by: by, since: at })
  }
}

/** One line when a name of servers resolves no more, when its last addresses are given up, and when it resolves again. */
function nameChanges(log: Logger): (change: NameChange) => void {
  let failing: ReadonlySet<string> = new Set()
  return ({ backend, name, state: { state, reason } }) => {
    const key = `${backend} ${name}`
    if (state === 'resolved') {
      if (!failing.has(key)) return
      failing = new Set([...failing].filter((one) => one !== key))
      log.info({ backend, name }, 'the name of an upstream resolves again')
      return
    }
    failing = new Set([...failing, key])
    if (state === 'stale')
      log.warn({ backend, name, reason }, 'the name of an upstream does not resolve: its last addresses are used')
    else log.warn({ backend, name, reason }, 'the name of an upstream does not resolve: it has no address')
  }
}

/** No server is asked any more. */
function closeUpstreams(clientTransport: ClientTransport, checks: HealthChecks): void {
  checks.stop()
  clientTransport.close()
}

/** What the options say of traffic. */
async function trafficOptions(
  options: Options,
  { clock, trusted, live }: Foundation
): Promise<Pick<TrafficParts, OfOptions>> {
  const { access_log, access_log_sample, region, zone } = options
  const { listen, listeners, agents, api, tcp_host, tcp_proxy_protocol } = options
  return {
    accessLog: access_log ? access_log_sample : undefined,
    region,
    limits: live.limits,
    timeouts: live.timeouts,
    forwarding: trustingProxies(trusted),
    development: await selfSigned('Sluice development', developmentNames(zone), clock.wall()),
    tcp: { host: tcp_host ?? listen.host, proxyProtocol: tcp_proxy_protocol },
    reserved: [listen, api.listen, ...(agents === undefined ? [] : [agents]), ...listeners.map((one) => one.listen)]
  }
}

/** Takes the lines of the access log, which has a switch of its own: the level of the other log does not silence it. */
function accessLines(log: Logger): Logger {
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
    throw new CodedError(agentListenerErrors.AGENTS_ADDRESS, message)
  }
  return shared !== undefined
}

/** What the certificate of development is good for. */
function developmentNames(zone: string): string[] {
  return ['localhost', '*.localhost', zone, `*.${zone}`, '127.0.0.1', '::1']
}
