import { isIP } from 'node:net'
import { formatAddress, parseAddress } from './ip.js'

/**
 * Host and port of an authority (RFC 3986 3.2, without userinfo) in the one form in which hosts are compared: `host` is
 * lower-case, a name without the dot of the root, an IPv6 literal without its brackets (RFC 5952).
 */
export interface Authority {
  readonly host: string
  readonly port: number | undefined
}

const AUTHORITY =
  /^(?:\[([0-9A-Fa-f:.]+)\]|((?:[A-Za-z0-9_~!$&'()*+,;=-]+\.)*[A-Za-z0-9_~!$&'()*+,;=-]+)\.?)(?::([0-9]{0,5}))?$/

/** Parts of `text`, or undefined when it is no host with an optional port, or a name with an empty label. */
export function parseAuthority(text: string): Authority | undefined {
  const match = AUTHORITY.exec(text)
  if (match === null) return undefined
  const [, literal, name, digits] = match
  const address = literal === undefined || isIP(literal) !== 6 ? undefined : parseAddress(literal)
  if (literal !== undefined && address === undefined) return undefined
  const port = digits === undefined || digits === '' ? undefined : Number(digits)
  if (port !== undefined && (port < 1 || port > 65_535)) return undefined
  return { host: address === undefined ? (name as string).toLowerCase() : formatAddress(address), port }
}

/** An authority as it is written, but for the dot of the root behind a name. */
export function withoutRootDot(authority: string): string {
  if (!authority.endsWith('.') && !authority.includes('.:')) return authority
  return authority.replace(/\.(?=$|:\d*$)/, '')
}

/** `host:port` as it stands in a URL; an IPv6 host gets its brackets. */
export function formatAuthority(host: string, port: number): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}

/** The URL of a listener for clients on this machine, as for `reachableAuthority`. */
export function reachableUrl(at: { readonly host: string; readonly port: number }): string {
  return `http://${reachableAuthority(at)}`
}

/** host:port of a listener for clients on this machine: one that listens on every interface is reached through loopback. */
export function reachableAuthority({ host, port }: { readonly host: string; readonly port: number }): string {
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
  return formatAuthority(reachable, port)
}
