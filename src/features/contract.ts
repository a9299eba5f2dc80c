import type { Flow, PinnedUnits } from '../flow/flow.js'
import { refuse, type Verdict } from '../flow/verdict.js'
import type { CompiledPolicy } from '../policy/compile.js'
import type { KeptStateDraft, PolicyServices } from '../policy/services.js'
import type { LoginGate } from './login/selection.js'

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
}

/** What a module sees of its surroundings while it is compiled. */
export interface ModuleScope extends KeptStateDraft {
  /** Id of the route or TCP edge: part of the identity of what is kept, and a label of metrics. */
  readonly owner: string
  readonly services: PolicyServices
  /** A secret of the module's configuration by its path there (`secret`, `provider.google.client_secret`). Undefined: there is none, or it cannot be read. */
  secret(path: string): string | undefined
}

export interface ModuleDefinition {
  /** Its name in routes and TCP edges. */
  readonly name: string
  /** Turns a configuration that a resource has validated into closures. Throws only for a defect. */
  compile(config: Readonly<Record<string, unknown>>, scope: ModuleScope): CompiledModule
}

/** Declares a module. Keeps the type of its configuration. */
export function defineModule<C extends object>(
  name: string,
  compile: (config: Readonly<C>, scope: ModuleScope) => Omit<CompiledModule, 'name'>
): ModuleDefinition {
  return { name, compile: (config, scope) => ({ name, ...compile(config as Readonly<C>, scope) }) }
}

/** Stands for a module that is configured and that this version does not have: what it should protect stays shut. */
export function unbuilt(name: string): CompiledModule {
  const verdict = refuse(503, 'MODULE_UNAVAILABLE')
  return { name, request: () => verdict, connect: () => verdict }
}
