import { existsSync } from 'node:fs'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { DEFAULT_LISTENER } from '../control/file-units.js'
import { type ApiKeys, openKeys } from '../control/operator-keys.js'
import { openSealer, peekSeal } from '../control/seal-key.js'
import type { Sealer } from '../lib/seal.js'
import { COPY_FILE, isShared, isWithoutStore, mustNotBeLost, storeAddress } from '../options/catalogue.js'
import type { Options } from '../options/options.js'
import { IN_MEMORY } from '../options/values.js'
import type { UnitProblems } from '../policy/problems.js'
import { servedPlainly } from '../proxy/plain-http.js'
import type { ProcessPorts } from '../proxy/ports.js'
import { setCopyAside } from '../store/copy/copy-file.js'
import { openStore } from '../store/open-store.js'
import { openFilesAllowed } from '../telemetry/process-health.js'
import { openApi } from './api.js'
import { type Capability, describing, openCapabilities, pagesOf } from './capability.js'
import { openControlPlane, untilStoreAnswers } from './control-plane.js'
import { requireWritableFolders } from './data-folder.js'
import { type ApplyFiles, applyFirst, filesOf } from './files.js'
import { createFoundation, type Foundation, type Host } from './foundation.js'
import { openHealth } from './health.js'
import { CountersOfLimits } from './kept-counters.js'
import { type LiveOptions, liveOptions } from './live-options.js'
import { firstSiteRequest, type OpenListener, openListeners, type SiteRequest } from './open-listeners.js'
import { OpenedParts } from './opened-parts.js'
import { AGENTS_ADDRESS, type AgentsListening, POLICY_SERVICES, SHARED_RECORDS, TRAFFIC_CARRIERS } from './ports.js'
import { openPolicyServices } from './server-services.js'
import { runStage } from './stages.js'
import { type Drained, Lifecycle } from './stop.js'
import { onceThere } from './store-copy.js'
import { openTraffic } from './traffic-stage.js'
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
  readonly agents?: AgentsListening
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
  /** Parts that capabilities have opened, for those of them that work on the whole process. */
  readonly opened: Pick<OpenedParts, 'get'>
  /** Returns the stored records that could not be applied, or null. */
  lastError(): string | null
  /** Serves a connection to the API that another process has accepted and not read. */
  takeConnection(socket: Socket): void
  /** See `Lifecycle.stop`. */
  stop(): Promise<Drained>
}

/**
 * Starts an app: first snapshot (of the store and of the files), then traffic, then the API. Rejects with
 * `ConfigurationRefused`, with a CodedError (`FILE_UNREADABLE`, `API_KEY_INVALID`, `STORE_LOCKED`, …), with the system's
 * error of a bind, or with the reason of `host.signal`; everything is closed then. Apps are independent; two in one process
 * share nothing. Without capabilities it serves as a proxy with policies and an API.
 */
