import { getHeapStatistics } from 'node:v8'
import { threadAccessLog } from '../../app/access-log.js'
import { type DataPlane, openDataPlane } from '../../app/data-plane.js'
import { type LiveOptions, liveOptions } from '../../app/live-options.js'
import { openPolicyServices } from '../../app/server-services.js'
import { createTrafficFoundation } from '../../app/traffic-foundation.js'
import { upstreamStates } from '../../app/upstream-states.js'
import type { Login } from '../../features/login/service.js'
import { LimitReports } from '../../features/rate-limit/elsewhere.js'
import { LimiterTable } from '../../features/rate-limit/limiter/table.js'
import { actions } from '../../features/registry.js'
import { GivenRules } from '../../features/waf/rules.js'
import type { ReplayMemory } from '../../features/webhook/replays.js'
import { clockFrom } from '../../lib/clock.js'
import { DescriptorShares } from '../../lib/descriptor-shares.js'
import { SharedHoldings } from '../../lib/shared-holdings.js'
import { LearntRecords } from '../../lib/shared-records.js'
import { Slices } from '../../lib/slices.js'
import { LearntChecks } from '../../proxy/health.js'
import { BUDGET_NUMBERS, budgetName } from '../../proxy/retries.js'
import type { OutageJudge } from '../../proxy/server.js'
import { DevelopmentIdentity } from '../../proxy/server-identity.js'
import type { TicketKeys } from '../../proxy/ticket-keys.js'
import { PersistentState } from '../../runtime/persistent-state.js'
import { LoopDelay } from '../../telemetry/process-health.js'
import { RelayedRates } from '../../telemetry/relayed-traffic.js'
import { SharedSeriesMemory } from '../../telemetry/series-memory.js'
import { TrafficEventQueue } from '../../telemetry/traffic-events.js'
import { ThreadRecorder } from '../recorder/thread-recorder.js'
import { traceFields } from '../traces/trace-context.js'
import { threadTracing } from '../traces/tracing.js'
import { Replica } from './replicas/replica.js'
import { adoptingSockets, SocketInlet } from './sockets/inlet.js'
import { RelayedTunnels } from './sockets/relayed-tunnels.js'
import { type ThreadLimits, threadLimits } from './thread-ledger.js'
import { ThreadLink } from './thread-link.js'
import type { FromTrafficThread, ThreadState, ToTrafficThread, TrafficThreadData } from './thread-protocol.js'
import { BEAT_EVERY, beatOnce } from './thread-watchdog.js'

/** Interval of reporting rates of exchanges (ms). */
const REPORT_EVERY = 250
/** Interval of reporting counters of limits; a killed worker loses those since its last report (ms). */
const LIMITS_EVERY = 5_000
/** Interval of forgetting expired logins (ms). */
const FORGET_EVERY = 60_000

/** Traffic in a worker: the data plane over a plan from the main thread, and connections that it accepted. */
export interface TrafficThread {
  /** Messages are handled in their order. */
  receive(message: ToTrafficThread): void
  /** Handles an uncaught error: the worker ends once its connections have. */
  fail(error: unknown): void
}

