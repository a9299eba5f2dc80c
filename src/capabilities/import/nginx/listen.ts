import { close, EXACT, notHere, type SourcePosition } from '../model.js'
import type { Level } from './level.js'

/** Address and port of a server block. */
export interface Endpoint {
  readonly address: string
  readonly port: number
  readonly tls: boolean
  readonly proxyProtocol: boolean
  readonly isDefault: boolean
  readonly at: SourcePosition
}

const TUNING =
  /^(?:reuseport|deferred|bind|ipv6only=.*|backlog=.*|rcvbuf=.*|sndbuf=.*|so_keepalive=.*|fastopen=.*|setfib=.*|accept_filter=.*|http2|spdy|default|default_server|ssl|proxy_protocol)$/

/** The endpoints of a server block; without `listen` it is port 80. */
export function readListen(level: Level, at: SourcePosition): Endpoint[] {
  const directives = level.own('listen')
  if (directives.length === 0)
    return [{ address: '0.0.0.0', port: 80, tls: false, proxyProtocol: false, isDefault: false, at }]
  const allTls = level.isOn('ssl')
  return directives.flatMap((directive) => {
    const [place = '', ...flags] = directive.args
    const [, written, port] =
      /^(?:(\[[\da-f:.]+\]|[^:[\]]+))?(?::?(\d+))?$/i.exec(/^\d+$/.test(place) ? `:${place}` : place) ?? []
    const unknown = flags.find((flag) => !TUNING.test(flag))
    if (
      place.startsWith('unix:') ||
      place.includes('$') ||
      (written === undefined && port === undefined) ||
      flags.includes('quic')
    ) {
      level.judge(
        directive,
        notHere('it is no address with a port of TCP', 'write it below "listeners" of the site file')
      )
      return []
    }
    level.judge(directive, unknown === undefined ? EXACT : close(`"${unknown}" is not taken over`))
    const address = written === undefined || written === '*' ? '0.0.0.0' : written.replace(/^\[|\]$/g, '')
    const isDefault = flags.includes('default_server') || flags.includes('default')
    return [
      {
        address,
        port: Number(port ?? 80),
        tls: allTls || flags.includes('ssl'),
        proxyProtocol: flags.includes('proxy_protocol'),
        isDefault,
        at: directive.at
      }
    ]
  })
}
