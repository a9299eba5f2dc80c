import type { OpenEvents } from '../capabilities/events/open-events.js'
import { changedDecisions } from '../capabilities/guard/running-changed-decisions.js'
import { policyTestRuns } from '../capabilities/policy-tests/stored-tests.js'
import type { ExchangeRecorder } from '../capabilities/recorder/exchange-recorder.js'
import { RUNNING_SHADOWS, RunningShadows } from '../capabilities/shadow/running-shadows.js'
import type { SiteReading } from '../capabilities/site-file/declared/site-request.js'
import type { Agents } from '../capabilities/tunnel/agents/agents.js'
import type { TrafficThreads } from '../capabilities/workers/threads.js'
import { LatestRevision } from '../control/configuration.js'
import { type ControlPlane, openControl } from '../control/control-plane.js'
import type { EndedGuard } from '../control/guard-note.js'
import type { ControlOptions } from '../control/parts.js'
import type { PolicyTesting } from '../control/policy-tests.js'
import { settleSealKey } from '../control/seal-key.js'
import type { EndedSessions } from '../features/login/ended-sessions.js'
import { actions } from '../features/registry.js'
import { type Json, timestampText } from '../lib/json.js'
import { refusalOfFolder } from '../lib/named-folders.js'
import type { Sealer } from '../lib/seal.js'
import { isShared, storeAddress } from '../options/catalogue.js'
import type { Options } from '../options/options.js'
import { IN_MEMORY } from '../options/values.js'
import type { NameState } from '../proxy/named-servers.js'
import type { ServerState } from '../proxy/server.js'
import { agentIngress } from '../resources/domains.js'
import { eventDestination } from '../resources/event-destinations.js'
import { eventSubscription } from '../resources/event-subscriptions.js'
import { botUser, credential } from '../resources/identities.js'
import { resources } from '../resources/registry.js'
import { PersistentState } from '../runtime/persistent-state.js'
import { upstreamKey } from '../runtime/plan.js'
import { noPorts } from '../runtime/ports.js'
import type { Snapshot } from '../runtime/snapshot.js'
import { untilAnswered } from '../store/copy/reaching-store.js'
import type { OpenedParts } from './capability.js'
import type { DataPlane } from './data-plane.js'
import type { Foundation, Host } from './foundation.js'
import { laxUpstreamWarnings } from './lax-upstreams.js'
import { policyCheck } from './policy-check.js'
import { policyLanguage } from './policy-language.js'
import { ownNumbers } from './process-numbers.js'
import type { openPolicyServices } from './server-services.js'
import { closeUnused } from './stop.js'
import { StartingStore, storeName } from './store-copy.js'
import { openTraffic } from './traffic.js'

/** Kinds of records that agents and the delivery of events follow beside the snapshot. */
const FOLLOWED_BY_AGENTS = [agentIngress.name, credential.name, botUser.name]
/** Kinds of records that the delivery of events follows. */
const FOLLOWED_BY_EVENTS = [eventDestination.name, eventSubscription.name]
/** Interval of a process's reports about its applied revision to other processes on its store (ms). */
const REPORT_EVERY = 1_000

type PolicyServicesStage = Awaited<ReturnType<typeof openPolicyServices>>

interface ControlStage extends OpenEvents, PolicyServicesStage {
  /** Receives the resources that capabilities open. */
  readonly opened: OpenedParts
  readonly keys: ControlOptions['operatorKeys']
  readonly seal: Sealer
  readonly siteReader: SiteReading
  /** Called whenever the store has been opened, before anything is written under the sealing key. */
  readonly storeCreated: () => Promise<void>
  readonly testPolicy: PolicyTesting
  readonly dataPlane: DataPlane
  readonly agents: Agents
  readonly recorder: ExchangeRecorder
  /** The workers; undefined if this thread carries traffic. */
  readonly threads: TrafficThreads | undefined
}

export interface OpenControlPlane {
  readonly control: ControlPlane
  readonly store: StartingStore
  /** Wall time of the last change of the running configuration; undefined before the first. */
  readonly appliedAt: () => number | undefined
  /** Follows the changes of another process after the store was taken back. */
  readonly isBack: () => Promise<void>
}

