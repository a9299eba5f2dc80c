import {
  failoverBackends,
  httpResponseBackends,
  staticBackends,
  tunnelGroups,
  weightedBackends
} from '../../resources/backends.js'
import { certificateAuthorities, reservedDomains, tlsCertificates } from '../../resources/domains.js'
import { httpsEdges, httpsRoutes, tcpEdges } from '../../resources/edges.js'
import { ipPolicies, ipRestrictions, ipRules } from '../../resources/ip-policies.js'
import type { PlannedKind } from '../../resources/units.js'
import { vaultSecrets, vaults } from '../../resources/vaults.js'

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
