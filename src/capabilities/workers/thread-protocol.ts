import type { Ended, EndedNews } from '../../features/login/ended-sessions.js'
import type { SessionAnswer, SessionCall } from '../../features/login/session-keeper.js'
import type { LimitNumbers } from '../../features/rate-limit/elsewhere.js'
import type { ClusterStatistics } from '../../features/rate-limit/leases/cluster-limits.js'
import type { LimiterHandle } from '../../features/rate-limit/limiter/memory.js'
import type { BuiltRules } from '../../features/waf/engine/rule-set.js'
import type { Lookup } from '../../lib/names/lookups.js'
import type { HoldingsMemory } from '../../lib/shared-holdings.js'
import type { NamedMemory } from '../../lib/shared-records.js'
import type { Options } from '../../options/options.js'
import type { Found } from '../../proxy/health.js'
import type { OutageJudge, OutageState } from '../../proxy/server.js'
import type { ServerIdentity } from '../../proxy/server-identity.js'
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

/** Start data of a worker. Plain data. */
export interface TrafficThreadData {
  readonly options: Options
  /** Log level of the process. */
  readonly level: string
  /** See `clockOrigin`. */
  readonly clockOrigin: number
  /** See `TrafficFoundation`. */
  readonly processId: string
  /** Derived from the sealing keys, 32 bytes each, by purpose. */
  readonly keys: { readonly sticky: readonly Uint8Array[]; readonly login: readonly Uint8Array[] }
  readonly ticketKeys: Uint8Array
  readonly development: ServerIdentity
  /** Memory of buffered bodies, and the worker's slot in it, unique while the worker runs. */
  readonly holdings: HoldingsMemory
  readonly slot: number
  /** Number of workers. */
  readonly threads: number
  /** The table of limits of the process. */
  readonly limiter: LimiterHandle
  /** Identity at the ledger of limits; undefined if the process is alone on its store. */
  readonly cluster: ThreadMember | undefined
  /** See `DescriptorShares`. */
  readonly descriptors: SharedArrayBuffer
  /** Rules of the firewall, built once for the process; undefined without the option. */
  readonly rules: BuiltRules | undefined
  /** Shows that its event loop turns; see `ThreadWatchdog`. */
  readonly beat: Int32Array
}

/** Data that is relayed in order, bounded in bytes. */
export type TakenKind = 'lines' | 'events' | 'access' | 'traces' | 'exchanges'

/** Messages from the main thread to a worker. */
export type ToTrafficThread =
  | ToReplica
  | ToServing
  | ToThreadLedger
  | ToThreadRecorder
  /** Applies these options, as far as a reload can. */
  | { readonly kind: 'options'; readonly options: Options }
  | { readonly kind: 'ticket-keys'; readonly keys: Uint8Array }
  /** Rules of the firewall that replace the present ones. */
  | { readonly kind: 'waf-rules'; readonly rules: BuiltRules }
  /** Responses to challenges of authorities, by host and path. */
  | { readonly kind: 'challenges'; readonly answers: ReadonlyMap<string, Uint8Array> }
  /** Events of traffic that are wanted, by type. */
  | {
      readonly kind: 'subscriptions'
      readonly account: string
      readonly subscriptions: ReadonlyMap<string, readonly Subscribed[]>
    }
  /** Acknowledges relayed data of this size. */
  | { readonly kind: 'taken'; readonly what: TakenKind; readonly bytes: number }
  /** State of servers: failures found by traffic in all workers, and results of health checks. */
  | { readonly kind: 'outage'; readonly place: string; readonly state: OutageState }
  | { readonly kind: 'check'; readonly check: string; readonly found: Found | undefined }
  /** Records that this thread is about to ask for. */
  | { readonly kind: 'records'; readonly memory: NamedMemory }
  /** Logins that were ended; the worker acknowledges them. */
  | { readonly kind: 'ended-logins'; readonly serial: number; readonly news: EndedNews }
  /** Answers a question; `failed` is the reason of a failure. */
  | { readonly kind: 'answer'; readonly serial: number; readonly value: ThreadAnswer; readonly failed?: string }
  /** Requests the worker's state and counters, and with `limits` those of limits. */
  | { readonly kind: 'count'; readonly serial: number; readonly limits: boolean }
  /** Drains connections within this time (ms). */
  | { readonly kind: 'drain'; readonly deadline: number }

/** Answer to a worker's question: `boolean`, except for sessions of logins. */
export type ThreadAnswer = boolean | SessionAnswer

/** Questions of a worker that must be decided once for the process. */
export type ThreadQuestion =
  /** Is a delivery of a webhook new? Records it. */
  | {
      readonly about: 'delivery'
      readonly identity: string
      readonly once: string
      readonly now: number
      readonly lasting: number
    }
  /** Requests the record of the retry budget of a unit; it is sent before the answer. */
  | { readonly about: 'budget'; readonly key: string }
  /** Ends these logins permanently in all processes. */
  | { readonly about: 'ended-logins'; readonly sessions: readonly Ended[] }
  /** Reads or writes sessions in the store. */
  | { readonly about: 'login-session'; readonly call: SessionCall }

/** State of a worker. */
export interface ThreadState {
  /** Seconds. */
  readonly loop: LoopDelays
  /** Bytes. */
  readonly heapUsed: number
  readonly heapLimit: number
  readonly external: number
  /** Servers that it has sent something to. */
  readonly servers: readonly UpstreamState[]
  /** Statistics of cluster limits; undefined if there are none. */
  readonly cluster: ClusterStatistics | undefined
}

/** Messages from a worker to the main thread. */
export type FromTrafficThread =
  | FromReplica
  | FromServing
  | FromThreadLedger
  | FromThreadRecorder
  /** Counters of the limits that have decided since the last message, by identity. */
  | { readonly kind: 'limits'; readonly limits: ReadonlyMap<string, LimitNumbers> }
  /** Announces a series of a metric; its numbers are read from shared memory. */
  | { readonly kind: 'series'; readonly series: SharedSeries }
  /** Rates of exchanges. `answers`: the answered request, and the worker's state. Sent after the counters of limits. */
  | {
      readonly kind: 'counted'
      readonly rates: CountedRates
      readonly answers?: { readonly serial: number; readonly state: ThreadState }
    }
  /** Acknowledges that ended logins apply. */
  | { readonly kind: 'logins-ended'; readonly serial: number }
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
  /** Data of sampled exchanges. `dropped`: number of dropped spans. */
  | {
      readonly kind: 'traces'
      readonly traced: readonly TracedExchange[]
      readonly bytes: number
      readonly dropped: number
    }
  | { readonly kind: 'looked'; readonly lookups: readonly Lookup[] }
  | { readonly kind: 'ask'; readonly serial: number; readonly question: ThreadQuestion }
  /** Reports the result of a request to a server. */
  | { readonly kind: 'server'; readonly place: string; readonly how: Parameters<OutageJudge['failed']>[1] | 'answered' }
  /** The delivery of a webhook may come again. */
  | { readonly kind: 'release'; readonly identity: string; readonly once: string }
  /** The thread has failed: it takes no connection any more, and ends when those that it has are over. */
  | { readonly kind: 'failing' }
  /** Result of `drain`. */
  | { readonly kind: 'drained'; readonly ended: number; readonly cut: number }
