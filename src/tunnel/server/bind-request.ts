import type { Refusal } from './authority.js'
import { addressText, readAddress, readHost } from './endpoints.js'
import type { Fields } from './json-object.js'

/** An endpoint as an agent asks for it. */
export interface BindRequest {
  readonly proto: 'http' | 'https' | 'tcp'
  /** Name, or host:port; undefined: one that is made up. */
  readonly at: string | undefined
  readonly proxyProtocol: 0 | 1 | 2
  readonly pooled: boolean
  readonly trafficPolicy: string
  readonly forwardsTo: string
  readonly name: string
  readonly description: string
  readonly metadata: string
  /** What the agent was given before. */
  readonly token: string
  /** As they were sent: agents expect them back. */
  readonly options: Readonly<Record<string, unknown>>
}

/** Options that say what the agent itself does, or where the endpoint is. */
const UNDERSTOOD = new Set([
  'url',
  'domain',
  'hostname',
  'subdomain',
  'addr',
  'localurlscheme',
  'proxyproto',
  'trafficpolicy'
])

const NAMES: Readonly<Record<string, string>> = {
  auth: 'Auth',
  basicauth: 'BasicAuth',
  circuitbreaker: 'CircuitBreaker',
  compression: 'Compression',
  hostheaderrewrite: 'HostHeaderRewrite',
  iprestriction: 'IPRestriction',
  mutualtlsca: 'MutualTLSCA',
  oauth: 'OAuth',
  oidc: 'OIDC',
  policy: 'Policy',
  requestheaders: 'RequestHeaders',
  responseheaders: 'ResponseHeaders',
  useragentfilter: 'UserAgentFilter',
  webhookverification: 'WebhookVerification',
  websockettcpconverter: 'WebsocketTCPConverter'
}

/** Most bytes of what a tunnel keeps of its agent's words; the first three are those of the records of the API. */
const MOST_BYTES = {
  Name: 255,
  Description: 255,
  Metadata: 4096,
  ForwardsTo: 4096,
  TrafficPolicy: 131_072
} as const

/** Refuses, by its name, what is longer than a tunnel may keep. */
export function refuseLong(texts: Readonly<Partial<Record<keyof typeof MOST_BYTES, string>>>): Refusal | undefined {
  for (const [name, text] of Object.entries(texts)) {
    const most = MOST_BYTES[name as keyof typeof MOST_BYTES]
    if (Buffer.byteLength(text) > most) return { refused: `${name} is longer than ${most} bytes` }
  }
  return undefined
}

/** Reads the request of an endpoint; what cannot be done is refused by name, never left out in silence. */
export function readBindRequest(fields: Fields, zone: string): BindRequest | Refusal {
  const proto = fields.text('proto')
  if (proto !== 'http' && proto !== 'https' && proto !== 'tcp') {
    return { refused: `endpoints of protocol "${printable(proto)}" are not offered; http, https and tcp are` }
  }
  const forwards = fields.text('forwardsproto')
  if (forwards !== '' && forwards !== 'http1') {
    return { refused: `"${printable(forwards)}" towards the agent is not offered; http1 is` }
  }
  const extra = fields.object('extra')
  const binding = extra.texts('bindings').find((name) => name !== 'public')
  if (binding !== undefined) return { refused: `binding "${printable(binding)}" is not offered; public is` }
  if (extra.text('ippolicyref') !== '') return { refused: 'IPPolicyRef is not offered; use a traffic policy' }
  const options = fields.object('opts')
  for (const name of options.filled()) {
    if (UNDERSTOOD.has(name)) continue
    return { refused: `the option ${NAMES[name] ?? printable(name)} is not offered; a traffic policy can do it` }
  }
  const version = options.number('proxyproto') ?? 0
  if (version !== 0 && version !== 1 && version !== 2) return { refused: 'ProxyProto must be 0, 1 or 2' }
  const at = proto === 'tcp' ? askedAddress(options) : askedHost(options, zone)
  if (typeof at === 'object') return at
  const trafficPolicy = options.text('trafficpolicy')
  const forwardsTo = fields.text('forwardsto')
  const [name, description, metadata] = [extra.text('name'), extra.text('description'), extra.text('metadata')]
  const long = refuseLong({
    Name: name,
    Description: description,
    Metadata: metadata,
    ForwardsTo: forwardsTo,
    TrafficPolicy: trafficPolicy
  })
  if (long !== undefined) return long
  return {
    proto,
    at,
    proxyProtocol: version,
    pooled: extra.flag('poolingenabled'),
    trafficPolicy,
    forwardsTo,
    name,
    description,
    metadata,
    token: extra.text('token'),
    options: fields.raw('opts')
  }
}

function askedHost(options: Fields, zone: string): string | undefined | Refusal {
  const subdomain = options.text('subdomain')
  const asked =
    options.text('url') ||
    options.text('domain') ||
    options.text('hostname') ||
    (subdomain === '' ? '' : `${subdomain}.${zone}`)
  // Go writes a URL without a host when it wants any.
  if (asked === '' || /^https?:\/\/$/i.test(asked)) return undefined
  return readHost(asked) ?? { refused: `"${printable(asked)}" is no host name` }
}

function askedAddress(options: Fields): string | undefined | Refusal {
  const asked = options.text('url') || options.text('addr')
  if (asked === '' || /^tcp:\/\/$/i.test(asked)) return undefined
  const address = readAddress(asked)
  return address === undefined ? { refused: `"${printable(asked)}" is no host:port` } : addressText(address)
}

/** A peer's text as part of a message of one line. */
function printable(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, '?').slice(0, 100)
}
