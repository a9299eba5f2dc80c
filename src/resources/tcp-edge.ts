import { TCP_BACKENDS } from './backends.js'
import { constant, described, texts } from './fields.js'
import { backendModule } from './modules/backend.js'
import { ipRestrictionModule } from './modules/ip-restriction.js'
import { trafficPolicyModule } from './modules/traffic-policy.js'
import { defineResource } from './resource.js'

/** An entry for TCP traffic. */
export const tcpEdge = defineResource({
  name: 'tcp_edge',
  description: 'An entry for TCP traffic. Each of its ports is opened.',
  path: '/edges/tcp',
  listKey: 'tcp_edges',
  idPrefix: 'edgtcp',
  events: 'edge_tcp',
  fields: {
    ...described,
    hostports: texts({
      description: 'host:port pairs that it serves.',
      form: 'address',
      bytes: 300,
      max: 100,
      distinct: true,
      unique: 'hostport'
    }),
    backend: backendModule(TCP_BACKENDS),
    ip_restriction: ipRestrictionModule(),
    traffic_policy: trafficPolicyModule('tcp'),
    policy: constant(null, 'Predecessor of traffic_policy; always null.')
  }
})
