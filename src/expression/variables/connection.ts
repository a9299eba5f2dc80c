import { sniOf } from '../../flow/exchange.js'
import { type Flow, flowSlot } from '../../flow/flow.js'
import type { Geo, Place } from '../../lib/geo.js'
import { formatAuthority } from '../../lib/host.js'
import { canonicalAddress } from '../../lib/ip.js'
import type { UserAgents } from '../../lib/user-agent.js'
import { type Certificate, NAME_ATTRIBUTES, type Name, parseCertificate } from './certificate.js'
import { ofInteger, type VariableDefinition } from './definition.js'
import { type Derived, derive, requestOf } from './message.js'

/** The local address; that of an IPv4 connection on an IPv6 socket without its prefix. */
function serverAddress({ connection }: Flow): string {
  return canonicalAddress(connection.local.address)
}

const KUBERNETES = 'a Kubernetes binding'

/** `conn.*` and `conn.k8s.*`. */
export const connVariables: readonly VariableDefinition[] = [
  { path: 'conn.bytes_in', type: 'int', ...ofInteger(({ connection }) => connection.bytesIn) },
  { path: 'conn.bytes_out', type: 'int', ...ofInteger(({ connection }) => connection.bytesOut) },
  { path: 'conn.client_ip', type: 'string', read: (flow) => flow.clientAddress },
  { path: 'conn.client_port', type: 'int', ...ofInteger((flow) => flow.clientPort) },
  { path: 'conn.server_ip', type: 'string', read: serverAddress },
  { path: 'conn.server_port', type: 'int', ...ofInteger(({ connection }) => connection.local.port) },
  { path: 'conn.server_region', type: 'string', read: ({ entry }) => entry.region },
  { path: 'conn.ts.start', type: 'timestamp', read: ({ connection }) => new Date(connection.startedAt) },
  { path: 'conn.k8s.pod.id', type: 'string', missing: KUBERNETES, read: () => '' },
  { path: 'conn.k8s.pod.metadata.name', type: 'string', missing: KUBERNETES, read: () => '' },
  { path: 'conn.k8s.pod.metadata.namespace', type: 'string', missing: KUBERNETES, read: () => '' },
  {
    path: 'conn.k8s.pod.metadata.annotations',
    type: 'map<string, string>',
    missing: KUBERNETES,
    read: () => new Map()
  },
  { path: 'conn.k8s.pod.metadata.error_code', type: 'string', missing: KUBERNETES, read: () => '' },
  { path: 'conn.k8s.pod.metadata.error_message', type: 'string', missing: KUBERNETES, read: () => '' }
]

const DEFAULT_PORTS: Readonly<Record<string, number>> = { http: 80, https: 443, tls: 443 }

/** `endpoint.*`: what serves the traffic. */
export const endpointVariables: readonly VariableDefinition[] = [
  { path: 'endpoint.addr', type: 'string', read: ({ endpoint }) => formatAuthority(endpoint.host, endpoint.port) },
  { path: 'endpoint.host', type: 'string', read: ({ endpoint }) => endpoint.host },
  { path: 'endpoint.id', type: 'string', read: ({ endpoint }) => endpoint.id },
  { path: 'endpoint.port', type: 'int', ...ofInteger(({ endpoint }) => endpoint.port) },
  { path: 'endpoint.protocol', type: 'string', read: ({ endpoint }) => endpoint.protocol },
  {
    path: 'endpoint.url',
    type: 'string',
    read: ({ endpoint: { protocol, host, port } }) => {
      const authority = formatAuthority(host, port)
      const shown = DEFAULT_PORTS[protocol] === port ? authority.slice(0, authority.lastIndexOf(':')) : authority
      return `${protocol}://${shown}`
    }
  }
]

const CITY_DATA = 'a city database (MMDB)'
const COUNTRY_DATA = 'a country database (MMDB)'

