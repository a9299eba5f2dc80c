import { readFileSync } from 'node:fs'
import { rootCertificates } from 'node:tls'

/** Where the systems that Node runs on keep the authorities that they trust. */
const BUNDLES = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/ca-bundle.pem',
  '/etc/ssl/cert.pem'
]

/**
 * The certificate authorities that the system trusts, in PEM: the file that `SSL_CERT_FILE` names, else the system's
 * bundle, else those that come with Node. A named file that cannot be read is an error of the system.
 */
export function systemRoots(named = process.env.SSL_CERT_FILE): readonly string[] {
  if (named !== undefined && named !== '') return [readFileSync(named, 'utf8')]
  for (const bundle of BUNDLES) {
    try {
      return [readFileSync(bundle, 'utf8')]
    } catch {
      // Another system: the next place.
    }
  }
  return rootCertificates
}
