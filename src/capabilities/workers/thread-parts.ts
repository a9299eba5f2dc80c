import type { Foundation } from '../../app/foundation.js'
import { partKey } from '../../app/opened-parts.js'
import type { Challenges, EventDelivery, FollowedTunnels } from '../../app/ports.js'
import type { OpenTraffic } from '../../app/stages.js'
import type { Login } from '../../features/login/service.js'
import type { ClusterStatistics } from '../../features/rate-limit/leases/cluster-limits.js'
import type { FolderRules } from '../../features/waf/rules.js'
import type { LimitLedger } from '../../lib/limit-ledger.js'
import type { MadeRecords } from '../../lib/shared-records.js'
import type { ExchangeRecorder } from '../recorder/exchange-recorder.js'
import type { SpanExporter } from '../traces/span-exporter.js'
import type { SocketDealer } from './sockets/dealer.js'
import type { ThreadMember } from './thread-ledger.js'
import type { TrafficThreadData } from './thread-protocol.js'

/** Output of threads. Its methods do not throw. */
interface ThreadOutput {
  /** Takes whole lines of the log. */
  lines(text: string): void
  /** Reports the number of dropped lines. */
  lost(lines: number): void
}

/** Limits over the cluster, in which each worker is a member. */
export interface ClusterThreads {
  readonly ledger: LimitLedger
  /** Creates the identity of a new worker. */
  readonly newMember: () => ThreadMember
  /** Adds the statistics of workers to those of the main thread. */
  count(elsewhere: () => Iterable<ClusterStatistics>): void
}

/** Limits over the cluster of this process, for its workers. */
export const CLUSTER_THREADS = partKey<ClusterThreads>('limits of the cluster')

/** Dependencies of the workers. */
export interface ThreadsParts {
  readonly size: number
  readonly data: Omit<
    TrafficThreadData,
    'ticketKeys' | 'holdings' | 'slot' | 'threads' | 'limiter' | 'cluster' | 'rules' | 'beat'
  >
  /** The log's output. */
  readonly output: ThreadOutput
  readonly foundation: Pick<
    Foundation,
    'clock' | 'log' | 'live' | 'metrics' | 'lookups' | 'limiter' | 'limitsElsewhere' | 'accessLog'
  >
  /** The data plane of this thread, which judges how servers do. */
  readonly dataPlane: Pick<OpenTraffic, 'upstreams' | 'ticketKeys'>
  readonly dealer: SocketDealer
  /** Event subscriptions, and the queue for written events; undefined if there are none. */
  readonly events: Pick<EventDelivery, 'subscribe' | 'written'> | undefined
  /** Breakers and retry budgets, which all threads have together. */
  readonly records: MadeRecords
  readonly tunnels: FollowedTunnels
  /** Exporter of spans; undefined if tracing is disabled. */
  readonly spans: SpanIntake | undefined
  /** Logins that were ended, and sessions that the store keeps. */
  readonly login: Pick<Login, 'ended' | 'keeper'>
  /** Rules of the firewall; undefined without the option. */
  readonly rules: Pick<FolderRules, 'built' | 'follow'> | undefined
  /** Recorder of the workers' exchanges. */
  readonly recorder: ExchangeRecorder
  /** Ledger of limits, and identities for new workers; undefined if the process is alone on its store. */
  readonly cluster: Pick<ClusterThreads, 'ledger' | 'newMember'> | undefined
  /** Challenges of authorities; undefined if this process answers none. */
  readonly challenges: Pick<Challenges, 'follow'> | undefined
}

/** Exporter of sampled exchanges. */
type SpanIntake = Pick<SpanExporter, 'take' | 'lost'>
