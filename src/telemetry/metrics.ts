import { Gauge, Registry } from 'prom-client'
import { features } from '../features/registry.js'
import type { Failure } from '../flow/exchange.js'
import type { Phase } from '../flow/flow.js'
import type { CounterDefinition, PolicyMeter, PolicyServices } from '../policy/services.js'
import {
  type Counter as CounterOf,
  Counters,
  type Description,
  Level,
  type Relayed,
  type ShownLabel,
  Spread,
  Spreads,
  showCounter,
  showGauge,
  Total
} from './counters.js'
import type { SeriesMemory } from './series-memory.js'
import { TrafficMeter } from './traffic-meter.js'
import { TrafficRates } from './traffic-rates.js'

const featureMetrics = features.flatMap(({ metrics = [] }) => metrics)

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

/** Maximum number of routes, or of backends, with a histogram of their own; each has one series per range. */
const MOST_LABELLED = 1_000

/** Names of units by id; undefined for an id without a unit. */
interface LabelNames {
  siteOf(edge: string): string | undefined
  siteOfRoute(route: string): string | undefined
  routeOf(route: string): string | undefined
  backendOf(backend: string): string | undefined
  ownerOf(owner: string): string | undefined
}

/** The configuration as far as labels show it. */
interface LabelledUnits {
  /** Returns true if the configuration has a unit with this key; other series are not exposed. */
  readonly has?: (key: string) => boolean
  readonly names?: LabelNames
}

const unnamed = () => undefined
const NO_NAMES = { siteOf: unnamed, siteOfRoute: unnamed, routeOf: unnamed, backendOf: unnamed, ownerOf: unnamed }

/** Returns the shown values of labels that are counted by id. */
function shownBy(names: LabelNames): ShownLabel {
  return (label, value) => {
    if (label === 'site') return value === '' ? '' : names.siteOf(value)
    return label === 'owner' ? names.ownerOf(value) : value
  }
}

/**
 * All metrics of the data plane in a separate registry. Traffic is counted by the ids of sites, routes and backends; a scrape shows their names.
 * Labels come from the configuration and closed sets, never from a request, so that
 * clients cannot create series.
 */
export class Metrics {
  readonly registry = new Registry()
  /** Rates of failed and refused traffic in the last minutes. */
  readonly rates: TrafficRates
  /** Totals of all client exchanges. */
  readonly meter: TrafficMeter
  readonly connections: Level
  readonly inFlight: Level
  readonly #requests: Counters<'site' | 'status'>
  readonly #byStatus = new Map<string, Map<number, CounterOf>>()
  readonly #duration: Spread
  readonly #upstreamDuration: Spread
  readonly #routeDuration: Spreads
  readonly #backendDuration: Spreads
  readonly #bytes: { readonly in: CounterOf; readonly out: CounterOf }
  readonly #failures: Counters<'code'>
  readonly #refused: Counters<'status'>
  readonly #handshakes: Counters<'reason'>
  readonly #turnedAway: Counters<'listener' | 'limit'>
  readonly #restricted: Counters<'result'>
  readonly #tcp: Counters<'site' | 'code'>
  readonly #tcpDuration: Spread
  readonly #retries: Total
  readonly #retriesRefused: Total
  readonly #reloads: Counters<'result'>
  readonly #guards: Counters<'outcome'>
  readonly #revision: Gauge
  readonly #shadows: Counters<'old' | 'new'>
  readonly policy: PolicyMeter
  /** Metrics of traffic that any thread counts. */
  readonly relayed: readonly Relayed[]

