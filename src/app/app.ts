import { join, relative } from 'node:path'
import type { Logger } from 'pino'
import { type ApiServer, createApi } from '../api/server.js'
import type { Readiness } from '../api/service-routes.js'
import { type Applied, OwnUnits } from '../control/apply.js'
import { ControlPlane } from '../control/control-plane.js'
import { DEFAULT_LISTENER, fileUnits } from '../control/file-units.js'
import type { ControlOptions } from '../control/open.js'
import { type ApiKeys, openKeys } from '../control/operator-keys.js'
import { openSealer, peekSeal, settleSealKey } from '../control/seal-key.js'
import { EventFolders } from '../events/destinations/local.js'
import { Events } from '../events/events.js'
import type { EndedSessions } from '../features/login/ended-sessions.js'
import { LimiterTable } from '../features/rate-limit/limiter/table.js'
import { actions } from '../features/registry.js'
import { AddressCounts } from '../lib/address-counts.js'
import { atMost } from '../lib/at-most.js'
import type { Clock } from '../lib/clock.js'
import { CodedError } from '../lib/coded-error.js'
import { packageVersion, readOptionFile } from '../lib/files.js'
import { reachableUrl } from '../lib/host.js'
import type { Outbound } from '../lib/http-client/outbound.js'
import { ThreadedOutbound } from '../lib/http-client/threaded.js'
import { newId, unpredictable } from '../lib/id.js'
import type { LineOutput } from '../lib/line-output.js'
import { createNames, type Names } from '../lib/names/names.js'
import type { Sealer } from '../lib/seal.js'
import type { Steps } from '../lib/slices.js'
import { TurnedAwayLog } from '../lib/turned-away.js'
import { x509Library } from '../lib/x509.js'
import { isShared, mustNotBeLost, storeAddress } from '../options/catalogue.js'
import type { Options } from '../options/options.js'
import { IN_MEMORY } from '../options/values.js'
import type { UnitProblems } from '../policy/problems.js'
import { createTraffic, type Traffic } from '../proxy/data-plane.js'
import { HeaderKinds } from '../proxy/header-hygiene.js'
import { Upstreams } from '../proxy/upstreams.js'
import { agentIngress } from '../resources/domains.js'
import { eventDestination } from '../resources/event-destinations.js'
import { eventSubscription } from '../resources/event-subscriptions.js'
import { botUser, credential } from '../resources/identities.js'
import { resources } from '../resources/registry.js'
import { KeptState } from '../runtime/persistent-state.js'
import type { PortProblem } from '../runtime/ports.js'
import { Snapshot, SnapshotHolder } from '../runtime/snapshot.js'
import { untilAnswered } from '../store/copy/reaching-store.js'
import { openStore } from '../store/open-store.js'
import { reasons } from '../telemetry/health.js'
import {
  Metrics,
  observeAgents,
  observeDeliveries,
  observeLog,
  observeNames,
  observeRestrictions,
  observeStore
} from '../telemetry/metrics.js'
import type { Back } from '../transport/contract.js'
import { httpProxyBack } from '../transport/http-proxy/client.js'
import { httpFront } from '../transport/http-proxy/server.js'
import { codecBack } from '../transport/http1/forwarding.js'
import { codecFront } from '../transport/http1/server.js'
import { Agents, type AgentsAddress } from '../tunnel/agents/agents.js'
import { SessionEvents } from '../tunnel/agents/live-agents.js'
import { type OpenCertificates, openCertificates } from './certificates.js'
import { accessLines, sharesListener, trafficOptions, trustedSet } from './data-plane.js'
import { ProcessHealth } from './health.js'
import { policyCheck } from './offline.js'
import { namesOptions, openPolicyServices, outboundRules } from './services.js'
import { StartingStore, storeName } from './store-copy.js'

export interface AppDependencies {
  readonly log: Logger
  /** Where the log's lines go. Absent: to a log that is not on standard output. */
  readonly output?: LineOutput
  readonly clock: Clock
  /** The administrator's key of the environment, if there is one. */
  readonly apiKey: string | undefined
  /** The sealing key of the environment, if there is one. */
  readonly sealKey: string | undefined
  /** The sealing key of the store is lost: the one that is here, or a new one, takes its place. */
  readonly newSealKey?: boolean
  /** A store that is not there is to be made, although its sealing key is there. */
  readonly newStore?: boolean
}

