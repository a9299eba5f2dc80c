import { isIP } from 'node:net'
import { isInternal } from '../flow/flow.js'
import { normalPath } from '../flow/target.js'
import { compilePathPattern, readCacheControl } from '../lib/cache-control.js'
import {
  bracketed,
  type Formed,
  formatAuthority,
  formed,
  readDomain,
  readHostname,
  readHostPattern,
  refuse
} from '../lib/host.js'
import { formatAddress, parseAddress, parseCidr } from '../lib/ip.js'
import { compileRegex } from '../lib/regex.js'

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what a field value must not hold.
const HEADER_VALUE = /^(?![ \t])[^\x00-\x08\x0a-\x1f\x7f]*(?<![ \t])$/

/** Forms of text fields. Each reader returns the normal form, or a phrase that describes the allowed texts. */
export const FORMS = {
  cidr: readNetwork,
  domain: readDomain,
  hostport: readHostport,
  endpoint_url: readEndpointUrl,
  address: readAddress,
  upstream_address: readUpstreamAddress,
  acl_rule: (text) => readAclRule(text, readAddress),
  label: (text) => (text === '' || text.includes('=') ? refuse('must not be empty or hold "="') : bounded(text, 255)),
  name: matching(/^[A-Za-z0-9_/.-]+$/, 'may have letters, digits and _ / . - only'),
  header_name: (text) =>
    /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}$/.test(text)
      ? formed(text.toLowerCase())
      : refuse('must be a header name (RFC 9110 5.1) of at most 256 characters'),
  header_value: matching(HEADER_VALUE, 'must be a header value (RFC 9110 5.5)'),
  secret_value: readSecretValue,
  regex: (text) => {
    const compiled = compileRegex(text)
    return compiled.ok ? formed(text) : refuse(`must be a regular expression: ${compiled.message}`)
  },
  path: readPath,
  path_prefix: readPathPrefix,
  // The look-ahead keeps the search for the last dot linear.
  email: lowerCase(/^[^\s@A-Z]+@(?=[^\s@A-Z]+$).+\..+$/, 'must be an email address in lower case'),
  email_domain: lowerCase(/^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z0-9-]+$/, 'must be a domain in lower case'),
  team: matching(/^(\d+|[\w.-]+\/[\w.-]+)$/, 'must be <organization>/<team> or the number of a team'),
  slug: matching(/^[\w.-]+$/, 'may have letters, digits and _ . - only'),
  cookie_prefix: matching(/^[A-Za-z0-9.]*$/, 'may have letters, digits and dots only'),
  old_region: matching(/^(au|eu|ap|us|jp|in|sa|)$/, 'must be one of au, eu, ap, us, jp, in and sa, or be left out'),
  timestamp: readTimestamp,
  url: (text) => {
    const fits = URL.canParse(text) && /^https?:\/\//.test(text)
    return fits ? formed(text) : refuse('must be a URL with http or https')
  },
  arn: matching(/^arn:[\w-]+:[\w-]+:[\w-]*:\d*:.+$/, 'must be an ARN'),
  ssh_principal: matching(/^[^\s,]+$/, 'must not hold blanks or commas'),
  file_pattern: (text) =>
    compilePathPattern(text) === undefined
      ? refuse('must be a pattern such as *.{js,css} or /assets/**, with at most 4 wildcards')
      : formed(text),
  cache_control: (text) =>
    readCacheControl(text) === undefined
      ? refuse('must be a duration or directives of Cache-Control, such as "1y immutable" or "no-cache"')
      : formed(text),
  file_name: matching(/^(?!\.)[^/\\]+$/, 'must be the name of a file, without a slash or a dot at its beginning'),
  file_path: (text) =>
    text === '' || text.startsWith('/') ? formed(text) : refuse('must be a path that begins with a slash'),
  file_coding: matching(/^(zst|br|gz)$/, 'must be zst, br or gz'),
  absolute_path: (text) => (text.startsWith('/') ? formed(text) : refuse('must be an absolute path'))
} as const satisfies Record<string, (text: string) => Formed>

