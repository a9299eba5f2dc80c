import t from 'tap'
import { openAccount } from './account.js'
import { ngrokClient } from './ngrok-client.js'
import { missing, runSteps, type Script } from './tool-scripts.js'

const POLICY = '{"on_http_request":[{"actions":[{"type":"custom-response","config":{"status_code":200,"body":"hi"}}]}]}'
const OTHER = '{"on_http_request":[{"actions":[{"type":"deny"}]}]}'
const metadata = '{"owned-by":"ngrok-operator"}'

/** The calls of the reconcilers of ngrok-operator in their order, and the comparisons by which they decide about the next one. */
const SCRIPTS: readonly Script[] = [
  {
    name: 'Domain: found or reserved, read before each update, deleted when nothing uses it',
    needs: ['/reserved_domains', '/edges/https'],
    steps: [
      { method: 'GET', path: '/reserved_domains', count: 0, equal: { next_page_uri: null } },
      {
        method: 'POST',
        path: '/reserved_domains',
        body: { domain: 'a.test', description: 'd', metadata },
        as: 'domain'
      },
      { method: 'GET', path: '/reserved_domains', count: 1 },
      {
        method: 'GET',
        path: '/reserved_domains/$domain',
        equal: { domain: 'a.test', description: 'd', metadata },
        why: 'nothing differs, so no PATCH follows'
      },
      {
        method: 'PATCH',
        path: '/reserved_domains/$domain',
        body: { id: '$domain', description: 'new', metadata },
        equal: { description: 'new', metadata }
      },
      {
        method: 'PATCH',
        path: '/reserved_domains/$domain',
        body: { id: '$domain', resolves_to: [{ value: 'global' }] },
        equal: { resolves_to: [{ value: 'global' }] },
        why: 'becomes the status as it is'
      },
      {
        method: 'PATCH',
        path: '/reserved_domains/$domain',
        body: { id: '$domain', resolves_to: [{ value: 'us' }] },
        status: 400,
        why: 'is final for the operator until the resource changes'
      },
      { method: 'POST', path: '/edges/https', body: { hostports: ['a.test:443'] }, as: 'edge' },
      { method: 'DELETE', path: '/reserved_domains/$domain', status: 409, code: 446, why: 'is tried again' },
      { method: 'DELETE', path: '/edges/https/$edge' },
      { method: 'DELETE', path: '/reserved_domains/$domain' },
      { method: 'DELETE', path: '/reserved_domains/$domain', status: 404, why: 'is as good as done' },
      { method: 'GET', path: '/reserved_domains/$domain', status: 404, why: 'clears the status' }
    ]
  },
  {
    name: 'IPPolicy: rules are compared with the list of all rules, and what denies comes first',
    needs: ['/ip_policies', '/ip_policy_rules'],
    steps: [
      { method: 'POST', path: '/ip_policies', body: { description: 'd', metadata }, as: 'policy' },
      { method: 'GET', path: '/ip_policy_rules', count: 0 },
      {
        method: 'POST',
        path: '/ip_policy_rules',
        body: { ip_policy_id: '$policy', cidr: '10.0.0.0/8', action: 'deny', metadata, description: 'r' },
        equal: { cidr: '10.0.0.0/8', action: 'deny' }
      },
      {
        method: 'POST',
        path: '/ip_policy_rules',
        body: { ip_policy_id: '$policy', cidr: '192.0.2.1/32', action: 'allow', metadata, description: 'r' },
        as: 'rule',
        equal: { cidr: '192.0.2.1/32', 'ip_policy.id': '$policy' }
      },
      {
        method: 'POST',
        path: '/ip_policy_rules',
        body: { ip_policy_id: '$policy', cidr: 'nonsense', action: 'allow' },
        status: 400,
        code: 1406,
        why: 'is told as an invalid CIDR'
      },
      { method: 'GET', path: '/ip_policies/$policy', equal: { description: 'd', metadata } },
      { method: 'GET', path: '/ip_policy_rules', count: 2 },
      { method: 'DELETE', path: '/ip_policy_rules/$rule', why: 'the rule changes its action' },
      {
        method: 'POST',
        path: '/ip_policy_rules',
        body: { ip_policy_id: '$policy', cidr: '192.0.2.1/32', action: 'deny', metadata, description: 'r' },
        as: 'rule'
      },
      {
        method: 'PATCH',
        path: '/ip_policy_rules/$rule',
        body: { id: '$rule', metadata: 'other', description: '', cidr: '192.0.2.1/32' },
        equal: { metadata: 'other', description: '', cidr: '192.0.2.1/32', action: 'deny' }
      },
      {
        method: 'PATCH',
        path: '/ip_policies/$policy',
        body: { id: '$policy', description: '', metadata },
        equal: { description: '' }
      },
      { method: 'DELETE', path: '/ip_policies/$policy', why: 'with its rules' },
      { method: 'GET', path: '/ip_policy_rules', count: 0 },
      { method: 'DELETE', path: '/ip_policies/$policy', status: 404 }
    ]
  },
  {
    name: 'CloudEndpoint: written when the URL, the document, the bindings or the texts differ byte by byte',
    needs: ['/endpoints', '/reserved_domains'],
    steps: [
      { method: 'GET', path: '/reserved_domains', count: 0 },
      { method: 'POST', path: '/reserved_domains', body: { domain: 'cloud.test' } },
      {
        method: 'POST',
        path: '/endpoints',
        body: {
          type: 'cloud',
          url: 'https://cloud.test',
          description: 'd',
          metadata,
          traffic_policy: POLICY,
          bindings: ['public'],
          pooling_enabled: false
        },
        as: 'endpoint'
      },
      {
        method: 'GET',
        path: '/endpoints/$endpoint',
        equal: {
          url: 'https://cloud.test',
          description: 'd',
          metadata,
          traffic_policy: POLICY,
          bindings: ['public'],
          pooling_enabled: false
        },
        why: 'nothing differs, so no PATCH follows'
      },
      {
        method: 'PATCH',
        path: '/endpoints/$endpoint',
        body: {
          id: '$endpoint',
          url: 'https://cloud.test',
          description: '',
          metadata,
          traffic_policy: OTHER,
          bindings: ['public']
        },
        equal: { url: 'https://cloud.test', description: '', traffic_policy: OTHER, bindings: ['public'] }
      },
      {
        method: 'POST',
        path: '/endpoints',
        body: { type: 'cloud', url: 'https://cloud.test', traffic_policy: POLICY, pooling_enabled: false },
        status: 409,
        code: 18017,
        why: 'is tried again'
      },
      {
        method: 'POST',
        path: '/endpoints',
        body: { type: 'cloud', url: 'https://service.internal', traffic_policy: POLICY, bindings: ['internal'] },
        equal: { bindings: ['internal'], url: 'https://service.internal' }
      },
      { method: 'DELETE', path: '/endpoints/$endpoint' },
      { method: 'GET', path: '/endpoints/$endpoint', status: 404, why: 'makes the operator create it anew' },
      { method: 'DELETE', path: '/endpoints/$endpoint', status: 404 }
    ]
  },
  {
    name: 'KubernetesOperator: found by its deployment or registered, and polled for bound endpoints',
    needs: ['/kubernetes_operators'],
    steps: [
      { method: 'GET', path: '/kubernetes_operators', count: 0, equal: { next_page_uri: null } },
      {
        method: 'POST',
        path: '/kubernetes_operators',
        body: {
          description: 'd',
          metadata,
          enabled_features: ['ingress', 'gateway'],
          region: 'global',
          deployment: { name: 'ngrok-operator', namespace: 'ngrok', version: '0.19.0', cluster_name: '' }
        },
        as: 'operator',
        equal: { enabled_features: ['ingress', 'gateway'], 'deployment.name': 'ngrok-operator' }
      },
      { method: 'GET', path: '/kubernetes_operators', count: 1 },
      { method: 'GET', path: '/kubernetes_operators/$operator', equal: { metadata, 'deployment.namespace': 'ngrok' } },
      {
        method: 'PATCH',
        path: '/kubernetes_operators/$operator',
        body: {
          id: '$operator',
          description: 'new',
          metadata,
          enabled_features: ['ingress'],
          region: 'global',
          deployment: { name: 'ngrok-operator', version: '0.20.0' }
        },
        equal: { description: 'new', enabled_features: ['ingress'] }
      },
      { method: 'GET', path: '/kubernetes_operators/$operator/bound_endpoints', count: 0 },
      { method: 'DELETE', path: '/kubernetes_operators/$operator' },
      { method: 'DELETE', path: '/kubernetes_operators/$operator', status: 404 }
    ]
  },
  {
    name: 'Service of type LoadBalancer: an address is reserved, and an endpoint or edge has it',
    needs: ['/reserved_addrs', '/edges/tcp', '/backends/tunnel_group'],
    steps: [
      { method: 'POST', path: '/backends/tunnel_group', body: { labels: { app: 'a' } }, as: 'backend' },
      { method: 'GET', path: '/reserved_addrs', count: 0, equal: { next_page_uri: null } },
      { method: 'POST', path: '/reserved_addrs', body: { description: 'Reserved for a/b', metadata }, as: 'addr' },
      { method: 'GET', path: '/edges/tcp', count: 0 },
      {
        method: 'POST',
        path: '/edges/tcp',
        body: { description: 'd', metadata, backend: { backend_id: '$backend' } },
        as: 'edge',
        equal: { 'backend.backend.id': '$backend' }
      },
      { method: 'DELETE', path: '/edges/tcp/$edge/ip_restriction', why: 'although it has none' },
      {
        method: 'PATCH',
        path: '/edges/tcp/$edge',
        body: {
          id: '$edge',
          description: 'd',
          metadata,
          hostports: ['$addr.addr'],
          backend: { backend_id: '$backend' }
        },
        equal: { hostports: ['$addr.addr'] }
      },
      { method: 'DELETE', path: '/edges/tcp/$edge' },
      { method: 'DELETE', path: '/reserved_addrs/$addr' }
    ]
  }
]

for (const { name, needs, steps } of SCRIPTS) {
  const waits = missing(needs)
  t.test(name, waits.length > 0 ? { skip: `waits for ${waits.join(', ')}` } : {}, async (t) => {
    const { host, port, faults } = await openAccount(t, { ownBase: true })
    await runSteps(t, ngrokClient(host, port), steps)
    t.same(faults, [])
  })
}

t.test('every script runs', async (t) => {
  const waiting = SCRIPTS.filter(({ needs }) => missing(needs).length > 0)
  t.same(
    waiting.map(({ name }) => name),
    []
  )
})
