import type { Logger } from 'pino'
import { ChallengeTable } from '../capabilities/certificates/challenges.js'
import type { Events } from '../capabilities/events/events.js'
import type { HandedEndpoint } from '../capabilities/tunnel/agents/ephemeral-endpoints.js'
import type { HandedTunnels } from '../capabilities/workers/sockets/handed-tunnels.js'
import type { FromServing } from '../capabilities/workers/sockets/protocol.js'
import type { ThreadOutput } from '../capabilities/workers/thread-parts.js'
import { LimitsElsewhere } from '../features/rate-limit/elsewhere.js'
import { LimiterTable } from '../features/rate-limit/limiter/table.js'
import type { Clock } from '../lib/clock.js'
import { InheritedSockets } from '../lib/inherited-sockets.js'
import type { LineOutput } from '../lib/line-output.js'
import type { Options } from '../options/options.js'
import { StoreHealth } from '../store/store-health.js'
import { LoopDelay } from '../telemetry/process-health.js'
import { type AccessLogOutput, openAccessLog } from './access-log.js'
import type { CountersOfLimits } from './kept-counters.js'
import type { LiveOptions } from './live-options.js'
import type { Lifecycle } from './stop.js'
import { createTrafficFoundation, type TrafficFoundation } from './traffic-foundation.js'

/** Admissions of limits, four numbers each: both halves of the bucket's hash, the seconds of its window, and the cost. */
export type Admissions = readonly number[]

/** Counters of limits of a process: the concatenated `LimiterTable.pieces`, or a file of `handOver`. */
export type HandedLimits = { readonly table: Uint8Array } | { readonly file: string }

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
  /** Number of workers, and their output. @default the main thread carries traffic */
  readonly threads?: {
    readonly size: number
  } & ThreadOutput
  /** The predecessor process; its clock is `clock`. @default none */
  readonly predecessor?: {
    /** Secret of the table of limits: 16 bytes. */
    readonly limiterSecret: Uint8Array
    /** Keys of session tickets: 48 bytes. */
    readonly ticketKeys: Uint8Array
    /** Those that agents have opened there. */
    readonly endpoints: readonly HandedEndpoint[]
    /** Passes messages about the tunnels of the predecessor's agents to `follower`; the returned function sends messages to it. */
    tunnels(follower: Pick<HandedTunnels, 'receive' | 'lost'>): (message: FromServing) => void
    /** Resolves when it has ended. */
    readonly gone: Promise<void>
    /** Returns the counters. Called once, right before ports are opened. Undefined if unavailable. */
    limits(): Promise<HandedLimits | undefined>
    /** Calls `count` with the predecessor's admissions since `limits`, until its end. */
    admitted(count: (admissions: Admissions) => void): void
  }
  /** Open nothing to the outside: the start only shows its result. */
  readonly rehearsal?: boolean
  /** Aborts a start; `Running.stop` stops a running process. */
  readonly signal?: AbortSignal
}

type TrafficEventQueue = Events['traffic']

/** Events of traffic and agents, which are dropped until their delivery has started. */
class EventBus {
  #queue: TrafficEventQueue | undefined

  /** Connects the queue, which decides the wanted types. */
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
  readonly challenges: ChallengeTable
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
  lifecycle.opens({ loop })
  const seed = predecessor?.limiterSecret ?? counters?.secret
  const about = { budgetBytes: options.limiter.budget, clock, logged: counters !== undefined || threads !== undefined }
  const limiter = new LimiterTable(seed === undefined ? about : { ...about, seed })
  const traffic = createTrafficFoundation(options, { clock, log, live, limiter })
  lifecycle.opens({ names: traffic.names })
  const accessLog = openAccessLog(options, log, output)
  lifecycle.opens({ accessLog })
  return {
    ...traffic,
    ...(output === undefined ? {} : { output }),
    lifecycle,
    sockets,
    accessLog,
    storeHealth: new StoreHealth(clock),
    loop,
    bus: new EventBus(),
    challenges: new ChallengeTable(),
    publicUrl: new PublicUrl(),
    revisions: new RevisionFollowers(),
    limitsElsewhere: new LimitsElsewhere()
  }
}
