import type { ConnectionFacts } from '../flow/exchange.js'
import type { Flow, PinnedUnits } from '../flow/flow.js'
import { refuse, type Verdict } from '../flow/verdict.js'
import { defineErrors, type ErrorTable } from '../lib/errors.js'
import type { Action } from '../policy/action.js'
import type { CompiledPolicy } from '../policy/compile.js'
import type { LoginGate } from '../policy/login-gate.js'
import type { CounterDefinition, KeptStateDraft, PolicyServices, ServiceKey } from '../policy/services.js'
import type { BodyOf, Field, Fields } from '../schema/field.js'
import { module, type Rule } from '../schema/objects.js'

/** Error of a module that this version does not have. */
export const moduleErrors = defineErrors({
  MODULE_UNAVAILABLE: {
    status: 503,
    text: 'The route has a module that this version does not have, or that could not be built.',
    help: 'Remove the module from the route, or look into the log.'
  }
})

/** Units that a module looks up during an exchange, from the snapshot of the exchange. */
export interface ModuleUnits extends PinnedUnits {
  policy(key: string): CompiledPolicy | undefined
}

/** Returns a verdict to stop the exchange or connection, undefined to continue. Synchronous unless it has to wait. */
export type Step = (flow: Flow, units: ModuleUnits) => Verdict | undefined | Promise<Verdict | undefined>

/**
 * Compiled module of one route or TCP edge.
 *
 * The response steps of the modules whose request step ran are called in reverse order, also for Sluice's own responses.
 */
export interface CompiledModule {
  readonly name: string
  /** Step for an HTTP request. */
  readonly request?: Step
  /** Step for its response. */
  readonly response?: Step
  /** Step for a connection to a TCP edge, before its first byte. */
  readonly connect?: Step
  /** Returns the module's logins; a request for one of their paths is in `flow.own` and answered by the steps. */
  readonly logins?: (units: ModuleUnits) => readonly LoginGate[]
  /** Reason why a simulated exchange skips this module: it would count, or contact a server. */
  readonly unjudged?: string
}

/** Context for compiling a module. */
export interface ModuleScope extends KeptStateDraft {
  /** Id of the route or TCP edge: part of the key of kept state, and a metric label. */
  readonly owner: string
  readonly services: PolicyServices
  /** Returns the service of the module's feature. */
  service<T>(key: ServiceKey<T>): T
  /**
   * Returns a secret of the configuration by its path (`secret`, `provider.google.client_secret`); undefined if it is missing or
   * unreadable.
   */
  secret(path: string): string | undefined
}

/** Owner of a module: a route of an HTTPS edge, a TCP edge or a TLS edge. */
export type Carrier = 'https' | 'tcp' | 'tls'

/** Module of routes, TCP edges or TLS edges. */
export interface RouteModule {
  /** Field name in its owners. */
  readonly name: string
  readonly on: readonly Carrier[]
  /** Names of modules that cannot be enabled together with it. */
  readonly excludes: readonly string[]
  /** Returns the resource field with its configuration. */
  field(on: Carrier): Field
  /** Compiles a validated configuration. Throws only because of a bug. */
  compile(config: Readonly<Record<string, unknown>>, scope: ModuleScope): CompiledModule
}

/** Configuration of a module: the stored form of its fields. */
type ConfigOf<F extends Fields> = Readonly<BodyOf<F>>

interface ModuleDefinition<F extends Fields, C extends object> {
  readonly name: string
  /** First sentence of the API description. */
  readonly description: string
  readonly on: readonly Carrier[]
  /** Fields besides `enabled`; a function if they depend on the owner. */
  readonly fields: F | ((on: Carrier) => F)
  /** Rules for its fields. */
  readonly rules?: readonly Rule[]
  /** Names of modules that cannot be enabled together with it; one of a pair declares it. */
  readonly excludes?: readonly string[]
  compile(config: C, scope: ModuleScope): Omit<CompiledModule, 'name'>
}

