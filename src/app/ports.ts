import type { EventRecorder, WorkerState } from '../control/calls.js'
import type { LiveSources } from '../control/cluster/live-sources.js'
import type { PolicyTesting, PolicyTestRun } from '../control/policy-tests.js'
import type { OpenWriteGuards } from '../control/write-guards.js'
import type { Json } from '../lib/json.js'
import type { SharedRecords } from '../lib/shared-records.js'
import type { Steps } from '../lib/slices.js'
import type { Options } from '../options/options.js'
import type { Provided } from '../policy/services.js'
import type { LiveTunnel, TunnelGroups } from '../proxy/unit-servers.js'
import type { Replicas } from '../runtime/replicas.js'
import type { Snapshot } from '../runtime/snapshot.js'
import type { FileCheck } from '../schema/field.js'
import type { Store } from '../store/store.js'
import type { HealthSources } from '../telemetry/health.js'
import type {
  observeAgents,
  observeDeliveries,
  observeRestrictions,
  UpstreamState
} from '../telemetry/observed-metrics.js'
import type { Subscribed } from '../telemetry/traffic-events.js'
import type { DataPlaneParts } from './data-plane.js'
import { listKey, partKey } from './opened-parts.js'
import type { OwnFiles } from './own-files.js'

/** Responses to the open challenges of certificate authorities, by host and path. */
export interface Challenges {
  /** Returns the response to a challenge request, undefined for all other requests. */
  answer(host: string, path: string): Uint8Array | undefined
  /** Calls `follower` with all responses, now and after every change. It must not throw. */
  follow(follower: (answers: ReadonlyMap<string, Uint8Array>) => void): void
}

type Labels = Readonly<Record<string, string>>
type FollowedTunnel = LiveTunnel & { readonly http2: boolean; readonly reusable?: boolean }

/** Live tunnels whose start and end can be followed. */
export interface FollowedTunnels extends TunnelGroups {
  follow(follower: { begins(tunnel: FollowedTunnel, labels: Labels): void; ends(tunnel: LiveTunnel): void }): () => void
}

/** Numbers of agents for the metrics. */
export interface AgentNumbers {
  readonly statistics: ReturnType<Parameters<typeof observeAgents>[1]>
  readonly addressCounts: ReturnType<Parameters<typeof observeRestrictions>[1]>[string]
}

/** Stores events with their causes, and delivers them. */
export interface EventDelivery extends EventRecorder {
  /** Uses the opened store from now on. */
  attach(store: Store): Promise<unknown>
  /** Returns the delivery status of an event destination. */
  readonly deliveryOf: (destination: string) => Json | undefined
  /** Returns the counts of deliveries by destination. */
  counts(): ReturnType<Parameters<typeof observeDeliveries>[1]>
  /** Calls `follower` with the account and the subscriptions, now and after every change. It must not throw. */
  subscribe(follower: (account: string, subscriptions: ReadonlyMap<string, readonly Subscribed[]>) => void): unknown
  /** Takes a written event of traffic for a destination. Does not throw or block. */
  written(destination: string, event: string): void
}

/** Threads that carry the traffic of this process in place of the main thread. */
export interface TrafficCarriers {
  /** Serves the plan in every thread. */
  readonly pool: Replicas
  /** Resolves when the counters of all threads are read, with those of limits if requested. */
  count(of?: { readonly limits: boolean }): Promise<void>
  /** Returns the requests of all threads to servers; a server may occur several times. */
  upstreams(): Iterable<UpstreamState>
  /** Returns the state of all threads. */
  workers(): Promise<readonly WorkerState[]>
}

/** Runs tests of policies: those that are stored with a policy, and those that a caller sends. */
export interface PolicyTests {
  readonly testing: PolicyTesting
  readonly runs: PolicyTestRun
}

/** Address at which agents connect. */
export interface AgentsListening {
  readonly host: string
  readonly port: number
  /** File of the authority that agents must trust; undefined for none. */
  readonly caFile: string | undefined
}

/** Follows the snapshots that serve. */
export interface SnapshotFollower {
  /** Called when a snapshot begins to serve. Must not throw. */
  serves(snapshot: Snapshot): void
  /** Returns the work that a snapshot causes, which runs in slices beside traffic. Must not throw. */
  settling(snapshot: Snapshot): Steps<void>
}

/**
 * Checks reloaded options before anything is applied, and returns the function that uses them once the configuration serves. Throws a CodedError
 * for options that cannot be reloaded.
 */
export type ReloadStep = (options: Options) => (() => void) | undefined

/** Parts of the data plane; later ones replace earlier ones. */
export const DATA_PLANE_PARTS = listKey<Partial<DataPlaneParts>>('parts of the data plane')
/** Followers of snapshots, in the order in which they are called. */
export const SNAPSHOT_FOLLOWERS = listKey<SnapshotFollower>('followers of snapshots')
/** Steps of a reload, in the order in which they check and use the options. */
export const RELOAD_STEPS = listKey<ReloadStep>('steps of a reload')
/** Services of policies beside those of the kernel. */
export const POLICY_SERVICES = listKey<Provided>('services of policies')
/** Sources of health that replace those of a process without capabilities. */
export const HEALTH = listKey<Partial<HealthSources>>('sources of health')
/** Challenges of certificate authorities. Without them no request is answered as a challenge. */
export const CHALLENGES = partKey<Challenges>('challenges of authorities')
/** Tunnels of agents. Without them upstreams that lead to tunnels have none. */
export const TUNNELS = partKey<FollowedTunnels>('tunnels of agents')
/** Live entries of the API, such as connected agents. */
export const LIVE_SOURCES = partKey<LiveSources>('live entries')
/** Numbers of agents. Without them there are no metrics of agents. */
export const AGENT_NUMBERS = partKey<AgentNumbers>('numbers of agents')
/** Records of breakers and retry budgets that threads share. Without them each thread has its own. */
export const SHARED_RECORDS = partKey<SharedRecords>('records that threads share')
/** Threads that carry traffic. Without them the main thread does. */
export const TRAFFIC_CARRIERS = partKey<TrafficCarriers>('threads that carry traffic')
/** Delivery of events. Without it events are dropped. */
export const EVENT_DELIVERY = partKey<EventDelivery>('delivery of events')
/** Check of files of events. Without it destinations check their own files. */
export const EVENT_FILE_CHECK = partKey<FileCheck>('check of files of events')
/** Tests of policies. Without them records with tests cannot be written. */
export const POLICY_TESTS = partKey<PolicyTests>('tests of policies')
/** Guards of writes. Without them every guard is refused. */
export const WRITE_GUARDS = partKey<OpenWriteGuards>('guards of writes')
/** File of the options that declares records. Without it none is read. */
export const OWN_FILES = partKey<OwnFiles>('files that declare records')
/** Address of the listener of agents. Without it agents cannot connect. */
export const AGENTS_ADDRESS = partKey<AgentsListening>('address of agents')
