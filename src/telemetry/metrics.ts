import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import { features } from '../features/registry.js'
import type { Failure } from '../flow/exchange.js'
import type { Phase } from '../flow/flow.js'
import type { Clock } from '../lib/clock.js'
import { FailingNames, type Lookup } from '../lib/names/lookups.js'
import type { CounterDefinition, PolicyMeter, PolicyServices } from '../policy/services.js'

const featureMetrics = features.flatMap(({ metrics = [] }) => metrics)

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

/**
 * All metrics of the data plane, in one registry of its own. Labels come from the configuration and from closed
 * sets, never from a request, so that a client cannot make series.
 */
export class Metrics {
  readonly registry = new Registry()
  readonly connections: Gauge
  readonly inFlight: Gauge
  readonly #requests: Counter
  readonly #byStatus = new Map<string, { inc(): void }>()
  readonly #duration: Histogram
  readonly #upstreamDuration: Histogram
  readonly #bytes: { in: { inc(by: number): void }; out: { inc(by: number): void } }
  readonly #failures: Counter
  readonly #refused: Counter
  readonly #handshakes: Counter
  readonly #turnedAway: Counter
  readonly #restricted: Counter
  readonly #tcp: Counter
  readonly #tcpDuration: Histogram
  readonly #retries: Counter
  readonly #reloads: Counter
  readonly #revision: Gauge
  readonly policy: PolicyMeter

  constructor() {
    const registers = [this.registry]
    this.connections = new Gauge({ name: 'sluice_connections', help: 'Client connections open now.', registers })
    this.inFlight = new Gauge({ name: 'sluice_requests_in_flight', help: 'Exchanges begun and not ended.', registers })
    this.#requests = new Counter({
      name: 'sluice_requests_total',
      help: 'Exchanges ended, by edge and status of the answer (0: no answer).',
      labelNames: ['edge', 'status'],
      registers
    })
    this.#duration = new Histogram({
      name: 'sluice_request_duration_seconds',
      help: 'From the head of a request to the last byte of its answer.',
      buckets: SECONDS,
      registers
    })
    this.#upstreamDuration = new Histogram({
      name: 'sluice_upstream_response_seconds',
      help: 'From forwarding a request to the head of the answer.',
      buckets: SECONDS,
      registers
    })
    const bytes = new Counter({
      name: 'sluice_bytes_total',
      help: 'Bytes of requests from clients and of answers to them, heads included.',
      labelNames: ['direction'],
      registers
    })
    this.#bytes = { in: bytes.labels({ direction: 'in' }), out: bytes.labels({ direction: 'out' }) }
    this.#failures = new Counter({
      name: 'sluice_failures_total',
      help: 'Exchanges that failed or were refused, by code.',
      labelNames: ['code'],
      registers
    })
    this.#refused = new Counter({
      name: 'sluice_malformed_total',
      help: 'Requests that the engine answered itself because they were none, by status.',
      labelNames: ['status'],
      registers
    })
    this.#handshakes = new Counter({
      name: 'sluice_handshake_failures_total',
      help: 'Connections that ended before their first request: no PROXY header, no TLS, no certificate, by reason.',
      labelNames: ['reason'],
      registers
    })
    this.#turnedAway = new Counter({
      name: 'sluice_connections_refused_total',
      help: 'Connections that were closed because there were too many, by listener and limit.',
      labelNames: ['listener', 'limit'],
      registers
    })
    this.#restricted = new Counter({
      name: 'sluice_endpoint_restrictions_total',
      help: 'What the IP restriction of all endpoints has refused, or would refuse were it enforced.',
      labelNames: ['result'],
      registers
    })
    this.#tcp = new Counter({
      name: 'sluice_tcp_connections_total',
      help: 'Connections to TCP edges that ended, by edge and code (ok: both sides had said all).',
      labelNames: ['edge', 'code'],
      registers
    })
    this.#tcpDuration = new Histogram({
      name: 'sluice_tcp_connection_duration_seconds',
      help: 'From accepting a connection to a TCP edge to its end.',
      buckets: [...SECONDS, 300, 3_600],
      registers
    })
    this.#retries = new Counter({
      name: 'sluice_upstream_retries_total',
      help: 'Requests sent a second time.',
      registers
    })
    this.#reloads = new Counter({
      name: 'sluice_configuration_changes_total',
      help: 'Changes of the configuration, by result.',
      labelNames: ['result'],
      registers
    })
    this.#revision = new Gauge({ name: 'sluice_revision', help: 'Revision of the running configuration.', registers })
    this.policy = policyMeter(registers)
  }

  /** One exchange ended. Seconds are derived from milliseconds; `upstream` is undefined when nothing was forwarded. */
  ended(
    edge: string,
    status: number,
    milliseconds: number,
    upstream: number | undefined,
    bytesIn: number,
    bytesOut: number
  ) {
    const key = `${status} ${edge}`
    let counter = this.#byStatus.get(key)
    if (counter === undefined) {
      counter = this.#requests.labels({ edge, status: String(status) })
      this.#byStatus.set(key, counter)
    }
    counter.inc()
    this.#duration.observe(milliseconds / 1_000)
    if (upstream !== undefined) this.#upstreamDuration.observe(upstream / 1_000)
    if (bytesIn > 0) this.#bytes.in.inc(bytesIn)
    if (bytesOut > 0) this.#bytes.out.inc(bytesOut)
  }

  failed(code: string): void {
    this.#failures.inc({ code })
  }

  malformed(status: number, _why: Failure): void {
    this.#refused.inc({ status: String(status) })
  }

  /** A connection got no further than its PROXY header or TLS handshake. `why` is a word of a closed set. */
  handshakeFailed(why: string): void {
    this.#handshakes.inc({ reason: why })
  }

  /** A connection was closed because there are too many. `limit` is a word of a closed set. */
  turnedAway(listener: string, limit: string): void {
    this.#turnedAway.inc({ listener, limit })
  }

  restricted(enforced: boolean): void {
    this.#restricted.inc({ result: enforced ? 'refused' : 'would_refuse' })
  }

  /** A connection to a TCP edge ended. `code` is undefined when both sides had said all that they had to. */
  connectionEnded(
    edge: string,
    code: string | undefined,
    milliseconds: number,
    bytesIn: number,
    bytesOut: number
  ): void {
    this.#tcp.inc({ edge, code: code ?? 'ok' })
    this.#tcpDuration.observe(milliseconds / 1_000)
    if (bytesIn > 0) this.#bytes.in.inc(bytesIn)
    if (bytesOut > 0) this.#bytes.out.inc(bytesOut)
  }

  retried(): void {
    this.#retries.inc()
  }

  configuration(result: 'applied' | 'refused'): void {
    this.#reloads.inc({ result })
  }

  /** This revision of the configuration serves from now on. */
  serves(revision: number): void {
    this.#revision.set(revision)
  }

  /** Registers the gauges of features; each reads its service at each scrape. */
  observe(services: PolicyServices): void {
    for (const metric of featureMetrics) {
      if (metric.kind !== 'gauge') continue
      const service = services.service(metric.of)
      new Gauge({
        name: metric.name,
        help: metric.help,
        registers: [this.registry],
        collect() {
          this.set(metric.read(service))
        }
      })
    }
  }

  /** Memory and CPU of the process, read at each scrape. */
  observeProcess(): void {
    new Gauge({
      name: 'process_resident_memory_bytes',
      help: 'Resident memory of the process.',
      registers: [this.registry],
      collect() {
        this.set(process.memoryUsage.rss())
      }
    })
    new Counter({
      name: 'process_cpu_seconds_total',
      help: 'CPU time of the process, user and system.',
      registers: [this.registry],
      collect() {
        const { user, system } = process.cpuUsage()
        this.reset()
        this.inc((user + system) / 1e6)
      }
    })
  }
}

