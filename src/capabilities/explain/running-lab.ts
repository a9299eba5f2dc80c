import { randomBytes } from 'node:crypto'
import { policyServices, unobserved } from '../../app/services.js'
import { fileUnits } from '../../control/file-units.js'
import type { Compiled, Expression, Expressions, Template } from '../../expression/expression.js'
import { createExpressions } from '../../expression/expressions.js'
import { internalRequests } from '../../features/http-request/feature.js'
import { defaultProviders, type OperatorProviders } from '../../features/login/operator-providers.js'
import { Login, logins } from '../../features/login/service.js'
import { limiter, rateLimitHeaders } from '../../features/rate-limit/feature.js'
import { type LimitRules, limitRules } from '../../features/rate-limit/leases/cluster-limits.js'
import type { Limiter, SlidingWindow } from '../../features/rate-limit/limiter/sliding-window.js'
import { LimiterTable } from '../../features/rate-limit/limiter/table.js'
import { actions } from '../../features/registry.js'
import { GivenRules, type WafRules, wafRules } from '../../features/waf/rules.js'
import { buildRulesBeside } from '../../features/waf/rules-beside.js'
import { BodyBuffers } from '../../flow/body-buffers.js'
import { refusalOf } from '../../flow/error-codes.js'
import type { Phase } from '../../flow/flow.js'
import type { Clock } from '../../lib/clock.js'
import { type Geo, noGeo } from '../../lib/geo.js'
import { outboundError } from '../../lib/http-client/answer.js'
import type { Outbound } from '../../lib/http-client/outbound.js'
import { atOnce, type Steps } from '../../lib/slices.js'
import { UserAgents } from '../../lib/user-agent.js'
import { resultsOf } from '../../policy/action.js'
import { RecentDocuments } from '../../policy/document.js'
import type { UnitProblems } from '../../policy/problems.js'
import { type PolicyServices, provide } from '../../policy/services.js'
import { trustingProxies } from '../../proxy/client-address.js'
import { preparing } from '../../runtime/compile.js'
import { PersistentState } from '../../runtime/persistent-state.js'
import type { SecretValues, Unit } from '../../runtime/plan.js'
import { Snapshot } from '../../runtime/snapshot.js'
import { Metrics } from '../../telemetry/metrics.js'
import { Lab, type UpstreamStub } from './lab.js'
import { VirtualClock } from './virtual-clock.js'

/** Memory for the buckets of one lab. */
const LIMITER_BYTES = 256 * 1024
/** Maximum bytes of all bodies, and of each. */
const BODIES = { total: 64 * 1024 * 1024, each: 16 * 1024 * 1024 }

/** An outbound call of a policy. */
interface OutsideRequest {
  readonly method: string
  readonly url: string
}

/** Returns the response of an external server; undefined if it is unreachable. */
type Outside = (request: OutsideRequest) => UpstreamStub | undefined

interface LabServicesParts {
  readonly clock: Clock
  readonly expressions: Expressions
  readonly documents?: RecentDocuments
  readonly rateLimitHeaders: 'none' | 'draft'
  /** @default those of a policy without a process */
  readonly limitRules?: LimitRules
  readonly providers?: OperatorProviders
  /** @default a new limiter */
  readonly limits?: Limiter
  /** Initial counters. @default empty */
  readonly counted?: { window(identity: string, seconds: number): Pick<SlidingWindow, 'inspect'> }
  readonly outside: Outside
  /** @default the actions of the firewall find nothing */
  readonly firewall?: Firewall
}

/** Rules of the web application firewall for the policies of a lab; undefined if the process has none. */
export interface Firewall {
  readonly rules: WafRules | 'unchecked' | undefined
}

/** Returns the rules that the process has for its policies. */
export function firewallOf(services: Pick<PolicyServices, 'service'>): Firewall {
  return { rules: services.service(wafRules) }
}

/** Reads the rules of a folder. Rejects with `WAF_RULES_INVALID`. */
export async function readFirewall(folder: string): Promise<Firewall> {
  return { rules: new GivenRules(await buildRulesBeside(folder, { skip_unknown: false })) }
}

/** Creates the policy language with its own clock. `random`: numbers in [0, 1). */
export function labExpressions(clock: Clock, geo: Geo, random: () => number): Expressions {
  return createExpressions({ results: resultsOf(actions), clock, random, geo, userAgent: new UserAgents() })
}

/** Creates the services of policies in a lab: they have their own buckets, and no request leaves the process. */
export function labServices(lab: Pick<Lab, 'internal'>, parts: LabServicesParts): PolicyServices {
  const { clock, expressions, documents = new RecentDocuments() } = parts
  const outbound = standIn(parts.outside)
  const base = {
    ...unobserved,
    clock,
    expressions,
    documents,
    outbound,
    bodies: new BodyBuffers({ ...BODIES, broken: refusalOf })
  }
  const login = new Login({
    keys: [randomBytes(32)],
    providers: parts.providers ?? defaultProviders(),
    outbound,
    clock
  })
  return policyServices(base, [
    provide(limiter, parts.limits ?? limiterOf(clock, parts.counted)),
    provide(rateLimitHeaders, parts.rateLimitHeaders),
    ...(parts.limitRules === undefined ? [] : [provide(limitRules, parts.limitRules)]),
    provide(logins, login),
    ...(parts.firewall === undefined ? [] : [provide(wafRules, parts.firewall.rules)]),
    provide(internalRequests, lab.internal)
  ])
}

