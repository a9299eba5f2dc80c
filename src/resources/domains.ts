import Type from 'typebox'
import type { BackoffRange } from '../lib/concurrency.js'
import { defineErrors } from '../lib/errors.js'
import { whyUncertifiable } from '../lib/host.js'
import { canonicalAddress } from '../lib/ip.js'
import type { Unit } from '../runtime/plan.js'
import { defineField, type Field, type Makers } from '../schema/field.js'
import { choice, computed, constant, described, kept, keptTextOrNull, text } from '../schema/fields.js'
import { type ObjectOf, object, type RuleView } from '../schema/objects.js'
import { ref, type Target, withdrawnRef } from '../schema/references.js'
import { unfit } from './certificate-fit.js'
import { certificateAuthority, tlsCertificate } from './certificates.js'
import { resolvesTo } from './resolves-to.js'
import { defineResource, type MakeView, type RecordOf } from './resource.js'
import { authorityKey, certificateKey, planned, secretAt } from './units.js'

/** Reasons why a certificate was not issued: the error_code of a job. */
export const provisioningErrors = defineErrors({
  DNS_ERROR: {
    text: 'The owner of the domain has to correct something: DNS, CAA or the name itself.',
    help: 'Correct what msg names (sluice domains verify shows what DNS must say); it is tried again at retries_at, or save the policy again.'
  },
  INTERNAL_ERROR: {
    text: 'The authority or Sluice failed; the next attempt may succeed.',
    help: 'Wait for retries_at; look into the log when it goes on.'
  }
})

/** Pauses after failed attempts (ms): a minute, doubled each time, up to half a day. */
export const ATTEMPT_PAUSES: BackoffRange = { first: 60_000, longest: 12 * 3_600_000 }

/** Supported ACME authorities. */
const ACME_AUTHORITIES = ['letsencrypt'] as const

const policyFields = (keyType: 'rsa' | 'ecdsa') => ({
  authority: choice(ACME_AUTHORITIES, { description: 'The authority that issues.', required: true }),
  private_key_type: choice(['rsa', 'ecdsa'], { description: 'Type of the private key.', default: keyType })
})

/** Returns the field for automatic certificate management; null if disabled. `keyType` is the default. */
function managementPolicy(keyType: 'rsa' | 'ecdsa'): Field<ObjectOf<ReturnType<typeof policyFields>>> {
  return object(policyFields(keyType), { description: 'Automatic management of the certificate; null: none.' })
}

/** Challenge response for the authority (RFC 8555 8.3, 8.4; RFC 8737). `identity`: PEM of the validation certificate with its key. */
export type PendingChallenge =
  | { readonly type: 'http-01'; readonly host: string; readonly token: string; readonly value: string }
  | { readonly type: 'dns-01'; readonly name: string; readonly value: string }
  | { readonly type: 'tls-alpn-01'; readonly host: string; readonly identity: string }

/** Internal state of a managed certificate; never shown in responses. */
export type CertificateWork = {
  /** URL of the current order. */
  readonly order: string | null
  readonly challenges: readonly PendingChallenge[]
  /** Failed attempts since the last success. */
  readonly failures: number
  /** Request of the current certificate; null before the first. */
  readonly issued: {
    readonly names: readonly string[]
    readonly key_type: 'rsa' | 'ecdsa'
    /** Milliseconds since the Unix epoch; missing in records of older versions. */
    readonly validity?: { readonly notBefore: number; readonly notAfter: number }
  } | null
  /** Consecutive certificates that were due for renewal when they were issued. */
  readonly repeats?: number
  /** Consecutive certificates requested at once: their suggested time had passed when it was received, or a user requested them. */
  readonly hurried?: number
  /** Earliest renewal, whatever the authority or a user requests. Milliseconds since the Unix epoch. */
  readonly earliest?: number
}

/** Current certificate request as shown in responses. */
export type ProvisioningJob = {
  readonly error_code: keyof typeof provisioningErrors | null
  readonly msg: string
  readonly started_at: string
  readonly retries_at: string | null
}

/** Renewal time suggested by the authority (RFC 9773 4.2), as shown in responses. */
export type SuggestedRenewal = {
  readonly suggested_window: { readonly start: string; readonly end: string }
  readonly explanation_url: string | null
}

/** Status of a managed certificate in the API. Times are RFC 3339. */
export type ManagementStatus = {
  readonly renews_at: string | null
  readonly provisioning_job: ProvisioningJob | null
  /** Missing in records of older versions. */
  readonly renewal_info?: SuggestedRenewal | null
}

/** Path of the sealed key for the requested certificate. */
export const REQUESTED_KEY = 'certificate_work.private_key_pem'

const orNull = (description: string) => Type.Union([Type.String(), Type.Null()], { description })

