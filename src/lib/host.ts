import { isIP } from 'node:net'
import { domainToASCII, domainToUnicode } from 'node:url'
import { formatAddress, parseAddress } from './ip.js'

/**
 * Host and port of an authority (RFC 3986 3.2, without userinfo) in the one form in which hosts are compared: `host` is
 * lower-case, a name without the dot of the root, an IPv6 literal without its brackets (RFC 5952).
 */
export interface Authority {
  readonly host: string
  readonly port: number | undefined
  /** Host and port as one text; an IPv6 literal with its brackets. */
  readonly text: string
}

/** Most octets of a host name and of one of its labels, without the dot of the root (RFC 1035 2.3.4). */
const MAX_NAME = 253
const LONG_LABEL = /[^.]{64}/
/** The longest authority: a name, the dot of the root, `:65535`. */
const MAX_AUTHORITY = MAX_NAME + 1 + 6

/** Returns whether a name is within the limits of the DNS: 253 octets, and 63 for each label. */
export function fitsDns(name: string): boolean {
  return name.length <= MAX_NAME && !LONG_LABEL.test(name)
}

const AUTHORITY =
  /^(?:\[([0-9A-Fa-f:.]+)\]|((?:[A-Za-z0-9_~!$&'()*+,;=-]+\.)*[A-Za-z0-9_~!$&'()*+,;=-]+)\.?)(?::([0-9]{0,5}))?$/

/** What was read last: one request after another names the same authority. */
let last: { readonly text: string; readonly parts: Authority | undefined } = { text: '', parts: undefined }

/**
 * Parts of `text`, or undefined when it is no host with an optional port, has an empty label, or has a name that is longer
 * than the DNS allows, so that lookups label by label are bounded.
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

/** Ports that URLs leave out. */
const DEFAULT_PORTS = { http: 80, https: 443 } as const

/** The parts without the default port of `scheme`. */
export function withoutDefaultPort(parts: Authority, scheme: 'http' | 'https'): Authority {
  if (parts.port !== DEFAULT_PORTS[scheme]) return parts
  return { host: parts.host, port: undefined, text: bracketed(parts.host) }
}

/** A host as it stands before a port: an IPv6 address has brackets. */
export function bracketed(host: string): string {
  return host.includes(':') ? `[${host}]` : host
}

/** Do clients of other machines reach this address of a listener by IPv6? */
export function takesIpv6(host: string): boolean {
  return isIP(host) === 6 && host !== '::1' && !/^::ffff:/i.test(host)
}

/** `host:port` as it stands in a URL; an IPv6 host gets its brackets. */
export function formatAuthority(host: string, port: number): string {
  return `${bracketed(host)}:${port}`
}

/** The URL of a listener for clients on this machine, as for `reachableAuthority`. */
export function reachableUrl(at: { readonly host: string; readonly port: number; readonly tls?: boolean }): string {
  return `${at.tls === true ? 'https' : 'http'}://${reachableAuthority(at)}`
}

/** host:port of a listener for clients on this machine: one that listens on every interface is reached through loopback. */
export function reachableAuthority({ host, port }: { readonly host: string; readonly port: number }): string {
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
  return formatAuthority(reachable, port)
}

/** What a reader of a text made of it. */
export type Formed = { readonly ok: true; readonly text: string } | { readonly ok: false; readonly refused: string }

/** A text that was read. */
export const formed = (text: string): Formed => ({ ok: true, text })
/** A text that was refused, with the reason for people. */
export const refuse = (refused: string): Formed => ({ ok: false, refused })

const LABEL = /^[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?$/

/** Returns whether `label`, in lower case, is one of a host name: RFC 1123 2.1, and underscores, which services of Docker and many private names have. */
export function isHostLabel(label: string): boolean {
  return label.length < 64 && LABEL.test(label)
}

/** Why no public authority signs for a name with an underscore (CA/Browser Forum, Baseline Requirements 7.1.4.2); undefined where it has none. */
export function whyUncertifiable(name: string): string | undefined {
  return name.includes('_') ? 'has an underscore, and public authorities sign no such name' : undefined
}

/**
 * A host name in lower case without blanks around it, of labels as `isHostLabel` takes them; a first label `*` stands for any name
 * before the rest.
 */
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

/** The host of an edge that takes the requests for each host that no other edge has. */
export const ANY_HOST = '*'

/**
 * The hosts of edges that hold a name, in the order in which they are looked for: the name itself, then those with a star by the length of
 * what is behind it, of two alike the one with labels before the star first, and last `*`.
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
 * The host of an edge: a name as `readHostname` takes it, `*`, or a name in which one label is a star: as the first one it stands for one
 * or more labels, behind others for one. Letters beyond ASCII become those of the DNS (UTS 46).
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

/** A host as people write it, with the form of the DNS behind it where that is another one. */
export function shownHost(host: string): string {
  const written = host.includes('xn--') ? domainToUnicode(host) : host
  return written === host || written === '' ? host : `${written} (${host})`
}

/** A host name with at least two labels that is no IP address. */
export function readDomain(text: string): Formed {
  const read = readHostname(text)
  if (!read.ok) return read
  const labels = read.text.split('.')
  if (labels.length < 2) return refuse('must be fully qualified, such as app.example.com')
  if (/^\d+$/.test(labels.at(-1) ?? '')) return refuse('must be a name, not an address')
  return read
}

/** Does this text name a PostgreSQL server, rather than a path? Its form is not looked at. */
export function isPostgresUrl(text: string): boolean {
  return /^postgres(ql)?:/i.test(text)
}

/** Host, port and database of an address, without user and password; undefined: it is no valid URL. */
export function postgresName(url: string): string | undefined {
  if (!URL.canParse(url)) return undefined
  const { host, pathname, searchParams } = new URL(url)
  return `postgres://${host || (searchParams.get('host') ?? 'localhost')}${pathname}`
}
