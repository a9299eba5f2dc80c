import type { Dialer } from '../engine/contract.js'
import { tcpDialer, tlsDialer } from '../engine/dialers.js'
import type { ShardedMap } from '../lib/sharded-map.js'
import type { UpstreamUnit } from '../plan/plan.js'

/**
 * Upstream units → dialers. One dialer per unit object: as long as a unit stays as it was, its connections are reused
 * across snapshots.
 */
export class Upstreams {
  #dialers = new Map<UpstreamUnit, Dialer>()

  dialer(unit: UpstreamUnit): Dialer {
    let dialer = this.#dialers.get(unit)
    if (dialer === undefined) {
      dialer = createDialer(unit)
      this.#dialers.set(unit, dialer)
    }
    return dialer
  }

  /** Forgets the dialers of units that are gone. Answers the pool keys that stay. */
  retain(units: ShardedMap<UpstreamUnit>): ReadonlySet<string> {
    const kept = new Map<UpstreamUnit, Dialer>()
    for (const [, unit] of units) kept.set(unit, this.dialer(unit))
    this.#dialers = kept
    return new Set([...kept.values()].map((dialer) => dialer.key))
  }
}

function createDialer(unit: UpstreamUnit): Dialer {
  if (unit.protocol === 'http') return tcpDialer({ host: unit.host, port: unit.port })
  return tlsDialer({
    host: unit.host,
    port: unit.port,
    servername: unit.host,
    ...(unit.certificateAuthorities === undefined ? {} : { ca: unit.certificateAuthorities })
  })
}