/**
 * Declares a module with its fields and compiler. `C` differs from the stored form only if the plan of a resource replaces the
 * configuration.
 */
export function defineModule<const F extends Fields, C extends object = ConfigOf<F>>(
  definition: ModuleDefinition<F, C>
): RouteModule {
  const { name, description, on, fields, rules, excludes = [] } = definition
  return {
    name,
    on,
    excludes,
    field: (carrier) => module(description, typeof fields === 'function' ? fields(carrier) : fields, rules),
    compile: (config, scope) => ({ name, ...definition.compile(config as C, scope) })
  }
}

/** CEL type of a traffic event field. Times are RFC 3339 text in the event itself. */
export type EventFieldType = 'string' | 'int' | 'bool' | 'timestamp' | 'list<dyn>' | 'map<string, list<string>>'

/** Source of event fields: one exchange, or one connection to a TCP edge. */
export interface EventRecord {
  readonly connection: ConnectionFacts
  /** Its flow; undefined if it ended before it had one. */
  readonly flow: Flow | undefined
  /** Store revision in use when it began. */
  readonly revision: number
  /** Code of a refusal by Sluice. */
  readonly code: string | undefined
}

/** Field of traffic events; `R` is its source. */
export interface EventField<R = EventRecord> {
  readonly type: EventFieldType
  /** Content of the field, and when it is null. */
  readonly description: string
  /** Returns the value, null if it does not apply. */
  readonly read: (record: R) => unknown
}

/** Fields by their dotted paths. */
export type EventFields<R = EventRecord> = Readonly<Record<string, EventField<R>>>

/** Gauge that reads a service of the feature at each scrape. */
export interface GaugeDefinition<T = unknown> {
  readonly kind: 'gauge'
  readonly name: string
  readonly help: string
  readonly of: ServiceKey<T>
  read(service: T): number
}

/** Declares a gauge of a service. */
export function defineGauge<T>(
  of: ServiceKey<T>,
  name: string,
  help: string,
  read: (service: T) => number
): GaugeDefinition {
  return { kind: 'gauge', name, help, of, read } satisfies GaugeDefinition<T> as GaugeDefinition
}

/** Feature with all of its parts. Does not import other features. */
export interface Feature {
  /** Name of its folder or file. */
  readonly name: string
  /** First sentence of its documentation. */
  readonly summary: string
  readonly actions?: readonly Action[]
  readonly modules?: readonly RouteModule[]
  /** Error codes of its responses and action results. */
  readonly errors?: readonly ErrorTable[]
  /** Codes of problems and warnings in documents with its actions. */
  readonly problems?: readonly ErrorTable[]
  /** Event fields: `http` for HTTP exchanges, `connection` for exchanges and connections to TCP edges. */
  readonly eventFields?: { readonly http?: EventFields; readonly connection?: EventFields }
  readonly metrics?: readonly (CounterDefinition | GaugeDefinition)[]
  /** Reason why agents' policies cannot use its actions. @default they can */
  readonly notInAgent?: string
}

/** Declares a feature for the list in `registry.ts`. */
export function defineFeature(feature: Feature): Feature {
  return feature
}

/** Returns the results that an action or module last published under this name. */
export function lastResults(flow: Flow | undefined, name: string): Readonly<Record<string, unknown>> | undefined {
  return flow?.results?.get(name)
}

/** Returns the decision for events; null if there is none. */
export function allowOrBlock(passes: unknown): 'allow' | 'block' | null {
  return typeof passes === 'boolean' ? (passes ? 'allow' : 'block') : null
}

/** Returns the replacement for a configured module that this version does not have: it refuses everything. */
export function unbuilt(name: string): CompiledModule {
  const verdict = refuse(moduleErrors.MODULE_UNAVAILABLE)
  return { name, request: () => verdict, connect: () => verdict }
}
