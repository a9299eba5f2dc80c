import { certificateAuthority } from '../../resources/certificate-authority.js'
import { reservedDomain } from '../../resources/reserved-domain.js'
import { tlsCertificate } from '../../resources/tls-certificate.js'
import { authorityKey, certificateKey, planned, secretAt } from './planned.js'

const domainKey = (id: string) => `domain:${id}`

export const tlsCertificates = planned(
  tlsCertificate,
  (id) => [certificateKey(id)],
  (one) => {
    const { id, body } = one.record
    const names = body.subject_alternative_names.dns_names.map((name) => name.toLowerCase())
    const privateKey = secretAt(one, 'private_key_pem')
    const chain = body.certificate_pem
    return [[certificateKey(id), { kind: 'certificate', id, chain, privateKey, names, notAfter: body.not_after }]]
  }
)

export const reservedDomains = planned(
  reservedDomain,
  (id) => [domainKey(id)],
  ({ record: { id, body } }) => {
    const certificate = body.certificate === null ? {} : { certificate: certificateKey(body.certificate) }
    return [[domainKey(id), { kind: 'domain', name: body.domain, ...certificate }]]
  }
)

export const certificateAuthorities = planned(
  certificateAuthority,
  (id) => [authorityKey(id)],
  ({ record: { id, body } }) => [[authorityKey(id), { kind: 'authority', pem: body.ca_pem }]]
)
