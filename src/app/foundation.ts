import type { Logger } from 'pino'
import { LimitsElsewhere } from '../features/rate-limit/elsewhere.js'
import { LimiterTable } from '../features/rate-limit/limiter/table.js'
import type { Clock } from '../lib/clock.js'
import { InheritedSockets } from '../lib/inherited-sockets.js'
import type { LineOutput } from '../lib/line-output.js'
import type { Options } from '../options/options.js'
import { StoreHealth } from '../store/store-health.js'
import { LoopDelay } from '../telemetry/process-health.js'
import type { TrafficEventQueue } from '../telemetry/traffic-events.js'
import { type AccessLogOutput, openAccessLog } from './access-log.js'
import type { CountersOfLimits } from './kept-counters.js'
import type { LiveOptions } from './live-options.js'
import type { OpenedParts } from './opened-parts.js'
import type { Lifecycle } from './stop.js'
import { createTrafficFoundation, type TrafficFoundation } from './traffic-foundation.js'

/** Environment of an app. */
export interface Host {
  readonly log: Logger
  /** Output of the log's lines. Undefined if the log is not on standard output. */
  readonly output?: LineOutput
  readonly clock: Clock
  /** The administrator's key of the environment, if there is one. */
  readonly apiKey: string | undefined
  /** The sealing key of the environment, if there is one. */
  readonly sealKey: string | undefined
  /** Sockets inherited by the process. @default none */
  readonly sockets?: InheritedSockets
  /** Variables for secrets of a site file. @default none */
  readonly environment?: Readonly<Record<string, string | undefined>>
  /** The sealing key of the store is lost: the one that is here, or a new one, takes its place. */
  readonly newSealKey?: boolean
  /** Create a missing store, even if its sealing key exists. */
  readonly newStore?: boolean
  /** Number of workers, and the output of their log. Its methods do not throw. @default the main thread carries traffic */
  readonly threads?: {
    readonly size: number
    /** Takes whole lines. */
    lines(text: string): void
    /** Reports the number of dropped lines. */
    lost(lines: number): void
  }
  /** The predecessor process; its clock is `clock`. @default none */
  readonly predecessor?: {
    /** Secret of the table of limits: 16 bytes. */
    readonly limiterSecret: Uint8Array
    /** Keys of session tickets: 48 bytes. */
    readonly ticketKeys: Uint8Array
  }
  /** Puts what the process has from elsewhere, such as from its predecessor, before the first stage. @default nothing */
  readonly brings?: (opened: OpenedParts) => void
  /** Open nothing to the outside: the start only shows its result. */
  readonly rehearsal?: boolean
  /** Aborts a start; `Running.stop` stops a running process. */
  readonly signal?: AbortSignal
}

type TrafficEvents = Pick<TrafficEventQueue, 'wants' | 'publish' | 'put'>

/** Events of traffic and agents, which are dropped until their delivery has started. */
class EventBus {
  #queue: TrafficEvents | undefined

  /** Connects the queue, which decides the wanted types. */
  connect(queue: TrafficEvents): void {
    this.#queue = queue
  }

  wants(type: Parameters<TrafficEvents['wants']>[0]): boolean {
    return this.#queue?.wants(type) === true
  }

  /** Takes an object that is complete. Does not throw. */
  publish(...event: Parameters<TrafficEvents['publish']>): void {
    this.#queue?.publish(...event)
  }

  /** Takes the fields of an event of traffic, which are read later. Does not throw. */
  put(...event: Parameters<TrafficEvents['put']>): void {
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

/** Follower of served revisions. */
interface RevisionFollower {
  /** A revision serves here, from any process. Must not throw. */
  served?(): void
  /** Waits until records of these kinds are followed. Must not reject. */
  settled?(kinds: ReadonlySet<string>): Promise<unknown> | undefined
}

/** Reports each revision that serves to its followers, in the order in which they came. */
class RevisionFollowers {
  readonly #followers: RevisionFollower[] = []

  /** Adds a follower. Returns a function that removes it. */
  add(follower: RevisionFollower): () => void {
    this.#followers.push(follower)
    return () => {
      const at = this.#followers.indexOf(follower)
      if (at !== -1) this.#followers.splice(at, 1)
    }
  }

  readonly served = (): void => {
    for (const follower of this.#followers) follower.served?.()
  }

  readonly settled = async (kinds: ReadonlySet<string>): Promise<void> => {
    await Promise.all(this.#followers.map((follower) => follower.settled?.(kinds)))
  }
}

/** Common foundation of all later stages. Nothing in it is open to the outside. */
export interface Foundation extends TrafficFoundation, Pick<Host, 'output'> {
  readonly lifecycle: Lifecycle
  readonly sockets: InheritedSockets
  readonly accessLog: AccessLogOutput
  readonly storeHealth: StoreHealth
  readonly loop: LoopDelay
  readonly bus: EventBus
  readonly publicUrl: PublicUrl
  readonly revisions: RevisionFollowers
  readonly limitsElsewhere: LimitsElsewhere
}

export function createFoundation(
  options: Options,
  { clock, log, output, sockets = new InheritedSockets(), predecessor, threads }: Host,
  lifecycle: Lifecycle,
  live: LiveOptions,
  counters: Pick<CountersOfLimits, 'secret'> | undefined
): Foundation {
  const loop = new LoopDelay()
  lifecycle.opens('event loop', { begin: () => loop.stop() })
  const seed = predecessor?.limiterSecret ?? counters?.secret
  const about = { budgetBytes: options.limiter.budget, clock, logged: counters !== undefined || threads !== undefined }
  const limiter = new LimiterTable(seed === undefined ? about : { ...about, seed })
  const traffic = createTrafficFoundation(options, { clock, log, live, limiter })
  lifecycle.opens('names', { names: () => traffic.names.close() })
  const accessLog = openAccessLog(options, log, output)
  lifecycle.opens('access log', { lines: () => accessLog.close() })
  return {
    ...traffic,
    ...(output === undefined ? {} : { output }),
    lifecycle,
    sockets,
    accessLog,
    storeHealth: new StoreHealth(clock),
    loop,
    bus: new EventBus(),
    publicUrl: new PublicUrl(),
    revisions: new RevisionFollowers(),
    limitsElsewhere: new LimitsElsewhere()
  }
}
