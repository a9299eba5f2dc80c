import type { Flow } from '../../flow/flow.js'
import { type Certificate, NAME_ATTRIBUTES, type Name, parseCertificate } from './certificate.js'
import type { VariableDefinition } from './definition.js'
import { derive } from './message.js'

type Read = (flow: Flow) => Certificate | undefined

/** The certificate that the client showed; parsed at the first need. */
function clientCertificate(flow: Flow): Certificate | undefined {
  const der = flow.connection.tls?.clientCertificate
  return der === undefined ? undefined : derive(flow, 'expression.conn.tls.client', der, parseCertificate)
}

/** The certificate that the client was shown. */
function serverCertificate(flow: Flow): Certificate | undefined {
  const der = flow.connection.tls?.serverCertificate
  return der === undefined ? undefined : derive(flow, 'expression.conn.tls.server', der, parseCertificate)
}

function nameLines(root: string, name: (flow: Flow) => Name | undefined): VariableDefinition[] {
  return [
    { path: root, type: 'string', read: (flow) => name(flow)?.text ?? '' },
    { path: `${root}.common_name`, type: 'string', read: (flow) => name(flow)?.commonName ?? '' },
    ...Object.entries(NAME_ATTRIBUTES).map(
      ([field, attribute]): VariableDefinition => ({
        path: `${root}.${field}`,
        type: 'list<string>',
        read: (flow) => name(flow)?.values[attribute] ?? []
      })
    )
  ]
}

function certificateLines(root: string, read: Read): VariableDefinition[] {
  return [
    { path: `${root}.extensions`, type: 'list<map<string, dyn>>', read: (flow) => read(flow)?.extensions ?? [] },
    ...nameLines(`${root}.issuer`, (flow) => read(flow)?.issuer),
    ...nameLines(`${root}.subject`, (flow) => read(flow)?.subject),
    { path: `${root}.san`, type: 'string', read: (flow) => read(flow)?.san ?? '' },
    { path: `${root}.san.dns_names`, type: 'list<string>', read: (flow) => read(flow)?.dnsNames ?? [] },
    { path: `${root}.san.email_addresses`, type: 'list<string>', read: (flow) => read(flow)?.emailAddresses ?? [] },
    { path: `${root}.san.ip_addresses`, type: 'list<string>', read: (flow) => read(flow)?.ipAddresses ?? [] },
    { path: `${root}.san.uris`, type: 'list<string>', read: (flow) => read(flow)?.uris ?? [] },
    { path: `${root}.serial_number`, type: 'string', read: (flow) => read(flow)?.serialNumber ?? '' },
    { path: `${root}.signature_algorithm`, type: 'string', read: (flow) => read(flow)?.signatureAlgorithm ?? '' },
    { path: `${root}.validity.not_before`, type: 'timestamp', optional: true, read: (flow) => read(flow)?.notBefore },
    { path: `${root}.validity.not_after`, type: 'timestamp', optional: true, read: (flow) => read(flow)?.notAfter }
  ]
}

/** `conn.tls.*`: empty on connections without TLS. */
export const tlsVariables: readonly VariableDefinition[] = [
  { path: 'conn.tls.cipher_suite', type: 'string', read: ({ connection }) => connection.tls?.cipher ?? '' },
  { path: 'conn.tls.ja4_fingerprint', type: 'string', missing: 'the bytes of the ClientHello', read: () => '' },
  { path: 'conn.tls.negotiated_alpn', type: 'string', read: ({ connection }) => connection.tls?.alpn ?? '' },
  { path: 'conn.tls.session_resumed', type: 'bool', read: ({ connection }) => connection.tls?.resumed ?? false },
  { path: 'conn.tls.sni', type: 'string', read: ({ connection }) => connection.tls?.sni ?? '' },
  { path: 'conn.tls.version', type: 'string', read: ({ connection }) => versionText(connection.tls?.version) },
  { path: 'conn.tls.client.pem', type: 'string', read: (flow) => clientCertificate(flow)?.pem ?? '' },
  ...certificateLines('conn.tls.client', clientCertificate),
  ...certificateLines('conn.tls.server', serverCertificate)
]

/** `1.3` for `TLSv1.3`. */
function versionText(version: string | undefined): string {
  return version?.replace(/^TLSv/, '') ?? ''
}
