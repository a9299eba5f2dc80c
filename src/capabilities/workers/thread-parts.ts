import type { Logger } from 'pino'
import type { Login } from '../../features/login/service.js'
import type { LimitsElsewhere } from '../../features/rate-limit/elsewhere.js'
import type { LimiterTable } from '../../features/rate-limit/limiter/table.js'
import type { Clock } from '../../lib/clock.js'
import type { DescriptorShares } from '../../lib/descriptor-shares.js'
import type { LimitLedger } from '../../lib/limit-ledger.js'
import type { Lookup } from '../../lib/names/lookups.js'
import type { MadeRecords } from '../../lib/shared-records.js'
import type { TicketKeys } from '../../proxy/ticket-keys.js'
import type { UnitServers } from '../../proxy/unit-servers.js'
import type { Metrics } from '../../telemetry/metrics.js'
import type { Subscribed } from '../../telemetry/traffic-events.js'
import type { ExchangeRecorder } from '../recorder/exchange-recorder.js'
import type { SpanExporter } from '../traces/span-exporter.js'
import type { SocketDealer } from './sockets/dealer.js'
import type { HeldTunnels } from './sockets/tunnel-outlet.js'
import type { ThreadMember } from './thread-ledger.js'
import type { TrafficThreadData } from './thread-protocol.js'

/** Output of threads. Its methods do not throw. */
export interface ThreadOutput {
  /** Takes whole lines of the log. */
  lines(text: string): void
  /** Reports the number of dropped lines. */
  lost(lines: number): void
}

/** Dependencies of the workers. */
export interface ThreadsParts {
  readonly size: number
  readonly data: Omit<
    TrafficThreadData,
    'ticketKeys' | 'holdings' | 'slot' | 'threads' | 'limiter' | 'cluster' | 'beat'
  >
  readonly ticketKeys: TicketKeys
  readonly descriptors: DescriptorShares
  readonly dealer: SocketDealer
  readonly limiter: LimiterTable
  readonly metrics: Metrics
  readonly looked: (lookup: Lookup) => void
  readonly output: ThreadOutput
  /** Takes whole lines of the access log. */
  readonly access: (lines: readonly string[]) => void
  readonly limitsElsewhere: LimitsElsewhere
  readonly log: Logger
  readonly clock: Clock
  readonly events: TrafficEvents
  /** The servers of this thread, which judges how they do. */
  readonly servers: UnitServers
  /** Breakers and retry budgets, which all threads have together. */
  readonly records: MadeRecords
  readonly tunnels: HeldTunnels
  /** Exporter of spans; undefined if tracing is disabled. */
  readonly spans: SpanIntake | undefined
  /** Logins that were ended, and sessions that the store keeps. */
  readonly login: Pick<Login, 'ended' | 'keeper'>
  /** Recorder of the workers' exchanges. */
  readonly recorder: ExchangeRecorder
  /** Ledger of limits, and identities for new workers; undefined if the process is alone on its store. */
  readonly cluster: { readonly ledger: LimitLedger; readonly newMember: () => ThreadMember } | undefined
  readonly challenges: { follow(follower: (answers: ReadonlyMap<string, Uint8Array>) => void): void }
}

/** Event subscriptions, and the queue for written events. */
interface TrafficEvents {
  subscribe(follower: (account: string, subscriptions: ReadonlyMap<string, readonly Subscribed[]>) => void): unknown
  written(destination: string, event: string): void
}

/** Exporter of sampled exchanges. */
type SpanIntake = Pick<SpanExporter, 'take' | 'lost'>
