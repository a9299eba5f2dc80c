import type { Static, TSchema } from 'typebox'
import type { Expression, Template } from '../expression/expression.js'
import type { ResponseReading } from '../flow/content-coding.js'
import type { Flow, Phase } from '../flow/flow.js'
import type { Verdict } from '../flow/verdict.js'
import type { Coded } from '../lib/errors.js'
import type { Regex } from '../lib/regex.js'
import type { LiveLimit } from './live-limit.js'
import type { LoginGate } from './login-gate.js'
import type { NodePath } from './problems.js'
import type { PolicyServices, ServiceKey } from './services.js'

/** A configuration unit that a document names or depends on. */
export type UnitName =
  | { readonly kind: 'secret'; readonly vault: string; readonly name: string }
  | { readonly kind: 'ip-policy'; readonly id: string }
  | {
      readonly kind: 'internal'
      readonly layer: 'http' | 'tcp'
      readonly host: string
      readonly port: number | undefined
    }
  | { readonly kind: 'authority'; readonly id: string }
  /** Requires one address per client: reported for listeners that do not accept IPv6. `key` is the expression that depends on it. */
  | { readonly kind: 'one-address'; readonly key: string }

/** A host that an action forwards the exchange to, or sends a request of its own to. */
export interface HostLead {
  readonly by: 'forward' | 'request'
  readonly layer: 'http' | 'tcp'
  /** In lower case; undefined for an internal host that is known only at run time. */
  readonly host: string | undefined
}

/** A compiled action. Returns a verdict to end the phase, undefined to continue. Throws only `EvaluationError`. */
export type ActionRun = (flow: Flow) => Verdict | undefined | Promise<Verdict | undefined>

/** Reports problems of an action at `at`, a path inside its `config`. */
interface ProblemScope {
  problem(at: NodePath, error: Coded, message: string): void
  warn(at: NodePath, error: Coded, message: string): void
  /** Marks the value at `at` as valid but not runnable in this version: such a policy can be checked, but not applied. */
  unavailable(at: NodePath, message: string, error?: Coded): void
}

/**
 * Context of an action's compilation. `at` is the path inside the action's `config`. For an invalid source, the compile methods report a
 * problem there and still return a value, so that one pass finds all problems; such a policy never runs.
 */
export interface Scope extends ProblemScope {
  readonly phase: Phase
  /** Owner of the policy: route, edge, or the default entry. Part of the identity of counters. */
  readonly owner: string
  /** Name of the rule, or `#<index>` if it has none. */
  readonly rule: string
  readonly services: PolicyServices
  /** Returns the service of the action's feature. */
  service<T>(key: ServiceKey<T>): T
  expression(source: string, at: NodePath): Expression
  template(source: string, at: NodePath): Template
  regex(pattern: string, at: NodePath): Regex
  /** Declares a configuration unit that the config names; the author is warned if it does not exist. */
  names(unit: UnitName, at: NodePath): void
  /** Declares a host that the action sends requests to, and whose responses it reads. An edge may serve that host. */
  leadsTo(lead: HostLead): void
  /** Registers a limit so that it can be listed and reset. */
  limit(limit: LiveLimit): void
  /** Registers a login: requests for its paths reach the gate regardless of the rules. At most one per action. */
  login(gate: LoginGate): void
  /**
   * Returns state that survives a configuration change. A second call with the same key in one document gets separate state; `identity`
   * names the state identically in every process.
   */
  keep<T>(key: readonly unknown[], make: (identity: string) => T): T
}

/** Checks an action's config in a confined policy before it is compiled. Reports through `scope`. */
export type ConfinedCheck = (config: Readonly<Record<string, unknown>>, scope: Scope) => void

/**
 * Policies with fewer rights than those of the account: an agent's policy on the server (`guest`), and one that the agent itself runs
 * (`agent`).
 */
type Confinement = 'guest' | 'agent'