/** Opens the data plane. `ended` is called when the worker must end after a failure. Rejects if a configured file cannot be read. */
export async function openTrafficThread(
  data: TrafficThreadData,
  post: (message: FromTrafficThread, transfer?: readonly ArrayBuffer[]) => void,
  ended: () => void
): Promise<TrafficThread> {
  const { options, keys, development } = data
  const clock = clockFrom(data.clockOrigin)
  const link = new ThreadLink(post, data.level)
  const { log } = link
  const live = liveOptions(options, clock, new DescriptorShares(data.descriptors, data.slot + 1))
  const rates = new RelayedRates(() => report())
  const foundation = createTrafficFoundation(options, {
    clock,
    log,
    processId: data.processId,
    live,
    limiter: new LimiterTable({ clock, handle: data.limiter }),
    elsewhere: {
      rates,
      looked: link.looked,
      memory: new SharedSeriesMemory((series) => post({ kind: 'series', series }))
    }
  })
  const given = new GivenValues(data.ticketKeys)
  const events = new TrafficEventQueue({
    clock,
    account: () => given.account,
    put: link.event,
    fault: (error) => log.warn({ err: error }, 'an event of traffic could not be written')
  })
  const accessLog = threadAccessLog(options, log, link.access)
  const inlet = new SocketInlet(post)
  const records = new LearntRecords(data.limiter.thread)
  const tunnels = new RelayedTunnels(post)
  const telemetry = threadTracing(options, clock, link.traced)
  const { tracer } = telemetry
  const checks = new LearntChecks()
  const judge: OutageJudge = {
    failed: (place, how) => post({ kind: 'server', place, how }),
    answered: (place) => post({ kind: 'server', place, how: 'answered' })
  }
  const dataPlane = openDataPlane(options, foundation, {
    learnt: { checks, judge, threads: data.threads },
    tunnels,
    ...(tracer === undefined ? {} : { tracing: { tracer, fields: traceFields(options.traces) } }),
    events,
    challenge: given.challenge,
    development: DevelopmentIdentity.of(development),
    accessLog,
    stickyKeys: keys.sticky,
    budgetRecord: async (key) => {
      await link.ask({ about: 'budget', key })
      return records.of(budgetName(key), BUDGET_NUMBERS)
    },
    ticketKeys: given,
    terminations: inlet,
    sockets: (transport) => adoptingSockets(inlet, transport)
  })
  const { traffic } = dataPlane
  const replays = { of: (identity: string) => relayedReplays(link, identity) }
  const holdings = new SharedHoldings(data.holdings, data.slot)
  const limits = new LimitReports()
  const cluster = threadLimits(options, clock, data.cluster, post)
  const { services: over } = cluster
  const parts = {
    ...foundation,
    loginKeys: keys.login,
    traffic,
    records,
    replays,
    holdings,
    limitRelay: limits,
    cluster: over,
    builtRules: data.rules
  }
  const { services, guests, login, rules } = await openPolicyServices(options, parts)
  accessLog.choose(options, services.expressions)
  telemetry.choose(services.expressions)
  const recorder = new ThreadRecorder(options, { ...foundation, expressions: services.expressions }, post)
  login.ended.relay(async (sessions) => void (await link.ask({ about: 'ended-logins', sessions })))
  login.keeper.relay((call) => link.ask({ about: 'login-session', call }))
  const replica = new Replica(
    {
      holder: foundation.holder,
      compile: { services, actions, persistentState: new PersistentState(), guests },
      ports: traffic.ports,
      slices: () => new Slices(),
      swapped: (snapshot) => traffic.serves(snapshot),
      settling: dataPlane.settling
    },
    post
  )
  const loop = new LoopDelay()
  const report = (serial?: number): void => {
    const taken = rates.take()
    if (serial !== undefined)
      post({ kind: 'counted', rates: taken, answers: { serial, state: stateOf(loop, dataPlane, cluster) } })
    else if (taken.length > 0) post({ kind: 'counted', rates: taken })
  }
  const reportLimits = (): void => {
    const changed = limits.changed(clock.monotonic())
    if (changed.size > 0) post({ kind: 'limits', limits: changed })
  }
  setInterval(() => {
    report()
    recorder.flush()
  }, REPORT_EVERY)
  setInterval(reportLimits, LIMITS_EVERY)
  beatOnce(data.beat)
  setInterval(() => beatOnce(data.beat), BEAT_EVERY)
  setInterval(
    () =>
      void login.visitors
        .flush()
        .then(() => login.ended.forget())
        .catch(() => undefined),
    FORGET_EVERY
  )
  return new OpenTrafficThread({
    link,
    live,
    dataPlane,
    replica,
    inlet,
    given,
    events,
    login,
    rules: rules instanceof GivenRules ? rules : undefined,
    checks,
    records,
    tunnels,
    report,
    reportLimits,
    cluster,
    recorder,
    ended
  })
}

interface Parts {
  readonly link: ThreadLink
  readonly live: LiveOptions
  readonly dataPlane: DataPlane
  readonly replica: Replica
  readonly inlet: SocketInlet
  readonly given: GivenValues
  readonly events: TrafficEventQueue
  readonly login: Login
  readonly rules: GivenRules | undefined
  readonly checks: LearntChecks
  readonly records: LearntRecords
  readonly tunnels: RelayedTunnels
  readonly report: (serial?: number) => void
  readonly reportLimits: () => void
  readonly cluster: ThreadLimits
  readonly recorder: ThreadRecorder
  readonly ended: () => void
}

class OpenTrafficThread implements TrafficThread {
  readonly #parts: Parts
  #failed = false

  constructor(parts: Parts) {
    this.#parts = parts
  }

