import { bodies } from '../../resources/bodies.js'
import { type Before, type Family, type Module, shown, texts } from './rows.js'

const update = { metadata: '{"stage": "production"}' }
const described = { description: 'an example', metadata: '{"stage": "staging"}' }
const BACKEND: Before = ['backend', '/backends/http_response', { status_code: 204 }]
const DENY = '{"on_http_request":[{"actions":[{"type":"deny","config":{"status_code":404}}]}]}'
/** Modules of a route, in answers: null where they are not set. */
const UNSET = {
  backend: null,
  circuit_breaker: null,
  compression: null,
  ip_restriction: null,
  oauth: null,
  oidc: null,
  policy: null,
  request_headers: null,
  response_headers: null,
  saml: null,
  traffic_policy: null,
  user_agent_filter: null,
  webhook_verification: null,
  websocket_tcp_converter: null
}
const { backend, ip_restriction, traffic_policy, policy } = UNSET
const layer4 = { backend, ip_restriction, traffic_policy, policy }

/** Families of backends, edges and endpoints. */
export const trafficFamilies: readonly Family[] = [
  {
    name: 'failover_backends',
    path: '/backends/failover',
    prefix: 'bkdfo',
    list: 'backends',
    before: [BACKEND],
    create: { ...described, backends: ['$backend'] },
    needs: ['backends'],
    zeros: { create: { ...texts, backends: [] }, update: { backends: [] } },
    answer: { ...shown, id: ':id', backends: [':text'] },
    update
  },
  {
    name: 'http_response_backends',
    path: '/backends/http_response',
    prefix: 'bkdhr',
    list: 'backends',
    create: { ...described, body: 'a teapot', headers: { 'Content-Type': 'text/plain' }, status_code: 418 },
    zeros: { create: { ...texts, body: '', headers: {} } },
    answer: { ...shown, id: ':id', body: ':text', headers: { 'content-type': 'text/plain' }, status_code: ':number' },
    update
  },
  {
    name: 'static_backends',
    path: '/backends/static',
    prefix: 'bkdsc',
    list: 'backends',
    create: { ...described, address: 'upstream.example.com:8080', tls: {} },
    needs: ['address'],
    zeros: { create: { ...texts, address: '' }, update: { address: '' } },
    answer: { ...shown, id: ':id', address: ':text', tls: { enabled: false } },
    update
  },
  {
    name: 'tunnel_group_backends',
    path: '/backends/tunnel_group',
    prefix: 'bkdtg',
    list: 'backends',
    create: { ...described, labels: { app: 'web', zone: 'one' } },
    needs: ['labels'],
    zeros: { create: { ...texts, labels: {} }, update: { labels: {} } },
    answer: { ...shown, id: ':id', labels: { app: 'web', zone: 'one' }, tunnels: [] },
    update
  },
  {
    name: 'weighted_backends',
    path: '/backends/weighted',
    prefix: 'bkdwd',
    list: 'backends',
    before: [BACKEND, ['second', '/backends/http_response', { status_code: 200 }]],
    create: { ...described, backends: { $backend: 1, $second: 0 } },
    needs: ['backends'],
    zeros: { create: { ...texts, backends: {} }, update: { backends: {} } },
    answer: { ...shown, id: ':id', backends: { $backend: 1, $second: 0 } },
    update
  },
  {
    name: 'edges_https',
    path: '/edges/https',
    prefix: 'edghts',
    list: 'https_edges',
    create: { ...described, hostports: ['edge.example.com:443'] },
    zeros: { create: texts },
    answer: { ...shown, id: ':id', hostports: ':texts', mutual_tls: null, tls_termination: null, routes: [] },
    update
  },
  {
    name: 'edges_https_routes',
    path: '/edges/https/$edge/routes',
    prefix: 'edghtsrt',
    operations: ['create', 'get', 'update', 'delete'],
    before: [['edge', '/edges/https', {}]],
    create: { ...described, match: '/', match_type: 'path_prefix' },
    needs: ['match', 'match_type'],
    other: { match: '/second' },
    zeros: { create: texts, update: { match_type: '', match: '', ...texts } },
    answer: { ...shown, ...UNSET, id: ':id', edge_id: '$edge', match: ':text', match_type: 'path_prefix' },
    update
  },
  {
    name: 'edges_tcp',
    path: '/edges/tcp',
    prefix: 'edgtcp',
    list: 'tcp_edges',
    create: described,
    zeros: { create: texts },
    answer: { ...shown, ...layer4, id: ':id', hostports: [] },
    update
  },
  {
    name: 'edges_tls',
    path: '/edges/tls',
    prefix: 'edgtls',
    list: 'tls_edges',
    create: { ...described, hostports: ['tls.example.com:443'] },
    zeros: { create: texts },
    answer: { ...shown, ...layer4, id: ':id', hostports: ':texts', mutual_tls: null, tls_termination: null },
    update
  },
  {
    name: 'endpoints',
    path: '/endpoints',
    prefix: 'ep',
    list: 'endpoints',
    filter: true,
    before: [['domain', '/reserved_domains', { domain: 'cloud.example.com' }]],
    create: {
      ...described,
      bindings: ['public'],
      traffic_policy: DENY,
      type: 'cloud',
      url: 'https://cloud.example.com:443'
    },
    needs: ['traffic_policy', 'type', 'url'],
    other: { url: 'https://second.example.com' },
    answer: {
      ...shown,
      id: ':id',
      updated_at: ':time',
      bindings: ['public'],
      domain: ':ref $domain',
      hostport: 'cloud.example.com:443',
      name: '',
      pooling_enabled: false,
      principal: ':user',
      proto: 'https',
      scheme: 'https',
      tcp_addr: null,
      upstream_protocol: '',
      public_url: 'https://cloud.example.com',
      traffic_policy: ':text',
      type: 'cloud',
      url: 'https://cloud.example.com'
    },
    update: { description: 'another text' }
  }
]

