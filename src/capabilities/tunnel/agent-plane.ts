import { parse } from 'node:path'
import { startErrors } from '../../app/errors.js'
import { policyServices } from '../../app/services.js'
import { createExpressions } from '../../expression/expressions.js'
import { limiter } from '../../features/rate-limit/feature.js'
import { LimiterTable } from '../../features/rate-limit/limiter/table.js'
import { actions } from '../../features/registry.js'
import { BodyBuffers } from '../../flow/body-buffers.js'
import { refusalOf } from '../../flow/error-codes.js'
import { TurnedAwayLog } from '../../lib/client-limits.js'
import type { Clock } from '../../lib/clock.js'
import { DeadlineTimer } from '../../lib/deadline-timer.js'
import { CodedError } from '../../lib/errors.js'
import { openGeo } from '../../lib/geo.js'
import { parseAuthority } from '../../lib/host.js'
import { createOutbound } from '../../lib/http-client/outbound.js'
import type { Names } from '../../lib/names/names.js'
import { UserAgents } from '../../lib/user-agent.js'
import { confinedActions, resultsOf } from '../../policy/action.js'
import { RecentDocuments } from '../../policy/document.js'
import { keyFolders } from '../../policy/key-files.js'
import type { UnitProblems } from '../../policy/problems.js'
import { type PolicyServices, provide } from '../../policy/services.js'
import { asWritten } from '../../proxy/client-address.js'
import { createTraffic } from '../../proxy/data-plane.js'
import { HeaderKinds } from '../../proxy/header-sanitizing.js'
import { Observers } from '../../proxy/observers.js'
import { DevelopmentIdentity } from '../../proxy/server-identity.js'
import { OwnTicketKeys } from '../../proxy/ticket-keys.js'
import { Upstreams } from '../../proxy/upstreams.js'
import { prepare } from '../../runtime/compile.js'
import { PersistentState } from '../../runtime/persistent-state.js'
import type { Unit } from '../../runtime/plan.js'
import { Snapshot, SnapshotHolder } from '../../runtime/snapshot.js'
import { Metrics } from '../../telemetry/metrics.js'
import type { ListenLimits } from '../../transport/contract.js'
import { codecBack } from '../../transport/http1/forwarding.js'
import { PipeTransport } from '../../transport/http1/server.js'
import { byVersion, http2Back } from '../../transport/http2/client.js'
import { type AgentTarget, type Forward, forwardVisitor, PIPE_CHECKS, targetDialer } from './client/visitors.js'

/** The actions of policies that agents run: those that they cannot run are refused by name, with the reason. */
const agentActions = confinedActions(actions, 'agent')

/** A policy of a tunnel has errors: the problems warn where. */
export class AgentPolicyRefused extends CodedError {
  readonly problems: readonly UnitProblems[]

  constructor(problems: readonly UnitProblems[]) {
    super(startErrors.POLICY_REFUSED, 'the policy of a tunnel has errors')
    this.problems = problems
  }
}

/** Text of a traffic policy and its source file. */
export interface PolicyText {
  readonly source: string
  readonly text: string
}

/** One tunnel with its own policy. */
export interface GuardedTunnel {
  readonly name: string
  readonly policy: PolicyText
  readonly target: AgentTarget
  /** Its visitors speak anything but HTTP. */
  readonly tcp: boolean
}

/** Reports traffic of a tunnel: a line without its end. */
export type ReportLine = (line: string) => void