/** Retries a step of the start until the store responds; `message` describes the wait in the log. Stops with the start. */
export async function untilStoreAnswers<T>(
  options: Options,
  { log, lifecycle }: Pick<Foundation, 'log' | 'lifecycle'>,
  message: string,
  step: () => Promise<T>
): Promise<T> {
  return await untilAnswered(step, { name: storeName(options), message, log, signal: lifecycle.signal })
}

/** Opens the store, or its copy while the store is unavailable, and the control plane. */
export async function openControlPlane(
  options: Options,
  host: Host,
  foundation: Foundation,
  stage: ControlStage
): Promise<OpenControlPlane> {
  const { clock, log, lifecycle, revisions } = foundation
  const { opened, seal, siteReader, dataPlane, agents, services, login, guests, events, folders } = stage
  const applied = { at: undefined as number | undefined }
  const warnOfLax = laxUpstreamWarnings(log)
  followRevisions(foundation, stage)
  const shadows = new RunningShadows({
    ...foundation,
    rateLimitHeaders: options.rate_limit_headers,
    limitRules: options.limiter,
    geo: stage.geo,
    recorder: stage.recorder,
    elsewhere: stage.threads !== undefined
  })
  lifecycle.opens({ shadows })
  opened.put(RUNNING_SHADOWS, shadows)
  const control: Omit<ControlOptions, 'store' | 'latest' | 'degraded'> = {
    resources,
    seal,
    events,
    deliveryOf: events.deliveryOf,
    healthOf: (backend) => healthAnswer(dataPlane, foundation.holder.current(), backend),
    sessionLifetimes: { idle: options.api.session_idle, longest: options.api.session_longest },
    clock,
    log,
    checkPolicy: policyCheck(services, actions),
    testPolicy: stage.testPolicy,
    trafficNumbers: openTraffic(foundation, dataPlane),
    policyLanguage: policyLanguage(
      services,
      policyTestRuns({ geo: stage.geo }),
      () => foundation.holder.current().tables.https
    ),
    checkFile: (path) => folders.refusal(path),
    checkFolder: (path) => refusalOfFolder(path, options.file_folders),
    siteReading: siteReader,
    holder: foundation.holder,
    compile: { services, actions, persistentState: new PersistentState(), guests },
    ports: host.rehearsal === true ? noPorts : dataPlane.traffic.ports,
    itself: ownNumbers(foundation),
    ...threadsOf(stage.threads),
    swapped: (snapshot) => {
      applied.at = clock.wall()
      dataPlane.traffic.serves(snapshot)
      agents.serves(snapshot)
    },
    *settling(snapshot) {
      yield* dataPlane.settling(snapshot)
      yield* warnOfLax(snapshot.tables.upstreams)
      yield* agents.settling(snapshot)
    },
    served: (revision) => {
      foundation.metrics.serves(revision)
      revisions.served()
    },
    settled: revisions.settled,
    traffic: foundation.metrics.rates,
    changedDecisions: changedDecisions(shadows, foundation.holder),
    guardEnded: guardReports(foundation),
    operatorKeys: stage.keys,
    endedSessions: login.ended,
    baseUrl: foundation.publicUrl.read,
    zone: options.zone,
    regions: options.regions,
    requireReserved: options.require_reserved,
    linkLocalBackends: options.upstream_link_local,
    ...(isShared(storeAddress(options)) ? { reportEvery: REPORT_EVERY } : {})
  }
  const message = 'the store went away while its records were read'
  let lost: unknown
  return await untilStoreAnswers(options, foundation, message, async () => {
    const latest = new LatestRevision(clock)
    const parts = { seal, events, login, latest, lost, storeCreated: stage.storeCreated }
    const starting = await openStartingStore(options, host, foundation, parts)
    const { store } = starting
    try {
      const opened = await openControl({ ...control, store, latest, degraded: () => starting.degraded }, agents.live)
      lifecycle.opens({ store: opened })
      revisions.add({ served: () => starting.served() })
      if (isShared(storeAddress(options))) revisions.add({ served: () => opened.site.followed() })
      const isBack = async () => latest.report(await store.placeOf(await store.revision()))
      return { control: opened, store: starting, appliedAt: () => applied.at, isBack }
    } catch (error) {
      lost = error
      throw error
    }
  })
}