export type FormName = keyof typeof FORMS

function matching(pattern: RegExp, allowed: string): (text: string) => Formed {
  return (text) => (pattern.test(text) ? formed(text) : refuse(allowed))
}

function lowerCase(pattern: RegExp, allowed: string): (text: string) => Formed {
  return (text) => (text === text.toLowerCase() && pattern.test(text) ? formed(text) : refuse(allowed))
}

/** Requests arrive in the strict form, or in the lenient form for paths that only a lenient entry accepts. */
function readPath(text: string): Formed {
  const strict = normalPath(text, 'strict')
  const normal = 'path' in strict ? strict : normalPath(text, 'lenient')
  if ('path' in normal) return formed(normal.path)
  if (!text.startsWith('/')) return refuse('must start with "/"')
  return refuse('must be a path alone: no "?" and no "#", and each "%" begins an escape of two hexadecimal digits')
}

/** Prefix of each request's path: strict form, without a trailing slash. */
function readPathPrefix(text: string): Formed {
  const normal = text === '' ? { path: '' } : normalPath(text, 'strict')
  return 'path' in normal
    ? formed(normal.path.replace(/\/$/, ''))
    : refuse('must begin with "/" and be a path alone, without "?" and "#"')
}

/** A secret of several lines is a document such as a PEM key; a single line must be valid in a header field. */
function readSecretValue(text: string): Formed {
  const isDocument = /[\r\n]/.test(text.replace(/\r?\n$/, ''))
  if (isDocument || HEADER_VALUE.test(text)) return formed(text)
  return refuse('must be a header value (RFC 9110 5.5): without a line end, blanks at either end or control characters')
}

/** Returns why no request in the strict path form can match; undefined if requests can, or if the text is not a path. */
export function refusalOfMatch(match: string): string | undefined {
  if ('path' in normalPath(match, 'strict') || !('path' in normalPath(match, 'lenient'))) return undefined
  return 'is refused in every request, because path_form is strict there; write path_form: lenient for the edge, or another path'
}

function bounded(text: string, bytes: number): Formed {
  return Buffer.byteLength(text) <= bytes ? formed(text) : refuse(`must not be longer than ${bytes} bytes`)
}

/** An address alone is a network of one address. Host bits behind the mask must be zero, because they are usually a mistake. */
function readNetwork(text: string): Formed {
  const trimmed = text.trim()
  const cidr = parseCidr(trimmed)
  if (cidr === undefined)
    return refuse('must be an IPv4 or IPv6 network such as 192.0.2.0/24 or 2001:db8::/32, or an address')
  const slash = trimmed.indexOf('/')
  if (slash === -1) return formed(cidr.text)
  const address = parseAddress(trimmed.slice(0, slash))
  if (address === undefined || formatAddress(address) !== formatAddress(cidr.network)) {
    return refuse(`has bits set behind the mask; did you mean ${cidr.text}?`)
  }
  return formed(cidr.text)
}

const HOSTPORT = /^(?:\[([^\]]*)\]|([^:[\]]*)):(\d{1,5})$/

function readHostport(text: string): Formed {
  const [, literal, name, digits] = HOSTPORT.exec(text.trim()) ?? []
  const port = Number(digits)
  if (digits === undefined || port < 1 || port > 65_535 || digits.startsWith('0')) {
    return refuse('must be host:port with a port from 1 to 65535')
  }
  const ip = literal ?? (isIP(name ?? '') === 4 ? name : undefined)
  if (ip !== undefined) {
    const address = literal !== undefined && isIP(literal) !== 6 ? undefined : parseAddress(ip)
    return address === undefined
      ? refuse('must be host:port; only an IPv6 address has brackets')
      : formed(formatAuthority(formatAddress(address), port))
  }
  const host = readHostPattern(name ?? '')
  return host.ok ? formed(`${host.text}:${port}`) : host
}

