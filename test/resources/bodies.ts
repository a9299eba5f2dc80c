import 'reflect-metadata'
import { SubjectAlternativeNameExtension } from '@peculiar/x509'
import { idOf } from './bench.js'
import { authority, issue, requestCertificate, revocationList } from './certificates.js'

/** Bodies of one resource; `full` and `change` give every field that a client may give. */
export interface Bodies {
  readonly full: Readonly<Record<string, unknown>>
  readonly change: Readonly<Record<string, unknown>>
}

/** Stands in every sealed value here: it must turn up nowhere else. */
export const MARK = 'marked-as-a-secret'

const described = { description: 'what it is', metadata: '{"a":1}' }
const changed = { description: 'what it has become', metadata: '{"a":2}' }
const ca = await authority('CN=Test Authority')
// Tests that need several domains number them.
const numbered = Array.from({ length: 9 }, (_, n) => `app.example${n + 1}.com`)
const names = ['app.example.com', 'app.test', ...numbered].map((value) => ({ type: 'dns' as const, value }))
const leaf = await issue({
  subject: 'CN=app.example.com',
  issuer: ca,
  extensions: [new SubjectAlternativeNameExtension(names)]
})
const policy = (phase: string, type: string) => JSON.stringify({ [phase]: [{ actions: [{ type, config: {} }] }] })

/** Tests of a policy that refuses every request. */
const refuses = (status: number) => JSON.stringify({ cases: [{ name: 'refused', request: {}, expect: { status } }] })

const oauth = {
  enabled: true,
  provider: {
    github: {
      client_id: 'id',
      client_secret: MARK,
      scopes: ['read:org'],
      email_addresses: ['ann@example.com'],
      email_domains: ['example.com'],
      teams: ['org/team', '12'],
      organizations: ['org']
    }
  },
  options_passthrough: true,
  cookie_prefix: 'my.',
  inactivity_timeout: 60,
  maximum_duration: 3600,
  auth_check_interval: 600
}

/** Module bodies of a route, all of them. */
export const modules = {
  backend: { enabled: true, backend_id: idOf('bkdsc') },
  ip_restriction: { enabled: false, ip_policy_ids: [idOf('ipp'), idOf('ipp', 2)] },
  error_pages: { enabled: true, pages: { '404': 'Not here: ${req.url.path}', '5xx': 'Later.' } },
  circuit_breaker: {
    enabled: true,
    tripped_duration: 5,
    rolling_window: 20,
    num_buckets: 128,
    volume_threshold: 3,
    error_threshold_percentage: 0.25
  },
  compression: { enabled: true },
  websocket_tcp_converter: { enabled: true },
  grpc_web: { enabled: true },
  request_headers: { enabled: true, add: { 'X-Front': 'a' }, remove: ['X-Gone'] },
  response_headers: { enabled: true, add: {}, remove: [] },
  webhook_verification: { enabled: true, provider: 'TWILIO', secret: MARK },
  oauth,
  // A route has one login only.
  saml: {
    enabled: false,
    options_passthrough: true,
    cookie_prefix: 'my.',
    inactivity_timeout: 60,
    maximum_duration: 3600,
    idp_metadata_url: '',
    idp_metadata:
      '<EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata" entityID="https://idp.example.com"><IDPSSODescriptor><SingleSignOnService/></IDPSSODescriptor></EntityDescriptor>',
    force_authn: true,
    allow_idp_initiated: true,
    authorized_groups: ['staff'],
    nameid_format: 'urn:oasis:names:tc:SAML:2.0:nameid-format:transient'
  },
  oidc: {
    enabled: false,
    issuer: 'https://issuer.example.com',
    client_id: 'id',
    client_secret: MARK,
    scopes: ['email'],
    options_passthrough: true,
    cookie_prefix: 'my.',
    inactivity_timeout: 60,
    maximum_duration: 3600,
    provider_logout: true
  },
  cors: {
    enabled: true,
    origins: ['https://app.example.com', 'https://*.example.org'],
    methods: ['PUT'],
    headers: ['x-api-key'],
    expose_headers: ['x-total'],
    credentials: true,
    max_age: 600
  },
  user_agent_filter: { enabled: true, allow: ['(?i)good'], deny: ['bad.*'] },
  traffic_policy: { enabled: true, value: policy('on_http_request', 'deny') }
}

