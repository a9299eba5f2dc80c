import { isObject } from '../../../lib/json.js'
import type { Body } from '../../../schema/field.js'
import { SOCKET_URL } from '../../../schema/formats.js'

/** Properties of a scheme. */
interface Scheme {
  /** Port of a server that names none; 0: it must name one. */
  readonly port: number
  readonly secure: boolean
  /** HTTP/2: by ALPN with TLS, by prior knowledge without. */
  readonly http2: boolean
}

const SCHEMES: Readonly<Record<string, Scheme>> = {
  http: { port: 80, secure: false, http2: false },
  https: { port: 443, secure: true, http2: false },
  h2c: { port: 80, secure: false, http2: true },
  h2: { port: 443, secure: true, http2: true },
  grpc: { port: 80, secure: false, http2: true },
  grpcs: { port: 443, secure: true, http2: true },
  tcp: { port: 0, secure: false, http2: false }
}
const SERVER_URL = /^(?:([a-z][a-z0-9+.-]*):\/\/)?([^/?#\s]+)(\/[^?#\s]*)?$/i

/** A parsed server URL, or an error message. */
export type ServerUrl =
  | (Pick<Scheme, 'secure' | 'http2'> & {
      readonly kind: 'server'
      readonly scheme: string
      readonly address: string
      /** Prefix of each request's path; '' for none. */
      readonly path: string
    })
  | { readonly kind: 'wrong'; readonly message: string }

const EXAMPLES = 'such as http://127.0.0.1:3000, http://127.0.0.1:3000/base or http://unix:/run/app.sock'

/**
 * Parses `scheme://host:port/path`; the default scheme is http. With `srv+` before the scheme, the address is the name of a
 * service (RFC 2782) and has no port.
 */
export function readServerUrl(url: string): ServerUrl {
  const socket = SOCKET_URL.exec(url)
  const [, written = 'http', place, path = ''] = socket ?? SERVER_URL.exec(url) ?? []
  if (place === undefined) return { kind: 'wrong', message: `a server is a URL without a query, ${EXAMPLES}` }
  const isService = socket === null && /^srv\+/i.test(written)
  const scheme = (isService ? written.slice('srv+'.length) : written).toLowerCase()
  const known = SCHEMES[scheme]
  if (known === undefined) {
    const message =
      scheme === 'unix'
        ? `a Unix domain socket has an absolute path, ${EXAMPLES}`
        : `"${written}" is no scheme of a server; write http, https, h2c, h2, grpc, grpcs or tcp`
    return { kind: 'wrong', message }
  }
  const { port, secure, http2 } = known
  const isWhole = isService || port === 0 || /:\d+$/.test(place)
  const address = socket !== null ? `unix:${place}` : isWhole ? place : `${place}:${port}`
  return { kind: 'server', scheme, address, path: path === '/' ? '' : path, secure, http2 }
}

/** The URL of the server of a static backend, as `readServerUrl` reads it. */
export function serverUrl({ address, http2, path = '', tls }: Body): string {
  const place = String(address)
  const secure = isObject(tls) && tls.enabled === true
  const scheme = http2 === true ? (secure ? 'h2' : 'h2c') : secure ? 'https' : 'http'
  const isSocket = place.startsWith('unix:')
  const service = !isSocket && !/:\d+$/.test(place) ? 'srv+' : ''
  return `${service}${scheme}://${place}${isSocket && path !== '' ? ':' : ''}${String(path)}`
}