/** Bytes and milliseconds: the defaults of `sluice start`, but that the server decides how long an idle stream stays. */
const LIMITS: ListenLimits = {
  headerBytes: 65_536,
  headers: 200,
  targetBytes: 65_536,
  connections: 0,
  headTimeout: 10_000,
  bodyIdle: 30_000,
  keepAlive: 0
}
const TIMEOUTS = { connect: 5_000, response: 60_000, idle: 600_000, half_closed: 0, headers: 10_000, drain: 0 }
const LIMITER_BUDGET = 16 * 1024 * 1024
const BODIES = { total: 64 * 1024 * 1024, each: 1024 * 1024, perClient: 8 * 1024 * 1024 }
/** For a body that is wanted whole: milliseconds, bytes per second. */
const PACE = { deadline: 60_000, rate: 1024 }
/** Interval and maximum duration of the limiter's search for empty buckets (ms). */
const SWEEP = { every: 250, atMost: 1 }
/** Unit key of the tunnel's policy. */
const POLICY = 'policy:tunnel'
/** Phases of HTTP. */
const HTTP_PHASES = ['on_http_request', 'on_http_response', 'on_event_stream_message'] as const

/**
 * The data plane of an agent, which runs its tunnels' policies before the targets are called. It is the server's data plane,
 * with the streams of tunnels as its only input.
 */
export class AgentPlane {
  readonly #clock: Clock
  readonly #services: PolicyServices
  readonly #metrics: Metrics
  readonly #stops: (() => void)[] = []