const target = {
  webhook: { webhook: { url: 'https://example.com/hook', secret: MARK } },
  other: { webhook: { url: 'http://example.com/other' } }
}
const sshKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKL12HPVHSPC32vPW/OtqDp4JvMdtNbAyYLGImDzAYgz'
const sshCertificate = {
  ...described,
  public_key: sshKey,
  ssh_certificate_authority_id: idOf('sshca'),
  principals: ['one', 'two'],
  valid_after: '2026-01-01T01:00:00+01:00',
  valid_until: '2026-02-01T00:00:00Z'
}

export const bodies: Readonly<Record<string, Bodies>> = {
  bot_user: { full: { name: 'bot', active: true }, change: { name: 'other', active: false } },
  credential: {
    full: { ...described, acl: ['bind:*.example.com', 'bind:a=*', '*'], owner_id: idOf('bot') },
    change: { ...changed, acl: ['bind:tcp.example.com:20000'] }
  },
  api_key: { full: { ...described, owner_id: idOf('usr', 2) }, change: changed },
  ssh_credential: {
    full: { ...described, public_key: sshKey, acl: ['bind:*.example.com'], owner_id: idOf('bot') },
    change: { ...changed, acl: ['*'] }
  },
  reserved_addr: {
    full: { ...described, addr: 'tcp.example.com:20000', region: 'eu' },
    change: { ...changed, endpoint_configuration_id: '' }
  },
  abuse_report: {
    full: { metadata: '{"a":1}', urls: ['https://bad.example.com/a', 'http://bad.example.com/b'], status: 'PENDING' },
    change: { metadata: '{"a":2}', status: 'PROCESSED' }
  },
  kubernetes_operator: {
    full: {
      ...described,
      enabled_features: ['bindings', 'ingress'],
      region: 'eu',
      deployment: { name: 'ngrok-operator', namespace: 'ngrok', version: '0.19.0', cluster_name: 'one' },
      binding: {
        endpoint_selectors: ['endpoint.host.endsWith(".one")'],
        csr: (await requestCertificate('ec')).pem,
        ingress_endpoint: 'ingress.example.com:443'
      }
    },
    change: {
      ...changed,
      enabled_features: ['gateway'],
      region: 'global',
      deployment: { name: 'other', namespace: 'others', version: '0.20.0', cluster_name: 'two' },
      binding: { endpoint_selectors: ['true', 'endpoint.port == 80'], ingress_endpoint: 'other.example.com:443' }
    }
  },
  endpoint: {
    full: {
      ...described,
      type: 'cloud',
      url: 'https://cloud.example.com',
      traffic_policy: policy('on_http_request', 'deny'),
      bindings: ['public'],
      pooling_enabled: true
    },
    change: {
      ...changed,
      type: 'cloud',
      url: 'http://cloud.example.com:8080',
      traffic_policy: policy('on_http_response', 'log'),
      bindings: ['public'],
      pooling_enabled: false
    }
  },
  ip_policy: { full: described, change: changed },
  ip_policy_rule: {
    full: { ...described, cidr: '192.0.2.0/24', ip_policy_id: idOf('ipp'), action: 'deny' },
    change: { ...changed, cidr: '2001:db8::/32' }
  },
  ip_restriction: {
    full: { ...described, enforced: true, type: 'agent', ip_policy_ids: [idOf('ipp')] },
    change: { ...changed, enforced: false, ip_policy_ids: [idOf('ipp', 2), idOf('ipp')] }
  },
  tls_certificate: {
    full: { ...described, certificate_pem: leaf.pem + ca.pem, private_key_pem: leaf.key },
    change: changed
  },
  certificate_authority: {
    full: { ...described, ca_pem: ca.pem, crl_pem: await revocationList(ca, ['05']) },
    change: { ...changed, crl_pem: await revocationList(ca, ['05', '0a']) }
  },
  reserved_domain: {
    full: {
      ...described,
      domain: 'app.example.com',
      region: 'eu',
      certificate_id: idOf('cert'),
      certificate_management_policy: null,
      resolves_to: [{ value: 'global' }]
    },
    change: {
      ...changed,
      certificate_id: null,
      certificate_management_policy: { authority: 'letsencrypt', private_key_type: 'rsa' },
      resolves_to: null,
      http_endpoint_configuration_id: '',
      https_endpoint_configuration_id: null
    }
  },
  agent_ingress: {
    full: {
      ...described,
      domain: 'connect.example.com',
      certificate_management_policy: { authority: 'letsencrypt', private_key_type: 'ecdsa' }
    },
    change: { ...changed, certificate_management_policy: { authority: 'letsencrypt', private_key_type: 'rsa' } }
  },
  ssh_certificate_authority: {
    full: { ...described, private_key_type: 'ecdsa', elliptic_curve: 'p384', key_size: null },
    change: changed
  },
  ssh_host_certificate: { full: sshCertificate, change: changed },
  ssh_user_certificate: {
    full: { ...sshCertificate, critical_options: { 'force-command': '/bin/true' }, extensions: { 'permit-pty': '' } },
    change: changed
  },
  vault: {
    full: { ...described, name: 'main', usable_by: [idOf('bot'), 'members'] },
    change: { ...changed, name: 'other', usable_by: [idOf('usr')] }
  },
  vault_secret: {
    full: { ...described, name: 'db-password', value: MARK, vault_id: idOf('vault') },
    change: { ...changed, name: 'a/b.c_d', value: `${MARK} two` }
  },
  tunnel_group_backend: {
    full: {
      ...described,
      labels: { app: 'web' },
      balance: 'hash',
      hash_key: 'req.method',
      sticky: { cookie: 'at', ttl: 60, path: '/app', same_site: 'strict' }
    },
    change: {
      ...changed,
      labels: { app: 'web', zone: 'b' },
      balance: 'hash',
      hash_key: 'req.url.path',
      sticky: {}
    }
  },
  static_backend: {
    full: {
      ...described,
      address: 'Web.Internal:8080',
      http2: true,
      tls: { enabled: true, server_name: 'web.internal', ca_pem: ca.pem, min_version: '1.3', verify: 'on' },
      path: '/base',
      proxy_protocol: 'v2',
      lenient: false,
      max_connections: 10,
      upgrades: ['tcp', 'SPDY/3.1'],
      queue: { length: 5, timeout: 0.5 },
      health: {
        type: 'http',
        path: '/healthz?all',
        host: 'web.test',
        interval: 2.5,
        timeout: 1,
        statuses: ['200-299', '404'],
        rise: 1,
        fall: 5
      },
      passive_health: { failures: 5, statuses: ['503'] },
      retries: { attempts: 5, on: ['connect', 'timeout', '502-504'], methods: 'safe', per_second: 10, share: 5 },
      timeouts: { connect: 1, response: 2.5, idle: 30 }
    },
    change: {
      ...changed,
      address: '[::1]:80',
      http2: false,
      path: '',
      proxy_protocol: 'off',
      lenient: true,
      max_connections: 20,
      upgrades: [],
      queue: null,
      tls: { enabled: false },
      health: { type: 'tcp' },
      passive_health: null,
      retries: { attempts: 1 },
      timeouts: { connect: 0 }
    }
  },
  http_response_backend: {
    full: { ...described, body: 'hello', headers: { 'Content-Type': 'text/plain' }, status_code: 404 },
    change: { ...changed, body: '', headers: {}, status_code: 503 }
  },
  file_backend: {
    full: {
      ...described,
      folder: '/srv/www',
      index: ['index.html', 'index.htm'],
      fallback: '/index.html',
      precompressed: ['zst', 'br', 'gz'],
      cache: { '*.{js,css}': '1y immutable', default: 'no-cache' },
      listing: true,
      follow_links: true
    },
    change: {
      ...changed,
      folder: '/srv/other',
      index: [],
      fallback: '',
      precompressed: [],
      cache: {},
      listing: false,
      follow_links: false
    }
  },
  weighted_backend: {
    full: {
      ...described,
      backends: { [idOf('bkdtg')]: 1, [idOf('bkdsc')]: 10_000 },
      balance: 'hash',
      hash_key: "req.headers['x-user'][0]",
      sticky: { cookie: 'at', ttl: 60, path: '/app', same_site: 'none' },
      panic_threshold: 50,
      slow_start: 30
    },
    change: {
      ...changed,
      backends: { [idOf('bkdhr')]: 1, [idOf('bkdsc')]: 0 },
      balance: 'hash',
      hash_key: 'conn.client_ip',
      sticky: null,
      panic_threshold: 0,
      slow_start: 0
    }
  },
  failover_backend: {
    full: { ...described, backends: [idOf('bkdwd'), idOf('bkdtg')] },
    change: { ...changed, backends: [idOf('bkdsc')] }
  },
  tcp_edge: {
    full: {
      ...described,
      hostports: ['tcp.example.com:20000'],
      tls: 'passthrough',
      backend: { backend_id: idOf('bkdtg') },
      ip_restriction: { ip_policy_ids: [idOf('ipp')] },
      traffic_policy: { value: policy('on_tcp_connect', 'deny') },
      policy_tests: refuses(0)
    },
    change: {
      ...changed,
      hostports: [],
      tls: 'off',
      backend: { enabled: false, backend_id: idOf('bkdsc') },
      ip_restriction: { enabled: false, ip_policy_ids: [idOf('ipp', 2)] },
      traffic_policy: { enabled: false, value: 'on_tcp_connect: []' },
      policy_tests: ''
    }
  },
  tls_edge: {
    full: {
      ...described,
      hostports: ['db.example.com:443', '*.db.example.com:5432'],
      backend: { backend_id: idOf('bkdtg') },
      ip_restriction: { ip_policy_ids: [idOf('ipp')] },
      mutual_tls: { certificate_authority_ids: [idOf('ca')] },
      tls_termination: { terminate_at: 'edge', min_version: '1.3' },
      traffic_policy: { value: policy('on_tcp_connect', 'deny') },
      policy_tests: refuses(0)
    },
    change: {
      ...changed,
      hostports: [],
      backend: { enabled: false, backend_id: idOf('bkdsc') },
      ip_restriction: { enabled: false, ip_policy_ids: [idOf('ipp', 2)] },
      mutual_tls: { enabled: false, certificate_authority_ids: [idOf('ca', 2)] },
      tls_termination: {},
      traffic_policy: { enabled: false, value: 'on_tcp_connect: []' },
      policy_tests: ''
    }
  },
  https_edge: {
    full: {
      ...described,
      hostports: ['app.example.com:443', '*.example.com:443'],
      mutual_tls: { certificate_authority_ids: [idOf('ca')] },
      tls_termination: { min_version: '1.3' },
      on_http: 'redirect',
      hsts: { max_age: 63_072_000, include_subdomains: true, preload: true },
      path_form: 'lenient'
    },
    change: {
      ...changed,
      hostports: ['other.example.com:443'],
      mutual_tls: { enabled: false, certificate_authority_ids: [idOf('ca', 2)] },
      tls_termination: {},
      on_http: 'refuse',
      hsts: { max_age: 0 },
      path_form: 'strict'
    }
  },
  https_edge_route: {
    full: { ...described, match_type: 'exact_path', match: '/a', ...modules, policy_tests: refuses(403) },
    change: {
      ...changed,
      match_type: 'path_prefix',
      match: '/b',
      ...modules,
      compression: { enabled: false },
      policy_tests: ''
    }
  },
  event_destination: {
    full: { ...described, format: 'JSON', target: target.webhook },
    change: { ...changed, format: 'json', target: target.other }
  },
  event_subscription: {
    full: {
      ...described,
      sources: [{ type: 'ip_policy_created.v0' }, { type: 'http_request_complete.v0' }],
      destination_ids: [idOf('ed')]
    },
    change: { ...changed, sources: [{ type: 'vault_deleted.v0' }], destination_ids: [] }
  }
}
