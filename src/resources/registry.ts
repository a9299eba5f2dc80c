import { abuseReport } from './abuse-reports.js'
import { failoverBackend, httpResponseBackend, tunnelGroupBackend, weightedBackend } from './backends.js'
import { certificateAuthority, tlsCertificate } from './certificates.js'
import { agentIngress, reservedDomain } from './domains.js'
import { httpsEdge, httpsEdgeRoute, tcpEdge } from './edges.js'
import { endpoint } from './endpoints.js'
import { eventDestination } from './event-destinations.js'
import { eventSubscription } from './event-subscriptions.js'
import { fileBackend } from './file-backend.js'
import { apiKey, botUser, credential, serviceUser, sshCredential } from './identities.js'
import { ipPolicy, ipPolicyRule, ipRestriction } from './ip-policies.js'
import { kubernetesOperator } from './kubernetes-operators.js'
import { tunnel, tunnelSession } from './live.js'
import { reservedAddress } from './reserved-addresses.js'
import type { Resource } from './resource.js'
import { sshCertificateAuthority, sshHostCertificate, sshUserCertificate } from './ssh.js'
import { staticBackend } from './static-backend.js'
import { tlsEdge } from './tls-edges.js'
import { vault, vaultSecret } from './vaults.js'
import { applicationSession, applicationUser } from './visitors.js'

/** All resources. A resource comes after those it refers to, so that records can be created in this order. */
export const resources: readonly Resource[] = [
  botUser,
  credential,
  apiKey,
  sshCredential,
  ipPolicy,
  ipPolicyRule,
  ipRestriction,
  tlsCertificate,
  certificateAuthority,
  reservedDomain,
  reservedAddress,
  agentIngress,
  sshCertificateAuthority,
  sshHostCertificate,
  sshUserCertificate,
  vault,
  vaultSecret,
  tunnelGroupBackend,
  staticBackend,
  httpResponseBackend,
  fileBackend,
  weightedBackend,
  failoverBackend,
  tcpEdge,
  tlsEdge,
  httpsEdge,
  httpsEdgeRoute,
  eventDestination,
  eventSubscription,
  applicationUser,
  applicationSession,
  abuseReport,
  kubernetesOperator,
  tunnelSession,
  tunnel,
  endpoint
]

/** Other names of resources in the list: the API has their paths too; their records are those of `of`. */
export const aliases: readonly { readonly alias: Resource; readonly of: Resource }[] = [
  { alias: serviceUser, of: botUser }
]
