import { Counter, Gauge, type Registry } from 'prom-client'
import type { Clock } from '../lib/clock.js'
import { FailingNames, type Lookup } from '../lib/names/lookups.js'
import { Counters, Spread, showCounter, showGauge } from './counters.js'

/** Current use by agents. */
interface AgentCounts {
  readonly sessions: number
  readonly tunnels: number
  readonly streams: number
}

/** Numbers of addresses refused, and of addresses that an unenforced restriction would have refused. */
interface RestrictionCounts {
  readonly refused: number
  readonly warned: number
}

/** Delivery state of one event destination. */
interface DeliveryCounts {
  readonly delivered: number
  readonly dropped: number
  readonly waiting: number
  readonly failures: number
  readonly dead_letters: number
  readonly dead_letters_dropped: number
}

/** State of one worker. */
export interface WorkerCounts {
  /** Worker number, from 1. */
  readonly worker: number
  readonly connections: number
  readonly requests: number
  /** Event loop delays in seconds; undefined before the first report. */
  readonly loop?: { readonly p50: number; readonly p99: number; readonly max: number }
  /** Bytes. */
  readonly heapUsed?: number
  readonly heapLimit?: number
}

/** State of one server. */
export interface UpstreamState {
  /** Backend id, or the name of the option that sets it. */
  readonly backend: string
  readonly server: string
  readonly up: boolean
  /** Active exchanges and connections. */
  readonly active: number
  /** Exchanges and connections in the queue. */
  readonly waiting: number
  /** Exchanges and connections refused since the last change of the backend. */
  readonly refused: number
  /** Requests and connections sent since the last change of the backend; `failures`: those that failed. */
  readonly tries: number
  readonly failures: number
}

/**
 * Creates metrics with one series for each thing that `read` returns at a scrape; other series are removed. `labelsOf` returns a value for
 * each of `labelNames`.
 */
function seriesOf<T>(
  registry: Registry,
  labelNames: string[],
  read: () => Iterable<T>,
  labelsOf: (one: T) => Record<string, string>
) {
  const about = { labelNames, registers: [registry] }
  return {
    counter: (name: string, help: string, value: (one: T) => number) =>
      new Counter({
        ...about,
        name,
        help,
        collect() {
          this.reset()
          for (const one of read()) this.inc(labelsOf(one), value(one))
        }
      }),
    gauge: (name: string, help: string, value: (one: T) => number) =>
      new Gauge({
        ...about,
        name,
        help,
        collect() {
          this.reset()
          for (const one of read()) this.set(labelsOf(one), value(one))
        }
      })
  }
}

/** Registers the state of backend servers, read at each scrape. */
export function observeUpstreams(registry: Registry, read: () => Iterable<UpstreamState>): void {
  const { counter, gauge } = seriesOf(registry, ['backend', 'server'], read, ({ backend, server }) => ({
    backend,
    server
  }))
  gauge(
    'sluice_upstream_up',
    '1: the server works as far as is known; 0: traffic or checks found it down.',
    ({ up }) => (up ? 1 : 0)
  )
  gauge('sluice_upstream_active', 'Requests and connections that the server carries now.', ({ active }) => active)
  gauge('sluice_upstream_waiting', 'Those that wait for a place of max_connections.', ({ waiting }) => waiting)
  counter(
    'sluice_upstream_busy_total',
    'Requests and connections that got no place, because the queue of the server was full or took too long.',
    ({ refused }) => refused
  )
  counter(
    'sluice_upstream_tries_total',
    'Requests and connections that were sent to the server, retries included; begins anew when its backend is changed.',
    ({ tries }) => tries
  )
  counter('sluice_upstream_tries_failed_total', 'Those of them that failed by its fault.', ({ failures }) => failures)
}

/** Backend or option with a host name, and whether the name resolves. */
export interface NameResolution {
  readonly backend: string
  readonly resolved: boolean
}

/** Registers which server names resolve, read at each scrape. */
export function observeUpstreamNames(registry: Registry, read: () => Iterable<NameResolution>): void {
  seriesOf(registry, ['backend'], read, ({ backend }) => ({ backend })).gauge(
    'sluice_upstream_name_resolved',
    '1: the name of the servers resolves; 0: its last addresses stand in, or there are none.',
    ({ resolved }) => (resolved ? 1 : 0)
  )
}

