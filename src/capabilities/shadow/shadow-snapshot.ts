import type { CompiledPolicy } from '../../policy/compile.js'
import { type CompiledEdge, type EdgeAt, PathTable, type Route } from '../../runtime/http-edges.js'
import { compileModules, type ModuleCompilation } from '../../runtime/modules.js'
import { asKind } from '../../runtime/plan-changes.js'
import type { Snapshot } from '../../runtime/snapshot.js'
import { type CandidateParts, CandidateSnapshot } from '../explain/candidate-snapshot.js'
import type { Unknown } from './decision.js'

/** Modules whose exchanges are not judged, because the candidate lacks what they need. */
const NOT_JUDGED: Readonly<Record<string, Unknown>> = {
  oauth: 'login',
  oidc: 'login',
  saml: 'login',
  circuit_breaker: 'circuit_breaker',
  webhook_verification: 'body'
}

/** Inputs for composing a candidate; they outlive the running snapshots. */
export interface ShadowParts extends CandidateParts {
  readonly kept: Map<string, unknown>
  /** Compiled policies by their keys. */
  readonly compiled: Map<string, { readonly text: string | undefined; readonly policy: CompiledPolicy | undefined }>
  /** Names of all modules, in the order in which they run. */
  readonly modules: readonly string[]
}

/**
 * A configuration tested beside the running one: it has its own policies and modules, so that it counts, logs and requests
 * nothing. Units are compiled when the first exchange reaches them.
 */
export class ShadowSnapshot extends CandidateSnapshot {
  readonly #parts: ShadowParts
  readonly #edges = new Map<CompiledEdge, CompiledEdge>()
  /** Does it have another policy for connections than the one that serves? */
  readonly decidesConnections: boolean

  /** `base`: tested configuration, except for the texts in `parts`; `running`: running configuration. */
  constructor(base: Snapshot, running: Snapshot, parts: ShadowParts) {
    super(base, parts)
    this.#parts = parts
    this.decidesConnections = connectText(this, parts.instead) !== connectText(running, undefined)
  }

  override policy(key: string): CompiledPolicy | undefined {
    const { compiled, instead } = this.#parts
    const text = instead?.get(key)?.text ?? asKind(this.plan.units.get(key), 'policy')?.text
    const known = compiled.get(key)
    if (known !== undefined && known.text === text) return known.policy
    const policy = super.policy(key)
    compiled.set(key, { text, policy })
    return policy
  }

  override edgeAt(host: string, publicPort?: number, ownPort?: number): EdgeAt | undefined {
    const found = super.edgeAt(host, publicPort, ownPort)
    // A pool draws its member anew, so the candidate decides by the first one.
    return found === undefined ? undefined : { ...found, pool: undefined, edge: this.#own(found.edge) }
  }

  #own(edge: CompiledEdge): CompiledEdge {
    let own = this.#edges.get(edge)
    if (own === undefined) {
      const routes = PathTable.of(Array.from(edge.routes, (route) => new OwnRoute(route, () => this.#modules(route))))
      own = { ...edge, routes }
      this.#edges.set(edge, own)
    }
    return own
  }

  #modules({ id }: Route): Route['modules'] {
    const key = `route:${id}`
    const configs = asKind(this.plan.units.get(key), 'route')?.modules ?? {}
    const { services, kept, modules } = this.#parts
    const keep = <T>(parts: readonly unknown[], make: (identity: string) => T): T => {
      const identity = JSON.stringify(parts)
      if (!kept.has(identity)) kept.set(identity, make(identity))
      return kept.get(identity) as T
    }
    const compilation: ModuleCompilation = { services, draft: { for: () => ({ keep }) }, secrets: new Map() }
    const known = new Set(modules)
    const order = [...Object.keys(configs).filter((name) => !known.has(name)), ...modules]
    const compiled = order.flatMap((name) => {
      const config = configs[name]
      if (config === undefined) return []
      const unjudged = NOT_JUDGED[name]
      if (unjudged !== undefined) return [{ name, request: () => undefined, unjudged }]
      return compileModules({ [name]: config }, key, id, compilation) ?? []
    })
    return compiled.length === 0 ? null : compiled
  }
}

/** The policy that sees connections to listeners for HTTP. */
function connectText({ plan, tables }: Snapshot, instead: ShadowParts['instead']): string | undefined {
  const key = tables.edges.hosts.every?.connectPolicy
  return key === undefined ? undefined : (instead?.get(key)?.text ?? asKind(plan.units.get(key), 'policy')?.text)
}

/** A route whose modules are compiled on the first request. */
class OwnRoute implements Route {
  readonly id: string
  readonly edge: string
  readonly match: 'exact' | 'prefix'
  readonly path: string
  readonly upstream: string | undefined
  readonly name: Route['name']
  readonly #compile: () => Route['modules']
  #modules: Route['modules'] | undefined

  constructor({ id, edge, match, path, upstream, name }: Route, compile: () => Route['modules']) {
    this.id = id
    this.edge = edge
    this.match = match
    this.path = path
    this.upstream = upstream
    this.name = name
    this.#compile = compile
  }

  get modules(): Route['modules'] {
    this.#modules ??= this.#compile()
    return this.#modules
  }
}
