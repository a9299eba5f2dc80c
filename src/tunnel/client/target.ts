import { connect as connectTcp, isIP, type LookupFunction, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { parseAuthority } from '../../lib/host.js'
import type { Dialer } from '../../transport/contract.js'
import { pathDialer, tcpDialer, tlsDialer } from '../../transport/dialers.js'

/** Where an agent forwards to. `lookup` answers names; the system's resolver when left out. */
export type Target =
  | { readonly kind: 'tcp'; readonly host: string; readonly port: number; readonly lookup?: LookupFunction }
  | {
      readonly kind: 'tls'
      readonly host: string
      readonly port: number
      readonly verify: boolean
      readonly lookup?: LookupFunction
    }
  | { readonly kind: 'unix'; readonly path: string }

const DEFAULT_PORTS: Readonly<Record<string, number>> = { http: 80, https: 443 }

/**
 * Reads `http://host:port`, `https://host:port`, `tcp://host:port`, `tls://host:port`, `unix:/path`, `host:port` or a
 * port of this machine. Undefined: none of them. Bytes are carried as they are, so a path has no meaning here.
 */
export function readTarget(text: string, verify = true): Target | undefined {
  if (text.startsWith('unix:')) {
    const path = text.slice('unix:'.length)
    return path.startsWith('/') ? { kind: 'unix', path } : undefined
  }
  if (/^\d{1,5}$/.test(text)) return readTarget(`127.0.0.1:${text}`)
  const [, scheme = 'tcp', rest = ''] = /^(?:([a-z]+):\/\/)?([^/?#@]+)\/?$/i.exec(text) ?? []
  const authority = parseAuthority(rest)
  const port = authority?.port ?? DEFAULT_PORTS[scheme.toLowerCase()]
  if (authority === undefined || port === undefined) return undefined
  const { host } = authority
  switch (scheme.toLowerCase()) {
    case 'http':
    case 'tcp':
      return { kind: 'tcp', host, port }
    case 'https':
    case 'tls':
      return { kind: 'tls', host, port, verify }
    default:
      return undefined
  }
}

/** The target as an upstream of HTTP. */
export function targetDialer(target: Target): Dialer {
  switch (target.kind) {
    case 'unix':
      return pathDialer(target.path)
    case 'tcp':
      return tcpDialer(target)
    case 'tls':
      return tlsDialer({ ...target, servername: target.host, rejectUnauthorized: target.verify })
  }
}

/** A connection to the target, and the event that says that it stands. */
export function connectTarget(target: Target): {
  readonly socket: Socket
  readonly ready: 'connect' | 'secureConnect'
} {
  if (target.kind === 'unix') {
    return { socket: connectTcp({ path: target.path, allowHalfOpen: true }), ready: 'connect' }
  }
  const { host, port, lookup } = target
  const at = { host, port, ...(lookup === undefined ? {} : { lookup }) }
  if (target.kind === 'tcp') {
    return { socket: connectTcp({ ...at, noDelay: true, allowHalfOpen: true }), ready: 'connect' }
  }
  const name = isIP(host) === 0 ? { servername: host } : {}
  const options = { ...at, rejectUnauthorized: target.verify, allowHalfOpen: true, ...name }
  const socket = connectTls(options)
  socket.setNoDelay(true)
  return { socket, ready: 'secureConnect' }
}
