import { X509Certificate } from 'node:crypto'
import Type from 'typebox'
import { MAX_CRL, type Revocations, readRevocations } from '../lib/crl.js'
import { defineErrors } from '../lib/errors.js'
import { timestampText } from '../lib/json.js'
import { checkPrivateKey, MAX_PEM, readChain } from '../lib/x509.js'
import type { FieldCode } from '../schema/errors.js'
import { described, kept, keptText, keptTextOrNull, keptTexts, keptTime, text } from '../schema/fields.js'
import type { RuleView } from '../schema/objects.js'
import { secret } from '../schema/secrets.js'
import { defineResource } from './resource.js'

/** Reasons for rejecting an authority's certificate, in the details of the API. */
export const authorityErrors = defineErrors({
  CERTIFICATE_MANY: {
    text: 'The text holds more than one certificate.',
    help: 'Make one certificate authority of each.'
  },
  CERTIFICATE_NO_AUTHORITY: {
    text: 'The certificate may not sign others.',
    help: 'Give the certificate of the authority that issued it.'
  }
})

/** An uploaded certificate with its private key. */
export const tlsCertificate = defineResource({
  name: 'tls_certificate',
  description: 'A chain of X.509 certificates with the private key of its leaf.',
  path: '/tls_certificates',
  listKey: 'tls_certificates',
  idPrefix: 'cert',
  events: 'tls_certificate',
  fields: {
    ...described,
    certificate_pem: text({
      description: 'Chain of PEM certificates, leaf first.',
      bytes: MAX_PEM,
      required: true,
      fixed: true
    }),
    private_key_pem: secret({
      description: 'Private key of the leaf in PEM, not encrypted.',
      bytes: MAX_PEM,
      required: true,
      fixed: true,
      shown: 'absent'
    }),
    subject_common_name: keptText('Common name of the leaf.'),
    subject_alternative_names: kept<{ readonly dns_names: readonly string[]; readonly ips: readonly string[] }>(
      Type.Object({
        dns_names: Type.Array(Type.String({ description: 'A DNS name.' }), { description: 'Its DNS names.' }),
        ips: Type.Array(Type.String({ description: 'An IP address.' }), { description: 'Its IP addresses.' })
      }),
      { dns_names: [], ips: [] },
      'Names of the leaf.'
    ),
    issued_at: keptTextOrNull('When it was issued automatically; null when it was uploaded.'),
    not_before: keptTime('Start of its validity.'),
    not_after: keptTime('End of its validity.'),
    key_usages: keptTexts('What the key may do (RFC 5280 4.2.1.3).', 'A usage.'),
    extended_key_usages: keptTexts('What the key may be used for (RFC 5280 4.2.1.12).', 'A usage.'),
    private_key_type: keptText('rsa, ecdsa or ed25519.'),
    issuer_common_name: keptText('Common name of the issuer.'),
    serial_number: keptText('Serial number in hexadecimal digits.'),
    subject_organization: keptText('Organization of the subject.'),
    subject_organizational_unit: keptText('Organizational unit of the subject.'),
    subject_locality: keptText('Locality of the subject.'),
    subject_province: keptText('Province of the subject.'),
    subject_country: keptText('Country of the subject.')
  },
  rules: [{ on: ['certificate_pem', 'private_key_pem'], check: readCertificate }]
})

function readCertificate({ body, given, secret: clear, report }: RuleView): void {
  if (!given.has('certificate_pem')) return
  const chain = readChain(body.certificate_pem as string)
  if (!chain.ok) {
    report('certificate_pem', codeFor(chain.code), chain.message, { reason: chain.code })
    return
  }
  const refusal = checkPrivateKey(clear('private_key_pem') ?? '', chain.certificates)
  if (refusal !== undefined) {
    report('private_key_pem', codeFor(refusal.code), refusal.message, { reason: refusal.code })
    return
  }
  const { leaf } = chain
  Object.assign(body, {
    subject_common_name: leaf.commonName,
    subject_alternative_names: { dns_names: leaf.dnsNames, ips: leaf.ips },
    not_before: timestampText(leaf.notBefore),
    not_after: timestampText(leaf.notAfter),
    key_usages: leaf.keyUsages,
    extended_key_usages: leaf.extendedKeyUsages,
    private_key_type: leaf.keyType,
    issuer_common_name: leaf.issuerCommonName,
    serial_number: leaf.serialNumber,
    subject_organization: leaf.organization,
    subject_organizational_unit: leaf.organizationalUnit,
    subject_locality: leaf.locality,
    subject_province: leaf.province,
    subject_country: leaf.country
  })
}

