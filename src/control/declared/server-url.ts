/** How a scheme reaches a server. */
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
const UNBUILT: Readonly<Record<string, string>> = {
  unix: 'sockets of the file system are not built as servers in this version; an agent can forward to one'
}
const SERVER_URL = /^(?:([a-z][a-z0-9+.-]*):\/\/)?([^/?#\s]+)\/?$/i

/** The URL of a server, read; or what is wrong with it. */
export type ServerUrl =
  | (Pick<Scheme, 'secure' | 'http2'> & { readonly kind: 'server'; readonly scheme: string; readonly address: string })
  | { readonly kind: 'wrong' | 'not-built'; readonly message: string }

/**
 * Reads `scheme://host:port`, without a path; http is meant where no scheme stands. `srv+` before a scheme: the address is the name of
 * a service (RFC 2782) and has no port.
 */
export function readServerUrl(url: string): ServerUrl {
  const [, written = 'http', address] = SERVER_URL.exec(url) ?? []
  if (address === undefined)
    return { kind: 'wrong', message: 'a server is a URL without a path, such as http://127.0.0.1:3000' }
  const isService = /^srv\+/i.test(written)
  const scheme = (isService ? written.slice('srv+'.length) : written).toLowerCase()
  const known = SCHEMES[scheme]
  if (known === undefined) {
    const unbuilt = UNBUILT[scheme]
    if (unbuilt !== undefined) return { kind: 'not-built', message: unbuilt }
    const message = `"${written}" is no scheme of a server; write http, https, h2c, h2, grpc, grpcs or tcp`
    return { kind: 'wrong', message }
  }
  const { port, secure, http2 } = known
  const whole = isService || port === 0 || /:\d+$/.test(address) ? address : `${address}:${port}`
  return { kind: 'server', scheme, address: whole, secure, http2 }
}