const ROUTE = '/edges/https/$edge/routes/$route'
const ON = { enabled: true }
const METADATA = `<EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata" entityID="http://idp.example.com/metadata">
<IDPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol">
<SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect" Location="http://idp.example.com/sso"/>
</IDPSSODescriptor></EntityDescriptor>
`
/** A policy with every construct of the published one. */
const POLICY = JSON.stringify({
  on_http_request: [
    {
      name: 'rewrite',
      expressions: ["req.url.path == '/items'"],
      actions: [{ type: 'url-rewrite', config: { from: '/items/?([.*]+)?', to: '/items.php?query=$1' } }]
    },
    {
      name: 'large bodies',
      expressions: [
        "req.method == 'POST' && req.content_length > 10000",
        "conn.client_ip in ['192.0.2.1', '192.0.2.2']"
      ],
      actions: [
        {
          type: 'custom-response',
          config: { status_code: 401, headers: { 'content-type': 'text/plain' }, content: 'denied' }
        }
      ]
    },
    {
      name: 'robots',
      expressions: ["'RobotA' in req.headers['user-agent'] || 'RobotB' in req.headers['user-agent']"],
      actions: [{ type: 'deny', config: { status_code: 400 } }]
    }
  ],
  on_http_response: [{ name: 'compress', actions: [{ type: 'compress-response', config: { algorithms: ['br'] } }] }]
})
const CONNECT = JSON.stringify({
  on_tcp_connect: [
    {
      name: 'block',
      expressions: ["conn.client_ip == '192.0.2.0'"],
      actions: [{ type: 'log', config: { metadata: { client: '${conn.client_ip}', edge: 'e' } } }, { type: 'deny' }]
    }
  ]
})
const GOOGLE = {
  client_id: 'client',
  client_secret: 'secret',
  email_addresses: ['ann@example.com'],
  scopes: ['profile', 'email']
}
const providers = {
  amazon: null,
  facebook: null,
  github: null,
  gitlab: null,
  linkedin: null,
  microsoft: null,
  twitch: null
}
const backendModule = (name: string, path: string): Module => ({
  name,
  path,
  put: { ...ON, backend_id: '$backend' },
  answer: { ...ON, backend: ':ref $backend' }
})
const ipModule = (name: string, path: string): Module => ({
  name,
  path,
  put: { ...ON, ip_policy_ids: ['$one', '$two'] },
  answer: { ...ON, ip_policies: [':ref $one', ':ref $two'] }
})
const policyModule = (name: string, path: string, value: string): Module => ({
  name,
  path,
  put: { ...ON, value },
  answer: { ...ON, value }
})
const mutualModule = (name: string, path: string): Module => ({
  name,
  path,
  put: { ...ON, certificate_authority_ids: ['$authority'] },
  answer: { ...ON, certificate_authorities: [':ref $authority'] }
})
const plainModule = (name: string, path: string, put: Module['put'], more: Module['answer'] = {}): Module => ({
  name,
  path,
  put,
  answer: { ...put, ...more }
})

/** Objects that the modules belong to and refer to. */
export const moduleBefore: readonly Before[] = [
  ['backend', '/backends/tunnel_group', { labels: { app: 'web' } }],
  ['one', '/ip_policies', {}],
  ['two', '/ip_policies', {}],
  ['authority', '/certificate_authorities', { ca_pem: bodies.certificate_authority?.full.ca_pem }],
  ['edge', '/edges/https', {}],
  ['route', '/edges/https/$edge/routes', { match_type: 'path_prefix', match: '/' }],
  ['tcp', '/edges/tcp', {}],
  ['tls', '/edges/tls', {}]
]