/** A pattern and its replacement. */
export interface Replacing {
  readonly from: string | undefined
  readonly to: string
  readonly at: NodePath
}

/** Example of an action's use. */
interface ActionExample {
  /** YAML of a policy that runs the action. */
  readonly policy: string
  /** A matching request: method and path, then one line per header field. Not set if the example needs another server or a connection. */
  readonly request?: string
  /** Response status if a reached upstream responds with 200; 0 if the connection is closed. */
  readonly status?: number
}

/** Properties of an action for policy checks, which do not run it. */
interface ActionFacts<S extends TSchema> {
  /**
   * Requirement on connections in `on_tcp_connect`: TLS that nothing has ended yet, or an edge that forwards them.
   * @default nothing
   */
  readonly needs?: 'tls' | 'edge'
  /** Returns whether an action that sometimes ends the phase always does so with this config. */
  alwaysEnds?(config: Static<S>): boolean
  /** Set if the action reads response content; the upstream is then asked for readable content. */
  readonly readsResponse?: ResponseReading
  /** Returns whether the action denies something, so that a rule that does not match allows it. May depend on the config. */
  readonly denies?: true | ((config: Static<S>) => boolean)
  /**
   * Paths of variables that are set whenever the action lets the exchange continue, each including the paths below it; `size:path` stands
   * for the elements of a list.
   * @default all of its results
   */
  leaves?(config: Static<S>): readonly string[]
  /** Header fields that the action adds, name to value with `${…}`, and those that it removes. */
  edits?(config: Static<S>): {
    readonly add?: Readonly<Record<string, string>>
    readonly remove?: readonly string[]
  }
  /** Paths of request or connection variables that the action changes, each including the paths below it. */
  readonly changes?: readonly string[]
  /** Replacement texts with group references such as `$1`; `from` is undefined without a pattern. `at` is the path of `to` in the config. */
  replaces?(config: Static<S>): readonly Replacing[]
  /** Expressions whose values separate clients into buckets; `at` is the path of each in the config. */
  keys?(config: Static<S>): readonly { readonly source: string; readonly at: NodePath }[]
  /** Counter name, if the config sets one. */
  counterName?(config: Static<S>): string
  /** Names of `vars` with their assigned values. */
  assigns?(config: Static<S>): readonly (readonly [name: string, value: unknown])[]
}

interface ActionBase<S extends TSchema> extends ActionFacts<S> {
  /** Name of the action in documents. */
  readonly type: string
  /** One sentence that describes the action. */
  readonly summary: string
  readonly example: ActionExample
  /** Common wrong names for the action: rejected with a hint at the right name. */
  readonly misnamed?: readonly string[]
  readonly phases: readonly Phase[]
  /** Strict schema; `fields.ts` has its vocabulary. */
  readonly config: S
  /** Whether `config` may be omitted. It is then `{}`, with defaults applied. */
  readonly configOptional: boolean
  /** `always`: later actions of the same rule never run. */
  readonly terminates: 'always' | 'sometimes' | 'never'
  /** For each confinement: the reason to reject the action, or a check that restricts it. */
  readonly confined?: Readonly<Partial<Record<Confinement, string | ConfinedCheck>>>
  /** Published results: `actions.service.<name>.<field>`; field paths may contain dots. */
  readonly results?: { readonly name: string; readonly fields: ResultFields }
}

/** A runnable action. */
export interface ReadyAction<S extends TSchema = TSchema> extends ActionBase<S> {
  readonly availability: 'ready'
  /** Compiles a config that has passed its schema. Reports through `scope`, never throws. */
  compile(config: Static<S>, scope: Scope): ActionRun
}

/** An action that is rejected by name with a reason: `ACTION_UNSUPPORTED`. */
interface UnsupportedAction {
  readonly availability: 'unsupported'
  readonly type: string
  readonly reason: string
  /** Results that a module of the route publishes in its place. */
  readonly results?: ReadyAction['results']
}

