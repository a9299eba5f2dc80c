import { bodies } from '../../resources/bodies.js'
import { issue } from '../../resources/certificates.js'
import { changed, type Family, SSH_KEY, shown, texts } from './rows.js'

const { ca_pem } = bodies.certificate_authority?.full ?? {}
/** A certificate that has expired is accepted. */
const expired = await issue({
  subject: 'CN=old.example.com',
  algorithm: 'rsa',
  notBefore: new Date('2020-03-01T00:00:00Z'),
  notAfter: new Date('2020-04-01T00:00:00Z')
})

/** Families of certificates, secrets, events and operators. */
export const keepingFamilies: readonly Family[] = [
  {
    name: 'certificate_authorities',
    path: '/certificate_authorities',
    prefix: 'ca',
    list: 'certificate_authorities',
    filter: true,
    create: { ca_pem, description: 'services', metadata: '{"id": "7d"}' },
    needs: ['ca_pem'],
    zeros: { create: texts },
    answer: {
      ...shown,
      id: ':id',
      ca_pem: ':text',
      subject_common_name: ':text',
      not_before: ':time',
      not_after: ':time',
      key_usages: ':texts',
      extended_key_usages: ':texts'
    },
    update: changed
  },
  {
    name: 'tls_certificates',
    path: '/tls_certificates',
    prefix: 'cert',
    list: 'tls_certificates',
    filter: true,
    create: { certificate_pem: expired.pem, private_key_pem: expired.key },
    needs: ['certificate_pem', 'private_key_pem'],
    zeros: { create: texts },
    answer: {
      ...shown,
      id: ':id',
      certificate_pem: ':text',
      issued_at: null,
      issuer_common_name: ':text',
      not_before: '2020-03-01T00:00:00Z',
      not_after: '2020-04-01T00:00:00Z',
      key_usages: [],
      extended_key_usages: [],
      private_key_type: 'rsa',
      serial_number: ':hex',
      subject_alternative_names: { dns_names: [], ips: [] },
      subject_common_name: 'old.example.com',
      subject_country: '',
      subject_locality: '',
      subject_organization: '',
      subject_organizational_unit: '',
      subject_province: ''
    },
    update: { metadata: '{"example": true}' }
  },
  {
    name: 'ssh_certificate_authorities',
    path: '/ssh_certificate_authorities',
    prefix: 'sshca',
    list: 'ssh_certificate_authorities',
    filter: true,
    create: { description: 'hosts', private_key_type: 'ed25519' },
    zeros: { create: { ...texts, private_key_type: '', elliptic_curve: '', key_size: 0 } },
    answer: { ...shown, id: ':id', key_type: 'ed25519', public_key: ':text' },
    update: changed
  },
  {
    name: 'ssh_host_certificates',
    path: '/ssh_host_certificates',
    prefix: 'shcrt',
    list: 'ssh_host_certificates',
    before: [['authority', '/ssh_certificate_authorities', {}]],
    create: {
      description: 'a server',
      principals: ['host.example.com', '10.2.42.9'],
      public_key: SSH_KEY,
      ssh_certificate_authority_id: '$authority',
      valid_until: '2099-12-03T10:11:37Z'
    },
    needs: ['public_key', 'ssh_certificate_authority_id'],
    zeros: { create: { ...texts, principals: [] } },
    answer: {
      ...shown,
      id: ':id',
      certificate: ':text',
      key_type: 'ed25519',
      principals: ':texts',
      public_key: ':text',
      ssh_certificate_authority_id: ':text',
      valid_after: ':time',
      valid_until: ':time'
    },
    update: changed
  },
  {
    name: 'ssh_user_certificates',
    path: '/ssh_user_certificates',
    prefix: 'sucrt',
    list: 'ssh_user_certificates',
    before: [['authority', '/ssh_certificate_authorities', {}]],
    create: {
      description: 'a login',
      principals: ['admin', 'root'],
      public_key: SSH_KEY,
      ssh_certificate_authority_id: '$authority',
      valid_until: '2099-12-03T10:11:37Z'
    },
    needs: ['public_key', 'ssh_certificate_authority_id'],
    zeros: { create: { ...texts, principals: [], critical_options: {}, extensions: {} } },
    answer: {
      ...shown,
      id: ':id',
      certificate: ':text',
      critical_options: {},
      extensions: { 'permit-pty': '', 'permit-user-rc': '' },
      key_type: 'ed25519',
      principals: ':texts',
      public_key: ':text',
      ssh_certificate_authority_id: ':text',
      valid_after: ':time',
      valid_until: ':time'
    },
    update: changed
  },
  {
    name: 'vaults',
    path: '/vaults',
    prefix: 'vault',
    list: 'vaults',
    filter: true,
    create: { description: 'production', metadata: 'env=prod', name: 'prod-vault' },
    needs: ['name'],
    other: { name: 'other-vault' },
    zeros: { create: { name: '', ...texts } },
    answer: {
      ...shown,
      id: ':id',
      name: ':text',
      updated_at: ':time',
      created_by: ':id usr',
      last_updated_by: ':id usr'
    },
    update: { metadata: '{"stage": "production"}' },
    extra: [
      {
        name: 'get_secrets_by_vault',
        method: 'GET',
        path: '/secrets',
        answer: { secrets: [], next_page_uri: null, uri: ':text' }
      }
    ]
  },
  {
    name: 'secrets',
    path: '/vault_secrets',
    prefix: 'secret',
    list: 'secrets',
    filter: true,
    before: [['vault', '/vaults', { name: 'vault-of-secrets' }]],
    create: {
      description: 'of a database',
      metadata: 'env=prod,service=db',
      name: 'db-password',
      value: 'not in any answer',
      vault_id: '$vault'
    },
    needs: ['name', 'value', 'vault_id'],
    other: { name: 'other-password' },
    zeros: { create: { name: '', value: '', ...texts, vault_id: '', vault_name: '' } },
    answer: {
      ...shown,
      id: ':id',
      name: ':text',
      updated_at: ':time',
      created_by: ':user',
      last_updated_by: ':user',
      vault: ':ref $vault'
    },
    update: { metadata: '{"stage": "production"}', value: 'changed' }
  },
  {
    name: 'event_destinations',
    path: '/event_destinations',
    prefix: 'ed',
    list: 'event_destinations',
    filter: true,
    create: {
      description: 'a stream',
      format: 'json',
      metadata: '{"stage":"dev"}',
      target: {
        kinesis: {
          auth: { role: { role_arn: 'arn:aws:iam::123456789012:role/example' } },
          stream_arn: 'arn:aws:kinesis:us-east-2:123456789012:stream/events'
        }
      }
    },
    needs: ['format', 'target'],
    zeros: { create: { ...texts, format: '' } },
    answer: {
      ...shown,
      id: ':id',
      format: ':text',
      target: {
        azure_logs_ingestion: null,
        cloudwatch_logs: null,
        datadog: null,
        firehose: null,
        kinesis: {
          auth: { creds: null, role: { role_arn: 'arn:aws:iam::123456789012:role/example' } },
          stream_arn: 'arn:aws:kinesis:us-east-2:123456789012:stream/events'
        }
      }
    },
    update: changed
  },
  {
    name: 'event_subscriptions',
    path: '/event_subscriptions',
    prefix: 'esb',
    list: 'event_subscriptions',
    filter: true,
    before: [
      [
        'destination',
        '/event_destinations',
        { format: 'json', target: { datadog: { api_key: 'k', ddtags: '', service: '', ddsite: 'datadoghq.com' } } }
      ]
    ],
    create: {
      description: 'creations',
      destination_ids: ['$destination'],
      metadata: '{"stage": "dev"}',
      sources: [{ type: 'ip_policy_created.v0' }]
    },
    needs: ['sources'],
    zeros: { create: { ...texts, sources: [], destination_ids: [] }, update: { sources: [] } },
    answer: {
      ...shown,
      id: ':id',
      destinations: [':ref $destination'],
      sources: [{ type: 'ip_policy_created.v0', uri: ':text' }]
    },
    update: { description: 'another text' }
  },
  {
    name: 'kubernetes_operators',
    path: '/kubernetes_operators',
    prefix: 'k8sop',
    list: 'operators',
    create: {
      deployment: { name: 'operator', namespace: 'ingress' },
      description: 'one cluster',
      enabled_features: ['Ingress'],
      metadata: '{"stage": "dev"}',
      region: 'global'
    },
    other: { deployment: { name: 'other', namespace: 'ingress' } },
    answer: {
      ...shown,
      id: ':id',
      updated_at: ':time',
      region: ':text',
      enabled_features: ['ingress'],
      deployment: { name: ':text', namespace: ':text', version: '', cluster_name: '' },
      principal: ':user',
      binding: {
        endpoint_selectors: [],
        cert: { cert: '', not_before: '0001-01-01T00:00:00Z', not_after: '0001-01-01T00:00:00Z' }
      }
    },
    update: { metadata: '{"stage": "production"}' },
    extra: [
      {
        name: 'get_bound_endpoints',
        method: 'GET',
        path: '/bound_endpoints',
        answer: { endpoints: [], next_page_uri: null, uri: ':text' }
      }
    ]
  }
]
