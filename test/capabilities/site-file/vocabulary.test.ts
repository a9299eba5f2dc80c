import t from 'tap'
import { siteFileSchema } from '../../../src/capabilities/site-file/declared/schema.js'
import {
  failoverBackend,
  httpResponseBackend,
  tunnelGroupBackend,
  weightedBackend
} from '../../../src/resources/backends.js'
import { certificateAuthority, tlsCertificate } from '../../../src/resources/certificates.js'
import { httpsEdge, httpsEdgeRoute, tcpEdge } from '../../../src/resources/edges.js'
import { fileBackend } from '../../../src/resources/file-backend.js'
import { ipPolicy, ipPolicyRule, ipRestriction } from '../../../src/resources/ip-policies.js'
import { staticBackend } from '../../../src/resources/static-backend.js'
import { vault, vaultSecret } from '../../../src/resources/vaults.js'

/** What traffic is made of in the API. */
const RESOURCES = [
  httpsEdge,
  httpsEdgeRoute,
  tcpEdge,
  staticBackend,
  weightedBackend,
  failoverBackend,
  tunnelGroupBackend,
  httpResponseBackend,
  fileBackend,
  tlsCertificate,
  certificateAuthority,
  ipPolicy,
  ipPolicyRule,
  ipRestriction,
  vault,
  vaultSecret
]

/** Fields that a site file says by other words, and how. */
const OTHERWISE: Readonly<Record<string, string>> = {
  'https_edge.hostports': 'the name of the site, and hosts',
  'https_edge.on_http': 'redirect',
  'https_edge_route.match': 'the key of the route',
  'https_edge_route.match_type': 'a slash at the end of the key',
  'https_edge_route.traffic_policy': 'policy',
  'tcp_edge.hostports': 'the key of the edge',
  'tcp_edge.traffic_policy': 'policy',
  'static_backend.address': 'servers',
  'file_backend.folder': 'files',
  'static_backend.http2': 'the scheme of the server',
  'tls_certificate.certificate_pem': 'certificate, a file',
  'tls_certificate.private_key_pem': 'key, a file',
  'certificate_authority.crl_pem': 'crl, a file',
  'ip_policy_rule.cidr': 'an item of allow or deny',
  'ip_policy_rule.ip_policy': 'the policy that holds the list',
  'ip_policy_rule.action': 'the name of the list',
  'vault.name': 'the key of the vault',
  // A vault of a file is there for the policies of that file alone.
  'vault.usable_by': 'nothing',
  'vault_secret.name': 'the key of the secret',
  'vault_secret.value': 'env, file or vault'
}

/** Every key that a site file may have, at any level. */
function keysOf(schema: unknown, keys = new Set<string>()): Set<string> {
  if (Array.isArray(schema)) for (const one of schema) keysOf(one, keys)
  else if (typeof schema === 'object' && schema !== null) {
    for (const [key, value] of Object.entries(schema)) {
      if (key === 'properties') for (const name of Object.keys(value as object)) keys.add(name)
      keysOf(value, keys)
    }
  }
  return keys
}

t.test('a site file can say what the API can say of traffic', async (t) => {
  const keys = keysOf(siteFileSchema({}))
  const fields = RESOURCES.flatMap(({ name, fields }) =>
    Object.entries(fields)
      .filter(([, { request }]) => request !== undefined)
      .map(([field, { request }]) => `${name}.${(request as { name?: string }).name ?? field}`)
  )
  t.ok(fields.length > 50, `${fields.length} fields`)
  const missing = fields.filter((field) => !keys.has(field.split('.')[1] as string) && !(field in OTHERWISE))
  t.same(missing, [])
  t.same(
    Object.keys(OTHERWISE).filter((field) => !fields.includes(field)),
    [],
    'nothing is excused that is not there'
  )
})

t.test('every module of edges and routes has its place', async (t) => {
  const keys = keysOf(siteFileSchema({}))
  const modules = [httpsEdge, httpsEdgeRoute, tcpEdge].flatMap((resource) => resource.modules)
  t.ok(modules.length > 15, `${modules.length} modules`)
  const others = ['traffic_policy']
  t.same(
    modules.filter((name) => !keys.has(name) && !others.includes(name)),
    []
  )
  t.ok(keys.has('policy'), 'the traffic policy is called policy')
})
