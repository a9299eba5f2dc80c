import { existsSync } from 'node:fs'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { openClusterLimits } from '../capabilities/cluster-limits/open.js'
import { EVENTS, openEvents } from '../capabilities/events/open-events.js'
import { runningLabs } from '../capabilities/explain/running-labs.js'
import { policyTesting } from '../capabilities/policy-tests/stored-tests.js'
import { EXCHANGE_SOURCE, openRecorder } from '../capabilities/recorder/running-recorder.js'
import { SiteFiles, SiteReader } from '../capabilities/site-file/reading.js'
import { SITE_PART } from '../capabilities/site-file/sites.js'
import { CurrentCertificates, HandingOver } from '../capabilities/take-over/handing-over.js'
import { type HandedState, stateOf, takePlace } from '../capabilities/take-over/succession.js'
import { openTelemetry } from '../capabilities/traces/open.js'
import type { AgentsAddress } from '../capabilities/tunnel/agents/agents.js'
import { createAgents, expectHanded, expectLast, openAgents } from '../capabilities/tunnel/open-agents.js'
import type { TrafficThreads } from '../capabilities/workers/threads.js'
import type { ControlPlane } from '../control/control-plane.js'
import { DEFAULT_LISTENER } from '../control/file-units.js'
import { type ApiKeys, openKeys } from '../control/operator-keys.js'
import type { PolicyTesting } from '../control/policy-tests.js'
import { openSealer, peekSeal } from '../control/seal-key.js'
import { actions } from '../features/registry.js'
import type { Sealer } from '../lib/seal.js'
import { COPY_FILE, isShared, isWithoutStore, mustNotBeLost, storeAddress } from '../options/catalogue.js'
import type { Options } from '../options/options.js'
import { IN_MEMORY } from '../options/values.js'
import type { UnitProblems } from '../policy/problems.js'
import type { PolicyServices } from '../policy/services.js'
import { servedPlainly } from '../proxy/plain-http.js'
import type { ProcessPorts } from '../proxy/ports.js'
import { setCopyAside } from '../store/copy/copy-file.js'
import { openStore } from '../store/open-store.js'
import { openFilesAllowed } from '../telemetry/process-health.js'
import { openApi } from './api.js'
import { type Capability, OpenedParts, openCapabilities, pagesOf } from './capability.js'
import { deliverOnceThere, openControlPlane, untilStoreAnswers } from './control-plane.js'
import { requireWritableFolders } from './data-folder.js'
import { ConfigurationRefused } from './errors.js'
import { type ApplyFiles, applyFirst, filesOf } from './files.js'
import { createFoundation, type Foundation, type Host } from './foundation.js'
import { openHealth } from './health.js'
import { CountersOfLimits } from './kept-counters.js'
import { type LiveOptions, liveOptions } from './live-options.js'
import { firstSiteRequest, type OpenListener, openListeners, type SiteRequest } from './open-listeners.js'
import { policyProblems } from './policy-check.js'
import { openPolicyServices } from './server-services.js'
import { type Drained, Lifecycle } from './stop.js'
import { besideTraffic, openTraffic } from './traffic-stage.js'
import { beginUpkeep } from './upkeep.js'

/** Result of a start: addresses, revision, and information for the user. */
export interface Started {
  readonly traffic: { readonly host: string; readonly port: number; readonly tls?: boolean }
  /** Every listener that is open; the first of them may be another one than `traffic`. */
  readonly listeners: readonly OpenListener[]
  /** A request to the first site. Undefined if no listener serves a site. */
  readonly site?: SiteRequest
  /** Number of worker threads that carry traffic; 0: the main thread carries it. */
  readonly threads: number
  readonly api: { readonly host: string; readonly port: number }
  /** Address for agents, and the file of the authority that they must trust; undefined for none. */
  readonly agents?: AgentsAddress
  readonly revision: number
  readonly warnings: readonly UnitProblems[]
  /** Absolute paths of the files that the site file names. */
  readonly files: readonly string[]
  /** The API key that was made because there was none, and was not used yet. `shown` keeps it; fails with the system's error. */
  readonly unusedKey?: { readonly text: string; shown(): Promise<void> }
}

