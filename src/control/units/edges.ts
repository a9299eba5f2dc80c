import { FORMS } from '../../resources/forms.js'
import { httpsEdge } from '../../resources/https-edge.js'
import { comparedPath, httpsEdgeRoute } from '../../resources/https-edge-route.js'
import type { RecordOf } from '../../resources/resource.js'
import { tcpEdge } from '../../resources/tcp-edge.js'
import type { EdgeTls } from '../../runtime/plan.js'
import { splitHostport } from '../hostport.js'
import { plannedModules } from './modules.js'
import { authorityKey, planned, policyKey } from './planned.js'

type TlsVersion = NonNullable<EdgeTls['minVersion']>

const edgeKey = (id: string) => `edge:${id}`
const routeKey = (id: string) => `route:${id}`
const tcpEdgeKey = (id: string) => `tcp_edge:${id}`

export const httpsEdges = planned(
  httpsEdge,
  (id) => [edgeKey(id)],
  ({ record }) => {
    const tls = edgeTls(record.body)
    const hosts = record.body.hostports.map(splitHostport)
    const pathForm = record.body.path_form
    const asked = {
      ...(tls === undefined ? {} : { tls }),
      ...(pathForm === 'strict' || pathForm === 'lenient' ? { pathForm } : {})
    }
    return [[edgeKey(record.id), { kind: 'edge', id: record.id, hosts, ...asked }]]
  }
)

function edgeTls({ mutual_tls, tls_termination }: RecordOf<typeof httpsEdge>['body']): EdgeTls | undefined {
  const asks = mutual_tls?.enabled === true
  const ends = tls_termination?.enabled === true
  if (!asks && !ends) return undefined
  return {
    ...(ends ? { minVersion: tls_termination.min_version as TlsVersion } : {}),
    ...(asks ? { authorities: mutual_tls.certificate_authorities.map(authorityKey) } : {})
  }
}

export const httpsRoutes = planned(
  httpsEdgeRoute,
  (id) => [routeKey(id), policyKey(id)],
  (one) => {
    const { id, body } = one.record
    const { modules, upstream, units } = plannedModules(httpsEdgeRoute, one)
    const match = body.match_type === 'exact_path' ? 'exact' : 'prefix'
    // Records of former versions hold what was written.
    const read = FORMS.path(body.match)
    const path = comparedPath(body.match_type, read.ok ? read.text : body.match)
    return [...units, [routeKey(id), { kind: 'route', id, edge: body.edge_id, match, path, ...upstream, modules }]]
  }
)

export const tcpEdges = planned(
  tcpEdge,
  (id) => [tcpEdgeKey(id), policyKey(id)],
  (one) => {
    const { id, body } = one.record
    const { modules, upstream, units } = plannedModules(tcpEdge, one)
    return [
      ...units,
      [tcpEdgeKey(id), { kind: 'tcp_edge', id, ports: body.hostports.map(splitHostport), ...upstream, modules }]
    ]
  }
)
