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

/** Something of the configuration that a document names, or relies on. */
export type UnitName =
  | { readonly kind: 'secret'; readonly vault: string; readonly name: string }
  | { readonly kind: 'ip-policy'; readonly id: string }
  | {
      readonly kind: 'internal'
      readonly layer: 'http' | 'tcp'
      readonly host: string
      readonly port: number | undefined
    }
  /** That a client has one address: so it is where no listener takes IPv6. `key`: the expression that relies on it. */
  | { readonly kind: 'one-address'; readonly key: string }

/** A host that an action hands the exchange to (`forward`), or sends a request of its own to (`request`). */
export interface HostLead {
  readonly by: 'forward' | 'request'
  readonly layer: 'http' | 'tcp'
  /** Lower-case; undefined: an internal one that is known only at run time. */
  readonly host: string | undefined
}

/** A compiled action. A verdict ends the phase; undefined goes on. Throws `EvaluationError` and nothing else. */
export type ActionRun = (flow: Flow) => Verdict | undefined | Promise<Verdict | undefined>

/** Reports problems of an action at `at`, a path inside its `config`. */
interface ProblemScope {
  problem(at: NodePath, error: Coded, message: string): void
  warn(at: NodePath, error: Coded, message: string): void
  /** What stands at `at` is valid and cannot run in this version: the policy is only checked, and refused where it would run. */
  unavailable(at: NodePath, message: string, error?: Coded): void
}

/**
 * What an action sees of its surroundings while it is compiled.
 *
 * `at` is the path inside the action's `config`. The compile methods report a problem there when the source is
 * wrong and still return a value, so that one pass finds all problems; such a policy never runs.
 */
export interface Scope extends ProblemScope {
  readonly phase: Phase
  /** Who owns the policy: route, edge, or the default entry. Part of the identity of counters. */
  readonly owner: string
  /** Name of the rule, or `#<index>` when it has none. */
  readonly rule: string
  readonly services: PolicyServices
  /** The service of the action's feature. */
  service<T>(key: ServiceKey<T>): T
  expression(source: string, at: NodePath): Expression
  template(source: string, at: NodePath): Template
  regex(pattern: string, at: NodePath): Regex
  /** The config names something of the configuration around the document; its author is warned when that does not exist. */
  names(unit: UnitName, at: NodePath): void
  /** The action sends what it carries to a host, which an edge may serve, and gets its answer. */
  leadsTo(lead: HostLead): void
  /** The action limits how often something happens: people see it, and can empty its buckets. */
  limit(limit: LiveLimit): void
  /** The action asks for a login: requests for its paths reach the gate whatever the rules say. At most one for an action. */
  login(gate: LoginGate): void
  /**
   * State that survives a change of configuration. A second call with the same key in one document gets state of its
   * own; `identity` names it, the same in every process.
   */
  keep<T>(key: readonly unknown[], make: (identity: string) => T): T
}

/** Checks what an action asks for where policies may ask for less, before it is compiled. Reports through `scope`. */
export type ConfinedCheck = (config: Readonly<Record<string, unknown>>, scope: Scope) => void

/** Policies with less than those of the account: of an agent on the server (`guest`), and run by the agent itself (`agent`). */
type Confinement = 'guest' | 'agent'

/** A pattern with what takes the place of its matches. */
export interface Replacing {
  readonly from: string | undefined
  readonly to: string
  readonly at: NodePath
}

/** How an action is used. */
interface ActionExample {
  /** A policy that runs it, YAML. */
  readonly policy: string
  /** A request that comes to it: method and path, then a line for each header field. Absent: it needs another server or a connection. */
  readonly request?: string
  /** What the request is answered with; an upstream that is reached answers 200. 0: the connection is closed. */
  readonly status?: number
}

