import { lookup as systemLookup } from 'node:dns/promises'
import { isIP, type LookupFunction } from 'node:net'
import type { Clock } from '../clock.js'
import { codeOf } from '../errors.js'
import type { Lookup, Resolved } from './lookups.js'
import { OwnResolver, unresolved } from './own-resolver.js'
import type { Service } from './services.js'

/** Cache time for addresses from the system's resolver, which reports no lifetime (ms). */
const SYSTEM_LIFE = 30_000

/** Settings of name resolution; plain data that can be sent to a thread. */
export interface NamesOptions {
  /** `own`: queries DNS servers directly, outside the thread pool. `system`: uses the C library in the thread pool. */
  readonly resolver: 'own' | 'system'
  /** DNS servers, `address` or `address:port`; empty for those of the system. Not used by `system`. */
  readonly servers: readonly string[]
}

/** Resolves names to addresses. */
export interface Names {
  /**
   * Returns the addresses of a host, best first, at least one. Rejects with an Error whose `code` is `ENOTFOUND` (no such name) or
   * `EAI_AGAIN` (no response in time).
   */
  lookup(host: string): Promise<readonly string[]>
  /** Returns all addresses of a host, equally good, with their expiry. Rejects like `lookup`; expired addresses are not used. */
  resolve(host: string): Promise<Resolved>
  /**
   * Returns the servers of a service (RFC 2782), such as `_http._tcp.example.com`. Rejects with an Error whose `code` is `ENOTFOUND`,
   * `ETIMEOUT` or another DNS code. Always queries DNS servers.
   */
  services(name: string): Promise<Resolved<Service>>
  /** Lookup function for `connect` of `node:net` and `node:tls`. */
  readonly forSockets: LookupFunction
  /** Returns whether no DNS server responds at all; always false for the system's resolver. Polled about once per second. */
  silent(): boolean
  /** Cancels pending queries. */
  close(): void
}

/** Selects the resolver. `looked` is called with each completed lookup, and must not throw. */
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

/** Extends a resolver with the lookup function for sockets. */
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
