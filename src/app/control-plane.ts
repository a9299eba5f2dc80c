import { LatestRevision } from '../control/configuration.js'
import { type ControlPlane, openControl } from '../control/control-plane.js'
import type { ControlOptions } from '../control/parts.js'
import { settleSealKey } from '../control/seal-key.js'
import { actions } from '../features/registry.js'
import type { Geo } from '../lib/geo.js'
import { type Json, timestampText } from '../lib/json.js'
import { refusalOfFolder } from '../lib/named-folders.js'
import { isShared, storeAddress } from '../options/catalogue.js'
import type { Options } from '../options/options.js'
import { IN_MEMORY } from '../options/values.js'
import type { NameState } from '../proxy/named-servers.js'
import type { ServerState } from '../proxy/server.js'
import { resources } from '../resources/registry.js'
import { PersistentState } from '../runtime/persistent-state.js'
import { upstreamKey } from '../runtime/plan.js'
import { noPorts } from '../runtime/ports.js'
import type { Snapshot } from '../runtime/snapshot.js'
import { untilAnswered } from '../store/copy/reaching-store.js'
import type { DataPlane } from './data-plane.js'
import type { Foundation } from './foundation.js'
import { laxUpstreamWarnings } from './lax-upstreams.js'
import { policyCheck } from './policy-check.js'
import { policyLanguage } from './policy-language.js'
import {
  EVENT_DELIVERY,
  EVENT_FILE_CHECK,
  LIVE_SOURCES,
  POLICY_TESTS,
  SNAPSHOT_FOLLOWERS,
  TRAFFIC_CARRIERS,
  WRITE_GUARDS
} from './ports.js'
import { ownNumbers } from './process-numbers.js'
import type { Ruled } from './stages.js'
import { closeUnused } from './stop.js'
import { StartingStore, storeName } from './store-copy.js'
import { openTraffic } from './traffic.js'

/** Interval of a process's reports about its applied revision to other processes on its store (ms). */
const REPORT_EVERY = 1_000

interface ControlStage extends Ruled {
  readonly keys: ControlOptions['operatorKeys']
  /** Called whenever the store has been opened, before anything is written under the sealing key. */
  readonly storeCreated: () => Promise<void>
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
export async function openControlPlane(stage: ControlStage): Promise<OpenControlPlane> {
  const { options, host, foundation } = stage
  const { clock, log, lifecycle, revisions } = foundation
  const { opened, seal, dataPlane, policies } = stage
  const { services, login, guests } = policies
  const applied = { at: undefined as number | undefined }
  const warnOfLax = laxUpstreamWarnings(log)
  const followers = opened.all(SNAPSHOT_FOLLOWERS)
  const [events, tests, guards] = [opened.find(EVENT_DELIVERY), opened.find(POLICY_TESTS), opened.find(WRITE_GUARDS)]
  const carriers = opened.find(TRAFFIC_CARRIERS)
  const checkFile = opened.find(EVENT_FILE_CHECK)
  const settings: Omit<ControlOptions, 'store' | 'latest' | 'degraded'> = {
    resources,
    seal,
    ...(events === undefined ? {} : { events, deliveryOf: events.deliveryOf }),
    healthOf: (backend) => healthAnswer(dataPlane, foundation.holder.current(), backend),
    sessionLifetimes: { idle: options.api.session_idle, longest: options.api.session_longest },
    clock,
    log,
    checkPolicy: policyCheck(services, actions),
    trafficNumbers: openTraffic(foundation, dataPlane),
    ...(tests === undefined
      ? {}
      : {
          testPolicy: tests.testing,
          policyLanguage: policyLanguage(services, tests.runs, () => foundation.holder.current().tables.https)
        }),
    ...(checkFile === undefined ? {} : { checkFile }),
    checkFolder: (path) => refusalOfFolder(path, options.file_folders),
    holder: foundation.holder,
    compile: { services, actions, persistentState: new PersistentState(), guests },
    ports: host.rehearsal === true ? noPorts : dataPlane.traffic.ports,
    itself: ownNumbers(foundation, policies.rules),
    ...(carriers === undefined ? {} : { replicas: carriers.pool, workers: () => carriers.workers() }),
    swapped: (snapshot) => {
      applied.at = clock.wall()
      dataPlane.traffic.serves(snapshot)
      for (const follower of followers) follower.serves(snapshot)
    },
    *settling(snapshot) {
      yield* dataPlane.settling(snapshot)
      yield* warnOfLax(snapshot.tables.upstreams)
      for (const follower of followers) yield* follower.settling(snapshot)
    },
    served: (revision) => {
      foundation.metrics.serves(revision)
      revisions.served()
    },
    settled: revisions.settled,
    ...(guards === undefined ? {} : { guards }),
    operatorKeys: stage.keys,
    endedSessions: login.ended,
    placeOfAddress: placeIn(policies.geo),
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
    const starting = await openStartingStore(stage, latest, lost)
    const { store } = starting
    try {
      const control = await openControl(
        { ...settings, store, latest, degraded: () => starting.degraded },
        opened.find(LIVE_SOURCES)
      )
      lifecycle.opens('store', { store: () => control.close() })
      revisions.add({ served: () => starting.served() })
      const isBack = async () => latest.report(await store.placeOf(await store.revision()))
      return { control, store: starting, appliedAt: () => applied.at, isBack }
    } catch (error) {
      lost = error
      throw error
    }
  })
}

/** Returns the lookup of places of addresses, as far as the database has them. */
function placeIn(geo: Geo) {
  return (address: string) => {
    geo.prepare()
    const { countryCode, latitude, longitude, radius } = geo.lookup(address).location
    if (countryCode === '') return undefined
    const number = (text: string) => (text === '' ? null : Number(text))
    return {
      country_code: countryCode,
      latitude: number(latitude),
      longitude: number(longitude),
      lat_long_radius_km: number(radius)
    }
  }
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

/**
 * Opens the store, or its copy while the store is unavailable, with its followers. `lost`: error of the last attempt to read the opened store;
 * undefined if there was none. Fails as `reachStore` does.
 */
async function openStartingStore(
  { options, host, foundation, opened, seal, policies: { login }, storeCreated }: ControlStage,
  latest: LatestRevision,
  lost: unknown
): Promise<StartingStore> {
  const { clock, log, names, lifecycle, storeHealth } = foundation
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
    await opened.find(EVENT_DELIVERY)?.attach(store)
    await login.ended.attach(store.endedSessions)
    login.keeper.attach(store.loginSessions, options.login.stored_sessions, store.visitors)
    // Providers may have taken the tokens of before back.
    lifecycle.opens('renewed sessions', { shared: () => login.keeper.pause() })
    lifecycle.opens('the copy of the configuration', { shared: () => starting.stop() })
  } catch (error) {
    await closeUnused(store)
    throw error
  }
  return starting
}
