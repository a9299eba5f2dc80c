import Type from 'typebox'
import { defineField, type Field } from './field.js'
import { choice, kept } from './fields.js'
import type { RuleView } from './members.js'
import { type ObjectOf, object } from './objects.js'
import type { Target } from './reference-ids.js'
import { ref } from './references.js'

/** The automated authorities that certificates may come from. */
const ACME_AUTHORITIES = ['letsencrypt'] as const

const policyFields = (keyType: 'rsa' | 'ecdsa') => ({
  authority: choice(ACME_AUTHORITIES, { description: 'The authority that issues.', required: true }),
  private_key_type: choice(['rsa', 'ecdsa'], { description: 'Type of the private key.', default: keyType })
})

/** Automatic management of certificates; null when it is off. `keyType` is the default. */
export function managementPolicy(keyType: 'rsa' | 'ecdsa'): Field<ObjectOf<ReturnType<typeof policyFields>>> {
  return object(policyFields(keyType), { description: 'Automatic management of the certificate; null: none.' })
}

/** What answers a challenge of the authority (RFC 8555 8.3, 8.4). */
export type PendingChallenge =
  | { readonly type: 'http-01'; readonly host: string; readonly token: string; readonly value: string }
  | { readonly type: 'dns-01'; readonly name: string; readonly value: string }

/** What the service itself keeps of a managed certificate; no answer shows it. */
export type CertificateWork = {
  /** URL of the order under way. */
  readonly order: string | null
  readonly challenges: readonly PendingChallenge[]
  /** Attempts that failed since the last success. */
  readonly failures: number
  /** What the certificate in use was asked for; null before the first. */
  readonly issued: {
    readonly names: readonly string[]
    readonly key_type: 'rsa' | 'ecdsa'
    /** Milliseconds since the Unix epoch; records of an older version lack it. */
    readonly validity?: { readonly notBefore: number; readonly notAfter: number }
  } | null
  /** Certificates in a row that were due for renewal when they came. */
  readonly repeats?: number
}

/** What is being requested, as answers show it. */
export type ProvisioningJob = {
  readonly error_code: 'INTERNAL_ERROR' | 'DNS_ERROR' | null
  readonly msg: string
  readonly started_at: string
  readonly retries_at: string | null
}

export type ManagementStatus = {
  readonly renews_at: string | null
  readonly provisioning_job: ProvisioningJob | null
}

/** Path of the sealed key of the certificate that is being requested. */
export const REQUESTED_KEY = 'certificate_work.private_key_pem'

const orNull = (description: string) => Type.Union([Type.String(), Type.Null()], { description })

/** Written by whatever requests the certificates. */
export function managementStatus(): Field<ManagementStatus | null> {
  const job = Type.Object({
    error_code: orNull('INTERNAL_ERROR (temporary) or DNS_ERROR (to be corrected); null: none.'),
    msg: Type.String({ description: 'For people.' }),
    started_at: Type.String({ description: 'RFC 3339.' }),
    retries_at: orNull('RFC 3339.')
  })
  const schema = Type.Object({
    renews_at: orNull('When the next renewal is requested (RFC 3339).'),
    provisioning_job: Type.Union([job, Type.Null()], { description: 'null: nothing is being requested.' })
  })
  return {
    ...kept<ManagementStatus | null>(
      schema,
      null,
      'What automatic management does; null: it is off or has not started.'
    ),
    // A policy that is removed by its own sub-path takes its status with it at once.
    present: (stored, _path, { body }) => (body.certificate_management_policy === null ? null : stored)
  }
}

/** What the service has to remember between the steps of a request. Not null: the certificate in use is an automatic one. */
export function certificateWork(): Field<CertificateWork | null> {
  return defineField<CertificateWork | null>({
    description: 'The request of the certificate under way.',
    initial: null,
    settable: 'never',
    read: () => undefined,
    present: () => null
  })
}

/** The certificate that the service requested, where no answer shows it. */
export function automaticCertificate(target: Target): Field<string | null> {
  const { request: _never, ...hidden } = ref(target, { description: 'The certificate in use.', hidden: true })
  return { ...hidden, settable: 'never', read: () => undefined }
}

/** Settles what a written policy means for what the service keeps: a new one begins anew, one that is gone ends everything. */
export function settleManagement({ body, given, before }: RuleView): void {
  if (body.certificate_management_policy === null) {
    // What was there is the automatic certificate of a policy that was removed, or was uploaded.
    const automatic = before !== undefined && before.certificate_work !== null && before.certificate_work !== undefined
    if (automatic && !given.has('certificate')) body.certificate = null
    Object.assign(body, { certificate_management_status: null, certificate_work: null })
    return
  }
  if (!given.has('certificate_management_policy')) return
  // Whoever writes the policy again has corrected what stopped it: it does not wait for the next attempt.
  const status = body.certificate_management_status as ManagementStatus | null
  const failed = status?.provisioning_job?.error_code ?? null
  if (status === null || failed === null) return
  body.certificate_management_status = status.renews_at === null ? null : { ...status, provisioning_job: null }
  const work = body.certificate_work as CertificateWork | null
  body.certificate_work = work === null ? null : { ...work, failures: 0, order: null, challenges: [] }
}