  private constructor(clock: Clock, services: PolicyServices, table: LimiterTable, metrics: Metrics) {
    this.#clock = clock
    this.#services = services
    this.#metrics = metrics
    const timer = setInterval(() => table.sweep(SWEEP.atMost), SWEEP.every).unref()
    this.#stops.push(
      () => clearInterval(timer),
      () => services.outbound.close()
    )
  }

  /** Opens the plane. `report` receives errors of running policies. */
  static async open(clock: Clock, random: () => number, names: Names, report: ReportLine): Promise<AgentPlane> {
    const metrics = new Metrics()
    const userAgent = new UserAgents()
    const sources = { results: resultsOf(agentActions), clock, random, geo: await openGeo(), userAgent }
    const log = {
      debug: () => undefined,
      warn: (fields: Readonly<Record<string, unknown>>, message: string) => report(lineOf(fields, message))
    }
    const outbound = createOutbound({ clock, allowPrivate: false, lookup: names.lookup })
    const table = new LimiterTable({ budgetBytes: LIMITER_BUDGET, clock })
    const base = {
      clock,
      // Vaults are the server's, so their function does not exist here.
      expressions: createExpressions(sources, { vaults: false }),
      meter: metrics.policy,
      log,
      documents: new RecentDocuments(),
      outbound,
      bodies: new BodyBuffers({
        ...BODIES,
        pace: { clock, ...PACE },
        broken: refusalOf
      })
    }
    // The author of the policy runs the agent, so the policy may read that user's files.
    const own = [provide(limiter, table), provide(keyFolders, [parse(process.cwd()).root])]
    return new AgentPlane(clock, policyServices(base, own), table, metrics)
  }

  /**
   * Compiles the policy of a tunnel and returns the forwarding function. `warned` receives the warnings of `sluice check`.
   * Rejects with `AgentPolicyRefused`, or with a CodedError `AGENT_SETUP` if the policy does not fit the tunnel.
   */
  async forward(
    tunnel: GuardedTunnel,
    report: ReportLine,
    warned: (problems: readonly UnitProblems[]) => void
  ): Promise<Forward> {
    const { name, target, tcp } = tunnel
    const prepared = prepare(Snapshot.empty(), { from: 0, to: 1, put: unitsOf(tunnel), drop: [] }, new Map(), {
      services: this.#services,
      actions: agentActions,
      persistentState: new PersistentState()
    })
    if (!prepared.ok) throw new AgentPolicyRefused(prepared.problems)
    const { snapshot } = prepared
    const phases = snapshot.policy(POLICY)?.phases
    const needsHttp = HTTP_PHASES.find((phase) => phases?.[phase] !== null)
    if (tcp && needsHttp !== undefined) {
      const message = `${name}: ${tunnel.policy.source} has rules of ${needsHttp}, and the visitors of this tunnel speak no HTTP`
      throw new CodedError(startErrors.AGENT_SETUP, message)
    }
    warned(prepared.warnings)
    const deadlines = new DeadlineTimer(this.#clock, PIPE_CHECKS)
    const front = await this.#open(target, snapshot, () => prepared.commit(), report)
    return (stream, head, failed) => {
      const at = parseAuthority(head.from)
      const peer = { address: at?.host ?? '', port: at?.port ?? 0 }
      if (head.http) front.serve(stream, peer)
      else if (needsHttp !== undefined) {
        failed(`its policy has rules of ${needsHttp}, and this visitor speaks no HTTP`)
        stream.refuse()
      } else if (front.admits(stream, peer)) forwardVisitor(stream, target, deadlines, failed)
    }
  }

  /** Stops timers. */
  stop(): void {
    for (const stop of this.#stops) stop()
  }

  async #open(target: AgentTarget, snapshot: Snapshot, commit: () => void, report: ReportLine): Promise<PipeTransport> {
    const clock = this.#clock
    const front = new PipeTransport(clock)
    const http1 = codecBack({ clock })
    const back = byVersion(http1, http2Back({ clock, http1 }))
    const holder = new SnapshotHolder(Snapshot.empty())
    const dialer = targetDialer(target)
    // A unit of tunnels accepts a dialer from outside.
    const only = [{ id: 'target', startedAt: 0, ready: true }]
    const tunnels = { members: () => only, dialer: () => dialer, follow: () => () => undefined }
    const upstreams = new Upstreams({ clock, tunnels })
    const warn = (fields: object, message: string): void => report(lineOf(fields, message))
    const traffic = createTraffic({
      serverTransport: front,
      clientTransport: back,
      upstreams,
      challenge: () => undefined,
      observers: new Observers(),
      holder,
      metrics: this.#metrics,
      kinds: new HeaderKinds(),
      clock,
      log: { info: () => undefined, warn, error: warn },
      // The output of the action `log` has no other place.
      lines: { info: (fields, message) => ((fields as Logged).logs === undefined ? undefined : warn(fields, message)) },
      accessLog: { share: 1, where: undefined },
      events: { wants: () => false, put: () => undefined },
      region: '',
      limits: LIMITS,
      turnedAway: new TurnedAwayLog(clock, { warn: warn }, (...what) => this.#metrics.turnedAway(...what)),
      timeouts: TIMEOUTS,
      forwarding: asWritten,
      // No listener here speaks TLS.
      development: new DevelopmentIdentity(() => Promise.reject(new TypeError('agents show no certificate'))),
      tcp: { host: '', proxyProtocol: false },
      reserved: [],
      ticketKeys: new OwnTicketKeys(clock)
    })
    const bound = await traffic.ports.bind(holder.current(), snapshot)
    commit()
    holder.swap(snapshot)
    bound.commit()
    this.#stops.push(
      () => back.close(),
      () => traffic.stop()
    )
    return front
  }
}

/** Formats a readable log line: the message and its fields. */
function lineOf(fields: object, message: string): string {
  return `${message} ${JSON.stringify(fields, (_key, value) => (value instanceof Error ? value.message : value))}`
}

interface Logged {
  readonly logs?: unknown
}

/** One entry for every host, with the policy in front of the target. */
function unitsOf({ name, policy }: GuardedTunnel): [string, Unit][] {
  return [
    // The server has decided which paths it lets pass, and in which form.
    [
      'listener:tunnel',
      { kind: 'listener', name: 'tunnel', host: '', port: 0, tls: false, proxyProtocol: false, pathForm: 'lenient' }
    ],
    ['upstream:target', { kind: 'upstream', form: 'tunnels', id: name, labels: {} }],
    [POLICY, { kind: 'policy', owner: name, ...policy }],
    ['edge:tunnel', { kind: 'edge', id: name, hosts: 'every', connectPolicy: POLICY }],
    [
      'route:tunnel',
      {
        kind: 'route',
        id: name,
        edge: name,
        match: 'prefix',
        path: '/',
        upstream: 'upstream:target',
        modules: { traffic_policy: { policy: POLICY } }
      }
    ]
  ]
}