/** `conn.geo.*`: where the client is. */
export function geoVariables(geo: Geo): readonly VariableDefinition[] {
  const place = (flow: Flow) => geo.lookup(flow.clientAddress).location
  const city = from(geo, 'city', CITY_DATA)
  const country = from(geo, 'country', COUNTRY_DATA)
  return [
    { path: 'conn.geo.city', type: 'string', ...city, read: (flow) => place(flow).city },
    { path: 'conn.geo.country', type: 'string', ...country, read: (flow) => place(flow).country },
    { path: 'conn.geo.country_code', type: 'string', ...country, read: (flow) => place(flow).countryCode },
    { path: 'conn.geo.latitude', type: 'string', ...city, read: (flow) => place(flow).latitude },
    { path: 'conn.geo.longitude', type: 'string', ...city, read: (flow) => place(flow).longitude },
    { path: 'conn.geo.radius', type: 'string', ...city, read: (flow) => place(flow).radius },
    { path: 'conn.geo.subdivision', type: 'string', ...city, read: (flow) => place(flow).subdivision }
  ]
}

/** `conn.client_ip.*` and `conn.server_ip.*`: what is known about the two addresses. */
export function addressVariables(geo: Geo): readonly VariableDefinition[] {
  return [
    ...intelligence('conn.client_ip', (flow) => flow.clientAddress, geo),
    ...intelligence('conn.server_ip', serverAddress, geo)
  ]
}

function intelligence(root: string, address: (flow: Flow) => string, geo: Geo): VariableDefinition[] {
  const record = (flow: Flow) => geo.lookup(address(flow))
  const as = from(geo, 'as', 'an AS number database (MMDB)')
  const lists = { missing: 'a source of address categories' }
  return [
    { path: `${root}.categories`, type: 'list<string>', ...lists, read: () => [] },
    { path: `${root}.is_on_blocklist`, type: 'bool', ...lists, read: () => false },
    { path: `${root}.is_tor_node`, type: 'bool', ...lists, read: () => false },
    { path: `${root}.as.number`, type: 'int', ...as, ...ofInteger((flow) => record(flow).asNumber) },
    { path: `${root}.as.organization`, type: 'string', ...as, read: (flow) => record(flow).asOrganization },
    ...places(`${root}.geo.location`, (flow) => record(flow).location, geo, false),
    ...places(`${root}.geo.registered_location`, (flow) => record(flow).registered, geo, true)
  ]
}

/** The registered country is in no country-only database; it has no coordinates, post code or city radius. */
function places(root: string, place: (flow: Flow) => Place, geo: Geo, registered: boolean): VariableDefinition[] {
  const city = from(geo, 'city', CITY_DATA)
  const country = registered ? city : from(geo, 'country', COUNTRY_DATA)
  const both: VariableDefinition[] = [
    { path: `${root}.city`, type: 'string', ...city, read: (flow) => place(flow).city },
    { path: `${root}.continent`, type: 'string', ...city, read: (flow) => place(flow).continent },
    { path: `${root}.country`, type: 'string', ...country, read: (flow) => place(flow).country },
    { path: `${root}.country_code`, type: 'string', ...country, read: (flow) => place(flow).countryCode },
    { path: `${root}.is_eu`, type: 'bool', ...country, read: (flow) => place(flow).isEu },
    { path: `${root}.metro_code`, type: 'string', ...city, read: (flow) => place(flow).metroCode },
    { path: `${root}.subdivision`, type: 'string', ...city, read: (flow) => place(flow).subdivision },
    { path: `${root}.timezone`, type: 'string', ...city, read: (flow) => place(flow).timezone }
  ]
  if (registered) return both
  return [
    ...both,
    { path: `${root}.latitude`, type: 'string', ...city, read: (flow) => place(flow).latitude },
    { path: `${root}.longitude`, type: 'string', ...city, read: (flow) => place(flow).longitude },
    { path: `${root}.postal_code`, type: 'string', ...city, read: (flow) => place(flow).postalCode },
    { path: `${root}.radius`, type: 'string', ...city, read: (flow) => place(flow).radius }
  ]
}

