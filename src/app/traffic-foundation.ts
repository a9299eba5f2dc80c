import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import type { LimiterTable } from '../features/rate-limit/limiter/table.js'
import { RefusedKeysMemory } from '../features/rate-limit/refused-keys.js'
import { TurnedAwayLog } from '../lib/client-limits.js'
import type { Clock } from '../lib/clock.js'
import { CidrSet, parseCidr } from '../lib/ip.js'
import type { Lookup } from '../lib/names/lookups.js'
import { createNames, type Names } from '../lib/names/names.js'
import type { Options } from '../options/options.js'
import { Observers } from '../proxy/observers.js'
import { Snapshot, SnapshotHolder } from '../runtime/snapshot.js'
import { Metrics } from '../telemetry/metrics.js'
import { observeNames } from '../telemetry/observed-metrics.js'
import type { SeriesMemory } from '../telemetry/series-memory.js'
import type { TrafficRates } from '../telemetry/traffic-rates.js'
import type { LiveOptions } from './live-options.js'
import { namesOptions } from './server-services.js'

/**
 * Foundation of carrying traffic in any thread, created from options, a clock and a log only. Nothing in it is open to the
 * outside or knows a record.
 */
export interface TrafficFoundation {
  readonly clock: Clock
  readonly log: Logger
  /** Random id of this process, shared by its threads. */
  readonly processId: string
  readonly live: LiveOptions
  readonly holder: SnapshotHolder
  /** Observers of client exchanges. */
  readonly observers: Observers
  readonly metrics: Metrics
  /** Addresses of proxies that may name a client; undefined for none. */
  readonly trusted: CidrSet | undefined
  /** The caller closes it. */
  readonly names: Names
  readonly lookups: ReturnType<typeof observeNames>
  readonly limiter: LimiterTable
  /** Keys that limits reject; undefined if they are not recorded. */
  readonly refusedKeys: RefusedKeysMemory | undefined
  readonly turnedAway: TurnedAwayLog
}

/** Options of the foundation. */
type OfOptions = Pick<Options, 'dns' | 'trusted_proxies' | 'limiter'>

/** Returns the networks of trusted proxies; undefined for none. */
function networksOf(networks: readonly string[]): CidrSet | undefined {
  if (networks.length === 0) return undefined
  return new CidrSet(networks.flatMap((network) => parseCidr(network) ?? []))
}

interface TrafficFoundationParts extends Pick<TrafficFoundation, 'clock' | 'log' | 'live'> {
  /** Table of limits, one for the process. */
  readonly limiter: LimiterTable
  /** Id of the process, for a worker. @default a new one */
  readonly processId?: string
  /** Rates and lookups that the main thread counts, and the memory of its metrics. @default this thread counts */
  readonly elsewhere?: {
    readonly rates: TrafficRates
    readonly looked: (lookup: Lookup) => void
    readonly memory: SeriesMemory
  }
}

/** Creates the foundation. `live` is read on each use, so a reload takes effect. */
export function createTrafficFoundation(
  options: OfOptions,
  { clock, log, live, limiter, elsewhere, processId = randomBytes(8).toString('hex') }: TrafficFoundationParts
): TrafficFoundation {
  const holder = new SnapshotHolder(Snapshot.empty())
  const has = (key: string) => holder.current().plan.units.get(key) !== undefined
  const metrics = new Metrics({ has, names: holder.names }, elsewhere?.rates, elsewhere?.memory)
  const lookups = elsewhere?.looked ?? observeNames(metrics.registry, clock)
  return {
    clock,
    log,
    processId,
    live,
    holder,
    observers: new Observers(),
    metrics,
    trusted: networksOf(options.trusted_proxies),
    names: createNames(namesOptions(options), clock, lookups),
    lookups,
    limiter,
    refusedKeys: options.limiter.top_keys ? new RefusedKeysMemory() : undefined,
    turnedAway: new TurnedAwayLog(clock, log, (...what) => metrics.turnedAway(...what))
  }
}