const ENDPOINT_URL = /^([a-z][a-z0-9+.-]*):\/\/([^/?#]*)\/?$/i
/** Protocols of endpoints with the ports that their URLs omit; 0: none. */
const ENDPOINT_PORTS: ReadonlyMap<string, number> = new Map([
  ['http', 80],
  ['https', 443],
  ['tls', 443],
  ['tcp', 0]
])

/** Place of an endpoint. An IPv6 host has no brackets. */
interface EndpointUrl {
  readonly ok: true
  readonly proto: string
  readonly host: string
  readonly port: number
  /** Do only policies lead to the host? */
  readonly internal: boolean
}

type Refused = Extract<Formed, { readonly ok: false }>

/** Reads the URL of an endpoint: protocol, host and port, whose host may have a star as that of an edge. */
export function parseEndpointUrl(text: string): EndpointUrl | Refused {
  const [, scheme = '', authority = ''] = ENDPOINT_URL.exec(text.trim()) ?? []
  const proto = scheme.toLowerCase()
  const usual = ENDPOINT_PORTS.get(proto)
  if (usual === undefined) return refuse('must be a URL with http, https, tls or tcp and a host, without a path')
  const hasPort = /:\d*$/.test(authority)
  if (!hasPort && usual === 0) return refuse('must have a port: ports are not chosen for tcp')
  const read = readHostport(hasPort ? authority : `${authority}:${usual}`)
  if (!read.ok) return refuse(`${read.refused} behind ${proto}://`)
  const colon = read.text.lastIndexOf(':')
  const host = read.text.slice(0, colon).replace(/^\[|\]$/g, '')
  return { ok: true, proto, host, port: Number(read.text.slice(colon + 1)), internal: isInternal(host) }
}

/** Writes the URL of an endpoint without the usual port of its protocol. */
export function formatEndpointUrl({ proto, host, port }: Pick<EndpointUrl, 'proto' | 'host' | 'port'>): string {
  return `${proto}://${ENDPOINT_PORTS.get(proto) === port ? bracketed(host) : formatAuthority(host, port)}`
}

function readEndpointUrl(text: string): Formed {
  const read = parseEndpointUrl(text)
  return read.ok ? formed(formatEndpointUrl(read)) : read
}

/**
 * Returns why a TCP edge cannot have a hostport, or undefined if it can. With `passes`, TLS listeners deliver its connections by server
 * name (SNI).
 */
export function refusalOfTcpHost(hostport: string, passes: boolean): string | undefined {
  const host = hostport.slice(0, hostport.lastIndexOf(':'))
  if (!passes && host.includes('*')) return 'must name one host: a wildcard has a meaning only with tls: passthrough'
  return passes && isInternal(host) ? 'must not be internal: no TLS client asks for such a name' : undefined
}

/** Name of a service (RFC 2782). */
const SERVICE = /^_[a-z0-9-]{1,62}\._(?:tcp|udp)(?:\.[a-z0-9_-]{1,63})+$/

/** Path of a Unix domain socket: `sun_path` has 108 bytes including the terminating zero (unix(7)). */
const SOCKET = /^\/[\x21-\x39\x3b-\x7e]{1,106}$/

/**
 * URL of a server at a Unix domain socket, with its scheme, socket and path: nginx's `http://unix:/path` and `unix:///path`; a request path
 * can follow a colon.
 */
export const SOCKET_URL = /^(?:([a-z][a-z0-9+.-]*):\/\/)?unix:(?:\/\/(?=\/))?(\/(?!\/)[^:?#\s]+)(?::(\/[^?#\s]*)?)?$/i

/** Reads host:port, a service name in lower case, or `unix:` with the path of a Unix domain socket. */
function readUpstreamAddress(text: string): Formed {
  const [, socket] = /^\s*unix:(.*?)\s*$/i.exec(text) ?? []
  if (socket !== undefined) {
    return SOCKET.test(socket)
      ? formed(`unix:${socket}`)
      : refuse('must be unix: and an absolute path of at most 107 bytes of visible ASCII without a colon')
  }
  if (!text.trim().startsWith('_') || /:\d+$/.test(text.trim())) return readAddress(text)
  const name = text.trim().toLowerCase().replace(/\.$/, '')
  if (SERVICE.test(name)) return formed(name)
  return refuse('must be host:port, the name of a service such as _http._tcp.web.internal, or unix:/run/app.sock')
}

/** Reads a hostport to connect to or listen on: no wildcard. */
function readAddress(text: string): Formed {
  return text.includes('*') ? refuse('must name one host: a wildcard has no meaning here') : readHostport(text)
}

const RFC3339 =
  /^(\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01]))[Tt]((?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d)(?:\.\d{1,9})?([Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/

/** Converts an RFC 3339 time to whole seconds in UTC. */
function readTimestamp(text: string): Formed {
  const match = RFC3339.exec(text)
  const time = match === null ? Number.NaN : Date.parse(`${match[1]}T${match[2]}${match[3]?.toUpperCase()}`)
  if (match === null || Number.isNaN(time))
    return refuse('must be a time in RFC 3339 format such as 2026-01-02T15:04:05Z')
  const day = new Date(`${match[1]}T00:00:00Z`).toISOString().slice(0, 10)
  if (day !== match[1]) return refuse('must be a day that exists')
  return formed(`${new Date(time).toISOString().slice(0, 19)}Z`)
}

const BIND = 'bind:'
/** Lowest port that agents can open; lower ones belong to the machine's services. */
const FIRST_PORT = 1024
/** Message for an invalid binding target. */
const TARGETS = 'must name a domain, host:port or <key>=<value> after "bind:"'

/**
 * Reads a binding rule of a credential: `*`, or `bind:` with a domain, `*.<domain>` for every name below it, `host:port` or
 * `<key>=<value>`, where each side is literal or `*`. Rejects rules that no agent could ever use. `readAddress` reads host:port.
 */
function readAclRule(text: string, readAddress: (text: string) => Formed): Formed {
  if (text === '*') return formed(text)
  if (!text.startsWith(BIND)) return refuse('must be "*" or "bind:<target>"')
  const target = text.slice(BIND.length)
  const read = target.includes('=') ? readLabel(target) : /:\d+$/.test(target) ? readTcp(target) : readName(target)
  return read.ok ? formed(`${BIND}${read.text}`) : read

  function readTcp(address: string): Formed {
    const found = readAddress(address)
    if (!found.ok) return refuse(`${found.refused} after "bind:"`)
    const colon = found.text.lastIndexOf(':')
    if (isInternal(found.text.slice(0, colon))) return refuse(INTERNAL)
    return Number(found.text.slice(colon + 1)) < FIRST_PORT
      ? refuse(`must name a port from ${FIRST_PORT} on, or the domain alone for http and https`)
      : found
  }
}

const INTERNAL = 'must not name an internal host: agents bind none'

function readLabel(target: string): Formed {
  const equals = target.indexOf('=')
  const sides = [target.slice(0, equals), target.slice(equals + 1)]
  if (sides.some((side) => side === '') || sides[1]?.includes('=')) {
    return refuse('must name a label as <key>=<value>; either may be "*"')
  }
  if (sides.some((side) => side !== '*' && side.includes('*'))) {
    return refuse('may have "*" as the whole key or the whole value of a label only')
  }
  if (sides.some((side) => side !== side.trim()))
    return refuse('must not have blanks around the key or value of a label')
  return formed(target)
}

/** A wildcard may precede a single label: private zones have no more. */
function readName(target: string): Formed {
  if (target.trim() === '*') return refuse(`${TARGETS}; the rule for everything is "*"`)
  const wild = /^\s*\*\.(?!\*)/.exec(target)?.[0]
  const read = wild === undefined ? readDomain(target) : readHostname(target.slice(wild.length))
  if (!read.ok || read.text === '' || /(^|\.)\d+$/.test(read.text)) return refuse(TARGETS)
  if (isInternal(`.${read.text}`)) return refuse(INTERNAL)
  return formed(wild === undefined ? read.text : `*.${read.text}`)
}