/** Returns the data source of a variable. */
function from(geo: Geo, kind: keyof Geo['covers'], data: string): Pick<VariableDefinition, 'prepare' | 'missing'> {
  return geo.covers[kind] ? { prepare: () => geo.prepare() } : { missing: data }
}

const agents = flowSlot<Derived<string, ReturnType<UserAgents['parse']>>>('req.user_agent')

/** `req.user_agent.*`: the header is parsed when a member is read. */
export function userAgentVariables(userAgents: UserAgents): readonly VariableDefinition[] {
  const header = (flow: Flow) => requestOf(flow).headers.get('user-agent') ?? ''
  const agent = (flow: Flow) => derive(flow, agents, header(flow), (text) => userAgents.parse(text))
  const lines: readonly VariableDefinition[] = [
    { path: 'req.user_agent', type: 'string', read: header },
    { path: 'req.user_agent.name', type: 'string', read: (flow) => agent(flow).name },
    { path: 'req.user_agent.version', type: 'string', read: (flow) => agent(flow).version },
    { path: 'req.user_agent.os', type: 'string', read: (flow) => agent(flow).os },
    { path: 'req.user_agent.os_version', type: 'string', read: (flow) => agent(flow).osVersion },
    { path: 'req.user_agent.device', type: 'string', read: (flow) => agent(flow).device },
    { path: 'req.user_agent.url', type: 'string', read: (flow) => agent(flow).url },
    { path: 'req.user_agent.is_mobile', type: 'bool', read: (flow) => agent(flow).isMobile },
    { path: 'req.user_agent.is_tablet', type: 'bool', read: (flow) => agent(flow).isTablet },
    { path: 'req.user_agent.is_desktop', type: 'bool', read: (flow) => agent(flow).isDesktop },
    { path: 'req.user_agent.is_bot', type: 'bool', read: (flow) => agent(flow).isBot }
  ]
  return lines.map((line) => ({ ...line, phases: 'http' }))
}

type Read = (flow: Flow) => Certificate | undefined

const clientCertificates = flowSlot<Derived<Uint8Array, Certificate | undefined>>('conn.tls.client')
const serverCertificates = flowSlot<Derived<Uint8Array, Certificate | undefined>>('conn.tls.server')

/** The certificate that the client showed; parsed at the first need. */
function clientCertificate(flow: Flow): Certificate | undefined {
  const der = flow.connection.tls?.clientCertificate
  return der === undefined ? undefined : derive(flow, clientCertificates, der, parseCertificate)
}

/** The certificate that the client was shown. */
function serverCertificate(flow: Flow): Certificate | undefined {
  const der = flow.connection.tls?.serverCertificate
  return der === undefined ? undefined : derive(flow, serverCertificates, der, parseCertificate)
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

/** `conn.tls.*`: empty on connections without TLS, and but for the name where it is passed on as it comes. */
export const tlsVariables: readonly VariableDefinition[] = [
  { path: 'conn.tls.cipher_suite', type: 'string', read: ({ connection }) => connection.tls?.cipher ?? '' },
  { path: 'conn.tls.ja4_fingerprint', type: 'string', missing: 'the bytes of the ClientHello', read: () => '' },
  { path: 'conn.tls.negotiated_alpn', type: 'string', read: ({ connection }) => connection.tls?.alpn ?? '' },
  { path: 'conn.tls.session_resumed', type: 'bool', read: ({ connection }) => connection.tls?.resumed ?? false },
  { path: 'conn.tls.sni', type: 'string', read: ({ connection }) => sniOf(connection) ?? '' },
  { path: 'conn.tls.version', type: 'string', read: ({ connection }) => versionText(connection.tls?.version) },
  { path: 'conn.tls.client.pem', type: 'string', read: (flow) => clientCertificate(flow)?.pem ?? '' },
  ...certificateLines('conn.tls.client', clientCertificate),
  ...certificateLines('conn.tls.server', serverCertificate)
]

/** `1.3` for `TLSv1.3`. */
function versionText(version: string | undefined): string {
  return version?.replace(/^TLSv/, '') ?? ''
}
