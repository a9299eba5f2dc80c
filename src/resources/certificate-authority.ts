import { timestampText } from '../lib/json.js'
import { MAX_PEM, readChain } from '../lib/x509.js'
import { described, keptText, keptTexts, text } from './fields.js'
import type { RuleView } from './members.js'
import { defineResource } from './resource.js'
import { codeFor } from './tls-certificate.js'

/** An authority that clients' certificates are checked against. */
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
    not_before: keptText('Start of its validity.'),
    not_after: keptText('End of its validity.'),
    key_usages: keptTexts('What the key may do (RFC 5280 4.2.1.3).'),
    extended_key_usages: keptTexts('What the key may be used for (RFC 5280 4.2.1.12).')
  },
  rules: [{ on: ['ca_pem'], check: readAuthority }]
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
    report('ca_pem', 'FIELD_INVALID', 'must hold one certificate', { reason: 'CERTIFICATE_MANY' })
    return
  }
  if (!leaf.isAuthority) {
    const message = 'must be the certificate of an authority (Basic Constraints)'
    report('ca_pem', 'FIELD_INVALID', message, { reason: 'CERTIFICATE_NO_AUTHORITY' })
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
