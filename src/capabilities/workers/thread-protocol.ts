import type { Ended, EndedNews } from '../../features/login/ended-sessions.js'
import type { SessionAnswer, SessionCall } from '../../features/login/session-keeper.js'
import type { LimitNumbers } from '../../features/rate-limit/elsewhere.js'
import type { ClusterStatistics } from '../../features/rate-limit/leases/cluster-limits.js'
import type { LimiterHandle } from '../../features/rate-limit/limiter/memory.js'
import type { Lookup } from '../../lib/names/lookups.js'
import type { HoldingsMemory } from '../../lib/shared-holdings.js'
import type { NamedMemory } from '../../lib/shared-records.js'
import type { Options } from '../../options/options.js'
import type { Found } from '../../proxy/health.js'
import type { OutageJudge, OutageState } from '../../proxy/server.js'
import type { ServerIdentity } from '../../proxy/tls.js'
import type { UpstreamState } from '../../telemetry/observed-metrics.js'
import type { LoopDelays } from '../../telemetry/process-health.js'
import type { CountedRates } from '../../telemetry/relayed-traffic.js'
import type { SharedSeries } from '../../telemetry/series-memory.js'
import type { Subscribed } from '../../telemetry/traffic-events.js'
import type { FromThreadRecorder, ToThreadRecorder } from '../recorder/recording-threads.js'
import type { TracedExchange } from '../traces/traced-exchange.js'
import type { FromReplica, ToReplica } from './replicas/protocol.js'
import type { FromServing, ToServing } from './sockets/protocol.js'
import type { FromThreadLedger, ThreadMember, ToThreadLedger } from './thread-ledger.js'

/** What a thread that carries traffic begins with. Plain data. */
export interface TrafficThreadData {
  readonly options: Options
  /** Of the log of the process. */
  readonly level: string
  /** See `clockOrigin`. */
  readonly clockOrigin: number
  /** See `TrafficFoundation`. */
  readonly processId: string
  /** Derived from the sealing keys, 32 bytes each, by purpose. */
  readonly keys: { readonly sticky: readonly Uint8Array[]; readonly login: readonly Uint8Array[] }
  readonly ticketKeys: Uint8Array
  readonly development: ServerIdentity
  /** What buffered bodies hold, and the number that the thread has there, which no other one has meanwhile. */
  readonly holdings: HoldingsMemory
  readonly slot: number
  /** How many there are of them. */
  readonly threads: number
  /** The table of limits of the process. */
  readonly limiter: LimiterHandle
  /** Who it is to the ledger of limits; undefined: the process is alone on its store. */
  readonly cluster: ThreadMember | undefined
  /** See `DescriptorShares`. */
  readonly descriptors: SharedArrayBuffer
  /** Shows that its event loop turns; see `ThreadWatchdog`. */
  readonly beat: Int32Array
}

/** What is dealt with in the order in which it comes, within a bound of bytes. */
export type TakenKind = 'lines' | 'events' | 'access' | 'traces' | 'exchanges'

/** What the thread of the control plane sends to one that carries traffic. */
export type ToTrafficThread =
  | ToReplica
  | ToServing
  | ToThreadLedger
  | ToThreadRecorder
  /** From now on these options count, as far as a reload applies them. */
  | { readonly kind: 'options'; readonly options: Options }
  | { readonly kind: 'ticket-keys'; readonly keys: Uint8Array }
  /** Answers to authorities that ask for proofs, by host and path. */
  | { readonly kind: 'challenges'; readonly answers: ReadonlyMap<string, Uint8Array> }
  /** Events of traffic that are wanted, by type. */
  | {
      readonly kind: 'subscriptions'
      readonly account: string
      readonly subscriptions: ReadonlyMap<string, readonly Subscribed[]>
    }
  /** Lines, or events, of so many bytes were dealt with. */
  | { readonly kind: 'taken'; readonly what: TakenKind; readonly bytes: number }
  /** How servers do: what traffic in all threads has found of a place, and what checks have decided. */
  | { readonly kind: 'outage'; readonly place: string; readonly state: OutageState }
  | { readonly kind: 'check'; readonly check: string; readonly found: Found | undefined }
  /** Records that this thread is about to ask for. */
  | { readonly kind: 'records'; readonly memory: NamedMemory }
  /** Logins that were ended. */
  | { readonly kind: 'ended-logins'; readonly news: EndedNews }
  /** What was asked is done; `failed`: why it is not. */
  | { readonly kind: 'answer'; readonly serial: number; readonly value: ThreadAnswer; readonly failed?: string }
  /** How the thread is and what its exchanges came to is wanted now, and what limits have counted when `limits` says so. */
  | { readonly kind: 'count'; readonly serial: number; readonly limits: boolean }
  /** Connections have so many milliseconds to end. */
  | { readonly kind: 'drain'; readonly deadline: number }