/** An app that serves. */
export interface Running {
  readonly started: Started
  readonly reload: ApplyFiles
  /** Releases resources of which only one process may have, and takes them back or gives them away; see `HandingOver`. */
  readonly handingOver: Pick<HandingOver, 'release' | 'takeBack' | 'give'>
  /** Returns the stored records that could not be applied, or null. */
  lastError(): string | null
  /** Serves a connection to the API that another process has accepted and not read. */
  takeConnection(socket: Socket): void
  /** State handed to the successor process. */
  state(): HandedState
  /** See `Lifecycle.stop`. */
  stop(): Promise<Drained>
}

/**
 * Starts an app: first snapshot (of the store and of the files), then traffic, then the API. Rejects with
 * `ConfigurationRefused`, with a CodedError (`FILE_UNREADABLE`, `API_KEY_INVALID`, `STORE_LOCKED`, …), with the system's
 * error of a bind, or with the reason of `host.signal`; everything is closed then. Apps are independent; two in one process
 * share nothing.
 */
export async function start(options: Options, host: Host, capabilities: readonly Capability[] = []): Promise<Running> {
  host.signal?.throwIfAborted()
  const counters = CountersOfLimits.find(options)
  // A successor process continues with the clock of its predecessor.
  const clock = host.predecessor === undefined ? (counters?.clock(host.clock) ?? host.clock) : host.clock
  const live = liveOptions(options, clock)
  live.limits.descriptors.allow((await openFilesAllowed()) ?? Number.POSITIVE_INFINITY)
  const lifecycle = new Lifecycle(host.log, live.timeouts)
  try {
    return await Promise.race([
      stages(options, { ...host, clock }, { lifecycle, live, counters, capabilities }),
      endOf(host.signal)
    ])
  } catch (error) {
    await lifecycle.stop()
    throw error
  } finally {
    counters?.ignore()
  }
}

/**
 * Runs a start up to the opening of ports, and stops it again. Resolves with the stored records that could not be applied,
 * or null; rejects as `start` does. `options` name a store that no other process uses.
 */
export async function rehearse(options: Options, host: Host): Promise<string | null> {
  const live = liveOptions(options, host.clock)
  const lifecycle = new Lifecycle(host.log, live.timeouts)
  try {
    const { reload, control } = await prepare(options, { ...host, rehearsal: true }, lifecycle, live)
    await applyFirst(reload, options)
    return control.configuration.lastError
  } finally {
    await lifecycle.stop()
  }
}

/** Opens all stages until ports are opened: each stage uses the results of earlier ones. */
async function prepare(
  options: Options,
  host: Host,
  lifecycle: Lifecycle,
  live: LiveOptions,
  counters?: CountersOfLimits
) {
  const foundation = createFoundation(options, host, lifecycle, live, counters)
  const agents = createAgents(options, foundation)
  const { keys, unused, sealer, storeCreated } = await openOperatorKeys(options, host, foundation)
  const beside = besideTraffic(options, agents)
  const seal = await sealer()
  const telemetry = await openTelemetry(options, foundation)
  const dataPlane = await openTraffic(options, host, foundation, { agents, seal, beside, telemetry })
  const { clock, names, log, limiter, limitsElsewhere: limitRelay, refusedKeys, metrics, holder } = foundation
  const loginKeys = seal.derive('login')
  const tables = { limiter, limitRelay, refusedKeys }
  const { traffic, records } = dataPlane
  const shared = records === undefined ? {} : { records }
  const cluster = await openClusterLimits(options, host, foundation, seal)
  const parts = {
    clock,
    names,
    log,
    loginKeys,
    ...tables,
    metrics,
    live,
    traffic,
    cluster: cluster.services,
    ...shared
  }
  const policies = await openPolicyServices(options, parts)
  foundation.accessLog.choose(options, policies.services.expressions)
  telemetry.choose(policies.services.expressions)
  lifecycle.opens({ policyOutbound: [policies.services.outbound, policies.guests.services.outbound] })
  const events = await openEvents(options, foundation, seal)
  const testPolicy = policyTesting({ geo: policies.geo })
  const siteReader = siteReaderOf(options, host, policies.services, testPolicy)
  const labs = runningLabs(options, foundation, policies.geo)
  const { recorder, source } = openRecorder(options, foundation, { dataPlane, labs, ...policies })
  const opened = new OpenedParts()
  opened.put(EXCHANGE_SOURCE, source)
  opened.put(EVENTS, events.events)
  const stage = {
    opened,
    recorder,
    keys,
    seal,
    siteReader,
    dataPlane,
    agents,
    testPolicy,
    ...policies,
    ...events
  }
  const threads = dataPlane.begin({ events: events.events, login: policies.login, cluster, recorder })
  telemetry.measures(() => threads?.count() ?? Promise.resolve())
  const controlled = await openControlPlane(options, host, foundation, { ...stage, threads, storeCreated })
  const { control } = controlled
  const { own } = control
  const { site_file } = options
  const sites = site_file === undefined ? undefined : new SiteFiles(site_file, siteReader)
  await stageApplied(control)
  const problemsOf = policyProblems(policies.services, actions)
  expectHanded(agents, host.predecessor?.endpoints ?? [], own, { problemsOf, log })
  const taking = { take: (now: Options) => takeOptions(now, live, threads) }
  const reload = filesOf(options, {
    own,
    metrics,
    holder,
    sites,
    siteReader,
    live: taking,
    recorder,
    testPolicy,
    threads
  })
  return { ...controlled, opened, foundation, agents, keys, unused, dataPlane, policies, events, threads, reload }
}