/** Returns the request error code for a PEM error. */
function codeFor(code: string): FieldCode {
  return code === 'TOO_LONG' ? code : 'FIELD_INVALID'
}

/** Authority for checking client certificates. */
export const certificateAuthority = defineResource({
  name: 'certificate_authority',
  description: 'The certificate of an authority whose client certificates are trusted.',
  path: '/certificate_authorities',
  listKey: 'certificate_authorities',
  idPrefix: 'ca',
  events: 'certificate_authority',
  fields: {
    ...described,
    ca_pem: text({ description: 'One PEM certificate of an authority.', bytes: MAX_PEM, required: true, fixed: true }),
    subject_common_name: keptText('Common name of the authority.'),
    not_before: keptTime('Start of its validity.'),
    not_after: keptTime('End of its validity.'),
    key_usages: keptTexts('What the key may do (RFC 5280 4.2.1.3).', 'A usage.'),
    extended_key_usages: keptTexts('What the key may be used for (RFC 5280 4.2.1.12).', 'A usage.'),
    crl_pem: text({
      description:
        'An extension of Sluice: certificate revocation lists of the authority (RFC 5280 5), one X509 CRL block of PEM each. ' +
        'Clients with a certificate that is on one are refused from their next handshake on; empty: none is looked up.',
      bytes: MAX_CRL
    }),
    revoked_serial_numbers: keptTexts(
      'Serial numbers on the revocation lists, in hexadecimal digits.',
      'A serial number.'
    ),
    crl_next_update: keptTextOrNull(
      'When the first of the revocation lists is to be replaced; after that it is used on. Null: it does not say.'
    )
  },
  rules: [
    { on: ['ca_pem'], check: readAuthority },
    { on: ['ca_pem', 'crl_pem'], check: readLists }
  ]
})

function readAuthority({ body, given, report }: RuleView): void {
  if (!given.has('ca_pem')) return
  const chain = readChain(body.ca_pem as string)
  if (!chain.ok) {
    report('ca_pem', codeFor(chain.code), chain.message, { reason: chain.code })
    return
  }
  const { certificates, leaf } = chain
  if (certificates.length > 1) {
    report('ca_pem', 'FIELD_INVALID', 'must hold one certificate', { reason: authorityErrors.CERTIFICATE_MANY.code })
    return
  }
  if (!leaf.isAuthority) {
    const message = 'must be the certificate of an authority (Basic Constraints)'
    report('ca_pem', 'FIELD_INVALID', message, { reason: authorityErrors.CERTIFICATE_NO_AUTHORITY.code })
    return
  }
  Object.assign(body, {
    subject_common_name: leaf.commonName,
    not_before: timestampText(leaf.notBefore),
    not_after: timestampText(leaf.notAfter),
    key_usages: leaf.keyUsages,
    extended_key_usages: leaf.extendedKeyUsages
  })
}

function readLists({ body, given, report }: RuleView): void {
  if (!given.has('crl_pem')) return
  const pem = body.crl_pem as string
  const read = pem === '' ? NO_LISTS : readRevocations(pem, new X509Certificate(body.ca_pem as string))
  if (!read.ok) {
    report('crl_pem', codeFor(read.code), read.message, { reason: read.code })
    return
  }
  Object.assign(body, {
    revoked_serial_numbers: read.serials,
    crl_next_update: read.nextUpdate === undefined ? null : timestampText(read.nextUpdate)
  })
}

const NO_LISTS: Revocations = { ok: true, serials: [], nextUpdate: undefined }
