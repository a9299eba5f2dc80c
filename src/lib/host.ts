import { isIP } from 'node:net'
import { domainToASCII, domainToUnicode } from 'node:url'
import { formatAddress, parseAddress } from './ip.js'

/**
 * Host and port of an authority (RFC 3986 3.2, without userinfo), normalized for comparison: `host` is in lower case, a name without a
 * trailing dot, an IPv6 literal without brackets (RFC 5952).
 */
export interface Authority {
  readonly host: string
  readonly port: number | undefined
  /** Host and port as text; an IPv6 literal with brackets. */
  readonly text: string
}

/** Maximum length of a host name in octets, without a trailing dot (RFC 1035 2.3.4). */
const MAX_NAME = 253
/** A label longer than 63 octets. */
const LONG_LABEL = /[^.]{64}/
/** Maximum length of an authority: a name, the trailing dot, `:65535`. */
const MAX_AUTHORITY = MAX_NAME + 1 + 6

/** Returns whether a name is within the limits of the DNS: 253 octets, and 63 per label. */
export function fitsDns(name: string): boolean {
  return name.length <= MAX_NAME && !LONG_LABEL.test(name)
}

const AUTHORITY =
  /^(?:\[([0-9A-Fa-f:.]+)\]|((?:[A-Za-z0-9_~!$&'()*+,;=-]+\.)*[A-Za-z0-9_~!$&'()*+,;=-]+)\.?)(?::([0-9]{0,5}))?$/

/** Cache of the last result: consecutive requests use the same authority. */
let last: { readonly text: string; readonly parts: Authority | undefined } = { text: '', parts: undefined }

/**
 * Parses an authority; returns undefined if it is not a host with an optional port, has an empty label, or has a name longer than the DNS
 * allows, so that label-by-label lookups are bounded.
 */
export function parseAuthority(text: string): Authority | undefined {
  if (text !== last.text) last = { text, parts: read(text) }
  return last.parts
}

function read(text: string): Authority | undefined {
  const match = text.length > MAX_AUTHORITY ? null : AUTHORITY.exec(text)
  if (match === null) return undefined
  const [, literal, name, digits] = match
  if (name !== undefined && !fitsDns(name)) return undefined
  const address = literal === undefined || isIP(literal) !== 6 ? undefined : parseAddress(literal)
  if (literal !== undefined && address === undefined) return undefined
  const port = digits === undefined || digits === '' ? undefined : Number(digits)
  if (port !== undefined && (port < 1 || port > 65_535)) return undefined
  const host = address === undefined ? (name as string).toLowerCase() : formatAddress(address)
  return { host, port, text: port === undefined ? bracketed(host) : formatAuthority(host, port) }
}

/** Default ports of URL schemes. */
const DEFAULT_PORTS = { http: 80, https: 443 } as const

/** Removes the default port of `scheme`. */
export function withoutDefaultPort(parts: Authority, scheme: 'http' | 'https'): Authority {
  if (parts.port !== DEFAULT_PORTS[scheme]) return parts
  return { host: parts.host, port: undefined, text: bracketed(parts.host) }
}

/** Formats a host for use before a port: an IPv6 address has brackets. */
export function bracketed(host: string): string {
  return host.includes(':') ? `[${host}]` : host
}

/** Returns whether clients of other machines can reach this listener address by IPv6. */
export function takesIpv6(host: string): boolean {
  return isIP(host) === 6 && host !== '::1' && !/^::ffff:/i.test(host)
}

/** Formats `host:port` for a URL; an IPv6 host has brackets. */
export function formatAuthority(host: string, port: number): string {
  return `${bracketed(host)}:${port}`
}

/** Returns a listener's URL for clients on this machine, see `reachableAuthority`. */
export function reachableUrl(at: { readonly host: string; readonly port: number; readonly tls?: boolean }): string {
  return `${at.tls === true ? 'https' : 'http'}://${reachableAuthority(at)}`
}

/** Returns a listener's host:port for clients on this machine: loopback for a listener on every interface. */
export function reachableAuthority({ host, port }: { readonly host: string; readonly port: number }): string {
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
  return formatAuthority(reachable, port)
}

/** Result of reading a text. */
export type Formed = { readonly ok: true; readonly text: string } | { readonly ok: false; readonly refused: string }

/** A valid text. */
export const formed = (text: string): Formed => ({ ok: true, text })
/** A rejected text, with the reason for people. */
export const refuse = (refused: string): Extract<Formed, { readonly ok: false }> => ({ ok: false, refused })

const LABEL = /^[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?$/

/**
 * Returns whether `label` (lower case) is valid in a host name: RFC 1123 2.1, and underscores, which Docker services and many private names
 * have.
 */
export function isHostLabel(label: string): boolean {
  return label.length < 64 && LABEL.test(label)
}

/** Returns why public authorities reject a name with an underscore (CA/Browser Forum, Baseline Requirements 7.1.4.2); undefined without one. */
export function whyUncertifiable(name: string): string | undefined {
  return name.includes('_') ? 'has an underscore, and public authorities sign no such name' : undefined
}

/** Reads a host name and converts it to lower case; its labels satisfy `isHostLabel`. A first label `*` stands for any name before the rest. */
export function readHostname(text: string): Formed {
  const name = text.trim().toLowerCase().replace(/\.$/, '')
  if (name.length > MAX_NAME) return refuse('must not be longer than 253 characters')
  const labels = name.split('.')
  const named = labels[0] === '*' && labels.length > 2 ? labels.slice(1) : labels
  for (const label of named) {
    if (label.length > 63) return refuse('must not have a label longer than 63 characters')
    if (label.includes('*')) return refuse('may have "*" as its whole first label only, before at least two more')
    if (!isHostLabel(label))
      return refuse('must be a host name: labels of a-z, 0-9, "_" and inner "-", separated by dots')
    if (label.slice(2, 4) === '--' && !label.startsWith('xn--'))
      return refuse('has a label with "--" that is no xn-- label')
  }
  return formed(name)
}

/** Host of the catch-all edge. */
export const ANY_HOST = '*'

/**
 * Returns the edge hosts that match a name, in order of precedence: the name, then wildcards by the length of the part after the star (for
 * equal length, the one with labels before the star first), and finally `*`.
 */
export function hostPatterns(name: string): string[] {
  const found = [name]
  let before = -1
  for (let dot = name.indexOf('.'); dot !== -1; dot = name.indexOf('.', dot + 1)) {
    const behind = name.slice(dot)
    if (before !== -1) found.push(`${name.slice(0, before)}.*${behind}`)
    found.push(`*${behind}`)
    before = dot
  }
  return [...found, ANY_HOST]
}

/**
 * Reads the host of an edge: a host name, `*`, or a name with one wildcard label, which matches one or more labels at the start and one
 * label elsewhere. Letters beyond ASCII are converted for the DNS (UTS 46).
 */
export function readHostPattern(written: string): Formed {
  const text = written.trim()
  if (text === ANY_HOST) return formed(text)
  const name = /[^ -~]/.test(text) ? domainToASCII(text) : text
  if (name === '' && text !== '') return refuse('is no name that the DNS can have (UTS 46)')
  const star = name.indexOf('*')
  if (star === -1) return readHostname(name)
  const labels = name.replace(/\.$/, '').split('.')
  const at = labels.indexOf('*')
  const behind = labels.slice(at + 1).join('.')
  if (at === -1) {
    const above = name.slice(star).includes('.') ? name.slice(name.indexOf('.', star)) : '.example.com'
    return refuse(`may have "*" as a whole label only; write "*${above}" and let a policy look at req.host`)
  }
  if (behind.includes('*'))
    return refuse(`may have one "*" only; write "*${behind.slice(behind.lastIndexOf('*') + 1)}"`)
  if (labels.length - at < 3)
    return refuse(
      'may have "*" only before at least two labels, or alone for every host; name others one by one under hosts'
    )
  const read = readHostname([...labels.slice(0, at), 'x', ...labels.slice(at + 1)].join('.'))
  if (!read.ok) return read
  const formedLabels = read.text.split('.')
  formedLabels[at] = '*'
  return formed(formedLabels.join('.'))
}

/** Formats a host for people, with its DNS form if different. */
export function shownHost(host: string): string {
  const written = host.includes('xn--') ? domainToUnicode(host) : host
  return written === host || written === '' ? host : `${written} (${host})`
}

/** Reads a host name with at least two labels that is not an IP address. */
export function readDomain(text: string): Formed {
  const read = readHostname(text)
  if (!read.ok) return read
  const labels = read.text.split('.')
  if (labels.length < 2) return refuse('must be fully qualified, such as app.example.com')
  if (/^\d+$/.test(labels.at(-1) ?? '')) return refuse('must be a name, not an address')
  return read
}

/** Returns whether the text is a PostgreSQL URL, rather than a path, without validating it. */
export function isPostgresUrl(text: string): boolean {
  return /^postgres(ql)?:/i.test(text)
}

/** Returns host, port and database of an address, without user and password; undefined for an invalid URL. */
export function postgresName(url: string): string | undefined {
  if (!URL.canParse(url)) return undefined
  const { host, pathname, searchParams } = new URL(url)
  return `postgres://${host || (searchParams.get('host') ?? 'localhost')}${pathname}`
}