/** Facts of an action for checks of policies, which run nothing. */
interface ActionFacts<S extends TSchema> {
  /** Of one that sometimes ends the phase: does it always with this config? */
  alwaysEnds?(config: Static<S>): boolean
  /** It reads the content of the response, so the upstream is asked for content that can be read. */
  readonly readsResponse?: ResponseReading
  /** Does it keep something out, so that a rule that does not match lets it in? Of some only by their config. */
  readonly denies?: true | ((config: Static<S>) => boolean)
  /**
   * Paths of variables that have a value whenever it has let the exchange go on; with one goes what is below it. When left
   * out: all of its results. `size:path` stands for the elements of a list.
   */
  leaves?(config: Static<S>): readonly string[]
  /** Header fields that it adds, name to value with `${…}`, and those that it removes. */
  edits?(config: Static<S>): {
    readonly add?: Readonly<Record<string, string>>
    readonly remove?: readonly string[]
  }
  /** Paths of variables of the request or connection that it gives other values; those below them go with them. */
  readonly changes?: readonly string[]
  /** Texts in which `$1` stands for a group of a pattern; without `from` there is no pattern. `at`: where `to` stands in the config. */
  replaces?(config: Static<S>): readonly Replacing[]
  /** Expressions by whose values it divides clients; `at`: where each stands in the config. */
  keys?(config: Static<S>): readonly { readonly source: string; readonly at: NodePath }[]
  /** The name under which it counts, when its config gives it one. */
  counterName?(config: Static<S>): string
  /** Names of `vars` with what they are set to. */
  assigns?(config: Static<S>): readonly (readonly [name: string, value: unknown])[]
}

interface ActionBase<S extends TSchema> extends ActionFacts<S> {
  /** As it stands in documents. */
  readonly type: string
  /** One sentence: what it does. */
  readonly summary: string
  readonly example: ActionExample
  /** Wrong names that it is known to be called by: refused, with its right name. */
  readonly misnamed?: readonly string[]
  readonly phases: readonly Phase[]
  /** Strict; see `fields.ts` for its vocabulary. */
  readonly config: S
  /** May `config` be left out? It then is `{}` (and its defaults apply). */
  readonly configOptional: boolean
  /** `always`: what follows in the same rule can never run. */
  readonly terminates: 'always' | 'sometimes' | 'never'
  /** Where it is refused, with the reason, or asks for less, with a check. */
  readonly confined?: Readonly<Partial<Record<Confinement, string | ConfinedCheck>>>
  /** What it publishes: `actions.service.<name>.<field>`; field paths may be dotted. */
  readonly results?: { readonly name: string; readonly fields: ResultFields }
}

/** An action that runs. */
export interface ReadyAction<S extends TSchema = TSchema> extends ActionBase<S> {
  readonly availability: 'ready'
  /** Turns a config that has passed its schema into closures. Reports through `scope`, never throws. */
  compile(config: Static<S>, scope: Scope): ActionRun
}

/** An action that is refused by name, with the reason: `ACTION_UNSUPPORTED`. */
interface UnsupportedAction {
  readonly availability: 'unsupported'
  readonly type: string
  readonly reason: string
}

/** What a rule can name: an action that runs, or one that is refused by name. */
export type Action = ReadyAction | UnsupportedAction

/** Declares an action that runs. Keeps the config's type between schema and `compile`. */
export function defineAction<S extends TSchema>(action: Omit<ReadyAction<S>, 'availability'>): ReadyAction {
  return { availability: 'ready', ...action } as unknown as ReadyAction
}

/** An action that is known and refused: a document with it gets `reason`. */
export function defineUnsupported(type: string, reason: string): UnsupportedAction {
  return { availability: 'unsupported', type, reason }
}

/** The actions of policies that are confined: what they cannot have is refused by name, with the reason. */
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

/** Fields of a result by their paths: the CEL type of each and what it holds. */
export type ResultFields = Readonly<Record<string, readonly [type: string, meaning: string]>>

/** Why an action that can fail did, for results. */
export const ERROR_RESULTS = {
  'error.code': ['string', 'Code of what went wrong; empty when nothing did.'],
  'error.message': ['string', 'The same for people.']
} as const satisfies ResultFields

/** What each variable below `actions.service` holds, the objects above the fields included. */
export function resultMeanings(actions: readonly Action[]): ReadonlyMap<string, string> {
  const meanings = new Map<string, string>()
  for (const action of actions) {
    if (action.availability === 'unsupported' || action.results === undefined) continue
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

/** What actions publish, by result name: `actions.service.<name>.<field>` with the CEL type of each field. */
export function resultsOf(actions: readonly Action[]): Readonly<Record<string, Readonly<Record<string, string>>>> {
  const results: Record<string, Record<string, string>> = {}
  for (const action of actions) {
    if (action.availability === 'unsupported' || action.results === undefined) continue
    const { name, fields } = action.results
    // Two actions may share a name: an alias publishes what its original does.
    const types = Object.entries(fields).map(([field, [type]]) => [field, type])
    results[name] = { ...results[name], ...Object.fromEntries(types) }
  }
  return results
}