interface Start {
  readonly lifecycle: Lifecycle
  readonly live: LiveOptions
  readonly counters: CountersOfLimits | undefined
  readonly capabilities: readonly Capability[]
}

/** The composition root. */
async function stages(
  options: Options,
  host: Host,
  { lifecycle, live, counters, capabilities }: Start
): Promise<Running> {
  const prepared = await prepare(options, host, lifecycle, live, counters)
  const { foundation, agents, keys, unused, dataPlane, policies, events, threads, reload } = prepared
  const { control, store, appliedAt, opened } = prepared
  const { clock, log, limiter, holder } = foundation
  const { own } = control
  await takePlace(host, foundation, counters)
  const applied = await applyFirst(reload, options)
  const certificates = new CurrentCertificates(options, foundation, control)
  await certificates.open()
  const { services, login } = policies
  const upkeep = { services, dataPlane, agents, ...events, login, control, store, threads }
  beginUpkeep(options, foundation, upkeep)
  const health = await openHealth(foundation, { control, certificates, appliedAt, threads })
  const kernel = {
    options,
    foundation,
    control,
    policies,
    opened,
    gather: async (of: { readonly limits: boolean }) => await threads?.count(of)
  }
  const groups = await openCapabilities(capabilities, kernel)
  const pages = pagesOf(capabilities, options)
  const { api, address } = await openApi(options, foundation, { keys, control, health, threads, groups, pages })
  await deliverOnceThere(foundation, { store, events: events.events, ended: policies.login.ended })
  await store.keep(options, () => control.configuration.place)
  // Opened last, because agents that connect immediately cause events: subscriptions are followed by now.
  const listening = await openAgents(options, foundation, { agents, store: store.store, own })
  void host.predecessor?.gone.then(() => expectLast(agents, own, log))
  const plain = servedPlainly(holder.current())
  if (plain !== undefined) {
    log.info({ ...plain, option: options.edges_on_http }, 'HTTPS edges answer in plain HTTP too; see edges_on_http')
  }
  await threads?.pool.whole()
  // Not before: a start that fails leaves the file to the process that has it.
  const keeping = await counters?.keep({ table: limiter, clock, log })
  if (keeping !== undefined) lifecycle.opens({ counters: keeping })
  const parts = { ...prepared, events: events.events, logins: login.keeper, api, certificates, counters: keeping }
  const handingOver = new HandingOver(options, foundation, parts)
  lifecycle.ready()
  const listeners = openListeners(dataPlane.traffic.ports, holder.current())
  const site = firstSiteRequest(listeners, holder.current())
  return {
    started: {
      traffic: trafficAddress(dataPlane.traffic.ports, listeners) ?? options.listen,
      listeners,
      ...(site === undefined ? {} : { site }),
      threads: host.threads?.size ?? 0,
      api: address,
      ...(listening === undefined ? {} : { agents: listening }),
      revision: applied.revision,
      warnings: applied.warnings,
      files: applied.named,
      ...(unused === undefined ? {} : { unusedKey: { text: unused, shown: () => keys.keepShown() } })
    },
    reload,
    handingOver,
    lastError: () => control.configuration.lastError,
    takeConnection: (socket) => api.take(socket),
    state: () => stateOf({ clock, limiter, ...dataPlane, agents, threaded: threads !== undefined }),
    stop: () => lifecycle.stop()
  }
}