function policyMeter(registers: Registry[]): PolicyMeter {
  const rule = ['owner', 'phase', 'rule']
  const matched = new Counter({
    name: 'sluice_policy_rule_matches_total',
    help: 'Rules whose expressions were all true.',
    labelNames: rule,
    registers
  })
  const decided = new Counter({
    name: 'sluice_policy_decisions_total',
    help: 'Exchanges ended by an action of a rule.',
    labelNames: [...rule, 'action'],
    registers
  })
  const failed = new Counter({
    name: 'sluice_policy_evaluation_failures_total',
    help: 'Evaluations without a value: absent (the rule did not match) or failed (the exchange failed closed).',
    labelNames: [...rule, 'kind'],
    registers
  })
  const declared = new Map<CounterDefinition, Counter>()
  for (const metric of featureMetrics) {
    if (metric.kind !== 'counter') continue
    const { name, help, labels } = metric
    declared.set(metric, new Counter({ name, help, labelNames: [...labels], registers }))
  }
  const moduleDecisions = new Counter({
    name: 'sluice_module_decisions_total',
    help: 'What modules, and actions of their kind, decided about exchanges and connections.',
    labelNames: ['owner', 'module', 'decision'],
    registers
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
      ) as Record<D, Counter.Internal>
  }
}

/** What agents use now. */
interface AgentCounts {
  readonly sessions: number
  readonly tunnels: number
  readonly streams: number
}

/** How often an IP restriction has refused an address, and how often it only would have. */
interface RestrictionCounts {
  readonly refused: number
  readonly warned: number
}

/** How the delivery of events to one destination goes. */
interface DeliveryCounts {
  readonly delivered: number
  readonly dropped: number
  readonly waiting: number
  readonly failures: number
  readonly dead_letters: number
  readonly dead_letters_dropped: number
}

