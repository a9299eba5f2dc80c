import { ipPolicies, ipRestrictions, ipRules } from './access.js'
import { failoverBackends, httpResponseBackends, staticBackends, tunnelGroups, weightedBackends } from './backends.js'
import { certificateAuthorities, reservedDomains, tlsCertificates } from './certificates.js'
import { httpsEdges, httpsRoutes, tcpEdges } from './edges.js'
import type { PlannedKind } from './planned.js'
import { vaultSecrets, vaults } from './secrets.js'

/** Every kind of record that means something for traffic. */
export const plannedKinds: readonly PlannedKind[] = [
  vaults,
  vaultSecrets,
  ipPolicies,
  ipRules,
  ipRestrictions,
  certificateAuthorities,
  tlsCertificates,
  reservedDomains,
  staticBackends,
  httpResponseBackends,
  tunnelGroups,
  weightedBackends,
  failoverBackends,
  httpsEdges,
  httpsRoutes,
  tcpEdges
]
