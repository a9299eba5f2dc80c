import type { Flow } from '../exchange/flow.js'
import type { Verdict } from '../exchange/verdict.js'
import type { CompiledPolicy } from '../policy/compile.js'

/** What a module finds by key while an exchange runs: units of the snapshot that the exchange is pinned to. */
export interface ModuleUnits {
  policy(key: string): CompiledPolicy | undefined
}

/**
 * A module of one route, compiled. A verdict ends the request; undefined goes on.
 *
 * The response steps of the modules that ran are called in reverse order, also on answers of our own.
 */
export interface CompiledModule {
  readonly name: string
  request(flow: Flow, units: ModuleUnits): Verdict | undefined | Promise<Verdict | undefined>
  response(flow: Flow, units: ModuleUnits): Verdict | undefined | Promise<Verdict | undefined>
}

/** What a route's configuration says to the modules. */
export interface ModuleConfigs {
  readonly policy?: string
}

export interface ModuleDefinition {
  readonly name: string
  /** The module for a route, or undefined when the route does not configure it. */
  compile(configs: ModuleConfigs): CompiledModule | undefined
}
