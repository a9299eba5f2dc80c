import type { Logger } from 'pino'
import { ChallengeTable } from '../certificates/certificates.js'
import type { Events } from '../events/events.js'
import { LimiterTable } from '../features/rate-limit/limiter/table.js'
import { TurnedAwayLog } from '../lib/client-limits.js'
import type { Clock } from '../lib/clock.js'
import { CidrSet, parseCidr } from '../lib/ip.js'
import type { LineOutput } from '../lib/line-output.js'
import { createNames, type Names } from '../lib/names/names.js'
import type { Options } from '../options/options.js'
import { Observers } from '../proxy/observers.js'
import { Snapshot, SnapshotHolder } from '../runtime/snapshot.js'
import { StoreHealth } from '../store/store-health.js'
import { Metrics } from '../telemetry/metrics.js'
import { observeNames } from '../telemetry/observed-metrics.js'
import { LoopDelay } from '../telemetry/process-health.js'
import type { LiveOptions } from './live-options.js'
import { namesOptions } from './server-services.js'
import type { Lifecycle } from './stop.js'

/** What the process around an app gives it. */
export interface Host {
  readonly log: Logger
  /** Where the log's lines go. Absent: to a log that is not on standard output. */
  readonly output?: LineOutput
  readonly clock: Clock
  /** The administrator's key of the environment, if there is one. */
  readonly apiKey: string | undefined
  /** The sealing key of the environment, if there is one. */
  readonly sealKey: string | undefined
  /** Where a site file finds secrets; absent: nowhere. */
  readonly environment?: Readonly<Record<string, string | undefined>>
  /** The sealing key of the store is lost: the one that is here, or a new one, takes its place. */
  readonly newSealKey?: boolean
  /** A store that is not there is to be made, although its sealing key is there. */
  readonly newStore?: boolean
  /** Ends a start that is not done yet; `Running.stop` ends what runs. */
  readonly signal?: AbortSignal
}

type TrafficEventQueue = Events['traffic']

/** Where traffic and agents report what happens. Wants nothing until the delivery of events is open. */
class EventBus {
  #queue: TrafficEventQueue | undefined

  /** From now on the queue decides what is wanted and takes it. */
  connect(queue: TrafficEventQueue): void {
    this.#queue = queue
  }

  wants(type: Parameters<TrafficEventQueue['wants']>[0]): boolean {
    return this.#queue?.wants(type) === true
  }

  /** Takes an object that is complete. Does not throw. */
  publish(...event: Parameters<TrafficEventQueue['publish']>): void {
    this.#queue?.publish(...event)
  }

  /** Takes the fields of an event of traffic, which are read later. Does not throw. */
  put(...event: Parameters<TrafficEventQueue['put']>): void {
    this.#queue?.put(...event)
  }
}

/** Scheme, host and port of the API as clients see it, without a slash at the end; empty until the API listens. */
class PublicUrl {
  #text = ''

  set(text: string): void {
    this.#text = text
  }

  readonly read = (): string => this.#text
}

/** What follows the revisions that serve. */
interface RevisionFollower {
  /** A revision serves here, from any process. Must not throw. */
  served?(): void
  /** Waits until records of these kinds are followed. Must not reject. */
  settled?(kinds: ReadonlySet<string>): Promise<unknown> | undefined
}

/** Reports each revision that serves to its followers, in the order in which they came. */
class RevisionFollowers {
  readonly #followers: RevisionFollower[] = []

  add(follower: RevisionFollower): void {
    this.#followers.push(follower)
  }

  readonly served = (): void => {
    for (const follower of this.#followers) follower.served?.()
  }

  readonly settled = async (kinds: ReadonlySet<string>): Promise<void> => {
    await Promise.all(this.#followers.map((follower) => follower.settled?.(kinds)))
  }
}

/** What every later stage builds on. Nothing in it is open to the outside. */
export interface Foundation extends Pick<Host, 'clock' | 'log' | 'output'> {
  readonly lifecycle: Lifecycle
  readonly live: LiveOptions
  readonly holder: SnapshotHolder
  /** What looks at exchanges of clients. */
  readonly observers: Observers
  readonly metrics: Metrics
  /** Addresses of proxies that may name a client; undefined: none may. */
  readonly trusted: CidrSet | undefined
  readonly names: Names
  readonly lookups: ReturnType<typeof observeNames>
  readonly limiter: LimiterTable
  readonly turnedAway: TurnedAwayLog
  readonly storeHealth: StoreHealth
  readonly loop: LoopDelay
  readonly bus: EventBus
  readonly challenges: ChallengeTable
  readonly publicUrl: PublicUrl
  readonly revisions: RevisionFollowers
}

/** The networks of trusted proxies; undefined: there are none. */
function networksOf(networks: readonly string[]): CidrSet | undefined {
  if (networks.length === 0) return undefined
  return new CidrSet(networks.flatMap((network) => parseCidr(network) ?? []))
}

export function createFoundation(
  options: Options,
  { clock, log, output }: Host,
  lifecycle: Lifecycle,
  live: LiveOptions
): Foundation {
  const loop = new LoopDelay()
  lifecycle.opens({ loop })
  const holder = new SnapshotHolder(Snapshot.empty())
  const metrics = new Metrics((key) => holder.current().plan.units.get(key) !== undefined)
  const lookups = observeNames(metrics.registry, clock)
  const names = createNames(namesOptions(options), clock, lookups)
  lifecycle.opens({ names })
  return {
    clock,
    log,
    ...(output === undefined ? {} : { output }),
    lifecycle,
    live,
    holder,
    observers: new Observers(),
    metrics,
    trusted: networksOf(options.trusted_proxies),
    names,
    lookups,
    limiter: new LimiterTable({ budgetBytes: options.limiter.budget, clock }),
    turnedAway: new TurnedAwayLog(clock, log, (...what) => metrics.turnedAway(...what)),
    storeHealth: new StoreHealth(clock),
    loop,
    bus: new EventBus(),
    challenges: new ChallengeTable(),
    publicUrl: new PublicUrl(),
    revisions: new RevisionFollowers()
  }
}