export interface Started {
  readonly traffic: { readonly host: string; readonly port: number }
  readonly api: { readonly host: string; readonly port: number }
  /** Where agents connect, and the file of the authority that they must trust; absent: nowhere. */
  readonly agents?: AgentsAddress
  readonly revision: number
  readonly warnings: readonly UnitProblems[]
  /** The API key that was made because there was none, and was not used yet. `shown` keeps it; fails with the system's error. */
  readonly unusedKey?: { readonly text: string; shown(): Promise<void> }
}

/** The configuration at the start is refused: the problems say where and why. */
export class ConfigurationRefused extends CodedError {
  readonly problems: readonly UnitProblems[]

  constructor(problems: readonly UnitProblems[]) {
    super('POLICY_REFUSED', 'the traffic policy has errors')
    this.problems = problems
  }
}

/** What carries traffic: the client side and the upstream side. */
const ENGINES = {
  'http-proxy': { front: httpFront, back: httpProxyBack },
  codec: { front: codecFront, back: codecBack }
} as const

/** Kinds of records that agents and the delivery of events follow beside the snapshot. */
const FOLLOWED_BY_AGENTS = [agentIngress.name, credential.name, botUser.name]
const FOLLOWED_BY_EVENTS = [eventDestination.name, eventSubscription.name]
/** How often the limiter looks for buckets that have become empty, and for how long. Milliseconds. */
const SWEEP = { every: 250, atMost: 1 }
const PRESSURE_EVERY = 60_000
/** How often old revisions are forgotten. Milliseconds. */
const FORGET_EVERY = 60_000
/** How long a stop may take beside the drain, and a step of it that waits for others. Milliseconds. */
const STOP = { beside: 3_500, step: 1_500 }
/** How often a process tells the others on its store how far it is. Milliseconds. */
const REPORT_EVERY = 1_000

/**
 * The composition root: the only file that knows every folder. Each App is complete in itself; two in one process share
 * nothing.
 */
export class App {
  readonly #options: Options
  readonly #dependencies: AppDependencies
  readonly #holder = new SnapshotHolder(Snapshot.empty())
  readonly #metrics = new Metrics()
  readonly #names: Names
  readonly #looked: ReturnType<typeof observeNames>
  readonly #upstreams: Upstreams
  readonly #kinds = new HeaderKinds()
  readonly #turnedAway: TurnedAwayLog
  readonly #back: Back
  readonly #limiter: LimiterTable
  readonly #agents: Agents
  readonly #own: OwnUnits
  #store: StartingStore | undefined
  readonly #giveUp = new AbortController()
  #outbound: Outbound[] = []
  #control: ControlPlane | undefined
  #events: Events | undefined
  #ended: EndedSessions | undefined
  #traffic: Traffic | undefined
  #certificates: OpenCertificates | undefined
  #api: ApiServer | undefined
  #apiUrl = ''
  readonly #health: ProcessHealth
  #readiness: Readiness = 'starting'
  #folded = 0
  #delivers = false
  readonly #timers: NodeJS.Timeout[] = []

  constructor(options: Options, dependencies: AppDependencies) {
    this.#options = options
    this.#dependencies = dependencies
    const { clock, log } = dependencies
    this.#health = this.#createHealth()
    this.#turnedAway = new TurnedAwayLog(clock, log, (...what) => this.#metrics.turnedAway(...what))
    this.#own = new OwnUnits((units) => this.#plane.applyOwn(units))
    this.#agents = this.#createAgents()
    this.#looked = observeNames(this.#metrics.registry, clock)
    this.#names = createNames(namesOptions(options), clock, this.#looked)
    this.#upstreams = new Upstreams(clock, this.#agents.groups, this.#names.forSockets)
    this.#back = ENGINES[options.engine].back({ clock })
    this.#limiter = new LimiterTable({ budgetBytes: options.limiter.budget, clock })
  }

  /**
   * First snapshot (of the store and of the files), then traffic, then the API. Rejects with `ConfigurationRefused`, with a CodedError
   * (`FILE_UNREADABLE`, `API_KEY_INVALID`, `STORE_LOCKED`, …) or with the system's error of a bind; nothing stays open then.
   */
  async start(): Promise<Started> {
    try {
      return await this.#start()
    } catch (error) {
      await this.stop()
      throw error
    }
  }