/** Registers the use by agents, read at each scrape. */
export function observeAgents(registry: Registry, read: () => AgentCounts): void {
  const gauge = (name: string, help: string, member: keyof AgentCounts) =>
    showGauge({ name, help, registers: [registry] }, () => read()[member])
  gauge('sluice_agent_sessions', 'Connections of agents that have authenticated, open now.', 'sessions')
  gauge('sluice_agent_tunnels', 'Tunnels of the agents of this process.', 'tunnels')
  gauge('sluice_agent_streams', 'Connections to upstreams open now through tunnels.', 'streams')
}

/** Registers the refusals of the IP restrictions of agents and the management listener, by type, read at each scrape. */
export function observeRestrictions(registry: Registry, read: () => Readonly<Record<string, RestrictionCounts>>): void {
  const counts = () =>
    Object.entries(read()).flatMap(([type, { refused, warned }]) => [
      { type, result: 'refused', count: refused },
      { type, result: 'would_refuse', count: warned }
    ])
  seriesOf(registry, ['type', 'result'], counts, ({ type, result }) => ({ type, result })).counter(
    'sluice_restrictions_total',
    'What the IP restrictions of agents and of the management listener have refused, or would refuse were they enforced.',
    ({ count }) => count
  )
}

/** Registers the state of the workers, read at each scrape. `ended`: workers that stopped since the start. */
export function observeWorkers(registry: Registry, read: () => Iterable<WorkerCounts>, ended: () => number): void {
  const { counter, gauge } = seriesOf(registry, ['worker'], read, ({ worker }) => ({ worker: String(worker) }))
  gauge('sluice_worker_connections', 'Client connections that the thread has now.', ({ connections }) => connections)
  counter('sluice_worker_requests_total', 'Exchanges that the thread has ended.', ({ requests }) => requests)
  gauge('sluice_worker_eventloop_lag_p99_seconds', 'How late timers of the thread run: 99th percentile.', (one) => {
    return one.loop?.p99 ?? 0
  })
  gauge('sluice_worker_heap_used_bytes', 'JavaScript heap of the thread in use.', ({ heapUsed = 0 }) => heapUsed)
  gauge('sluice_worker_heap_limit_bytes', 'Most that the heap of the thread may be.', ({ heapLimit = 0 }) => heapLimit)
  const help = 'Threads that carried traffic and have ended; others took their place.'
  showCounter({ name: 'sluice_worker_exits_total', help, registers: [registry] }, ended)
}

/** Registers the state of event delivery, read at each scrape; `read` returns the counts with the destination ids. */
export function observeDeliveries(
  registry: Registry,
  read: () => Iterable<readonly [destination: string, counts: DeliveryCounts]>
): void {
  const { counter, gauge } = seriesOf(registry, ['destination'], read, ([destination]) => ({ destination }))
  counter('sluice_events_delivered_total', 'Events that the destination has taken.', ([, counts]) => counts.delivered)
  counter(
    'sluice_events_dropped_total',
    'Events of traffic that came faster than they went, or were refused for good.',
    ([, counts]) => counts.dropped
  )
  gauge('sluice_events_waiting', 'Audit events that wait, as of the last failure.', ([, counts]) => counts.waiting)
  gauge(
    'sluice_events_dead_letters',
    'Audit events that the destination refused for good, kept now.',
    ([, counts]) => counts.dead_letters
  )
  counter(
    'sluice_events_dead_letters_dropped_total',
    'Dead letters that were dropped because their list was full.',
    ([, counts]) => counts.dead_letters_dropped
  )
  gauge(
    'sluice_event_delivery_failures',
    'Attempts to deliver since the last success.',
    ([, counts]) => counts.failures
  )
}

/** Registers how often the store's history diverged from the applied one, read at each scrape. */
export function observeStore(registry: Registry, divergences: () => number): void {
  const help = 'How often the store had gone back in time or had been replaced, and was read anew.'
  showCounter({ name: 'sluice_store_divergences_total', help, registers: [registry] }, divergences)
}