/** Answer to a question of a thread: `boolean`, but for sessions of logins. */
export type ThreadAnswer = boolean | SessionAnswer

/** What a thread cannot decide by itself, because it must be one for the process. */
export type ThreadQuestion =
  /** Is a delivery of a webhook new? From now on it is not. */
  | {
      readonly about: 'delivery'
      readonly identity: string
      readonly once: string
      readonly now: number
      readonly lasting: number
    }
  /** The record of the retry budget of a unit is wanted; it comes before the answer. */
  | { readonly about: 'budget'; readonly key: string }
  /** These logins are to be ended, for good and everywhere. */
  | { readonly about: 'ended-logins'; readonly sessions: readonly Ended[] }
  /** What the store keeps of sessions. */
  | { readonly about: 'login-session'; readonly call: SessionCall }

/** How a thread that carries traffic is. */
export interface ThreadState {
  /** Seconds. */
  readonly loop: LoopDelays
  /** Bytes. */
  readonly heapUsed: number
  readonly heapLimit: number
  readonly external: number
  /** Servers that it has sent something to. */
  readonly servers: readonly UpstreamState[]
  /** What its limits over the cluster have done; undefined: there can be none. */
  readonly cluster: ClusterStatistics | undefined
}

/** What a thread that carries traffic sends to the one of the control plane. */
export type FromTrafficThread =
  | FromReplica
  | FromServing
  | FromThreadLedger
  | FromThreadRecorder
  /** What limits have counted that have decided since the message before, by their identity. */
  | { readonly kind: 'limits'; readonly limits: ReadonlyMap<string, LimitNumbers> }
  /** A series of a metric begins; its numbers are read where they stand. */
  | { readonly kind: 'series'; readonly series: SharedSeries }
  /** What exchanges came to. `answers`: what has asked, and how the thread is. It comes after the numbers of limits. */
  | {
      readonly kind: 'counted'
      readonly rates: CountedRates
      readonly answers?: { readonly serial: number; readonly state: ThreadState }
    }
  /** Whole lines of the log. `dropped`: lines that had no room since the message before. */
  | { readonly kind: 'lines'; readonly text: string; readonly bytes: number; readonly dropped: number }
  /** Lines of the access log. */
  | { readonly kind: 'access'; readonly lines: readonly string[]; readonly bytes: number; readonly dropped: number }
  | {
      readonly kind: 'events'
      readonly events: readonly (readonly [destination: string, event: string])[]
      readonly bytes: number
      readonly dropped: number
    }
  /** What sampled exchanges have left. `dropped`: spans that had no room. */
  | {
      readonly kind: 'traces'
      readonly traced: readonly TracedExchange[]
      readonly bytes: number
      readonly dropped: number
    }
  | { readonly kind: 'looked'; readonly lookups: readonly Lookup[] }
  | { readonly kind: 'ask'; readonly serial: number; readonly question: ThreadQuestion }
  /** What traffic has found of a place. */
  | { readonly kind: 'server'; readonly place: string; readonly how: Parameters<OutageJudge['failed']>[1] | 'answered' }
  /** The delivery of a webhook may come again. */
  | { readonly kind: 'release'; readonly identity: string; readonly once: string }
  /** The thread has failed: it takes no connection any more, and ends when those that it has are over. */
  | { readonly kind: 'failing' }
  /** Answers `drain`. */
  | { readonly kind: 'drained'; readonly ended: number; readonly cut: number }
