import { parseAuthority } from '../lib/host.js'
import { didYouMean } from '../lib/suggest.js'
import type { ListenAddress, Listener } from './fields.js'
import { ok, type Reading, refuse } from './reading.js'

const ADDRESS = 'host:port, for example 127.0.0.1:8080, 0.0.0.0:80 or [::1]:8080 (port 0 takes a free one)'
const KEYS = ['listen', 'tls', 'public_port', 'proxy_protocol', 'path_form']
const URL_KEYS = ['public_port', 'proxy_protocol', 'path_form']

/** An address to listen on. */
export function readAddress(written: unknown): Reading {
  if (typeof written !== 'string') return refuse(ADDRESS)
  const free = written.endsWith(':0')
  const authority = parseAuthority(free ? written.slice(0, -2) : written)
  if (authority === undefined || (authority.port === undefined) !== free) return refuse(ADDRESS)
  return ok({ host: authority.host, port: authority.port ?? 0 } satisfies ListenAddress)
}

/** A listener: a map, or a URL such as `https://0.0.0.0:8443?public_port=443&proxy_protocol=on`. */
export function readListener(written: unknown): Reading {
  if (typeof written === 'string') return readUrl(written)
  if (typeof written !== 'object' || written === null || Array.isArray(written)) {
    return refuse(`maps of ${KEYS.join(', ')}, or URLs such as https://0.0.0.0:8443?public_port=443`)
  }
  return readParts(written as Readonly<Record<string, unknown>>, KEYS)
}

function readUrl(written: string): Reading {
  const [, scheme, address, query = ''] = /^(https?):\/\/([^/?#]+)\/?(?:\?([^#]*))?$/.exec(written) ?? []
  if (scheme === undefined) {
    return refuse('URLs such as http://0.0.0.0:8081 or https://0.0.0.0:8443?public_port=443&proxy_protocol=on')
  }
  const parts: [string, unknown][] = [...new URLSearchParams(query)]
  const unknown = parts.find(([key]) => !URL_KEYS.includes(key))
  if (unknown !== undefined) return unknownKey(unknown[0], URL_KEYS)
  return readParts(Object.fromEntries([['listen', address], ['tls', scheme === 'https'], ...parts]), KEYS)
}

function readParts(parts: Readonly<Record<string, unknown>>, keys: readonly string[]): Reading {
  const unknown = Object.keys(parts).find((key) => !keys.includes(key))
  if (unknown !== undefined) return unknownKey(unknown, keys)
  const address = readAddress(parts.listen)
  if (!address.ok) return refuse(`listeners whose listen is ${address.refused}`)
  const [tls, proxyProtocol] = [readSwitch(parts.tls), readSwitch(parts.proxy_protocol)]
  if (tls === undefined || proxyProtocol === undefined)
    return refuse('listeners whose tls and proxy_protocol are on or off')
  const publicPort = readPort(parts.public_port)
  if (publicPort === false) return refuse('listeners whose public_port is a whole number from 1 to 65535')
  const { path_form: form = undefined } = parts
  if (form !== undefined && form !== 'strict' && form !== 'lenient') {
    return refuse('listeners whose path_form is strict or lenient')
  }
  const listen = address.value as ListenAddress
  return ok({
    listen,
    tls,
    public_port: publicPort,
    proxy_protocol: proxyProtocol,
    ...(form === undefined ? {} : { path_form: form })
  } satisfies Listener)
}

function unknownKey(key: string, keys: readonly string[]): Reading {
  return refuse(`listeners with ${keys.join(', ')} alone${didYouMean(key, keys)}`)
}

/** Left out: off. */
function readSwitch(written: unknown): boolean | undefined {
  if (written === undefined || written === null || written === false || written === 'off') return false
  return written === true || written === 'on' ? true : undefined
}

/** False: it is no port. */
function readPort(written: unknown): number | undefined | false {
  if (written === undefined || written === null) return undefined
  const port = typeof written === 'string' && /^\d{1,5}$/.test(written) ? Number(written) : written
  return typeof port === 'number' && Number.isInteger(port) && port >= 1 && port <= 65_535 ? port : false
}