/** Registers the number of dropped log lines, read at each scrape. */
export function observeLog(registry: Registry, dropped: () => number): void {
  const help = 'Lines of the log that were dropped because the reader was too slow or the disk was full.'
  showCounter({ name: 'sluice_log_dropped_total', help, registers: [registry] }, dropped)
}

/** Registers the numbers of spans by result, read at each scrape. */
export function observeSpans(registry: Registry, read: () => Readonly<Record<string, number>>): void {
  seriesOf(
    registry,
    ['result'],
    () => Object.entries(read()),
    ([result]) => ({ result })
  ).counter(
    'sluice_spans_total',
    'Spans of traces, by what became of them: exported, or dropped (queue_full, refused, unreachable, stopped).',
    ([, count]) => count
  )
}

const LOOKUP_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

/** Counts name lookups; returns the function to call with each. Names are not labels, because requests may choose them. */
export function observeNames(registry: Registry, clock: Clock): (lookup: Lookup) => void {
  const registers = [registry]
  const lookups = new Counters({
    name: 'sluice_dns_lookups_total',
    help: 'Names that were looked up, by result and by who knew it (cache: remembered; stale: expired, as no server answered).',
    labelNames: ['result', 'source'],
    registers
  })
  const duration = new Spread({
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
    lookups.count({ result, source })
    if (source !== 'local' && source !== 'cache') duration.observe(milliseconds / 1_000)
    failing.looked(lookup)
  }
}

/** State of the process at a scrape. */
interface HealthReadings {
  /** Names of all possible reasons for a degraded process. */
  readonly reasons: readonly string[]
  /** Returns the active reasons. */
  holding(): readonly string[]
  /** Returns true if the store responds. */
  storeUp(): boolean
  /** Returns the number of store revisions that are not applied yet. */
  behind(): number
  /** Returns when a configuration was last applied, milliseconds since the Unix epoch; undefined: never. */
  appliedAt(): number | undefined
  /** Returns event loop delays in seconds. */
  loop(): { readonly p50: number; readonly p99: number; readonly max: number }
  /** Returns the descriptor use; undefined if the system does not report it. */
  descriptors(): { readonly used: number; readonly allowed: number } | undefined
}

/** Registers the state of the process, read at each scrape. Unknown values are omitted. */
export function observeHealth(registry: Registry, read: HealthReadings): void {
  const gauge = (name: string, help: string, value: () => number | undefined) =>
    showGauge({ name, help, registers: [registry] }, value)
  new Gauge({
    name: 'sluice_degraded',
    help: 'Is the process degraded for this reason? 1 yes, 0 no; /readyz shows the same.',
    labelNames: ['reason'],
    registers: [registry],
    collect() {
      const holding = read.holding()
      for (const reason of read.reasons) this.set({ reason }, holding.includes(reason) ? 1 : 0)
    }
  })
  gauge('sluice_store_up', 'Does the store answer? 1 yes, 0 no.', () => (read.storeUp() ? 1 : 0))
  gauge('sluice_revisions_behind', 'Revisions of the store that are late in this process.', () => read.behind())
  gauge('sluice_last_apply_timestamp_seconds', 'When a configuration was applied last, Unix time.', () => {
    const at = read.appliedAt()
    return at === undefined ? undefined : at / 1_000
  })
  const loop = 'How late timers of the event loop run, in the last 15 to 30 seconds:'
  gauge('nodejs_eventloop_lag_p50_seconds', `${loop} median.`, () => read.loop().p50)
  gauge('nodejs_eventloop_lag_p99_seconds', `${loop} 99th percentile.`, () => read.loop().p99)
  gauge('nodejs_eventloop_lag_max_seconds', `${loop} longest.`, () => read.loop().max)
  gauge('process_open_fds', 'File descriptors that the process has open.', () => read.descriptors()?.used)
  gauge('process_max_fds', 'File descriptors that the process may have open.', () => read.descriptors()?.allowed)
  gauge('nodejs_heap_size_used_bytes', 'JavaScript heap in use.', () => process.memoryUsage().heapUsed)
  gauge('nodejs_heap_size_total_bytes', 'JavaScript heap that is reserved.', () => process.memoryUsage().heapTotal)
  gauge('nodejs_external_memory_bytes', 'Memory of buffers and other objects outside the heap.', () => {
    return process.memoryUsage().external
  })
}