/** Counts a guard that has ended, and makes its event. */
function guardReports({ metrics, bus, publicUrl }: Foundation): (end: EndedGuard) => void {
  return ({ revision, state, reason, by, note }) => {
    metrics.guardEnded(state)
    const type = state === 'broken' || state === 'conflict' ? 'guard_broken.v0' : 'guard_ended.v0'
    if (!bus.wants(type)) return
    const named = (id: number) => ({ id, uri: `${publicUrl.read()}/revisions/${id}` })
    const { conditions, ended_at } = note
    const about = { conditions, state, reason, ended_at, by: by === null ? null : named(by) }
    bus.publish(type, { revision: named(revision), ...about })
  }
}

/** Registers the followers of each served revision, in this order. */
function followRevisions({ revisions }: Foundation, { agents, events }: ControlStage): void {
  revisions.add({
    served: () => agents.written(),
    settled: (kinds) => (FOLLOWED_BY_AGENTS.some((kind) => kinds.has(kind)) ? agents.followed() : undefined)
  })
  revisions.add({
    served: () => events.served(),
    settled: (kinds) => (FOLLOWED_BY_EVENTS.some((kind) => kinds.has(kind)) ? events.followed() : undefined)
  })
}

/** Returns this process's health state of a backend's server or tunnels, as the API shows it. */
function healthAnswer({ upstreams }: DataPlane, { tables }: Snapshot, backend: string): Json | undefined {
  const unit = tables.upstreams.get(upstreamKey(backend))
  const known = upstreams.servers.stateOf(unit)
  if (known === undefined)
    return upstreams.servers.tunnelStatesOf(unit)?.map(([id, state]) => ({ id, ...shown(state) }))
  const servers = (known.servers ?? []).map(({ name, state }) => ({ server: name, ...shown(state) }))
  return { ...shown(known), servers, name: known.name === undefined ? null : shown(known.name) }
}

function shown({ state, reason, since }: ServerState | NameState) {
  return { status: state, reason, since: since === undefined ? null : timestampText(since) }
}

interface StoreStage extends Pick<ControlStage, 'seal' | 'events' | 'login' | 'storeCreated'> {
  readonly latest: LatestRevision
  /** Error of the last attempt to read the opened store; undefined if there was none. */
  readonly lost: unknown
}

/** Opens the store, or its copy while the store is unavailable, with its followers. Fails as `reachStore` does. */
async function openStartingStore(
  options: Options,
  host: Host,
  { clock, log, names, lifecycle, storeHealth }: Foundation,
  { seal, events, login, latest, lost, storeCreated }: StoreStage
): Promise<StartingStore> {
  const folder = options.data === IN_MEMORY ? undefined : options.data
  const key = { folder, lost: host.newSealKey === true, log }
  const starting = await StartingStore.open(options, {
    seal,
    clock,
    log,
    onRevision: latest.report,
    lost,
    lookup: names.forSockets,
    signal: lifecycle.signal,
    health: storeHealth,
    settle: async (store) => {
      await storeCreated()
      await settleSealKey(store, seal, key)
    }
  })
  const { store } = starting
  try {
    await events.attach(store)
    await login.ended.attach(store.endedSessions)
    login.keeper.attach(store.loginSessions, options.login.stored_sessions)
    lifecycle.opens({ logins: login.keeper })
    lifecycle.opens({ storeCopy: starting })
  } catch (error) {
    await closeUnused(store)
    throw error
  }
  return starting
}

interface Delivering extends Pick<ControlStage, 'events'> {
  readonly store: StartingStore
  readonly ended: EndedSessions
}

/**
 * Starts event delivery once the real store is reachable: a copy has no undelivered events. Resolves when the delivery has
 * started, or immediately if the process has started from its copy.
 */
export async function deliverOnceThere({ lifecycle }: Foundation, { store, events, ended }: Delivering): Promise<void> {
  const begin = async () => {
    if (lifecycle.phase === 'draining') return
    void ended.follow().catch(() => undefined)
    await events.start()
  }
  if (store.degraded === null) await begin()
  else void store.answered.then(begin)
}

function threadsOf(threads: TrafficThreads | undefined): Pick<ControlOptions, 'replicas' | 'workers'> {
  return threads === undefined ? {} : { replicas: threads.pool, workers: () => threads.workers() }
}
