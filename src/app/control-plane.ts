import { ControlPlane } from '../control/control-plane.js'
import type { ControlOptions } from '../control/open.js'
import { settleSealKey } from '../control/seal-key.js'
import type { Events } from '../events/events.js'
import type { EndedSessions } from '../features/login/ended-sessions.js'
import { actions } from '../features/registry.js'
import { type Json, timestampText } from '../lib/json.js'
import type { Sealer } from '../lib/seal.js'
import type { Steps } from '../lib/slices.js'
import { isShared, storeAddress } from '../options/catalogue.js'
import type { Options } from '../options/options.js'
import { IN_MEMORY } from '../options/values.js'
import { agentIngress } from '../resources/domains.js'
import { eventDestination } from '../resources/event-destinations.js'
import { eventSubscription } from '../resources/event-subscriptions.js'
import { botUser, credential } from '../resources/identities.js'
import { resources } from '../resources/registry.js'
import { upstreamKey } from '../resources/units.js'
import { KeptState } from '../runtime/persistent-state.js'
import type { Snapshot } from '../runtime/snapshot.js'
import { untilAnswered } from '../store/copy/reaching-store.js'
import type { Place, Store } from '../store/store.js'
import type { Agents } from '../tunnel/agents/agents.js'
import type { DataPlane } from './data-plane.js'
import type { OpenEvents } from './events.js'
import type { Foundation, Host } from './foundation.js'
import { policyCheck } from './policy-check.js'
import type { openPolicyServices } from './server-services.js'
import { closeUnused } from './stop.js'
import { StartingStore, storeName } from './store-copy.js'

/** Kinds of records that agents and the delivery of events follow beside the snapshot. */
const FOLLOWED_BY_AGENTS = [agentIngress.name, credential.name, botUser.name]
const FOLLOWED_BY_EVENTS = [eventDestination.name, eventSubscription.name]
/** How often a process tells the others on its store how far it is. Milliseconds. */
const REPORT_EVERY = 1_000

type PolicyServicesStage = Awaited<ReturnType<typeof openPolicyServices>>

interface ControlStage extends OpenEvents, PolicyServicesStage {
  readonly keys: ControlOptions['operatorKeys']
  readonly seal: Sealer
  readonly dataPlane: DataPlane
  readonly agents: Agents
}

export interface OpenControlPlane {
  readonly control: ControlPlane
  readonly store: StartingStore
  /** Wall time at which the last configuration began to serve; undefined: none does. */
  readonly appliedAt: () => number | undefined
  /** Delivers events once the API's URL is known, as soon as the store itself is there. */
  deliver(): Promise<void>
}

/**
 * Does a step of the start that needs the store, again and again until it answers; `message` says what waits, for the log.
 * Ends when the start is ended.
 */
export async function untilStoreAnswers<T>(
  options: Options,
  { log, lifecycle }: Pick<Foundation, 'log' | 'lifecycle'>,
  message: string,
  step: () => Promise<T>
): Promise<T> {
  return await untilAnswered(step, { name: storeName(options), message, log, signal: lifecycle.signal })
}

/** Opens the store, or its copy while it does not answer, and what serves and writes its records. */
export async function openControlPlane(
  options: Options,
  host: Host,
  foundation: Foundation,
  stage: ControlStage
): Promise<OpenControlPlane> {
  const { clock, log, lifecycle, revisions } = foundation
  const { seal, dataPlane, agents, services, login, guests, events, folders } = stage
  const stores = new ProcessStore(options, host, foundation, { seal, events, ended: login.ended })
  const applied = { at: undefined as number | undefined }
  followRevisions(foundation, stage, stores)
  const control: ControlOptions = {
    connect: (onRevision) => stores.connect(onRevision),
    degraded: () => stores.current?.degraded ?? null,
    resources,
    seal,
    events,
    deliveryOf: events.deliveryOf,
    healthOf: (backend) => healthAnswer(dataPlane, foundation.holder.current(), backend),
    testDestination: events.test,
    lettersDropped: events.lettersDropped,
    clock,
    log,
    checkPolicy: policyCheck(services, actions),
    checkFile: (path) => folders.refusal(path),
    holder: foundation.holder,
    compile: { services, actions, keptState: new KeptState(), guests },
    ports: dataPlane.traffic.ports,
    swapped: (snapshot) => {
      foundation.metrics.serves(snapshot.revision)
      applied.at = clock.wall()
      dataPlane.traffic.serves(snapshot)
      agents.serves(snapshot)
    },
    settling: (snapshot) => settling(dataPlane, snapshot),
    served: revisions.served,
    settled: revisions.settled,
    operatorKeys: stage.keys,
    baseUrl: foundation.publicUrl.read,
    zone: options.zone,
    regions: options.regions,
    requireReserved: options.require_reserved,
    backupFolder: options.data === IN_MEMORY ? undefined : options.data,
    ...(isShared(storeAddress(options)) ? { reportEvery: REPORT_EVERY } : {})
  }
  const message = 'the store went away while its records were read'
  return await untilStoreAnswers(options, foundation, message, async () => {
    const opened = await stores.reading(() => ControlPlane.open(control, agents.live))
    lifecycle.opens({ store: opened.control })
    return { ...opened, appliedAt: () => applied.at, deliver: () => stores.deliver() }
  })
}

