import type { Clock } from '../lib/clock.js'
import type { Json } from '../lib/json.js'
import type { Sealer } from '../lib/seal.js'
import { Slices, type Steps } from '../lib/slices.js'
import type { Resource } from '../resources/resource.js'
import type { CompileOptions } from '../runtime/compile.js'
import type { EdgeAt } from '../runtime/http-edges.js'
import { noPorts, type Ports } from '../runtime/ports.js'
import { noReplicas, type Replicas } from '../runtime/replicas.js'
import type { Snapshot, SnapshotHolder } from '../runtime/snapshot.js'
import type { FileCheck, PolicyCheck } from '../schema/field.js'
import type { Store, StoreLog } from '../store/store.js'
import type { Principals } from './access.js'
import { Answers } from './answers.js'
import { AppliedRevision } from './applied.js'
import { Live } from './apply.js'
import type { EventRecorder, ProcessNumbers, RecordEvent, WorkerState } from './calls.js'
import { ClusterAgents } from './cluster/agents.js'
import type { LiveSources } from './cluster/live-sources.js'
import { ProcessReports } from './cluster/membership.js'
import type { LatestRevision } from './configuration.js'
import { DeclaredRecords } from './declared-records.js'
import { Edits } from './edits.js'
import { DEFAULT_LISTENER } from './file-units.js'
import type { PolicyLanguage } from './policies.js'
import type { PolicyTesting } from './policy-tests.js'
import type { WantedUrl } from './record-rules.js'
import { Catalogue, Records } from './records.js'
import type { EndedSessions, SessionLifetimes } from './sessions.js'
import type { TrafficSource } from './traffic.js'
import type { PlaceOfAddress } from './visitors.js'
import { noGuards, type OpenWriteGuards, type WriteGuards } from './write-guards.js'
import { Writer } from './writer.js'

/** The store, and how work on it is done. */
interface StoreOptions {
  /** Must be open; closed by the control plane, even if start-up fails. */
  readonly store: Store
  /** Receives the revisions of `store` since it was opened. */
  readonly latest: LatestRevision
  /** Returns the reason why a copy replaces the store, for display; null otherwise. */
  readonly degraded?: () => string | null
  readonly seal: Sealer
  readonly clock: Clock
  readonly log: StoreLog
  /** Creates the time slices of one piece of work. @default those of the system's clock */
  readonly slices?: () => Slices
  /** Milliseconds between reports to the other processes on the store; undefined for no reports. */
  readonly reportEvery?: number
}

/** Rules of records: what there is, and what a write may hold. */
interface RecordRules {
  /** Every resource; in production the list of `registry.ts`. */
  readonly resources: readonly Resource[]
  readonly checkPolicy: PolicyCheck
  /** Runs the tests stored with policies. Undefined if records with tests cannot be written. */
  readonly testPolicy?: PolicyTesting
  /** Policy language; undefined if policies cannot be checked or tested before a write. */
  readonly policyLanguage?: PolicyLanguage
  /** Checks paths of files. @default destinations check their own files */
  readonly checkFile?: FileCheck
  /** Checks folders to be served. @default all folders are allowed */
  readonly checkFolder?: FileCheck
  readonly zone: string
  readonly regions: readonly string[]
  /** Must the hosts of HTTPS edges be reserved domains? */
  readonly requireReserved?: boolean
  /** May static backends have link-local addresses? */
  readonly linkLocalBackends?: boolean
  /** Opens the guards of writes. @default guards are refused */
  readonly guards?: OpenWriteGuards
}

/** The running configuration, and what follows its changes. */
interface ServingOptions {
  readonly holder: SnapshotHolder
  readonly compile: CompileOptions
  /** Opens the listeners. @default none are opened */
  readonly ports?: Ports
  /** Workers that serve the plan. @default none */
  readonly replicas?: Replicas
  /** Called after a new snapshot has been swapped in. Must not throw. */
  readonly swapped?: (snapshot: Snapshot) => void
  /** Steps after `swapped`, beside traffic; the next change waits for them. Must not throw. */
  readonly settling?: (snapshot: Snapshot) => Steps<void>
  /** Stores the events of each write in its transaction. @default no events */
  readonly events?: EventRecorder
  /** Called for each committed change of a record, after it serves. */
  readonly published?: (event: RecordEvent) => void
  /** Called for each revision once it serves here, whichever process wrote it. Must not throw. */
  readonly served?: (revision: number) => void
  /** Waits until the followers of these kinds have applied the changes; the response to a write waits for it. Must not reject. */
  readonly settled?: (kinds: ReadonlySet<string>) => Promise<void>
}

/** Callers that are let in. */
interface AccessOptions {
  /** Keys of the operator, outside of the store; they belong to the administrator. */
  readonly operatorKeys: { accepts(key: string): Promise<boolean> }
  /** Remembers the sessions that were signed out. */
  readonly endedSessions: EndedSessions
  /** Returns the place of a client's address, for sessions of visitors. @default not known */
  readonly placeOfAddress?: PlaceOfAddress
  /** Lifetimes of dashboard sessions. @default `SESSION_LIFETIMES` */
  readonly sessionLifetimes?: SessionLifetimes
}

/** State of the process that answers show. */
interface ShownState {
  /** Returns scheme, host and port of the API as clients see it, without a trailing slash; called for each response. */
  readonly baseUrl: () => string
  /** Traffic statistics; undefined without a data plane. */
  readonly trafficNumbers?: TrafficSource
  /** Returns the delivery status of an event destination. */
  readonly deliveryOf?: (destination: string) => Json | undefined
  /** Returns this process's health state of a backend's server. */
  readonly healthOf?: (backend: string) => Json | undefined
  /** Returns the workers. @default none */
  readonly workers?: () => Promise<readonly WorkerState[]>
  /** Returns the statistics of this process. @default none */
  readonly itself?: () => ProcessNumbers
}

