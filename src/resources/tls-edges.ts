import { moduleFields, moduleRules } from '../features/registry.js'
import { siteNameOf } from '../runtime/names.js'
import { type ModuleConfigs, policyKey } from '../runtime/plan.js'
import { constant, described } from '../schema/fields.js'
import type { RuleView } from '../schema/objects.js'
import { LOWEST_TLS_VERSION } from '../schema/tls-version.js'
import { TCP_BACKENDS } from './backends.js'
import { backendModule, checkTcpHosts, hostportsField, mutualTls, plannedModules, policyTests } from './edge-parts.js'
import { defineResource } from './resource.js'
import { edgeKey, ownName, planned, splitHostport, tcpEdgeKey } from './units.js'

const POLICY_MODULE = 'traffic_policy'
/** Value of `terminate_at` for TLS that ends in Sluice. */
const AT_EDGE = 'edge'

/** Stored form of the modules that decide where TLS ends; undefined in records of older versions. */
interface TlsModules {
  readonly mutual_tls?: { readonly enabled: boolean; readonly certificate_authorities: readonly string[] } | null
  readonly tls_termination?: {
    readonly enabled: boolean
    readonly terminate_at: string
    readonly min_version: string
  } | null
}

/** Rejects client certificates on an edge that never sees them. */
function checkClients({ body, given, report }: RuleView): void {
  const { mutual_tls: clients, tls_termination: termination } = body as TlsModules
  if (clients?.enabled !== true || termination?.enabled !== true || termination.terminate_at === AT_EDGE) return
  const message = `mutual_tls needs TLS to end at the edge; tls_termination says terminate_at: ${termination.terminate_at}`
  report(given.has('mutual_tls') ? 'mutual_tls' : 'tls_termination', 'CONFLICTING_FIELDS', message)
}

/** Rejects a policy that ends TLS on an edge that has ended it before. */
function checkPolicyOnSecure({ body, given, checkPolicy }: RuleView): void {
  const policy = body[POLICY_MODULE] as { readonly enabled: boolean; readonly value: string } | null | undefined
  const field = [POLICY_MODULE, 'tls_termination', 'mutual_tls'].find((name) => given.has(name))
  if (field === undefined || policy?.enabled !== true || !endsTls(body as TlsModules)) return
  checkPolicy(field, policy.value, 'secure')
}

/** Edge for TLS traffic that is chosen by the server name of the client (SNI). */
export const tlsEdge = defineResource({
  name: 'tls_edge',
  description:
    'An entry for TLS traffic of any protocol by server name (SNI). It opens no port: TLS listeners hand over the connections of its hosts. ' +
    'Without tls_termination and mutual_tls the bytes go to the backend unchanged, and the server there ends TLS.',
  path: '/edges/tls',
  listKey: 'tls_edges',
  idPrefix: 'edgtls',
  events: 'edge_tls',
  rules: [
    { on: ['hostports'], check: (view) => checkTcpHosts(view, true) },
    { on: ['mutual_tls', 'tls_termination'], check: checkClients },
    { on: ['mutual_tls', 'tls_termination', POLICY_MODULE], check: checkPolicyOnSecure },
    ...moduleRules('tls')
  ],
  fields: {
    ...described,
    hostports: hostportsField(
      'host:port pairs that it serves. A pair belongs to one edge of any kind; a host may have a star as that of an HTTPS edge.'
    ),
    backend: backendModule(TCP_BACKENDS),
    mutual_tls: mutualTls(),
    ...moduleFields('tls'),
    policy_tests: policyTests,
    policy: constant(null, 'Predecessor of traffic_policy; always null.')
  }
})

/** Client certificates can be checked only where TLS ends, so mutual_tls alone ends it too. */
function endsTls({ mutual_tls: clients, tls_termination: termination }: TlsModules): boolean {
  return termination?.enabled === true ? termination.terminate_at === AT_EDGE : clients?.enabled === true
}

/** Returns the modules of the plan that end TLS: one where TLS ends at the edge, none where the bytes go on unchanged. */
function terminationOf(modules: TlsModules): ModuleConfigs {
  if (!endsTls(modules)) return {}
  const { mutual_tls: clients, tls_termination: termination } = modules
  const min_version = termination?.enabled === true ? termination.min_version : LOWEST_TLS_VERSION
  const authorities = clients?.enabled === true ? { authorities: clients.certificate_authorities } : {}
  return { tls_termination: { min_version, ...authorities } }
}

/** Units of TLS edges: the hosts at TLS listeners, and the TCP edge that carries their connections. */
export const tlsEdges = planned(
  tlsEdge,
  (id) => [tcpEdgeKey(id), edgeKey(id), policyKey(id)],
  (one) => {
    const { id, body } = one.record
    const { modules, upstream, units } = plannedModules(tlsEdge, one, { carrier: 'tcp' })
    const { mutual_tls: _clients, tls_termination: _termination, ...others } = modules
    const hosts = body.hostports.map(splitHostport)
    const name = siteNameOf(hosts, ownName(one).name)
    return [
      ...units,
      [edgeKey(id), { kind: 'edge', id, hosts, passthrough: true }],
      [
        tcpEdgeKey(id),
        { kind: 'tcp_edge', id, ports: [], ...upstream, modules: { ...others, ...terminationOf(body) }, name }
      ]
    ]
  }
)
