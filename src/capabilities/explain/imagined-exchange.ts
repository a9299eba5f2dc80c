import type { ConnectionFacts, RequestHead } from '../../flow/exchange.js'
import type { EntryFacts } from '../../flow/flow.js'
import type { HeaderList } from '../../flow/headers.js'

/** A request that no client has sent. */
export interface ImaginedRequest {
  readonly method: string
  /** Absolute, http or https. */
  readonly url: URL
  /** Flat list: name, value, name, value…; Host is taken from the URL if missing. */
  readonly headers: HeaderList
  readonly body?: Uint8Array
  readonly version: '1.0' | '1.1' | '2'
  /** IP address of the peer. */
  readonly clientAddress: string
  readonly clientPort: number
}

let connections = 0

/** The facts of the connection that would carry it. */
export function imaginedConnection(request: ImaginedRequest, entry: EntryFacts, startedAt: number): ConnectionFacts {
  const { url, clientAddress, clientPort, version } = request
  const local = { address: '127.0.0.1', port: portOf(url) }
  const facts = {
    id: --connections,
    listener: entry.id,
    peer: { address: clientAddress, port: clientPort },
    local,
    startedAt,
    bytesIn: 0,
    bytesOut: 0
  }
  if (url.protocol === 'http:') return facts
  const tls = { sni: url.hostname, version: 'TLSv1.3', cipher: 'TLS_AES_256_GCM_SHA384', resumed: false }
  return { ...facts, tls: version === '2' ? { ...tls, alpn: 'h2' } : tls }
}

/** The head as a transport would have read it. */
export function imaginedHead({ method, url, headers, body, version }: ImaginedRequest): RequestHead {
  const fields: string[] = []
  let authority = url.host
  let length = body === undefined ? undefined : String(body.length)
  for (let i = 0; i < headers.length; i += 2) {
    const [name, value] = [headers[i] as string, headers[i + 1] as string]
    const known = name.toLowerCase()
    if (known === 'host') authority = value
    else {
      if (known === 'content-length') length = undefined
      fields.push(name, value)
    }
  }
  if (length !== undefined) fields.push('Content-Length', length)
  return {
    method,
    target: `${url.pathname}${url.search}`,
    authority,
    scheme: url.protocol === 'https:' ? 'https' : 'http',
    version,
    headers: ['Host', authority, ...fields]
  }
}

/**
 * Returns the listener for a simulated request: the configured one with its scheme and port, otherwise one without a known
 * public port, otherwise a made-up one.
 */
export function imaginedEntry(url: URL, listeners: readonly EntryFacts[]): EntryFacts {
  const protocol = url.protocol === 'https:' ? 'https' : 'http'
  const port = portOf(url)
  const same = listeners.filter((entry) => entry.protocol === protocol)
  const exact = same.find((entry) => (entry.publicPort ?? entry.port) === port)
  if (exact !== undefined) return exact
  const mapped = same.find(({ publicPort }) => publicPort === undefined)
  if (mapped !== undefined) return { ...mapped, port }
  return same[0] ?? { id: 'imagined', protocol, host: '127.0.0.1', port, region: '' }
}

function portOf({ port, protocol }: URL): number {
  return port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port)
}
