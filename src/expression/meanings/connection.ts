/** Descriptions of connection variables, by path. */
const CONNECTION: Readonly<Record<string, string>> = {
  'conn.bytes_in': 'Bytes that came from the client on this connection.',
  'conn.bytes_out': 'Bytes that went to the client on this connection.',
  'conn.client_ip': 'Address of the client; behind trusted proxies the one that they vouch for.',
  'conn.client_port': 'Port of the client.',
  'conn.k8s.pod.id': 'Id of the pod.',
  'conn.k8s.pod.metadata.annotations': 'Annotations of the pod.',
  'conn.k8s.pod.metadata.error_code': 'Why the pod is not known.',
  'conn.k8s.pod.metadata.error_message': 'The same for people.',
  'conn.k8s.pod.metadata.name': 'Name of the pod.',
  'conn.k8s.pod.metadata.namespace': 'Namespace of the pod.',
  'conn.server_ip': 'Address that the connection came to.',
  'conn.server_port': 'Port that the connection came to.',
  'conn.server_region': 'Region of this process, by the option region.',
  'conn.tls.cipher_suite': 'Cipher suite of the connection; empty without TLS.',
  'conn.tls.client.pem': 'The certificate that the client showed, as PEM; empty without one.',
  'conn.tls.ja4_fingerprint': 'JA4 fingerprint of the ClientHello.',
  'conn.tls.negotiated_alpn': 'Protocol that was agreed on in the handshake (RFC 7301).',
  'conn.tls.session_resumed': 'Did the handshake resume a session?',
  'conn.tls.sni': 'Name that the client gave in its handshake (RFC 6066 section 3).',
  'conn.tls.version': 'Version of TLS, 1.2 or 1.3; empty without TLS.',
  'conn.ts.start': 'When the connection was accepted.'
}

const PLACE: Readonly<Record<string, string>> = {
  city: 'City',
  continent: 'Continent',
  country: 'Country',
  country_code: 'Country, by its code of two letters (ISO 3166-1),',
  latitude: 'Latitude',
  longitude: 'Longitude',
  metro_code: 'Metropolitan area (of the United States)',
  postal_code: 'Postal code',
  radius: 'Kilometres around the coordinates',
  subdivision: 'State or province',
  timezone: 'Time zone, by its name in the IANA database,'
}

const ADDRESS: Readonly<Record<string, string>> = {
  categories: 'Categories of the address.',
  is_on_blocklist: 'Is the address on a blocklist?',
  is_tor_node: 'Is the address one of a Tor node?',
  'as.number': 'Number of the autonomous system that announces the address.',
  'as.organization': 'Who runs that autonomous system.'
}

const NAME: Readonly<Record<string, string>> = {
  common_name: 'Common name',
  country: 'Countries',
  locality: 'Localities',
  organization: 'Organizations',
  organizational_unit: 'Organizational units',
  postal_code: 'Postal codes',
  province: 'States or provinces',
  street_address: 'Street addresses'
}

const CERTIFICATE: Readonly<Record<string, string>> = {
  extensions: 'Extensions of the certificate: id, critical and value of each.',
  issuer: 'Name of the issuer as text.',
  san: 'Alternative names as text.',
  'san.dns_names': 'Alternative names that are DNS names.',
  'san.email_addresses': 'Alternative names that are e-mail addresses.',
  'san.ip_addresses': 'Alternative names that are IP addresses.',
  'san.uris': 'Alternative names that are URIs.',
  serial_number: 'Serial number, hexadecimal.',
  signature_algorithm: 'Algorithm of the signature.',
  subject: 'Name of the subject as text.',
  'validity.not_after': 'When the certificate ends.',
  'validity.not_before': 'When the certificate begins.'
}

const LOCATED = /^conn\.(?:(?:client|server)_ip\.)?geo\.(?:(registered_location|location)\.)?(\w+)$/
const OF_ADDRESS = /^conn\.(?:client|server)_ip\.(.+)$/
const OF_CERTIFICATE = /^conn\.tls\.(?:client|server)\.(.+)$/

/** Returns the description of a `conn` variable; undefined if there is none with this path. */
export function meaningOfConnection(path: string): string | undefined {
  const own = CONNECTION[path]
  if (own !== undefined) return own
  const [located, registered, member = ''] = LOCATED.exec(path) ?? []
  if (located !== undefined) {
    const place = PLACE[member]
    const where =
      registered === 'registered_location' ? 'where the network of the address is registered' : 'of the address'
    if (member === 'is_eu') return `Is the country ${where} one of the European Union?`
    return place === undefined ? undefined : `${place} ${where}.`
  }
  const ofAddress = OF_ADDRESS.exec(path)?.[1]
  if (ofAddress !== undefined) return ADDRESS[ofAddress]
  const ofCertificate = OF_CERTIFICATE.exec(path)?.[1]
  return ofCertificate === undefined ? undefined : certificateMeaning(ofCertificate)
}

/** Returns the description of a certificate member such as `subject.common_name`; undefined if there is none. */
export function certificateMeaning(member: string): string | undefined {
  const own = CERTIFICATE[member]
  if (own !== undefined) return own
  const [side = '', attribute = ''] = member.split('.')
  const name = NAME[attribute]
  return name === undefined || !['issuer', 'subject'].includes(side) ? undefined : `${name} of the ${side}.`
}
