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

/** A counter that a feature declares. Its labels have values of the configuration and of closed sets, never of a request. */
export interface CounterDefinition {
  readonly kind: 'counter'
  readonly name: string
  readonly help: string
  readonly labels: readonly string[]
}

/** Counters of the policy layer; every method binds its labels once, when a policy is compiled. */
export interface PolicyMeter {
  /** A rule's expressions were all true. */
  matched(owner: string, phase: Phase, rule: string): Counter
  /** An action of the rule ended the exchange. */
  decided(owner: string, phase: Phase, rule: string, action: string): Counter
  /** An expression or an action had no value: `absent` (the rule did not match) or `failed` (the exchange failed closed). */
  failed(owner: string, phase: Phase, rule: string, kind: 'absent' | 'failed'): Counter
  /** A counter that a feature declares in its `metrics`, with the values of its labels. */
  counter(definition: CounterDefinition, labels: Readonly<Record<string, string>>): Counter
  /**
   * What one module of `owner`, or one action of its kind, decided: a counter for each word. `decisions` is a closed set.
   * A meter without it counts no decisions.
   */
  decisions?<D extends string>(owner: string, name: string, decisions: readonly D[]): Readonly<Record<D, Counter>>
}

/** Counters of decisions, by word; they count nowhere when the meter has no such counters. */
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

/** Where the policy layer says what went wrong at run time. Fields hold no data of the exchange. */
export interface PolicyLog {
  debug(fields: Readonly<Record<string, unknown>>, message: string): void
  warn(fields: Readonly<Record<string, unknown>>, message: string): void
}

/** What the language itself needs of the process; the service of a feature has a key. */
export interface BaseServices {
  readonly clock: Clock
  readonly expressions: Expressions
  readonly meter: PolicyMeter
  readonly log: PolicyLog
  /** Whole bodies, within the budget of the process. */
  readonly bodies: BodyBuffers
  readonly documents: RecentDocuments
  /** Requests of our own, kept away from private addresses. */
  readonly outbound: Outbound
}

/** Services of compiled policies and modules. `policyServices` in src/app builds them. */
export interface PolicyServices extends BaseServices {
  /** The service of a feature: the value that the process provides, else the default of the key. */
  service<T>(key: ServiceKey<T>): T
}

/** Names a service of a feature and its type. A key is one object, declared in the folder of its feature. */
export interface ServiceKey<T> {
  readonly name: string
  /** Makes the service where the process provides none, such as where documents are only checked. Called once for all policies. */
  readonly otherwise: (base: BaseServices) => T
}

/** Declares a service. Its default refuses to be used unless it can do its work with `base` alone. */
export function serviceKey<T>(name: string, otherwise: (base: BaseServices) => T): ServiceKey<T> {
  return { name, otherwise }
}

/** A service that a process provides. */
export interface Provided {
  readonly key: ServiceKey<unknown>
  readonly value: unknown
}

/** Pairs a service with its key, for `policyServices`. */
export function provide<T>(key: ServiceKey<T>, value: NoInfer<T>): Provided {
  return { key, value }
}

/**
 * State that outlives a snapshot, by a key that says when continuity holds. What `make` builds becomes kept at the swap;
 * `identity` is the whole key as text, the same in every process and after every restart.
 */
export interface KeptStateDraft {
  keep<T>(key: readonly unknown[], make: (identity: string) => T): T
}
