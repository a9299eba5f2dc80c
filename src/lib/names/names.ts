import { lookup as systemLookup } from 'node:dns/promises'
import { isIP, type LookupFunction } from 'node:net'
import type { Clock } from '../clock.js'
import { codeOf } from '../errors.js'
import type { Lookup, Resolved } from './lookups.js'
import { OwnResolver, unresolved } from './own-resolver.js'
import type { Service } from './services.js'

/** How long addresses of the system's resolver hold, which says nothing of it. Milliseconds. */
const SYSTEM_LIFE = 30_000

/** How names become addresses: plain data, so that a thread can have it too. */
export interface NamesOptions {
  /** `own`: asks DNS servers itself, beside the thread pool. `system`: what the C library does, in the thread pool. */
  readonly resolver: 'own' | 'system'
  /** DNS servers, `address` or `address:port`; none: those of the system. Of no meaning for `system`. */
  readonly servers: readonly string[]
}

/** Addresses of names. */
export interface Names {
  /**
   * The addresses of a host, the best first, at least one. Rejects with an Error whose `code` is `ENOTFOUND` (there is no such name)
   * or `EAI_AGAIN` (no server said so in time).
   */
  lookup(host: string): Promise<readonly string[]>
  /**
   * All addresses of a host, each of them as good as the others, and until when they hold. Rejects as `lookup`: what has expired does
   * not stand in.
   */
  resolve(host: string): Promise<Resolved>
  /**
   * The servers of a service (RFC 2782), such as `_http._tcp.example.com`. Rejects with an Error whose `code` is `ENOTFOUND`,
   * `ETIMEOUT` or another word of the DNS. Asks DNS servers whatever answers hosts.
   */
  services(name: string): Promise<Resolved<Service>>
  /** The same for `connect` of `node:net` and `node:tls`. */
  readonly forSockets: LookupFunction
  /** Does no DNS server answer at all? Not known of the system's resolver: false. Asked every second or so. */
  silent(): boolean
  /** Gives up what is asked. */
  close(): void
}

/** The one place that decides who answers names. `looked` is called with each look-up that has ended, and must not throw. */
export function createNames(
  { resolver, servers }: NamesOptions,
  clock: Clock,
  looked?: (lookup: Lookup) => void
): Names {
  if (resolver === 'system') {
    const lookup = ofSystem(clock, looked)
    const own = new OwnResolver({ servers: [], clock, looked })
    return namesOf({
      lookup,
      resolve: async (host) => ({ found: await lookup(host), expires: clock.monotonic() + SYSTEM_LIFE }),
      services: (name) => own.services(name),
      silent: () => false,
      close: () => own.close()
    })
  }
  return namesOf(new OwnResolver({ servers, clock, looked }))
}

/** Completes a resolver with what sockets want. */
export function namesOf(resolver: Omit<Names, 'forSockets'>): Names {
  const lookup = (host: string) => resolver.lookup(host)
  return {
    lookup,
    resolve: (host) => resolver.resolve(host),
    services: (name) => resolver.services(name),
    forSockets: forSockets(lookup),
    silent: () => resolver.silent(),
    close: () => resolver.close()
  }
}

function ofSystem(clock: Clock, looked: (lookup: Lookup) => void = () => undefined): Names['lookup'] {
  return async (host) => {
    if (isIP(host) !== 0) return [host]
    const begun = clock.monotonic()
    const ended = (result: Lookup['result']) =>
      looked({ name: host, result, source: 'system', milliseconds: clock.monotonic() - begun })
    try {
      const found = await systemLookup(host, { all: true })
      ended('found')
      return found.map(({ address }) => address)
    } catch (error) {
      ended(codeOf(error) === 'ENOTFOUND' ? 'not_found' : 'failed')
      throw error
    }
  }
}

function forSockets(lookup: Names['lookup']): LookupFunction {
  return (host, { all, family }, done) => {
    const wanted = family === 4 || family === 'IPv4' ? 4 : family === 6 || family === 'IPv6' ? 6 : 0
    lookup(host).then(
      (addresses) => {
        const found = addresses
          .map((address) => ({ address, family: isIP(address) }))
          .filter((one) => wanted === 0 || one.family === wanted)
        const [first] = found
        if (first === undefined) done(unresolved('ENOTFOUND', host), '', 0)
        else if (all === true) done(null, found)
        else done(null, first.address, first.family)
      },
      (error: NodeJS.ErrnoException) => done(error, '', 0)
    )
  }
}