  /**
   * `units`: the current configuration. @default every unit exists, and has no name but its id. `memory`: memory of traffic counts.
   * @default not shared with other threads
   */
  constructor(
    { has = () => true, names = NO_NAMES }: LabelledUnits = {},
    rates = new TrafficRates(),
    memory?: SeriesMemory
  ) {
    this.rates = rates
    this.meter = new TrafficMeter(memory)
    const registers = [this.registry]
    const relayed: Relayed[] = [this.meter]
    this.relayed = relayed
    const shown = shownBy(names)
    const counted = { registers, memory, relayed, shown }
    this.connections = new Level({ name: 'sluice_connections', help: 'Client connections open now.', ...counted })
    this.inFlight = new Level({ name: 'sluice_requests_in_flight', help: 'Exchanges begun and not ended.', ...counted })
    this.#requests = new Counters({
      name: 'sluice_requests_total',
      help: 'Requests that ended, by site and status of the response (0: no response).',
      labelNames: ['site', 'status'],
      ...counted
    })
    this.#duration = new Spread({
      name: 'sluice_request_duration_seconds',
      help: 'From the head of a request to the last byte of its answer.',
      buckets: SECONDS,
      ...counted
    })
    this.#upstreamDuration = new Spread({
      name: 'sluice_upstream_response_seconds',
      help: 'From forwarding a request to the head of the answer.',
      buckets: SECONDS,
      ...counted
    })
    this.#routeDuration = new Spreads({
      name: 'sluice_route_duration_seconds',
      help: `From the head of a request to the last byte of its answer, by the name of its route (other: beyond ${MOST_LABELLED} routes).`,
      labelNames: ['site', 'route'],
      labelsOf: (id) => ({ site: names.siteOfRoute(id) ?? id, route: names.routeOf(id) ?? id }),
      buckets: SECONDS,
      most: MOST_LABELLED,
      exists: (route) => has(`route:${route}`),
      ...counted
    })
    this.#backendDuration = new Spreads({
      name: 'sluice_upstream_duration_seconds',
      help: `From the beginning of a try to the head of its answer, by the name of the backend (other: beyond ${MOST_LABELLED} backends).`,
      labelNames: ['backend'],
      labelsOf: (id) => ({ backend: names.backendOf(id) ?? id }),
      buckets: SECONDS,
      most: MOST_LABELLED,
      exists: (backend) => has(`upstream:${backend}`),
      ...counted
    })
    const bytes = new Counters({
      name: 'sluice_bytes_total',
      help: 'Bytes of requests from clients and of answers to them, heads included.',
      labelNames: ['direction'],
      ...counted
    })
    this.#bytes = { in: bytes.labels({ direction: 'in' }), out: bytes.labels({ direction: 'out' }) }
    this.#failures = new Counters({
      name: 'sluice_failures_total',
      help: 'Exchanges that failed or were refused, by code.',
      labelNames: ['code'],
      ...counted
    })
    this.#refused = new Counters({
      name: 'sluice_malformed_total',
      help: 'Requests that the engine answered itself because they were none, by status.',
      labelNames: ['status'],
      ...counted
    })
    this.#handshakes = new Counters({
      name: 'sluice_handshake_failures_total',
      help: 'Connections that ended before their first request: no PROXY header, no TLS, no certificate, by reason.',
      labelNames: ['reason'],
      ...counted
    })
    this.#turnedAway = new Counters({
      name: 'sluice_connections_refused_total',
      help: 'Connections that were closed because there were too many, by listener and limit.',
      labelNames: ['listener', 'limit'],
      ...counted
    })
    this.#restricted = new Counters({
      name: 'sluice_endpoint_restrictions_total',
      help: 'What the IP restriction of all endpoints has refused, or would refuse were it enforced.',
      labelNames: ['result'],
      ...counted
    })
    this.#tcp = new Counters({
      name: 'sluice_tcp_connections_total',
      help: 'Connections to TCP edges that ended, by site and code (ok: both sides had said all).',
      labelNames: ['site', 'code'],
      ...counted
    })
    this.#tcpDuration = new Spread({
      name: 'sluice_tcp_connection_duration_seconds',
      help: 'From accepting a connection to a TCP edge to its end.',
      buckets: [...SECONDS, 300, 3_600],
      ...counted
    })
    this.#retries = new Total({
      name: 'sluice_upstream_retries_total',
      help: 'Requests sent a second time.',
      ...counted
    })
    this.#retriesRefused = new Total({
      name: 'sluice_upstream_retries_refused_total',
      help: 'Requests that were not sent again because the budget of retries of their backend was spent.',
      ...counted
    })
    this.#reloads = new Counters({
      name: 'sluice_configuration_changes_total',
      help: 'Changes of the configuration, by result.',
      labelNames: ['result'],
      registers
    })
    this.#shadows = new Counters({
      name: 'sluice_shadow_total',
      help: 'Exchanges that a shadow has seen, by what is decided (old) and what its candidate decides (new).',
      labelNames: ['old', 'new'],
      registers
    })
    this.#guards = new Counters({
      name: 'sluice_guards_total',
      help: 'Guards of writes that ended in this process, by outcome.',
      labelNames: ['outcome'],
      registers
    })
    this.#revision = new Gauge({ name: 'sluice_revision', help: 'Revision of the running configuration.', registers })
    this.policy = policyMeter(counted)
  }

  /** Returns failed and refused exchanges since the start, by code. */
  failuresByCode(): ReadonlyMap<string, number> {
    return new Map([...this.#failures.read()].map(([{ code = '' }, count]) => [code, count]))
  }

  /** Counts a finished exchange of a route. */
  routeEnded(route: string, milliseconds: number): void {
    this.#routeDuration.observe(route, milliseconds / 1_000)
  }

  /** Counts a response from a server of this backend; `milliseconds`: from the start of the attempt to the response header. */
  answered(backend: string, milliseconds: number): void {
    this.#backendDuration.observe(backend, milliseconds / 1_000)
  }

  /** Counts a finished exchange. Seconds are derived from milliseconds; `upstream` is undefined if nothing was forwarded. */
  ended(edge: string, status: number, milliseconds: number, upstream: number | undefined): void {
    this.#ended(edge, status).inc()
    this.#duration.observe(milliseconds / 1_000)
    if (upstream !== undefined) this.#upstreamDuration.observe(upstream / 1_000)
  }

  /** Counts the bytes of a finished exchange or connection. */
  transferred(bytesIn: number, bytesOut: number): void {
    if (bytesIn > 0) this.#bytes.in.inc(bytesIn)
    if (bytesOut > 0) this.#bytes.out.inc(bytesOut)
  }

  #ended(edge: string, status: number): CounterOf {
    let ofEdge = this.#byStatus.get(edge)
    if (ofEdge === undefined) {
      ofEdge = new Map()
      this.#byStatus.set(edge, ofEdge)
    }
    let counter = ofEdge.get(status)
    if (counter === undefined) {
      counter = this.#requests.labels({ site: edge, status: String(status) })
      ofEdge.set(status, counter)
    }
    return counter
  }

  failed(code: string): void {
    this.#failures.count({ code })
  }

  malformed(status: number, _why: Failure): void {
    this.#refused.count({ status: String(status) })
  }

  /** Counts a connection that failed at its PROXY header or TLS handshake. `why` is from a closed set. */
  handshakeFailed(why: string): void {
    this.#handshakes.count({ reason: why })
  }

  /** Counts a connection closed because of a connection limit. `limit` is from a closed set. */
  turnedAway(listener: string, limit: string): void {
    this.#turnedAway.count({ listener, limit })
  }

  restricted(enforced: boolean): void {
    this.#restricted.count({ result: enforced ? 'refused' : 'would_refuse' })
  }

  /** Counts a closed connection to a TCP edge. `code` is undefined if both sides finished normally. */
  connectionEnded(edge: string, code: string | undefined, milliseconds: number): void {
    this.#tcp.count({ site: edge, code: code ?? 'ok' })
    this.#tcpDuration.observe(milliseconds / 1_000)
  }

  retried(): void {
    this.#retries.inc()
  }

  retryRefused(): void {
    this.#retriesRefused.inc()
  }

  configuration(result: 'applied' | 'refused'): void {
    this.#reloads.count({ result })
  }

  /** Counts an exchange evaluated by a shadow. Both arguments are from closed sets. */
  shadowed(old: string, candidate: string): void {
    this.#shadows.count({ old, new: candidate })
  }

  /** Counts a finished guard of a write. `outcome` is from a closed set. */
  guardEnded(outcome: string): void {
    this.#guards.count({ outcome })
  }

  /** Sets the current store revision. */
  serves(revision: number): void {
    this.#revision.set(revision)
  }

  /** Registers the gauges of features; each reads its service at a scrape. */
  observe(services: PolicyServices): void {
    for (const metric of featureMetrics) {
      if (metric.kind !== 'gauge') continue
      const { name, help } = metric
      const service = services.service(metric.of)
      showGauge({ name, help, registers: [this.registry] }, () => metric.read(service))
    }
  }

  /** Registers memory and CPU of the process, read at a scrape. */
  observeProcess(): void {
    const registers = [this.registry]
    const memory = { name: 'process_resident_memory_bytes', help: 'Resident memory of the process.', registers }
    showGauge(memory, () => process.memoryUsage.rss())
    const time = { name: 'process_cpu_seconds_total', help: 'CPU time of the process, user and system.', registers }
    showCounter(time, () => {
      const { user, system } = process.cpuUsage()
      return (user + system) / 1e6
    })
  }
}

