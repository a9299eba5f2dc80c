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
 * What carrying traffic builds on, in whichever thread it is carried: made of options, a clock and a log alone. Nothing in it is
 * open to the outside or knows a record.
 */
export interface TrafficFoundation {
  readonly clock: Clock
  readonly log: Logger
  /** Random text that tells this process from others; its threads have the same. */
  readonly processId: string
  readonly live: LiveOptions
  readonly holder: SnapshotHolder
  /** What looks at exchanges of clients. */
  readonly observers: Observers
  readonly metrics: Metrics
  /** Addresses of proxies that may name a client; undefined: none may. */
  readonly trusted: CidrSet | undefined
  /** The caller closes it. */
  readonly names: Names
  readonly lookups: ReturnType<typeof observeNames>
  readonly limiter: LimiterTable
  /** Whom limits refuse; undefined: that is not kept. */
  readonly refusedKeys: RefusedKeysMemory | undefined
  readonly turnedAway: TurnedAwayLog
}

/** The part of the options that it is made of. */
type OfOptions = Pick<Options, 'dns' | 'trusted_proxies' | 'limiter'>

/** The networks of trusted proxies; undefined: there are none. */
function networksOf(networks: readonly string[]): CidrSet | undefined {
  if (networks.length === 0) return undefined
  return new CidrSet(networks.flatMap((network) => parseCidr(network) ?? []))
}

interface TrafficFoundationParts extends Pick<TrafficFoundation, 'clock' | 'log' | 'live'> {
  /** What limits are counted in, which is one for the process. */
  readonly limiter: LimiterTable
  /** That of the process where this is a thread of it; absent: this is the process. */
  readonly processId?: string
  /** Rates and look-ups that another thread counts, and what it reads metrics from; absent: this one does. */
  readonly elsewhere?: {
    readonly rates: TrafficRates
    readonly looked: (lookup: Lookup) => void
    readonly memory: SeriesMemory
  }
}

/** `live` is read as it is at each moment, so a reload reaches what is made of it. */
export function createTrafficFoundation(
  options: OfOptions,
  { clock, log, live, limiter, elsewhere, processId = randomBytes(8).toString('hex') }: TrafficFoundationParts
): TrafficFoundation {
  const holder = new SnapshotHolder(Snapshot.empty())
  const hasUnit = (key: string) => holder.current().plan.units.get(key) !== undefined
  const metrics = new Metrics(hasUnit, elsewhere?.rates, elsewhere?.memory)
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