  async #start(): Promise<Started> {
    const { clock, apiKey, sealKey, newSealKey, newStore, log } = this.#dependencies
    const { data, api } = this.#options
    // Now, because it would hold up traffic when the first certificate comes.
    x509Library()
    const folder = data === IN_MEMORY ? undefined : data
    const address = storeAddress(this.#options)
    const lasting = address !== IN_MEMORY
    if (newStore !== true) mustNotBeLost(address, folder)
    const lookup = this.#names.forSockets
    const peek = () => peekSeal(() => openStore(address, { log, clock, lookup, onRevision: () => undefined }))
    const stored = () => this.#answered('whether the store has secrets of a sealing key is not known', peek)
    const seal = () => openSealer({ given: sealKey, folder, lasting, stored, lost: newSealKey })
    const { keys, unused } = await openKeys(folder, apiKey, { clock, seal })
    this.#traffic = await this.#createTraffic()
    this.#control = await this.#openControl(keys, this.#traffic, await seal())
    const applied = await this.reload()
    if (!applied.ok) throw refusedStart(applied)
    this.#certificates = await openCertificates(this.#options, {
      control: this.#control,
      clock,
      names: this.#names,
      log
    })
    this.#observe()
    await this.#health.start()
    this.#api = this.#createApi(keys, this.#control, log)
    const apiAddress = await this.#api.listen(api.listen)
    this.#apiUrl = api.public_url ?? reachableUrl(apiAddress)
    await this.#storeServes()
    await this.#store?.keep(this.#options, () => this.#plane.place)
    // Last, so that the sessions of agents that come at once are told to those who subscribed to them.
    const agents = await this.#openAgents()
    this.#readiness = 'ready'
    return {
      traffic: this.#traffic.ports.listener(DEFAULT_LISTENER) ?? this.#options.listen,
      api: apiAddress,
      ...(agents === undefined ? {} : { agents }),
      revision: applied.revision,
      warnings: applied.warnings,
      ...(unused === undefined ? {} : { unusedKey: { text: unused, shown: () => keys.keepShown() } })
    }
  }

  /**
   * Reads the files that the options name and applies them together with `listeners`; what is wrong changes nothing. Rejects
   * when a file cannot be read.
   */
  async reload(listeners = this.#options.listeners): Promise<Applied> {
    const { listen, path_form, upstream, upstream_ca, policy } = this.#options
    if (sharesListener(this.#options, this.#options.listeners) && !sharesListener(this.#options, listeners)) {
      throw new CodedError(
        'AGENTS_ADDRESS',
        'agents: the TLS listener that they share cannot go while the process runs'
      )
    }
    const units = fileUnits({
      listen,
      listeners,
      path_form,
      upstream,
      certificateAuthorities: upstream_ca === undefined ? undefined : await readOptionFile(upstream_ca, 'upstream_ca'),
      policy: policy === undefined ? undefined : { source: shown(policy), text: await readOptionFile(policy, 'policy') }
    })
    const applied = await this.#own.put('files', units)
    this.#metrics.configuration(applied.ok ? 'applied' : 'refused')
    return applied
  }

  /**
   * Ends idle connections after a moment for what was on its way, busy ones when they are done, all after the drain
   * time-out. What only a process that may be configured needs goes first (its ports, its store), so that a successor can
   * start while connections end. No step waits for what hangs: the whole takes the drain time and a few seconds at most.
   */
  async stop(): Promise<{ ended: number; cut: number }> {
    this.#readiness = 'draining'
    this.#giveUp.abort()
    for (const timer of this.#timers) clearInterval(timer)
    this.#health.stop()
    const { drain } = this.#options.timeouts
    const draining = this.#traffic?.ports.drain(drain) ?? Promise.resolve({ ended: 0, cut: 0 })
    const rest = Promise.all([this.#handOver(), draining]).then(async () => {
      await this.#stopping('agents', this.#agents.close())
      this.#back.close()
      await this.#stopping('events', this.#events?.stop())
    })
    await atMost(drain + STOP.beside, rest)
    this.#traffic?.stop()
    for (const outbound of this.#outbound) outbound.close()
    this.#names.close()
    return (await atMost(0, draining)) ?? { ended: 0, cut: 0 }
  }

  /** Gives away what a successor needs: the addresses of the API and of agents, and the store. */
  async #handOver(): Promise<void> {
    await Promise.all([
      this.#stopping('agents', this.#agents.shut()),
      this.#stopping('api', this.#api?.close()),
      this.#stopping('certificates', this.#certificates?.stop()),
      this.#stopping('the copy of the configuration', this.#store?.stop()),
      this.#stopping('events', this.#events?.handOver())
    ])
    await this.#stopping('store', this.#control?.close())
  }

  /** Waits for a step of the stop, but not for ever. */
  async #stopping(step: string, work: Promise<unknown> | undefined): Promise<void> {
    if (work === undefined) return
    const { log } = this.#dependencies
    let late = true
    const done = work.catch((error: unknown) => log.warn({ err: error, step }, 'a step of the stop failed'))
    await atMost(
      STOP.step,
      done.then(() => {
        late = false
      })
    )
    if (late) log.warn({ step }, 'a step of the stop takes too long; going on without it')
  }

  async #openControl(operatorKeys: ApiKeys, traffic: Traffic, seal: Sealer): Promise<ControlPlane> {
    const { clock, log, newSealKey } = this.#dependencies
    const { data, zone, regions, require_reserved } = this.#options
    const address = storeAddress(this.#options)
    const folder = data === IN_MEMORY ? undefined : data
    const { services, guests } = await openPolicyServices(this.#options, {
      clock,
      names: this.#names,
      log,
      seal,
      limiter: this.#limiter,
      metrics: this.#metrics,
      traffic
    })
    this.#outbound = [services.outbound, guests.services.outbound]
    const folders = eventFolders(this.#options.events.folders, data, this.#options.policy)
    const rules = await outboundRules(this.#options)
    const eventsOutbound = new ThreadedOutbound({ ...rules, names: namesOptions(this.#options) }, this.#looked)
    const events = new Events({
      outbound: eventsOutbound,
      folders,
      clock,
      log,
      seal,
      stdout: this.#dependencies.output ?? process.stdout,
      random: unpredictable,
      baseUrl: () => this.#apiUrl,
      process: isShared(address) ? newId('proc', clock.wall()) : undefined
    })
    this.#outbound.push(eventsOutbound)
    this.#events = events
    let lost: unknown
    const options: ControlOptions = {
      connect: async (onRevision) => {
        const answered = () => void this.#storeServes()
        const lookup = this.#names.forSockets
        const { signal } = this.#giveUp
        this.#store = await StartingStore.open(this.#options, {
          seal,
          clock,
          log,
          onRevision,
          answered,
          lost,
          lookup,
          signal,
          health: this.#health.store,
          settle: (store) => settleSealKey(store, seal, { folder, lost: newSealKey === true, log })
        })
        const { store } = this.#store
        try {
          await events.attach(store)
          await services.login.ended.attach(store.endedSessions)
        } catch (error) {
          await atMost(STOP.step, store.close())
          throw error
        }
        this.#ended = services.login.ended
        return store
      },
      degraded: () => this.#store?.degraded ?? null,
      resources,
      seal,
      events,
      deliveryOf: events.deliveryOf,
      testDestination: events.test,
      lettersDropped: events.lettersDropped,
      clock,
      log,
      checkPolicy: policyCheck(services, actions),
      checkFile: (path) => folders.refusal(path),
      holder: this.#holder,
      compile: { services, actions, keptState: new KeptState(), guests },
      ports: traffic.ports,
      swapped: (snapshot) => {
        this.#metrics.serves(snapshot.revision)
        this.#health.applied()
        traffic.serves(snapshot)
        this.#agents.serves(snapshot)
      },
      settling: (snapshot) => this.#settling(snapshot),
      served: () => {
        this.#agents.written()
        events.served()
        this.#store?.served()
        this.#certificates?.service.wake()
      },
      settled: async (kinds) => {
        await Promise.all([
          kinds.has(agentIngress.name) ? this.#certificates?.service.followed() : undefined,
          FOLLOWED_BY_AGENTS.some((kind) => kinds.has(kind)) ? this.#agents.followed() : undefined,
          FOLLOWED_BY_EVENTS.some((kind) => kinds.has(kind)) ? events.followed() : undefined
        ])
      },
      operatorKeys,
      baseUrl: () => this.#apiUrl,
      zone,
      regions,
      requireReserved: require_reserved,
      backupFolder: folder,
      ...(isShared(address) ? { reportEvery: REPORT_EVERY } : {})
    }
    return await this.#answered('the store went away while its records were read', async () => {
      try {
        return await ControlPlane.open(options, this.#agents.live)
      } catch (error) {
        lost = error
        throw error
      }
    })
  }

  /** Does a step of the start that needs the store, again and again until it answers; `message` says what waits, for the log. */
  async #answered<T>(message: string, step: () => Promise<T>): Promise<T> {
    const { log } = this.#dependencies
    return await untilAnswered(step, {
      name: storeName(this.#options),
      message,
      log,
      signal: this.#giveUp.signal
    })
  }

  /** What traffic no longer needs is given up beside it. */
  *#settling({ tables }: Snapshot): Steps<void> {
    this.#back.retainUpstreams(yield* this.#upstreams.following(tables.upstreams))
  }

  /** Delivers events once the store itself is there: what waits for delivery is not in a copy. */
  async #storeServes(): Promise<void> {
    if (this.#store?.degraded !== null || this.#delivers || this.#readiness === 'draining') return
    this.#delivers = true
    void this.#ended?.follow().catch(() => undefined)
    await this.#events?.start()
  }

  #observe(): void {
    this.#metrics.observeProcess()
    if (isShared(storeAddress(this.#options)) || this.#store?.degraded !== null) {
      this.#timers.push(setInterval(() => void this.#ended?.follow().catch(() => undefined), REPORT_EVERY).unref())
    }
    this.#metrics.observeLimiter(() => this.#limiter.statistics())
    const { registry } = this.#metrics
    observeStore(registry, () => this.#control?.divergences ?? 0)
    observeLog(registry, () => this.#dependencies.output?.dropped ?? 0)
    observeAgents(registry, () => this.#agents.statistics)
    observeRestrictions(registry, () => ({ agent: this.#agents.gateCounts, ...this.#plane.gateCounts }))
    observeDeliveries(registry, () => this.#events?.counts() ?? [])
    this.#timers.push(
      setInterval(() => this.#limiter.sweep(SWEEP.atMost), SWEEP.every).unref(),
      setInterval(() => this.#reportPressure(), PRESSURE_EVERY).unref(),
      setInterval(() => void this.#forgetHistory(), FORGET_EVERY).unref()
    )
  }

  /** A store that cannot be reached keeps its history, and logouts that are past, a while longer. */
  async #forgetHistory(): Promise<void> {
    try {
      await this.#control?.revisions.forget(this.#options.history)
      await this.#ended?.forget()
    } catch (error) {
      this.#dependencies.log.warn({ err: error }, 'what is past could not be forgotten')
    }
  }

  /** While the limiter's memory is full, keys share estimates and may be refused early: the operator has to know. */
  #reportPressure(): void {
    const { folded, sketchDecisions, sketchRefusals, buckets, bytesReserved } = this.#limiter.statistics()
    if (folded + sketchDecisions === this.#folded) return
    this.#folded = folded + sketchDecisions
    this.#dependencies.log.warn(
      { folded, sketchDecisions, sketchRefusals, buckets, bytesReserved },
      'the memory of the rate limiter is full: buckets are folded and clients may be refused early; raise limiter.budget'
    )
  }

  get #plane(): ControlPlane {
    if (this.#control === undefined) throw new TypeError('the control plane is not open yet')
    return this.#control
  }

  #createHealth(): ProcessHealth {
    const { clock, log, output } = this.#dependencies
    return new ProcessHealth({
      clock,
      log,
      registry: this.#metrics.registry,
      sources: {
        revisionsBehind: () => this.#control?.revisionsBehind ?? 0,
        servesCopy: () => typeof this.#control?.degraded === 'string',
        lastError: () => this.#control?.lastError ?? null,
        logDropping: () => output?.dropping,
        overdueCertificates: () => this.#certificates?.service.overdue ?? 0,
        dnsSilent: () => this.#names.silent()
      }
    })
  }

  #createAgents(): Agents {
    const { clock, log } = this.#dependencies
    const { zone, regions, require_reserved, listen, tcp_host, data, limits, timeouts } = this.#options
    const trusted = trustedSet(this.#options.trusted_proxies)
    const { agents_certificate, agents_key, agents_tcp_ports } = this.#options
    return new Agents({
      holder: this.#holder,
      clock,
      log,
      own: this.#own,
      zone,
      regions,
      requireReserved: require_reserved,
      tcp: { host: tcp_host ?? listen.host, ports: agents_tcp_ports },
      version: packageVersion(),
      folder: data === IN_MEMORY ? undefined : join(data, 'agents'),
      certificate: certificateOf(agents_certificate, agents_key),
      limits: {
        handshakes: limits.handshakes,
        handshakesPerAddress: limits.handshakes_per_address,
        connectionsPerAddress: limits.connections_per_address,
        exempt: (address) => trusted?.match(address) !== undefined
      },
      handshakeTimeout: timeouts.headers,
      turnedAway: this.#turnedAway,
      handshakeFailed: (why) => this.#metrics.handshakeFailed(why),
      watch: new SessionEvents({
        events: {
          wants: (type) => this.#events?.traffic.wants(type) === true,
          tell: (type, object) => this.#events?.traffic.tell(type, object)
        },
        clock,
        baseUrl: () => this.#apiUrl,
        zone,
        regions
      })
    })
  }

  async #openAgents(): Promise<AgentsAddress | undefined> {
    const { agents } = this.#options
    if (agents === undefined || this.#store === undefined) return undefined
    const { store } = this.#store
    const shared = sharesListener(this.#options, this.#options.listeners)
    return await this.#answered('agents cannot connect yet', () => this.#agents.open(agents, store, shared))
  }

  async #createTraffic(): Promise<Traffic> {
    const { clock, log } = this.#dependencies
    const { engine, agents, listeners } = this.#options
    return createTraffic({
      ...(await trafficOptions(this.#options, clock)),
      front: ENGINES[engine].front({ clock }),
      turnedAway: this.#turnedAway,
      back: this.#back,
      upstreams: this.#upstreams,
      challenge: (host, path) => this.#certificates?.service.answer(host, path),
      holder: this.#holder,
      metrics: this.#metrics,
      kinds: this.#kinds,
      clock,
      log,
      lines: accessLines(log),
      events: {
        wants: (type) => this.#events?.traffic.wants(type) === true,
        put: (type, values) => this.#events?.traffic.put(type, values)
      },
      ...(agents !== undefined && sharesListener(this.#options, listeners)
        ? { beside: { at: agents, door: this.#agents.shared } }
        : {})
    })
  }

  #createApi(keys: ApiKeys, control: ControlPlane, log: Logger): ApiServer {
    const { api, limits, metrics } = this.#options
    const trusted = trustedSet(this.#options.trusted_proxies)
    const hosts = [api.listen.host, ...api.allowed_hosts]
    if (api.public_url !== undefined) hosts.push(new URL(api.public_url).hostname)
    return createApi({
      keys,
      hosts,
      crowds: {
        connections: limits.connections,
        ofAddress: new AddressCounts(limits.connections_per_address, (peer) => trusted?.match(peer) !== undefined),
        turnedAway: (why, address) => this.#turnedAway.tell('api', why, address)
      },
      clock: this.#dependencies.clock,
      readiness: () => this.#health.readiness(this.#readiness),
      degradation: () => this.#health.degradation(),
      account: { control, resources, baseUrl: () => this.#apiUrl, version: packageVersion(), reasons },
      rate: api.rate_limit,
      corsOrigins: api.cors_origins,
      metrics: metrics ? () => this.#metrics.registry.metrics() : undefined,
      fault: (error, operationId) => log.error({ err: error, operation_id: operationId }, 'the API failed')
    })
  }
}

/** Both or none. */
function certificateOf(certificate: string | undefined, key: string | undefined) {
  if (certificate !== undefined && key !== undefined) return { certificate, key }
  if (certificate === undefined && key === undefined) return undefined
  throw new CodedError('AGENTS_CERTIFICATE', 'agents_certificate and agents_key belong together: one is missing')
}

/** Why the configuration at the start is refused; a port that cannot be opened is told as the system tells it. */
function refusedStart({ problems, ports }: Extract<Applied, { ok: false }>): Error {
  const [first] = ports
  return first === undefined ? new ConfigurationRefused(problems) : systemError(first)
}

function systemError({ host, port, reason }: PortProblem): Error {
  const unresolved = reason === 'ENOTFOUND' || reason === 'EAI_AGAIN'
  const about = unresolved ? { syscall: 'getaddrinfo', hostname: host } : { syscall: 'listen', address: host, port }
  return Object.assign(new Error(`listen ${reason}: ${host}:${port}`), { code: reason, errno: undefined, ...about })
}

/** Paths below the working directory are shown relative to it. */
function shown(path: string): string {
  const near = relative(process.cwd(), path)
  return near.startsWith('..') ? path : near
}

/** The folders that the operator names for files of events; by default one of their own in the data folder. */
function eventFolders(named: readonly string[] | undefined, data: string, policy: string | undefined): EventFolders {
  const spared = data === IN_MEMORY ? undefined : join(data, 'events')
  const own = [...(data === IN_MEMORY ? [] : [data]), ...(policy === undefined ? [] : [policy])]
  return new EventFolders({ folders: named ?? (spared === undefined ? [] : [spared]), own, spared })
}