function policyMeter(counted: Omit<Description, 'name' | 'help'>): PolicyMeter {
  const rule = ['owner', 'phase', 'rule'] as const
  const matched = new Counters({
    name: 'sluice_policy_rule_matches_total',
    help: 'Rules whose expressions were all true.',
    labelNames: rule,
    ...counted
  })
  const decided = new Counters({
    name: 'sluice_policy_decisions_total',
    help: 'Exchanges ended by an action of a rule.',
    labelNames: [...rule, 'action'],
    ...counted
  })
  const failed = new Counters({
    name: 'sluice_policy_evaluation_failures_total',
    help: 'Evaluations without a value: absent (the rule did not match) or failed (the exchange failed closed).',
    labelNames: [...rule, 'kind'],
    ...counted
  })
  const declared = new Map<CounterDefinition, Counters<string>>()
  for (const metric of featureMetrics) {
    if (metric.kind !== 'counter') continue
    const { name, help, labels } = metric
    declared.set(metric, new Counters({ name, help, labelNames: [...labels], ...counted }))
  }
  const moduleDecisions = new Counters({
    name: 'sluice_module_decisions_total',
    help: 'What modules, and actions of their kind, decided about exchanges and connections.',
    labelNames: ['owner', 'module', 'decision'],
    ...counted
  })
  return {
    matched: (owner: string, phase: Phase, name: string) => matched.labels({ owner, phase, rule: name }),
    decided: (owner, phase, name, action) => decided.labels({ owner, phase, rule: name, action }),
    failed: (owner, phase, name, kind) => failed.labels({ owner, phase, rule: name, kind }),
    counter(definition, labels) {
      const counter = declared.get(definition)
      if (counter === undefined) throw new RangeError(`the metric ${definition.name} is declared by no feature`)
      return counter.labels(labels)
    },
    decisions: <D extends string>(owner: string, module: string, decisions: readonly D[]) =>
      Object.fromEntries(
        decisions.map((decision) => [decision, moduleDecisions.labels({ owner, module, decision })])
      ) as Record<D, CounterOf>
  }
}