/** Dependencies of the control plane. */
export type ControlOptions = StoreOptions & RecordRules & ServingOptions & AccessOptions & ShownState

/** Common parts of the readers and writers of records. */
export interface ControlParts {
  readonly store: Store
  readonly catalogue: Catalogue
  readonly records: Records
  readonly answers: Answers
  readonly edits: Edits
  readonly live: Live
  readonly applied: AppliedRevision
  readonly writer: Writer
  readonly guards: WriteGuards
  readonly reports: ProcessReports
  /** Agents of all processes on the store. */
  readonly agents: ClusterAgents
  /** Records that a site file of this process declares. */
  readonly declared: DeclaredRecords
}

/** Access of services beside the API: their writes are regular writes. */
export interface ServiceAccount
  extends Pick<
    ControlParts,
    'store' | 'records' | 'catalogue' | 'writer' | 'answers' | 'edits' | 'declared' | 'agents'
  > {
  readonly applied: Pick<AppliedRevision, 'degraded'>
}

export function buildParts(options: ControlOptions, sources: LiveSources, principals: Principals): ControlParts {
  const { store, seal, clock, log, holder, compile, checkPolicy, zone, published, events, reportEvery } = options
  const { swapped = () => undefined, served = () => undefined, ports = noPorts, degraded = () => null } = options
  const { settling = settleNothing, replicas = noReplicas } = options
  // Until the listeners of the process are open, no traffic is beside the work.
  const besideTraffic = (): Slices => (live.units.has(DEFAULT_LISTENER) ? Slices.besideTraffic() : new Slices())
  const { slices = besideTraffic } = options
  const catalogue = new Catalogue(options.resources)
  const records = new Records(seal)
  const declared = new DeclaredRecords()
  const live = new Live({ holder, compile, ports, replicas, slices, swapped, settling })
  const guards = options.guards?.({ store, catalogue }) ?? noGuards
  const followed = (revision: number) => {
    guards.served(revision)
    served(revision)
  }
  const applied = new AppliedRevision({ records, live, principals, clock, log, slices, served: followed, degraded })
  const reports = new ProcessReports({ store, applied, clock, log, every: reportEvery })
  const agents = new ClusterAgents({ store, reports, sources, clock, log })
  const answers = new Answers(catalogue, records, declared, {
    ...options,
    selectedBy: (groups) => agents.selectedBy(groups)
  })
  const writer = new Writer({
    store,
    applied,
    live,
    holder,
    principals,
    log,
    slices,
    draft: {
      catalogue,
      records,
      answers,
      declared,
      edgeOn: (host) => edgeOn(holder, host),
      agentAt: (url) => agentAt(holder, url),
      requireReserved: options.requireReserved === true,
      linkLocalBackends: options.linkLocalBackends === true,
      lenientPaths: () => holder.current().tables.https.takesLenientPaths,
      testPolicy: options.testPolicy,
      eventful: async (tx, about) => published !== undefined || (await events?.wants(tx, about)) === true
    },
    guards,
    recorder: events,
    committed: () => reports.soon(),
    published: (event) => publish(published, event, log),
    settled: options.settled ?? (async () => undefined)
  })
  const edits = new Edits({
    catalogue,
    records,
    declared,
    clock,
    checkPolicy,
    checkFile: options.checkFile,
    checkFolder: options.checkFolder,
    slices,
    zone
  })
  return {
    store,
    catalogue,
    records,
    answers,
    edits,
    live,
    applied,
    writer,
    guards,
    reports,
    agents,
    declared
  }
}

function* settleNothing(): Steps<void> {}

/** The edge that serves exactly this host. */
function edgeOn(holder: SnapshotHolder, host: string): string | undefined {
  const edge = holder.current().edge(host)
  return edge === undefined || edge.hosts === 'every' || !edge.hosts.some((at) => at.host === host)
    ? undefined
    : edge.id
}

/**
 * The endpoint of an agent at a TCP port, or with a host on any port, that does not share the URL. Edges of agents yield; the ids of their
 * units hold a slash, which no id of a record does.
 */
function agentAt(holder: SnapshotHolder, { proto, host, port, pooled }: WantedUrl): string | undefined {
  const { edges, tcpEdges } = holder.current().tables
  if (proto === 'tcp') {
    const at = { host, port }
    const agents = [tcpEdges.at(host, port), ...tcpEdges.sharing(at)].filter((edge) => edge?.id.includes('/') === true)
    return agents.find((edge) => !pooled || edge?.pool === undefined)?.id
  }
  const agents = edges.hosts.exactly(host).filter(({ edge }) => edge.yields)
  const shares = ({ edge, endpoint }: EdgeAt) =>
    pooled &&
    edge.pool !== undefined &&
    endpoint?.port === port &&
    (edge.passthrough === true ? 'tls' : edge.protocol) === proto
  return agents.find((at) => !shares(at))?.edge.id
}

/** The write is committed; an error in a subscriber must not fail it. */
function publish(published: ControlOptions['published'], event: RecordEvent, log: StoreLog): void {
  try {
    published?.(event)
  } catch (error) {
    log.warn({ err: error, event: event.type, id: event.id }, 'an event was not taken')
  }
}