/** No request leaves the process; its simulated response shows in the explanation. */
function standIn(outside: Outside): Outbound {
  return {
    request({ method, url }) {
      const stub = outside({ method, url })
      if (stub === undefined) return Promise.resolve(outboundError('CONNECT_FAILED', 0))
      const { status, headers, body = new Uint8Array(0) } = stub
      return Promise.resolve({ ok: true, status, headers, body, address: '', timeMs: 0 })
    },
    close: () => undefined
  }
}

/** Creates buckets that start from a copy of the running counters on first use. */
function limiterOf(clock: Clock, counted: LabServicesParts['counted']): Limiter {
  let made: LimiterTable | undefined
  const table = () => {
    // Most policies have no limit, and its memory is the dearest part of a lab.
    made ??= new LimiterTable({ budgetBytes: LIMITER_BYTES, clock })
    return made
  }
  return {
    statistics: () => table().statistics(),
    window(identity, seconds) {
      const own = table().window(identity, seconds)
      const running = counted?.window(identity, seconds)
      if (running === undefined) return own
      const begun = new Set<string>()
      return {
        take(key, capacity, cost) {
          if (!begun.has(key)) {
            begun.add(key)
            const { count } = running.inspect(key)
            if (count > 0) own.take(key, Number.MAX_SAFE_INTEGER, count)
          }
          return own.take(key, capacity, cost)
        },
        peek: (key, capacity) => own.peek(key, capacity),
        forget: (key) => own.forget(key)
      }
    }
  }
}

interface PolicyBenchParts {
  readonly policy: { readonly source: string; readonly text: string }
  readonly geo?: Geo
  readonly random: () => number
  /** Further units, such as secrets, with their values. */
  readonly units?: readonly (readonly [string, Unit])[]
  readonly secrets?: SecretValues
  readonly firewall?: Firewall | undefined
  /** Shows values whose names look secret, too. */
  readonly reveal: boolean
}

/** Options for opening a lab. */
interface LabStart {
  /** Wall time, milliseconds. */
  readonly now: number
  readonly stub: UpstreamStub
  readonly outside: Outside
}

/** A lab, and the warnings about its policy. */
interface OpenLab {
  readonly lab: Lab
  readonly clock: VirtualClock
  readonly warnings: readonly UnitProblems[]
}

/** Why there is no lab. */
interface RefusedLab {
  readonly problems: readonly UnitProblems[]
}

/**
 * Labs for one policy, of an upstream that accepts every host. Each starts with empty counters; compiled expressions are
 * shared, so that further labs are cheap. Only one lab is used at a time: all share one clock.
 */
export class PolicyBench {
  readonly #parts: PolicyBenchParts
  readonly #clock = new VirtualClock(0)
  readonly #metrics = new Metrics()
  readonly #documents = new RecentDocuments()
  readonly #expressions: Expressions

  constructor(parts: PolicyBenchParts) {
    this.#parts = parts
    this.#expressions = remembering(labExpressions(this.#clock, parts.geo ?? noGeo, parts.random))
  }

  /** Opens a lab with empty counters, or returns the errors of the policy. */
  open(start: LabStart): OpenLab | RefusedLab {
    return atOnce(this.opening(start))
  }

  /** Opens a lab like `open`, in steps. */
  *opening({ now, stub, outside }: LabStart): Steps<OpenLab | RefusedLab> {
    const { policy, units = [], secrets = NO_SECRETS, firewall, reveal } = this.#parts
    const clock = this.#clock
    clock.begin(now)
    const forwarding = trustingProxies(undefined)
    const lab = new Lab({ clock, forwarding, region: '', stub, metrics: this.#metrics, reveal })
    const services = labServices(lab, {
      clock,
      expressions: this.#expressions,
      documents: this.#documents,
      rateLimitHeaders: 'none',
      outside,
      ...(firewall === undefined ? {} : { firewall })
    })
    const change = { from: 0, to: 1, put: [...unitsOf(policy), ...units], drop: [] }
    const prepared = yield* preparing(Snapshot.empty(), change, secrets, {
      services,
      actions,
      persistentState: new PersistentState()
    })
    if (!prepared.ok) return { problems: prepared.problems }
    prepared.commit()
    lab.serves(prepared.snapshot)
    return { lab, clock, warnings: prepared.warnings }
  }
}

const NO_SECRETS: SecretValues = new Map()

function unitsOf(policy: PolicyBenchParts['policy']): ReadonlyMap<string, Unit> {
  return fileUnits({
    listen: { host: '127.0.0.1', port: 80 },
    listeners: [{ listen: { host: '127.0.0.1', port: 443 }, tls: true, public_port: undefined, proxy_protocol: false }],
    path_form: 'strict',
    edges_on_http: 'serve',
    hsts: undefined,
    upstream: { protocol: 'http', host: 'upstream.invalid', port: 80 },
    certificateAuthorities: undefined,
    policy
  })
}

/** Compiles each expression and each text with expressions once. */
function remembering(expressions: Expressions): Expressions {
  const known = new Map<string, Compiled<Expression>>()
  const texts = new Map<string, Compiled<Template>>()
  return {
    expression(source: string, phase: Phase, more) {
      if (more !== undefined && more.length > 0) return expressions.expression(source, phase, more)
      const key = `${phase}\n${source}`
      const compiled = known.get(key) ?? expressions.expression(source, phase)
      known.set(key, compiled)
      return compiled
    },
    template(source, phase) {
      const key = `${phase}\n${source}`
      const compiled = texts.get(key) ?? expressions.template(source, phase)
      texts.set(key, compiled)
      return compiled
    },
    textOf: (value) => expressions.textOf(value),
    dataOf: (value) => expressions.dataOf(value)
  }
}