/** What follows each revision that serves, in this order. */
function followRevisions({ revisions }: Foundation, { agents, events }: ControlStage, stores: ProcessStore): void {
  revisions.add({
    served: () => agents.written(),
    settled: (kinds) => (FOLLOWED_BY_AGENTS.some((kind) => kinds.has(kind)) ? agents.followed() : undefined)
  })
  revisions.add({
    served: () => events.served(),
    settled: (kinds) => (FOLLOWED_BY_EVENTS.some((kind) => kinds.has(kind)) ? events.followed() : undefined)
  })
  revisions.add({ served: () => stores.current?.served() })
}

/** What this process knows of the server of a backend, as the API shows it. */
function healthAnswer({ upstreams }: DataPlane, { tables }: Snapshot, backend: string): Json | undefined {
  const known = upstreams.stateOf(tables.upstreams.get(upstreamKey(backend)))
  if (known === undefined) return undefined
  const { state, reason, since } = known
  return { status: state, reason, since: since === undefined ? null : timestampText(since) }
}

/** What traffic no longer needs is given up beside it. */
function* settling({ clientTransport, upstreams }: DataPlane, { tables }: Snapshot): Steps<void> {
  clientTransport.retainUpstreams(yield* upstreams.following(tables.upstreams))
}

interface StoreFollowers {
  readonly seal: Sealer
  readonly events: Events
  readonly ended: EndedSessions
}

/** The store of this process through the attempts to open it, and what begins once it is there. */
class ProcessStore {
  readonly #options: Options
  readonly #host: Host
  readonly #foundation: Foundation
  readonly #followers: StoreFollowers
  #current: StartingStore | undefined
  /** Why the last attempt to read the store failed after it had opened. */
  #lost: unknown
  #delivers = false

  constructor(options: Options, host: Host, foundation: Foundation, followers: StoreFollowers) {
    this.#options = options
    this.#host = host
    this.#foundation = foundation
    this.#followers = followers
  }

  /** The store of the last attempt that opened one. */
  get current(): StartingStore | undefined {
    return this.#current
  }

  /** Reads the store that `open` connects to; remembers why that failed, for the next attempt. */
  async reading(open: () => Promise<ControlPlane>): Promise<Pick<OpenControlPlane, 'control' | 'store'>> {
    try {
      const control = await open()
      if (this.#current === undefined) throw new TypeError('the control plane has connected to no store')
      return { control, store: this.#current }
    } catch (error) {
      this.#lost = error
      throw error
    }
  }

  async connect(onRevision: (place: Place) => void): Promise<Store> {
    const { clock, log, names, lifecycle, storeHealth } = this.#foundation
    const { seal, events, ended } = this.#followers
    const { data } = this.#options
    const key = { folder: data === IN_MEMORY ? undefined : data, lost: this.#host.newSealKey === true, log }
    const starting = await StartingStore.open(this.#options, {
      seal,
      clock,
      log,
      onRevision,
      answered: () => void this.deliver(),
      lost: this.#lost,
      lookup: names.forSockets,
      signal: lifecycle.signal,
      health: storeHealth,
      settle: (store) => settleSealKey(store, seal, key)
    })
    const { store } = starting
    try {
      await events.attach(store)
      await ended.attach(store.endedSessions)
      lifecycle.opens({ storeCopy: starting })
    } catch (error) {
      await closeUnused(store)
      throw error
    }
    this.#current = starting
    return store
  }

  /** Delivers events once the store itself is there: what waits for delivery is not in a copy. */
  async deliver(): Promise<void> {
    if (this.#current?.degraded !== null || this.#delivers) return
    if (this.#foundation.lifecycle.phase === 'draining') return
    this.#delivers = true
    void this.#followers.ended.follow().catch(() => undefined)
    await this.#followers.events.start()
  }
}
