import { parseAuthority } from '../lib/host.js'
import { unmapIpv4 } from '../lib/ip.js'
import { ApiError } from './errors.js'

const LOOPBACK = ['localhost', '127.0.0.1', '::1']

/** The parts of a request that say under which name a browser believes to be here. */
export interface NamedRequest {
  readonly host: string | undefined
  readonly origin: string | undefined
  /** Address of our end of the connection; a client that wrote it used no name at all. */
  readonly localAddress: string | undefined
}

/**
 * Protection against DNS rebinding: a page of a foreign site can make its own name lead here, but it cannot make a
 * browser write another name into `Host` and `Origin`. Loopback names, our own address and the names given are accepted.
 */
export class TrustedHosts {
  readonly #names: ReadonlySet<string>

  /** Hosts without ports. */
  constructor(names: Iterable<string>) {
    this.#names = new Set([...LOOPBACK, ...[...names].map((name) => bare(name.toLowerCase()))])
  }

  /** The reason to refuse, or undefined. */
  refusal({ host, origin, localAddress }: NamedRequest): ApiError | undefined {
    const named = host === undefined ? undefined : parseAuthority(host)?.host
    if (named === undefined || !this.#trusted(named, localAddress)) {
      const message =
        'The Host of the request is not a name of this API; the options api.public_url and api.allowed_hosts add names.'
      return new ApiError(403, 'HOST_NOT_ALLOWED', message)
    }
    if (origin === undefined) return undefined
    const page = URL.canParse(origin) ? bare(new URL(origin).hostname) : ''
    if (this.#trusted(page, localAddress)) return undefined
    return new ApiError(403, 'ORIGIN_NOT_ALLOWED', 'The Origin of the request is not a name of this API.')
  }

  #trusted(name: string, localAddress: string | undefined): boolean {
    return this.#names.has(name) || (localAddress !== undefined && name === unmapIpv4(localAddress))
  }
}

/** An IPv6 address without the brackets that it has in a URL. */
function bare(name: string): string {
  return name.replace(/^\[|\]$/g, '')
}
