import Type from 'typebox'
import type { Field, Json } from './field.js'
import { choice, kept } from './fields.js'
import { type ObjectOf, object } from './objects.js'

/** The automated authorities that certificates may come from. */
export const ACME_AUTHORITIES = ['letsencrypt'] as const

const policyFields = (keyType: 'rsa' | 'ecdsa') => ({
  authority: choice(ACME_AUTHORITIES, { description: 'The authority that issues.', required: true }),
  private_key_type: choice(['rsa', 'ecdsa'], { description: 'Type of the private key.', default: keyType })
})

/** Automatic management of certificates; null when it is off. `keyType` is the default. */
export function managementPolicy(keyType: 'rsa' | 'ecdsa'): Field<ObjectOf<ReturnType<typeof policyFields>>> {
  return object(policyFields(keyType), { description: 'Automatic management of the certificate; null: none.' })
}

const orNull = (description: string) => Type.Union([Type.String(), Type.Null()], { description })

/** Written by whatever requests the certificates. */
export function managementStatus(): Field<Json> {
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
  return kept<Json>(schema, null, 'What automatic management does; null: it is off or has not started.')
}
