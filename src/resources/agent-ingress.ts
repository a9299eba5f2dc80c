import Type from 'typebox'
import {
  automaticCertificate,
  certificateWork,
  managementPolicy,
  managementStatus,
  settleManagement
} from './certificate-management.js'
import { computed, described, text } from './fields.js'
import type { RuleView } from './members.js'
import { defineResource, type MakeView } from './resource.js'
import { tlsCertificate } from './tls-certificate.js'

const NAMES = Type.Array(Type.String())
const SERVERS = ['ns1', 'ns2'] as const

/** Addresses for agents below a domain, one for each region. */
export function agentHosts(domain: string, regions: readonly string[]): string[] {
  return regions.map((region) => `tunnel.${region}.${domain}`)
}

/** Addresses of one's own for agents to connect to. */
export const agentIngress = defineResource({
  name: 'agent_ingress',
  description: 'Addresses for agents to connect to, below a domain of the account.',
  path: '/agent_ingresses',
  listKey: 'ingresses',
  idPrefix: 'agin',
  relativeUri: true,
  events: 'agent_ingress',
  fields: {
    ...described,
    domain: text({
      description: 'The domain below which the addresses are made.',
      form: 'domain',
      bytes: 256,
      required: true,
      fixed: true,
      unique: 'agent_ingress_domain',
      examples: ['connect.example.com']
    }),
    ns_targets: computed(NAMES, 'Values of the NS records of the domain.', (_stored, _path, _record, { zone }) =>
      SERVERS.map((server) => `${server}.${zone}.`)
    ),
    region_domains: computed(
      NAMES,
      'Addresses for agents, one for each region.',
      (_stored, _path, { body }, { regions }) => agentHosts(String(body.domain), regions)
    ),
    certificate_management_policy: managementPolicy('rsa'),
    certificate_management_status: managementStatus(),
    certificate: automaticCertificate(tlsCertificate),
    certificate_work: certificateWork()
  },
  rules: [
    { on: ['domain'], check: noWildcard },
    { on: ['certificate_management_policy'], check: settleManagement }
  ],
  make: refuseOwnZone
})

function noWildcard({ body, report }: RuleView): void {
  if ((body.domain as string).startsWith('*')) report('domain', 'FIELD_INVALID', 'must not be a wildcard')
}

async function refuseOwnZone({ body, before, makers: { zone }, report }: MakeView): Promise<void> {
  // The zone may have become another since the ingress was made.
  if (before !== undefined) return
  const domain = body.domain as string
  if (domain === zone || domain.endsWith(`.${zone}`)) {
    report('domain', 'FIELD_INVALID', 'must be a domain of the account, not of the service')
  }
}