export async function start(options: Options, host: Host, capabilities: readonly Capability[]): Promise<Running> {
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
export async function rehearse(
  options: Options,
  host: Host,
  capabilities: readonly Capability[]
): Promise<string | null> {
  const live = liveOptions(options, host.clock)
  const lifecycle = new Lifecycle(host.log, live.timeouts)
  try {
    const begun = { lifecycle, live, counters: undefined, capabilities }
    const { reload, control } = await prepare(options, { ...host, rehearsal: true }, begun)
    await applyFirst(reload, options)
    return control.configuration.lastError
  } finally {
    await lifecycle.stop()
  }
}

interface Start {
  readonly lifecycle: Lifecycle
  readonly live: LiveOptions
  readonly counters: CountersOfLimits | undefined
  readonly capabilities: readonly Capability[]
}

/** Opens all stages until ports are opened: each stage uses the results of earlier ones. */
async function prepare(options: Options, host: Host, { lifecycle, live, counters, capabilities }: Start) {
  const foundation = createFoundation(options, host, lifecycle, live, counters)
  const opened = new OpenedParts()
  host.brings?.(opened)
  const founded = { options, host, foundation, opened }
  await runStage(capabilities, 'founded', founded)
  const { keys, unused, sealer, storeCreated } = await openOperatorKeys(options, host, foundation)
  const sealed = { ...founded, seal: await sealer() }
  await runStage(capabilities, 'sealed', sealed)
  const carrying = { ...sealed, dataPlane: openTraffic(sealed) }
  await runStage(capabilities, 'carrying', carrying)
  const records = opened.find(SHARED_RECORDS)
  const { refusedKeys, limitsElsewhere: limitRelay } = foundation
  const policies = await openPolicyServices(options, {
    ...foundation,
    loginKeys: carrying.dataPlane.keys.login,
    refusedKeys,
    limitRelay,
    live,
    traffic: carrying.dataPlane.traffic,
    cluster: opened.all(POLICY_SERVICES),
    ...(records === undefined ? {} : { records })
  })
  foundation.accessLog.choose(options, policies.services.expressions)
  lifecycle.opens('requests of policies', {
    outbound() {
      for (const one of policies.closes) one.close()
    }
  })
  const ruled = { ...carrying, policies }
  await runStage(capabilities, 'ruled', ruled)
  const controlled = { ...ruled, counters, ...(await openControlPlane({ ...ruled, keys, storeCreated })) }
  await runStage(capabilities, 'controlled', controlled)
  const { own } = controlled.control
  const reload = filesOf(options, { ...foundation, own, live, opened })
  return { ...controlled, keys, unused, reload }
}

/** The composition root. */
async function stages(options: Options, host: Host, begun: Start): Promise<Running> {
  const { lifecycle, counters, capabilities } = begun
  const prepared = await prepare(options, host, begun)
  const { foundation, keys, unused, dataPlane, policies, reload, control, store, appliedAt, opened } = prepared
  const { clock, log, limiter, holder } = foundation
  if (host.predecessor === undefined) await counters?.fill({ table: limiter, log })
  await runStage(capabilities, 'opening', prepared)
  const applied = await applyFirst(reload, options)
  await runStage(capabilities, 'serving', prepared)
  const { services, login } = policies
  beginUpkeep(options, foundation, { services, dataPlane, opened, login, control, store })
  const health = await openHealth(foundation, { control, appliedAt, opened })
  const gather = async (of?: { readonly limits: boolean }) => await opened.find(TRAFFIC_CARRIERS)?.count(of)
  const groups = await openCapabilities(capabilities, { ...prepared, gather })
  const describesRecord = describing(capabilities)
  const { api, address } = await openApi(options, foundation, {
    keys,
    control,
    health,
    gather,
    groups,
    pages: pagesOf(capabilities, options),
    describesRecord
  })
  await onceThere(foundation, store, async () => void login.ended.follow().catch(() => undefined))
  const answering = { ...prepared, api }
  await runStage(capabilities, 'answering', answering)
  await store.keep(options, () => control.configuration.place)
  // Agents that connect immediately cause events: subscriptions are followed by now.
  await runStage(capabilities, 'admitting', answering)
  const plain = servedPlainly(holder.current())
  if (plain !== undefined) {
    log.info({ ...plain, option: options.edges_on_http }, 'HTTPS edges answer in plain HTTP too; see edges_on_http')
  }
  await runStage(capabilities, 'whole', answering)
  // Not before: a start that fails leaves the file to the process that has it.
  const keeping = await counters?.keep({ table: limiter, clock, log })
  if (keeping !== undefined) {
    // A process that starts meanwhile reads them; no more requests are admitted at their last moment.
    lifecycle.opens('the counters of limits', { shared: () => keeping.checkpoint(), counters: () => keeping.close() })
  }
  await runStage(capabilities, 'complete', { ...answering, keeping })
  lifecycle.ready()
  const agents = opened.find(AGENTS_ADDRESS)
  const listeners = openListeners(dataPlane.traffic.ports, holder.current())
  const site = firstSiteRequest(listeners, holder.current())
  return {
    started: {
      traffic: trafficAddress(dataPlane.traffic.ports, listeners) ?? options.listen,
      listeners,
      ...(site === undefined ? {} : { site }),
      threads: host.threads?.size ?? 0,
      api: address,
      ...(agents === undefined ? {} : { agents }),
      revision: applied.revision,
      warnings: applied.warnings,
      files: applied.named,
      ...(unused === undefined ? {} : { unusedKey: { text: unused, shown: () => keys.keepShown() } })
    },
    reload,
    opened,
    lastError: () => control.configuration.lastError,
    takeConnection: (socket) => api.take(socket),
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
