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

/** The error of a module that this version does not have. */
export const moduleErrors = defineErrors({
  MODULE_UNAVAILABLE: {
    status: 503,
    text: 'The route has a module that this version does not have, or that could not be built.',
    help: 'Remove the module from the route, or look into the log.'
  }
})

/** What a module finds by key while an exchange runs: units of the snapshot that the exchange is pinned to. */
export interface ModuleUnits extends PinnedUnits {
  policy(key: string): CompiledPolicy | undefined
}

/** A verdict ends the exchange or the connection; undefined goes on. Stays synchronous unless it has to wait. */
export type Step = (flow: Flow, units: ModuleUnits) => Verdict | undefined | Promise<Verdict | undefined>

/**
 * A module of one route or TCP edge, compiled; it has the steps that it takes part in.
 *
 * The response steps of the modules whose request step ran are called in reverse order, also on answers of our own.
 */
export interface CompiledModule {
  readonly name: string
  /** On an HTTP request. */
  readonly request?: Step
  /** On its response. */
  readonly response?: Step
  /** On a connection to a TCP edge, before its first byte. */
  readonly connect?: Step
  /** The logins that it asks for; a request for a path of theirs stands in `flow.own`, and the steps answer it. */
  readonly logins?: (units: ModuleUnits) => readonly LoginGate[]
  /** Why an exchange that is only imagined does not run it: it would count, or ask a server. */
  readonly unjudged?: string
}

/** What a module sees of its surroundings while it is compiled. */
export interface ModuleScope extends KeptStateDraft {
  /** Id of the route or TCP edge: part of the identity of what is kept, and a label of metrics. */
  readonly owner: string
  readonly services: PolicyServices
  /** The service of the module's feature. */
  service<T>(key: ServiceKey<T>): T
  /** A secret of the module's configuration by its path there (`secret`, `provider.google.client_secret`). Undefined: there is none, or it cannot be read. */
  secret(path: string): string | undefined
}

/** What carries the traffic that a module sees: a route of an HTTPS edge, or a TCP edge. */
type Carrier = 'https' | 'tcp'

/** A module of routes or of TCP edges. */
export interface RouteModule {
  /** Name of its field in routes and TCP edges. */
  readonly name: string
  readonly on: readonly Carrier[]
  /** Names of modules that cannot be enabled beside it. */
  readonly excludes: readonly string[]
  /** The field of a resource that holds its configuration. */
  field(on: Carrier): Field
  /** Turns a configuration that a resource has validated into closures. Throws only for a defect. */
  compile(config: Readonly<Record<string, unknown>>, scope: ModuleScope): CompiledModule
}

/** What a module is compiled from: the stored form of its fields. */
type ConfigOf<F extends Fields> = Readonly<BodyOf<F>>

interface ModuleDefinition<F extends Fields, C extends object> {
  readonly name: string
  /** First sentence of its description in the API. */
  readonly description: string
  readonly on: readonly Carrier[]
  /** Its fields besides `enabled`; a function where they depend on the traffic. */
  readonly fields: F | ((on: Carrier) => F)
  /** About its own fields. */
  readonly rules?: readonly Rule[]
  /** Names of modules that cannot be enabled beside it; only one of two says so. */
  readonly excludes?: readonly string[]
  compile(config: C, scope: ModuleScope): Omit<CompiledModule, 'name'>
}

/**
 * Declares a module: its fields once, and what they are compiled to. `C` differs from the stored form of the fields only
 * where the plan of a resource replaces the configuration.
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

/** CEL type of a field of a traffic event. Times are RFC 3339 texts in the event itself. */
export type EventFieldType = 'string' | 'int' | 'bool' | 'timestamp' | 'list<dyn>' | 'map<string, list<string>>'

/** What a field of an event is read from: one exchange, or one connection to a TCP edge. */
export interface EventRecord {
  readonly connection: ConnectionFacts
  /** Undefined: it ended before there was a flow. */
  readonly flow: Flow | undefined
  /** Of the store: what served when it began. */
  readonly revision: number
  /** Why Sluice refused it. */
  readonly code: string | undefined
}

/** A field of events of traffic; `R` is what it is read from. */
export interface EventField<R = EventRecord> {
  readonly type: EventFieldType
  /** For people: what it holds, and when it is null. */
  readonly description: string
  /** Null for what does not apply. */
  readonly read: (record: R) => unknown
}

/** Fields by their dotted paths. */
export type EventFields<R = EventRecord> = Readonly<Record<string, EventField<R>>>

/** A gauge that is read from a service of the feature at each scrape. */
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

/** One feature: everything that it adds to Sluice. It imports no other feature. */
export interface Feature {
  /** Name of its folder or file. */
  readonly name: string
  /** First sentence of its documentation: what it does, in plain words. */
  readonly summary: string
  readonly actions?: readonly Action[]
  readonly modules?: readonly RouteModule[]
  /** Codes of its answers and of the results of its actions. */
  readonly errors?: readonly ErrorTable[]
  /** Codes of problems and warnings in documents that use its actions. */
  readonly problems?: readonly ErrorTable[]
  /** Fields that it adds to events: of HTTP exchanges, or with `connection` of exchanges and of connections to TCP edges. */
  readonly eventFields?: { readonly http?: EventFields; readonly connection?: EventFields }
  readonly metrics?: readonly (CounterDefinition | GaugeDefinition)[]
  /** Why policies that an agent runs cannot use its actions; absent: they can. */
  readonly notInAgent?: string
}

/** Declares a feature; `registry.ts` lists it. */
export function defineFeature(feature: Feature): Feature {
  return feature
}

/** What an action or a module published under this name when it ran last. */
export function lastResults(flow: Flow | undefined, name: string): Readonly<Record<string, unknown>> | undefined {
  return flow?.results?.get(name)
}

/** The word of a decision in events; null when none was taken. */
export function allowOrBlock(passes: unknown): 'allow' | 'block' | null {
  return typeof passes === 'boolean' ? (passes ? 'allow' : 'block') : null
}

/** Stands for a module that is configured and that this version does not have: what it should protect stays shut. */
export function unbuilt(name: string): CompiledModule {
  const verdict = refuse(moduleErrors.MODULE_UNAVAILABLE)
  return { name, request: () => verdict, connect: () => verdict }
}
