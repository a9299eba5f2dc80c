import { agentIngress } from './agent-ingress.js'
import { apiKey } from './api-key.js'
import { failoverBackend, httpResponseBackend, staticBackend, tunnelGroupBackend, weightedBackend } from './backends.js'
import { botUser } from './bot-user.js'
import { certificateAuthority } from './certificate-authority.js'
import { credential } from './credential.js'
import { eventDestination } from './event-destination.js'
import { eventSubscription } from './event-subscription.js'
import { httpsEdge } from './https-edge.js'
import { httpsEdgeRoute } from './https-edge-route.js'
import { ipPolicy } from './ip-policy.js'
import { ipPolicyRule } from './ip-policy-rule.js'
import { ipRestriction } from './ip-restriction.js'
import { endpoint, tunnel, tunnelSession } from './live.js'
import { reservedDomain } from './reserved-domain.js'
import type { Resource } from './resource.js'
import { sshCertificateAuthority } from './ssh-certificate-authority.js'
import { sshHostCertificate, sshUserCertificate } from './ssh-certificates.js'
import { tcpEdge } from './tcp-edge.js'
import { tlsCertificate } from './tls-certificate.js'
import { vault } from './vault.js'
import { vaultSecret } from './vault-secret.js'

/** Every resource. What refers to another stands after it, so that records can be made in this order. */
export const resources: readonly Resource[] = [
  botUser,
  credential,
  apiKey,
  ipPolicy,
  ipPolicyRule,
  ipRestriction,
  tlsCertificate,
  certificateAuthority,
  reservedDomain,
  agentIngress,
  sshCertificateAuthority,
  sshHostCertificate,
  sshUserCertificate,
  vault,
  vaultSecret,
  tunnelGroupBackend,
  staticBackend,
  httpResponseBackend,
  weightedBackend,
  failoverBackend,
  tcpEdge,
  httpsEdge,
  httpsEdgeRoute,
  eventDestination,
  eventSubscription,
  tunnelSession,
  tunnel,
  endpoint
]