/** Returns the status field, written by the certificate service. */
function managementStatus(): Field<ManagementStatus | null> {
  const job = Type.Object({
    error_code: orNull('INTERNAL_ERROR (temporary) or DNS_ERROR (to be corrected); null: none.'),
    msg: Type.String({ description: 'For people.' }),
    started_at: Type.String({ description: 'RFC 3339.' }),
    retries_at: orNull('Next attempt after a failure, or when a request that waits expects its turn (RFC 3339).')
  })
  const window = Type.Object(
    { start: Type.String({ description: 'RFC 3339.' }), end: Type.String({ description: 'RFC 3339.' }) },
    { description: 'When the authority would like the renewal to be requested.' }
  )
  const suggested = Type.Object({
    suggested_window: window,
    explanation_url: orNull('A page of the authority that says why; null: it names none.')
  })
  const schema = Type.Object({
    renews_at: orNull('When the next renewal is requested (RFC 3339).'),
    provisioning_job: Type.Union([job, Type.Null()], { description: 'null: nothing is being requested.' }),
    renewal_info: Type.Union([suggested, Type.Null()], {
      description:
        'What the authority suggests for the renewal (RFC 9773); null: nothing, or it has not been asked yet.'
    })
  })
  return {
    ...kept<ManagementStatus | null>(
      schema,
      null,
      'What automatic management does; null: it is off or has not started.'
    ),
    // Removing a policy by its sub-path hides the status at once.
    present: (stored, _path, { body }) =>
      stored === null || body.certificate_management_policy === null
        ? null
        : { ...stored, renewal_info: stored.renewal_info ?? null }
  }
}

/** Returns the field with the service's state between the steps of a request. If not null, the current certificate is an automatic one. */
function certificateWork(): Field<CertificateWork | null> {
  return defineField<CertificateWork | null>({
    description: 'The request of the certificate under way.',
    initial: null,
    settable: 'never',
    read: () => undefined,
    present: () => null
  })
}

/** Returns the field with the automatic certificate; never shown in responses. */
function automaticCertificate(target: Target): Field<string | null> {
  const { request: _never, ...hidden } = ref(target, { description: 'The certificate in use.', hidden: true })
  return { ...hidden, settable: 'never', read: () => undefined }
}

/** Updates the service's state for a changed policy: a new policy starts over, a removed one stops everything. */
function settleManagement({ body, given, before, report }: RuleView): void {
  if (body.certificate_management_policy === null) {
    // The previous certificate is the automatic one of a removed policy, or an uploaded one.
    const automatic = before !== undefined && before.certificate_work !== null && before.certificate_work !== undefined
    if (automatic && !given.has('certificate')) body.certificate = null
    Object.assign(body, { certificate_management_status: null, certificate_work: null })
    return
  }
  if (!given.has('certificate_management_policy')) return
  const never = whyUncertifiable(String(body.domain))
  if (never !== undefined)
    report('certificate_management_policy', 'FIELD_INVALID', `is not possible: the domain ${never}`)
  // A policy that is written again may fix the last error, so the next attempt starts at once.
  const status = body.certificate_management_status as ManagementStatus | null
  if (status?.provisioning_job?.error_code == null) return
  body.certificate_management_status = status.renews_at === null ? null : { ...status, provisioning_job: null }
  const work = body.certificate_work as CertificateWork | null
  body.certificate_work = work === null ? null : { ...work, failures: 0, order: null, challenges: [] }
}

/** Hostname reserved for the account. */
export const reservedDomain = defineResource({
  name: 'reserved_domain',
  description: 'A hostname held for the account, if wanted with a certificate.',
  path: '/reserved_domains',
  listKey: 'reserved_domains',
  idPrefix: 'rd',
  events: 'domain',
  fields: {
    ...described,
    domain: text({
      description: 'Hostname; its first label may be "*".',
      form: 'domain',
      bytes: 256,
      required: true,
      fixed: true,
      unique: 'domain',
      examples: ['app.example.com']
    }),
    region: {
      ...text({
        description: 'Deprecated and without effect, because traffic is handled everywhere; one of the old regions.',
        bytes: 255,
        form: 'old_region',
        fixed: true
      }),
      response: Type.String({ description: 'Deprecated; always empty.' }),
      present: () => ''
    },
    cname_target: keptTextOrNull('Target of the CNAME record of the domain; null below a zone of the service.'),
    certificate: ref(tlsCertificate, { description: 'The certificate in use.' }),
    certificate_management_policy: managementPolicy('ecdsa'),
    certificate_management_status: managementStatus(),
    certificate_work: certificateWork(),
    acme_challenge_cname_target: keptTextOrNull(
      'Target of the CNAME record of _acme-challenge.<domain>; of wildcards outside of the zones of the service, else null.'
    ),
    resolves_to: resolvesTo(),
    error_redirect_url: constant(null, 'Not supported; always null.'),
    http_endpoint_configuration: withdrawnRef('Endpoint configurations were withdrawn; always null.'),
    https_endpoint_configuration: withdrawnRef('Endpoint configurations were withdrawn; always null.'),
    is_dev: constant(false, 'Was the domain assigned by the service? Never here.')
  },
  rules: [{ on: ['certificate', 'certificate_management_policy'], check: oneCertificate }],
  make: makeTargets,
  clearable: ['certificate', 'certificate_management_policy']
})

