import Type from 'typebox'
import { unfit } from './certificate-fit.js'
import { certificateWork, managementPolicy, managementStatus, settleManagement } from './certificate-management.js'
import type { Makers } from './field.js'
import { constant, described, keptTextOrNull, text } from './fields.js'
import type { RuleView } from './members.js'
import { ref, withdrawnRef } from './references.js'
import { defineResource, type MakeView } from './resource.js'
import { tlsCertificate } from './tls-certificate.js'

/** A hostname held for the account. */
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
    error_redirect_url: constant(null, 'Not supported; always null.'),
    http_endpoint_configuration: withdrawnRef('Endpoint configurations were withdrawn; always null.'),
    https_endpoint_configuration: withdrawnRef('Endpoint configurations were withdrawn; always null.'),
    is_dev: constant(false, 'Was the domain assigned by the service? Never here.')
  },
  rules: [{ on: ['certificate', 'certificate_management_policy'], check: oneCertificate }],
  make: makeTargets,
  clearable: ['certificate', 'certificate_management_policy']
})

/** A certificate is uploaded or managed: the one that is given last ends the other. */
function oneCertificate(view: RuleView): void {
  const { body, given, before, report } = view
  const uploaded = given.has('certificate') && body.certificate !== null
  const managed = given.has('certificate_management_policy') && body.certificate_management_policy !== null
  const wasManaged = before !== undefined && before.certificate_management_policy !== null
  if (uploaded && managed) {
    const message = 'cannot stand beside certificate_management_policy: a certificate is uploaded or managed'
    report('certificate', 'CONFLICTING_FIELDS', message)
    return
  }
  const detached = given.has('certificate') && body.certificate === null && before?.certificate !== null
  if (wasManaged && detached && body.certificate_management_policy !== null && !managed) {
    const message = 'is managed: removing certificate_management_policy removes it'
    report('certificate', 'CONFLICTING_FIELDS', message)
    return
  }
  if (uploaded) body.certificate_management_policy = null
  // The automatic certificate of a policy that is only written again stays in use.
  if (managed) body.certificate = wasManaged ? before.certificate : null
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

/** A name in the zone that nobody can guess, so that nobody else can claim a dangling record. */
function target(kind: string, { random, zone }: Makers): string {
  const label = () => Buffer.from(random(10)).toString('hex')
  return `${label()}.${label()}.${kind}.${zone}`
}