  receive(message: ToTrafficThread): void {
    const { link, live, dataPlane, replica, inlet, given, events, login, checks, report, reportLimits, recorder } =
      this.#parts
    switch (message.kind) {
      case 'port':
      case 'closed':
      case 'socket':
      case 'placed':
      case 'lasting':
      case 'terminating':
        inlet.receive(message)
        return
      case 'options':
        live.take(message.options)
        recorder.take(message.options)
        return
      case 'follow':
      case 'unfollow':
      case 'explain-key':
        recorder.receive(message)
        return
      case 'ticket-keys':
        given.keys = Buffer.from(message.keys)
        return
      case 'waf-rules':
        void this.#parts.rules?.replace(message.rules)
        return
      case 'challenges':
        given.challenges = message.answers
        return
      case 'subscriptions':
        given.account = message.account
        events.follow(message.subscriptions)
        return
      case 'taken':
        if (message.what === 'exchanges') recorder.taken(message.bytes)
        else link.taken(message.what, message.bytes)
        return
      case 'answer':
        link.answered(message)
        return
      case 'outage':
        dataPlane.upstreams.servers.learn(message.place, message.state)
        return
      case 'check':
        checks.learn(message.check, message.found)
        return
      case 'tunnels':
      case 'pipe-opened':
      case 'pipe-moved':
      case 'pipe-bytes':
      case 'pipe-read':
      case 'pipe-end':
      case 'pipe-broken':
        this.#parts.tunnels.receive(message)
        return
      case 'records':
        this.#parts.records.learn(message.memory)
        return
      case 'ledger-answer':
      case 'ledger-recall':
        this.#parts.cluster.receive(message)
        return
      case 'ended-logins':
        login.ended.learn(message.news)
        link.post({ kind: 'logins-ended', serial: message.serial })
        return
      case 'count':
        recorder.flush()
        if (message.limits) reportLimits()
        report(message.serial)
        return
      case 'drain':
        void this.#drain(message.deadline)
        return
      default:
        // A worker that cannot follow the plan must not serve an outdated one.
        replica.receive(message).catch((error: unknown) => {
          link.log.error({ err: error }, 'a thread that carries traffic cannot follow the configuration')
          this.#end()
        })
    }
  }

  fail(error: unknown): void {
    const { link, live, dataPlane } = this.#parts
    link.log.error({ err: error }, 'an error in a thread that carries traffic; another one takes its place')
    if (this.#failed) return
    this.#failed = true
    link.post({ kind: 'failing' })
    void dataPlane.traffic.ports.drain(live.timeouts.drain).then(() => this.#end())
  }

  async #drain(deadline: number): Promise<void> {
    const { link, dataPlane } = this.#parts
    // Connections to agents that wait for another request would keep them from the process that takes over.
    dataPlane.close()
    const drained = await dataPlane.traffic.ports.drain(deadline)
    await this.#parts.cluster.close()
    this.#flush()
    link.post({ kind: 'drained', ...drained })
  }

  #end(): void {
    this.#flush()
    this.#parts.ended()
  }

  #flush(): void {
    const { link, events, report, reportLimits } = this.#parts
    events.flush()
    this.#parts.recorder.flush()
    reportLimits()
    report()
    link.flush()
  }
}

function stateOf(loop: LoopDelay, dataPlane: DataPlane, cluster: ThreadLimits): ThreadState {
  const { used_heap_size: heapUsed, heap_size_limit: heapLimit } = getHeapStatistics()
  const servers = [...upstreamStates(dataPlane)].filter(
    ({ tries, active, refused }) => tries > 0 || active > 0 || refused > 0
  )
  return {
    loop: loop.delays,
    heapUsed,
    heapLimit,
    external: process.memoryUsage().external,
    servers,
    cluster: cluster.statistics()
  }
}

/** The deliveries of one sender, which the other thread remembers. */
function relayedReplays(link: ThreadLink, identity: string): ReplayMemory {
  return {
    admit: (once, now, lasting) => link.ask({ about: 'delivery', identity, once, now, lasting }),
    release: (once) => link.post({ kind: 'release', identity, once })
  }
}

/** Values that the main thread provides for the whole process. */
class GivenValues implements TicketKeys {
  keys: Buffer
  account = ''
  challenges: ReadonlyMap<string, Uint8Array> = new Map()

  constructor(ticketKeys: Uint8Array) {
    this.keys = Buffer.from(ticketKeys)
  }

  current(): Buffer {
    return this.keys
  }

  readonly challenge = (host: string, path: string): Uint8Array | undefined =>
    this.challenges.size === 0 ? undefined : this.challenges.get(`${host} ${path}`)
}