/** Modules; each is removed before the next one is set, because a route has one login only. */
export const modules: readonly Module[] = [
  mutualModule('https_edge_mutual_tls_module', '/edges/https/$edge/mutual_tls'),
  plainModule(
    'https_edge_tls_termination_module',
    '/edges/https/$edge/tls_termination',
    { ...ON, min_version: '1.3' },
    { terminate_at: 'edge' }
  ),
  backendModule('edge_route_backend_module', `${ROUTE}/backend`),
  ipModule('edge_route_ip_restriction_module', `${ROUTE}/ip_restriction`),
  plainModule('edge_route_request_headers_module', `${ROUTE}/request_headers`, {
    ...ON,
    add: { 'x-front': 'gate' },
    remove: ['cache-control']
  }),
  {
    name: 'edge_route_response_headers_module',
    path: `${ROUTE}/response_headers`,
    put: { ...ON, add: { 'Content-Security-Policy': "script-src 'self'", 'X-Frame-Options': 'DENY' } },
    answer: {
      ...ON,
      add: { 'content-security-policy': "script-src 'self'", 'x-frame-options': 'DENY' },
      remove: []
    }
  },
  plainModule('edge_route_compression_module', `${ROUTE}/compression`, ON),
  plainModule('edge_route_circuit_breaker_module', `${ROUTE}/circuit_breaker`, {
    ...ON,
    error_threshold_percentage: 0.2,
    num_buckets: 5,
    rolling_window: 300,
    tripped_duration: 120,
    volume_threshold: 20
  }),
  plainModule('edge_route_webhook_verification_module', `${ROUTE}/webhook_verification`, {
    ...ON,
    provider: 'TWILIO',
    secret: 'token'
  }),
  {
    name: 'edge_route_o_auth_module',
    path: `${ROUTE}/oauth`,
    put: { ...ON, provider: { google: GOOGLE } },
    answer: {
      ...ON,
      auth_check_interval: 0,
      cookie_prefix: ':text',
      inactivity_timeout: 0,
      maximum_duration: 0,
      options_passthrough: false,
      provider: { ...providers, google: { ...GOOGLE, email_domains: [] } }
    }
  },
  {
    name: 'edge_route_saml_module',
    path: `${ROUTE}/saml`,
    put: { ...ON, idp_metadata: METADATA },
    answer: {
      ...ON,
      // True in the reference. Another site could log a visitor in, so it is off here until a request sets it.
      allow_idp_initiated: false,
      assertion_consumer_service_url: ':text',
      authorized_groups: [],
      cookie_prefix: '',
      entity_id: ':text',
      force_authn: false,
      idp_metadata: METADATA,
      idp_metadata_url: '',
      inactivity_timeout: 0,
      maximum_duration: 0,
      metadata_url: ':text',
      nameid_format: 'urn:oasis:names:tc:SAML:2.0:nameid-format:persistent',
      options_passthrough: false,
      request_signing_certificate_pem: ':text',
      single_logout_url: ':text'
    }
  },
  {
    name: 'edge_route_oidc_module',
    path: `${ROUTE}/oidc`,
    put: {
      ...ON,
      client_id: 'client',
      client_secret: 'secret',
      issuer: 'https://accounts.example.com',
      scopes: ['profile']
    },
    answer: {
      ...ON,
      client_id: 'client',
      client_secret: 'secret',
      cookie_prefix: '',
      inactivity_timeout: 0,
      issuer: 'https://accounts.example.com',
      maximum_duration: 0,
      options_passthrough: false,
      scopes: ['profile']
    }
  },
  plainModule('edge_route_websocket_tcp_converter_module', `${ROUTE}/websocket_tcp_converter`, ON),
  plainModule('edge_route_user_agent_filter_module', `${ROUTE}/user_agent_filter`, {
    ...ON,
    allow: ['(Robot\\.com_version_)(\\d+)\\.(\\d+)'],
    deny: ['(other)/(\\d+)\\.(\\d+)']
  }),
  policyModule('edge_route_traffic_policy_module', `${ROUTE}/traffic_policy`, POLICY),
  backendModule('tcp_edge_backend_module', '/edges/tcp/$tcp/backend'),
  ipModule('tcp_edge_ip_restriction_module', '/edges/tcp/$tcp/ip_restriction'),
  policyModule('tcp_edge_traffic_policy_module', '/edges/tcp/$tcp/traffic_policy', CONNECT),
  backendModule('tls_edge_backend_module', '/edges/tls/$tls/backend'),
  ipModule('tls_edge_ip_restriction_module', '/edges/tls/$tls/ip_restriction'),
  mutualModule('tls_edge_mutual_tls_module', '/edges/tls/$tls/mutual_tls'),
  plainModule('tls_edge_tls_termination_module', '/edges/tls/$tls/tls_termination', {
    ...ON,
    min_version: '1.3',
    terminate_at: 'edge'
  }),
  policyModule('tls_edge_traffic_policy_module', '/edges/tls/$tls/traffic_policy', CONNECT)
]