/** Reads what agents use at each scrape. */
export function observeAgents(registry: Registry, read: () => AgentCounts): void {
  const gauge = (name: string, help: string, member: keyof AgentCounts) =>
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        this.set(read()[member])
      }
    })
  gauge('sluice_agent_sessions', 'Connections of agents that have authenticated, open now.', 'sessions')
  gauge('sluice_agent_tunnels', 'Tunnels of the agents of this process.', 'tunnels')
  gauge('sluice_agent_streams', 'Connections to upstreams open now through tunnels.', 'streams')
}

/** Reads at each scrape what the IP restrictions of agents and of the management listener have done, by their type. */
export function observeRestrictions(registry: Registry, read: () => Readonly<Record<string, RestrictionCounts>>): void {
  new Counter({
    name: 'sluice_restrictions_total',
    help: 'What the IP restrictions of agents and of the management listener have refused, or would refuse were they enforced.',
    labelNames: ['type', 'result'],
    registers: [registry],
    collect() {
      this.reset()
      for (const [type, { refused, warned }] of Object.entries(read())) {
        this.inc({ type, result: 'refused' }, refused)
        this.inc({ type, result: 'would_refuse' }, warned)
      }
    }
  })
}

/** Reads at each scrape how events are delivered; `read` gives the counts with the id of each destination. */
export function observeDeliveries(
  registry: Registry,
  read: () => Iterable<readonly [destination: string, counts: DeliveryCounts]>
): void {
  const about = { labelNames: ['destination'], registers: [registry] }
  const counter = (name: string, help: string, member: keyof DeliveryCounts) =>
    new Counter({
      ...about,
      name,
      help,
      collect() {
        this.reset()
        for (const [destination, counts] of read()) this.inc({ destination }, counts[member])
      }
    })
  const gauge = (name: string, help: string, member: keyof DeliveryCounts) =>
    new Gauge({
      ...about,
      name,
      help,
      collect() {
        this.reset()
        for (const [destination, counts] of read()) this.set({ destination }, counts[member])
      }
    })
  counter('sluice_events_delivered_total', 'Events that the destination has taken.', 'delivered')
  counter(
    'sluice_events_dropped_total',
    'Events of traffic that came faster than they went, or were refused for good.',
    'dropped'
  )
  gauge('sluice_events_waiting', 'Audit events that wait, as of the last failure.', 'waiting')
  gauge('sluice_events_dead_letters', 'Audit events that the destination refused for good, kept now.', 'dead_letters')
  counter(
    'sluice_events_dead_letters_dropped_total',
    'Dead letters that were dropped because their list was full.',
    'dead_letters_dropped'
  )
  gauge('sluice_event_delivery_failures', 'Attempts to deliver since the last success.', 'failures')
}

/** Reads at each scrape how often the store turned out to have another history than the one that was followed. */
export function observeStore(registry: Registry, divergences: () => number): void {
  new Counter({
    name: 'sluice_store_divergences_total',
    help: 'How often the store had gone back in time or had been replaced, and was read anew.',
    registers: [registry],
    collect() {
      this.reset()
      this.inc(divergences())
    }
  })
}

/** Reads at each scrape how many lines of the log were dropped. */
export function observeLog(registry: Registry, dropped: () => number): void {
  new Counter({
    name: 'sluice_log_dropped_total',
    help: 'Lines of the log that were dropped because the reader was too slow or the disk was full.',
    registers: [registry],
    collect() {
      this.reset()
      this.inc(dropped())
    }
  })
}

const LOOKUP_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

/** Counts look-ups of names; returns what is to be called with each of them. Names are no labels: requests may choose them. */
export function observeNames(registry: Registry, clock: Clock): (lookup: Lookup) => void {
  const registers = [registry]
  const lookups = new Counter({
    name: 'sluice_dns_lookups_total',
    help: 'Names that were looked up, by result and by who knew it (cache: remembered; stale: expired, as no server answered).',
    labelNames: ['result', 'source'],
    registers
  })
  const duration = new Histogram({
    name: 'sluice_dns_lookup_duration_seconds',
    help: 'From a look-up to its end, of those that asked DNS servers or the system.',
    buckets: LOOKUP_SECONDS,
    registers
  })
  const failing = new FailingNames(clock)
  new Gauge({
    name: 'sluice_dns_failing_names',
    help: 'Names whose last look-up, within a minute, got no address, by its result.',
    labelNames: ['result'],
    registers,
    collect() {
      for (const [result, count] of Object.entries(failing.counts())) this.set({ result }, count)
    }
  })
  return (lookup) => {
    const { result, source, milliseconds } = lookup
    lookups.inc({ result, source })
    if (source !== 'local' && source !== 'cache') duration.observe(milliseconds / 1_000)
    failing.looked(lookup)
  }
}