/** A certificate is either uploaded or managed: the last one given replaces the other. */
function oneCertificate(view: RuleView): void {
  const { body, given, before, report } = view
  const managed = given.has('certificate_management_policy') && body.certificate_management_policy !== null
  const wasManaged = before !== undefined && before.certificate_management_policy !== null
  const automatic = wasManaged ? before.certificate : null
  // The automatic certificate stays in use if its policy is written again, also with its id beside it.
  const uploaded = given.has('certificate') && body.certificate !== null && !(managed && body.certificate === automatic)
  if (uploaded && managed) {
    const message = 'cannot stand beside certificate_management_policy: a certificate is uploaded or managed'
    report('certificate', 'CONFLICTING_FIELDS', message)
    return
  }
  const detached = given.has('certificate') && body.certificate === null && before?.certificate !== null
  if (wasManaged && detached && body.certificate_management_policy !== null && !managed) {
    report('certificate', 'CONFLICTING_FIELDS', 'is managed: removing certificate_management_policy removes it')
    return
  }
  if (uploaded) body.certificate_management_policy = null
  if (managed) body.certificate = automatic
  settleManagement(view)
}

async function makeTargets({ body, before, makers, report }: MakeView): Promise<void> {
  const domain = body.domain as string
  const { certificate, certificate_management_policy: policy } = body
  if (typeof certificate === 'string' && policy === null && certificate !== before?.certificate) {
    const problem = await unfit(certificate, domain, makers)
    if (problem !== undefined) report('certificate_id', 'FIELD_INVALID', problem)
  }
  const ours = domain === makers.zone || domain.endsWith(`.${makers.zone}`)
  if (ours && body.certificate_management_policy !== null) {
    report('certificate_management_policy', 'FIELD_INVALID', 'is not possible below a zone of the service')
  }
  if (before !== undefined || ours) return
  body.cname_target = target('cname', makers)
  if (domain.startsWith('*.')) body.acme_challenge_cname_target = target('acme', makers)
}

/** Returns an unguessable name in the zone, so that no other user can claim a dangling DNS record. */
function target(kind: string, { random, zone }: Makers): string {
  const label = () => Buffer.from(random(10)).toString('hex')
  return `${label()}.${label()}.${kind}.${zone}`
}

const NAMES = Type.Array(Type.String({ description: 'A name.' }))
const SERVERS = ['ns1', 'ns2'] as const

/** Returns the agent addresses below a domain, one for each region. */
export function agentHosts(domain: string, regions: readonly string[]): string[] {
  return regions.map((region) => `tunnel.${region}.${domain}`)
}

/** Custom addresses for agents to connect to. */
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
  // The zone may have changed since the ingress was created.
  if (before !== undefined) return
  const domain = body.domain as string
  if (domain === zone || domain.endsWith(`.${zone}`)) {
    report('domain', 'FIELD_INVALID', 'must be a domain of the account, not of the service')
  }
}

const domainKey = (id: string) => `domain:${id}`

/** Units of uploaded and managed certificates. */
export const tlsCertificates = planned(
  tlsCertificate,
  (id) => [certificateKey(id)],
  (one) => {
    const { id, body } = one.record
    // A certificate for client authentication alone is sent to upstreams, never served for its name.
    const uses = body.extended_key_usages
    const serves = uses.length === 0 || uses.includes('serverAuth') || uses.includes('anyExtendedKeyUsage')
    const { dns_names: dnsNames, ips } = body.subject_alternative_names
    const names = serves ? [...dnsNames.map((name) => name.toLowerCase()), ...ips.map(canonicalAddress)] : []
    const privateKey = secretAt(one, 'private_key_pem')
    const chain = body.certificate_pem
    const { not_before: notBefore, not_after: notAfter, private_key_type: keyType } = body
    const about = { chain, privateKey, names, notBefore, notAfter, keyType }
    return [[certificateKey(id), { kind: 'certificate', id, ...about }]]
  }
)

/** Units of domains with references to their certificates. */
export const reservedDomains = planned(
  reservedDomain,
  (id) => [domainKey(id)],
  ({ record: { id, body } }) => {
    const certificate = body.certificate === null ? {} : { certificate: certificateKey(body.certificate) }
    return [[domainKey(id), { kind: 'domain', name: body.domain, ...certificate }]]
  }
)

/** Units of authorities of client certificates. */
export const certificateAuthorities = planned(
  certificateAuthority,
  (id) => [authorityKey(id)],
  ({ record: { id, body } }) => [[authorityKey(id), authorityUnit(body)]]
)

function authorityUnit({
  ca_pem: pem,
  crl_pem,
  revoked_serial_numbers
}: RecordOf<typeof certificateAuthority>['body']): Unit {
  // Records of older versions have no lists.
  const listed = (crl_pem ?? '') !== ''
  return { kind: 'authority', pem, ...(listed ? { revoked: revoked_serial_numbers } : {}) }
}