/** Returns the address of traffic, for display: that of the option `listen`, otherwise the first listener, preferably without TLS. */
function trafficAddress(
  ports: Pick<ProcessPorts, 'listener'>,
  listeners: readonly OpenListener[]
): Started['traffic'] | undefined {
  const usual = ports.listener(DEFAULT_LISTENER)
  if (usual !== undefined) return usual
  return listeners.find(({ tls }) => !tls) ?? listeners[0]
}

/** Applies reloaded options in every thread. */
function takeOptions(options: Options, live: LiveOptions, threads: TrafficThreads | undefined): void {
  live.take(options)
  threads?.take(options)
}

function siteReaderOf(
  options: Options,
  { clock, environment = {} }: Host,
  services: PolicyServices,
  testPolicy: PolicyTesting
): SiteReader {
  return new SiteReader(options, {
    clock,
    environment,
    policyProblems: policyProblems(services, actions, () => true),
    testPolicy
  })
}

/** The applied site file serves from the first snapshot on. Fails with `ConfigurationRefused`: its sites would be missing. */
async function stageApplied({ site, own }: Pick<ControlPlane, 'site' | 'own'>): Promise<void> {
  const stored = await site.stored()
  if (stored === undefined) return
  if (stored.part === undefined) throw new ConfigurationRefused(stored.problems)
  own.stage(SITE_PART, stored.part)
}

interface OperatorKeys {
  readonly keys: ApiKeys
  /** The API key that was made because there was none. */
  readonly unused: string | undefined
  /** Returns the sealer of the store's secrets; rejects if its key is invalid. */
  sealer(): Promise<Sealer>
  /** Writes a new sealing key to the data folder. Call it once the store exists. */
  storeCreated(): Promise<void>
}

/** The keys of the operator: his API key and the key that seals the store's secrets. */
async function openOperatorKeys(options: Options, host: Host, foundation: Foundation): Promise<OperatorKeys> {
  const { clock, log, names } = foundation
  const folder = options.data === IN_MEMORY ? undefined : options.data
  const address = storeAddress(options)
  const lasting = address !== IN_MEMORY
  if (host.newStore !== true) mustNotBeLost(address, folder)
  else if (folder !== undefined && isWithoutStore(address)) await setCopyAside(join(folder, COPY_FILE))
  const lookup = names.forSockets
  const peek = () => peekSeal(() => openStore(address, { log, clock, lookup, onRevision: () => undefined }))
  const message = 'whether the store has secrets of a sealing key is not known'
  if (host.rehearsal !== true) await requireWritableFolders(options, host.sealKey)
  let writeKey: (() => Promise<void>) | undefined
  const whenStored = (write: () => Promise<void>) => {
    writeKey = write
  }
  const asked = { given: host.sealKey, folder, lasting, lost: host.newSealKey, whenStored }
  const open = () => openSealer(isShared(address) || existsSync(address) ? { ...asked, stored: peek } : asked)
  const sealer = () => untilStoreAnswers(options, foundation, message, open)
  const { keys, unused } = await openKeys(folder, host.apiKey, { clock, seal: sealer })
  const storeCreated = async () => {
    await writeKey?.()
    writeKey = undefined
  }
  return { keys, unused, sealer, storeCreated }
}

/** Rejects once the signal is aborted, with its reason. */
function endOf(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal?.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
}