/** An action that a rule can name: runnable, or rejected by name. */
export type Action = ReadyAction | UnsupportedAction

/** Declares a runnable action. Preserves the config's type between schema and `compile`. */
export function defineAction<S extends TSchema>(action: Omit<ReadyAction<S>, 'availability'>): ReadyAction {
  return { availability: 'ready', ...action } as unknown as ReadyAction
}

/** Declares a known but unsupported action: documents that use it are rejected with `reason`. */
export function defineUnsupported(
  type: string,
  reason: string,
  results?: NonNullable<ReadyAction['results']>
): UnsupportedAction {
  return { availability: 'unsupported', type, reason, ...(results === undefined ? {} : { results }) }
}

/**
 * Connections that `on_tcp_connect` runs on: those of a TCP edge; those of an edge that has ended TLS before its policy (`secure`); those
 * of a listener for HTTP.
 */
export type Connections = 'edge' | 'secure' | 'http'

/** Returns why an action can never work on these connections; undefined if it can. */
export function refusalOn({ type, needs }: ReadyAction, connections: Connections): string | undefined {
  if (needs === undefined || connections === 'edge') return undefined
  if (connections === 'http')
    return `${type} cannot run on connections of a listener for HTTP, only on those of a TCP edge, a TLS edge or an endpoint for TCP or TLS`
  if (needs !== 'tls') return undefined
  return `${type} cannot run, because the edge ends TLS before its policy; remove the action, or tls_termination and mutual_tls of the edge`
}

/** Returns the actions of confined policies: unavailable ones are rejected by name with the reason. */
export function confinedActions(actions: readonly Action[], confinement: Confinement): readonly Action[] {
  return actions.map((action) => {
    const rule = action.availability === 'ready' ? action.confined?.[confinement] : undefined
    if (action.availability !== 'ready' || rule === undefined) return action
    if (typeof rule === 'string') return defineUnsupported(action.type, rule)
    return {
      ...action,
      compile(config, scope) {
        rule(config as Readonly<Record<string, unknown>>, scope)
        return action.compile(config, scope)
      }
    }
  })
}

/** Result fields by path: the CEL type and the meaning of each. */
export type ResultFields = Readonly<Record<string, readonly [type: string, meaning: string]>>

/** Results that describe why an action failed. */
export const ERROR_RESULTS = {
  'error.code': ['string', 'Code of what went wrong; empty when nothing did.'],
  'error.message': ['string', 'The same for people.']
} as const satisfies ResultFields

/** Returns the meaning of each variable below `actions.service`, including the objects that contain fields. */
export function resultMeanings(actions: readonly Action[]): ReadonlyMap<string, string> {
  const meanings = new Map<string, string>()
  for (const action of actions) {
    if (action.results === undefined) continue
    const root = `actions.service.${action.results.name}`
    meanings.set(root, `What the last run of ${action.type} left.`)
    for (const [field, [, meaning]] of Object.entries(action.results.fields)) {
      const names = field.split('.')
      for (let depth = 1; depth < names.length; depth++) {
        const above = `${root}.${names.slice(0, depth).join('.')}`
        if (!meanings.has(above)) meanings.set(above, 'What is below it, as a map.')
      }
      meanings.set(`${root}.${field}`, meaning)
    }
  }
  return meanings
}

/** Returns the results that actions publish, by name: `actions.service.<name>.<field>` with the CEL type of each field. */
export function resultsOf(actions: readonly Action[]): Readonly<Record<string, Readonly<Record<string, string>>>> {
  const results: Record<string, Record<string, string>> = {}
  for (const action of actions) {
    if (action.results === undefined) continue
    const { name, fields } = action.results
    // Two actions may share a name: an alias publishes the results of its original.
    const types = Object.entries(fields).map(([field, [type]]) => [field, type])
    results[name] = { ...results[name], ...Object.fromEntries(types) }
  }
  return results
}
