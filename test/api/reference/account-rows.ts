import { bodies } from '../../resources/bodies.js'
import { changed, type Family, OTHER_KEY, SSH_KEY, shown, texts } from './rows.js'

/** Families of identities, keys, addresses and IP policies. */
export const accountFamilies: readonly Family[] = [
  {
    name: 'abuse_reports',
    path: '/abuse_reports',
    prefix: 'abrp',
    operations: ['create', 'get'],
    create: { metadata: '{"case": 7}', urls: ['http://phish.example.com/login'] },
    needs: ['urls'],
    zeros: { create: { metadata: '' } },
    answer: {
      id: ':id',
      uri: ':uri',
      created_at: ':time',
      metadata: ':text',
      urls: [':text'],
      status: 'PENDING',
      hostnames: [{ hostname: 'phish.example.com', status: 'PENDING' }]
    }
  },
  {
    name: 'agent_ingresses',
    path: '/agent_ingresses',
    prefix: 'agin',
    list: 'ingresses',
    filter: true,
    create: { description: 'devices', domain: 'connect.ingress.test' },
    needs: ['domain'],
    other: { domain: 'other.ingress.test' },
    zeros: { create: texts },
    answer: {
      ...shown,
      id: ':id',
      uri: ':path',
      domain: ':text',
      ns_targets: ':texts',
      region_domains: ':texts',
      certificate_management_policy: null,
      certificate_management_status: null
    },
    update: changed
  },
  {
    name: 'api_keys',
    path: '/api_keys',
    prefix: 'ak',
    list: 'keys',
    filter: true,
    create: { description: 'a test', metadata: '{"stage":"dev"}' },
    zeros: { create: texts },
    answer: { ...shown, id: ':id', owner_id: ':id usr', token: ':text' },
    once: ['token'],
    update: changed
  },
  {
    name: 'bot_users',
    path: '/bot_users',
    prefix: 'bot',
    list: 'bot_users',
    create: { name: 'deployer' },
    needs: ['name'],
    other: { name: 'other bot' },
    answer: { id: ':id', uri: ':uri', created_at: ':time', name: ':text', active: true },
    update: { name: 'renamed' }
  },
  {
    name: 'service_users',
    path: '/service_users',
    prefix: 'bot',
    list: 'service_users',
    filter: true,
    create: { name: 'builder' },
    needs: ['name'],
    other: { name: 'other service' },
    answer: { id: ':id', uri: ':uri', created_at: ':time', name: ':text', active: true },
    update: { active: false },
    updated: { active: false }
  },
  {
    name: 'credentials',
    path: '/credentials',
    prefix: 'cr',
    list: 'credentials',
    filter: true,
    create: { description: 'a device' },
    zeros: { create: { ...texts, acl: [] } },
    answer: { ...shown, id: ':id', acl: [], owner_id: ':id usr', token: ':text' },
    once: ['token'],
    update: changed
  },
  {
    name: 'ssh_credentials',
    path: '/ssh_credentials',
    prefix: 'sshcr',
    list: 'ssh_credentials',
    filter: true,
    create: {
      description: 'a device',
      public_key: SSH_KEY,
      acl: ['bind:1.tcp.example.com:20002', 'bind:a.example.com']
    },
    needs: ['public_key'],
    other: { public_key: OTHER_KEY },
    zeros: { create: { ...texts, acl: [] } },
    answer: { ...shown, id: ':id', acl: ':texts', owner_id: ':id usr', public_key: ':text' },
    update: changed
  },
  {
    name: 'ip_policies',
    path: '/ip_policies',
    prefix: 'ipp',
    list: 'ip_policies',
    filter: true,
    create: { description: 'gateways' },
    zeros: { create: texts },
    answer: { ...shown, id: ':id' },
    update: changed
  },
  {
    name: 'ip_policy_rules',
    path: '/ip_policy_rules',
    prefix: 'ipr',
    list: 'ip_policy_rules',
    filter: true,
    before: [['policy', '/ip_policies', {}]],
    create: { description: 'an office', action: 'allow', cidr: '192.0.2.0/24', ip_policy_id: '$policy' },
    needs: ['action', 'cidr', 'ip_policy_id'],
    other: { cidr: '198.51.100.0/24' },
    zeros: { create: texts },
    answer: { ...shown, id: ':id', action: ':text', cidr: ':text', ip_policy: ':ref $policy' },
    update: { cidr: '203.0.113.0/24' }
  },
  {
    name: 'ip_restrictions',
    path: '/ip_restrictions',
    prefix: 'ipx',
    list: 'ip_restrictions',
    filter: true,
    before: [
      ['one', '/ip_policies', {}],
      ['two', '/ip_policies', {}]
    ],
    create: { type: 'dashboard', ip_policy_ids: ['$one'] },
    needs: ['type', 'ip_policy_ids'],
    other: { type: 'agent' },
    zeros: { create: { ...texts, enforced: false }, update: { ip_policy_ids: [] } },
    answer: { ...shown, id: ':id', type: ':text', enforced: false, ip_policies: [':ref $one'] },
    update: { ip_policy_ids: ['$one', '$two'] },
    updated: { ip_policies: [':ref $one', ':ref $two'] }
  },
  {
    name: 'reserved_addrs',
    path: '/reserved_addrs',
    prefix: 'ra',
    list: 'reserved_addrs',
    filter: true,
    create: { description: 'ssh of a device', region: 'us' },
    zeros: { create: { ...texts, region: '' } },
    answer: { ...shown, id: ':id', addr: ':hostport', region: ':text', endpoint_configuration: null },
    update: { metadata: '{"proto": "ssh"}' }
  },
  {
    name: 'reserved_domains',
    path: '/reserved_domains',
    prefix: 'rd',
    list: 'reserved_domains',
    filter: true,
    before: [
      [
        'certificate',
        '/tls_certificates',
        {
          certificate_pem: bodies.tls_certificate?.full.certificate_pem,
          private_key_pem: bodies.tls_certificate?.full.private_key_pem
        }
      ]
    ],
    create: { certificate_id: '$certificate', domain: 'app.test', region: 'us' },
    needs: ['domain'],
    other: { domain: 'second.domain.test' },
    zeros: { create: { domain: '', region: '', ...texts } },
    answer: {
      ...shown,
      id: ':id',
      domain: ':text',
      region: '',
      cname_target: ':text?',
      acme_challenge_cname_target: ':text?',
      certificate: ':ref $certificate',
      certificate_management_policy: null,
      certificate_management_status: null,
      error_redirect_url: null,
      http_endpoint_configuration: null,
      https_endpoint_configuration: null,
      is_dev: false
    },
    update: { ...changed, certificate_management_policy: { authority: 'letsencrypt' } },
    updated: {
      certificate: ':any',
      certificate_management_policy: { authority: 'letsencrypt', private_key_type: 'ecdsa' },
      certificate_management_status: ':any'
    },
    extra: [
      { name: 'delete_certificate_management_policy', method: 'DELETE', path: '/certificate_management_policy' },
      { name: 'delete_certificate', method: 'DELETE', path: '/certificate' }
    ]
  }
]
