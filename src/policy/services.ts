import type { Expressions } from '../expression/expression.js'
import type { BodyBuffers } from '../flow/body-buffers.js'
import type { Phase } from '../flow/flow.js'
import type { Clock } from '../lib/clock.js'
import type { Outbound } from '../lib/http-client/outbound.js'
import type { RecentDocuments } from './document.js'

/** A counter with its labels bound. */
export interface Counter {
  inc(): void
}

/** A counter declared by a feature. Label values come from the configuration and closed sets, never from a request. */
export interface CounterDefinition {
  readonly kind: 'counter'
  readonly name: string
  readonly help: string
  readonly labels: readonly string[]
}

/** Counters of the policy layer; methods bind labels once, at compile time. */
export interface PolicyMeter {
  /** Counts matches: all expressions of a rule were true. */
  matched(owner: string, phase: Phase, rule: string): Counter
  /** Counts exchanges that an action of the rule ended. */
  decided(owner: string, phase: Phase, rule: string, action: string): Counter
  /** Counts failures of an expression or an action: `absent` (the rule did not match) or `failed` (the exchange failed closed). */
  failed(owner: string, phase: Phase, rule: string, kind: 'absent' | 'failed'): Counter
  /** Returns a counter that a feature declares in its `metrics`, with bound labels. */
  counter(definition: CounterDefinition, labels: Readonly<Record<string, string>>): Counter
  /**
   * Returns a counter for each decision of a module of `owner`, or of an action of its kind. `decisions` is a closed set. A meter without
   * this method counts no decisions.
   */
  decisions?<D extends string>(owner: string, name: string, decisions: readonly D[]): Readonly<Record<D, Counter>>
}

/** Returns decision counters by word; no-op counters if the meter has none. */
export function decisionCounters<D extends string>(
  meter: PolicyMeter,
  owner: string,
  name: string,
  decisions: readonly D[]
): Readonly<Record<D, Counter>> {
  return (
    meter.decisions?.(owner, name, decisions) ??
    (Object.fromEntries(decisions.map((decision) => [decision, UNCOUNTED])) as Record<D, Counter>)
  )
}

const UNCOUNTED: Counter = { inc: () => undefined }

/** Log for run-time failures of the policy layer. Fields contain no data of the exchange. */
export interface PolicyLog {
  debug(fields: Readonly<Record<string, unknown>>, message: string): void
  warn(fields: Readonly<Record<string, unknown>>, message: string): void
}

/** Services that the language itself needs; services of features have keys. */
export interface BaseServices {
  readonly clock: Clock
  readonly expressions: Expressions
  readonly meter: PolicyMeter
  readonly log: PolicyLog
  /** Buffers whole bodies within the budget of the process. */
  readonly bodies: BodyBuffers
  readonly documents: RecentDocuments
  /** Sends the proxy's own requests, blocked from private addresses. */
  readonly outbound: Outbound
}

/** Services of compiled policies and modules; src/app builds them with `policyServices`. */
export interface PolicyServices extends BaseServices {
  /** Returns the service of a feature: the process's value, or the default of the key. */
  service<T>(key: ServiceKey<T>): T
}

/** Identifies a service of a feature and its type. A key is one object, declared in the folder of its feature. */
export interface ServiceKey<T> {
  readonly name: string
  /** Creates the service if the process provides none, such as for checks of documents. Called once for all policies. */
  readonly otherwise: (base: BaseServices) => T
}

/** Declares a service. Its default must reject use unless `base` is sufficient for it. */
export function serviceKey<T>(name: string, otherwise: (base: BaseServices) => T): ServiceKey<T> {
  return { name, otherwise }
}

/** A service provided by the process. */
export interface Provided {
  readonly key: ServiceKey<unknown>
  readonly value: unknown
}

/** Pairs a service with its key, for `policyServices`. */
export function provide<T>(key: ServiceKey<T>, value: NoInfer<T>): Provided {
  return { key, value }
}

/**
 * State that outlives a snapshot, by a key that defines its continuity. The value of `make` is retained at the swap; `identity` is the
 * whole key as text, equal in every process and after every restart.
 */
export interface KeptStateDraft {
  keep<T>(key: readonly unknown[], make: (identity: string) => T): T
}
