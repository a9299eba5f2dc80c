import { join } from 'node:path'
import { untilStoreAnswers } from '../../app/control-plane.js'
import type { Foundation } from '../../app/foundation.js'
import { partKey } from '../../app/opened-parts.js'
import type { policyProblems } from '../../app/policy-check.js'
import type { OwnUnits } from '../../control/apply.js'
import { CodedError } from '../../lib/errors.js'
import { packageVersion } from '../../lib/files.js'
import { formatAuthority } from '../../lib/host.js'
import { atOnce } from '../../lib/slices.js'
import type { Options } from '../../options/options.js'
import { IN_MEMORY } from '../../options/values.js'
import type { Store } from '../../store/store.js'
import { Agents, type AgentsAddress } from './agents/agents.js'
import type { HandedEndpoint } from './agents/ephemeral-endpoints.js'
import { agentListenerErrors } from './agents/listener-identity.js'
import { SessionEvents } from './agents/live-agents.js'

/** The agents of this process. */
export const AGENTS = partKey<Agents>('agents')

/** Creates the agent service; it is not listening yet. Throws a CodedError `AGENTS_CERTIFICATE`. */
export function createAgents(options: Options, foundation: Foundation): Agents {
  const { live, clock, log, holder, metrics, turnedAway, bus, publicUrl, lifecycle, trusted, sockets } = foundation
  const { zone, regions, require_reserved, listen, tcp_host, data } = options
  const { agents_certificate, agents_key, agents_tcp_ports } = options
  const agents = new Agents({
    holder,
    clock,
    log,
    zone,
    regions,
    requireReserved: require_reserved,
    tcp: { host: tcp_host ?? listen.host, ports: agents_tcp_ports },
    version: packageVersion(),
    socketAt: (at) => sockets.at(at),
    folder: data === IN_MEMORY ? undefined : join(data, 'agents'),
    certificate: certificateOf(agents_certificate, agents_key),
    limits: {
      get handshakes() {
        return live.limits.handshakes ?? Number.POSITIVE_INFINITY
      },
      get handshakesPerAddress() {
        return live.limits.handshakesPerAddress ?? 0
      },
      get connectionsPerAddress() {
        return live.limits.connectionsPerAddress ?? 0
      },
      exempt: (address) => trusted?.match(address) !== undefined
    },
    get handshakeTimeout() {
      return live.timeouts.headers
    },
    turnedAway,
    handshakeFailed: (why) => metrics.handshakeFailed(why),
    watch: new SessionEvents({ events: bus, clock, baseUrl: publicUrl.read, zone, regions })
  })
  lifecycle.opens('agents', {
    shared: () => agents.shut(),
    move: (within) => agents.move(within),
    tunnels: () => agents.close()
  })
  return agents
}

/** Lets agents connect, where the options say so. `own`: takes the endpoints that they open. */
export async function openAgents(
  options: Options,
  foundation: Foundation,
  { agents, store, own }: { readonly agents: Agents; readonly store: Store; readonly own: OwnUnits }
): Promise<AgentsAddress | undefined> {
  const { agents: at, listeners } = options
  if (at === undefined) return undefined
  const shared = sharesListener(options, listeners)
  return await untilStoreAnswers(options, foundation, 'agents cannot connect yet', () =>
    agents.open(at, store, own, shared)
  )
}

/** Adds the predecessor's endpoints to the next change of `own`. Endpoints whose policies have errors here are left out. */
export function expectHanded(
  agents: Agents,
  endpoints: readonly HandedEndpoint[],
  own: OwnUnits,
  { problemsOf, log }: { readonly problemsOf: ReturnType<typeof policyProblems>; readonly log: Foundation['log'] }
): void {
  const taken = endpoints.filter(({ id, units }) => {
    const problems = units.flatMap(([, unit]) =>
      unit.kind === 'policy' ? atOnce(problemsOf(unit.text, unit.carrier ?? 'http')) : []
    )
    const wrong = problems.find(({ severity }) => severity === 'error')
    if (wrong !== undefined)
      log.warn({ endpoint: id, problem: wrong.message }, 'an endpoint is not taken over: its policy has an error')
    return wrong === undefined
  })
  agents.expect(taken, own)
}

/** Maximum time for agents of an ended process to reconnect (ms). */
const COMING = 10_000

/** Ends endpoints whose agents do not reconnect soon, after the predecessor process has ended. */
export function expectLast(agents: Agents, own: OwnUnits, log: Foundation['log']): void {
  setTimeout(() => {
    agents
      .expectNoMore(own)
      .catch((error: unknown) =>
        log.error({ err: error }, 'endpoints of agents that did not come back cannot be taken away')
      )
  }, COMING).unref()
}

/** Both or none. */
function certificateOf(certificate: string | undefined, key: string | undefined) {
  if (certificate !== undefined && key !== undefined) return { certificate, key }
  if (certificate === undefined && key === undefined) return undefined
  throw new CodedError(
    agentListenerErrors.AGENTS_CERTIFICATE,
    'agents_certificate and agents_key belong together: one is missing'
  )
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
