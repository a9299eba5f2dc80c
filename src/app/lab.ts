import { randomBytes } from 'node:crypto'
import { fileUnits } from '../control/file-units.js'
import { createExpressions } from '../expression/expressions.js'
import { internalRequests } from '../features/http-request/feature.js'
import { defaultProviders, type OperatorProviders } from '../features/login/operator-providers.js'
import { Login, logins } from '../features/login/service.js'
import { limiter, rateLimitHeaders } from '../features/rate-limit/feature.js'
import { type Limiter, LimiterTable, type SlidingWindow } from '../features/rate-limit/limiter/table.js'
import { actions } from '../features/registry.js'
import { BodyBuffers } from '../flow/body-buffers.js'
import { refusalOf } from '../flow/error-codes.js'
import type { Clock } from '../lib/clock.js'
import { type Geo, noGeo } from '../lib/geo.js'
import { outboundError } from '../lib/http-client/answer.js'
import type { Outbound } from '../lib/http-client/outbound.js'
import { UserAgents } from '../lib/user-agent.js'
import { resultsOf } from '../policy/action.js'
import { RecentDocuments } from '../policy/document.js'
import type { UnitProblems } from '../policy/problems.js'
import { type PolicyServices, provide } from '../policy/services.js'
import { trustingProxies } from '../proxy/client-address.js'
import { prepare } from '../runtime/compile.js'
import { PersistentState } from '../runtime/persistent-state.js'
import { Snapshot } from '../runtime/snapshot.js'
import { Lab, type UpstreamStub } from '../workbench/lab.js'
import type { VirtualClock } from '../workbench/virtual-clock.js'
import { offline, policyServices } from './services.js'

/** Memory for the buckets of one lab. */
const LIMITER_BYTES = 16 * 1024 * 1024
const BODIES = { total: 64 * 1024 * 1024, each: 16 * 1024 * 1024 }

export interface LabServicesParts {
  readonly clock: Clock
  readonly geo?: Geo
  /** Numbers in [0, 1) for `rand`. */
  readonly random: () => number
  readonly rateLimitHeaders: 'none' | 'draft'
  readonly providers?: OperatorProviders
  /** Counters that the lab goes on from; absent: it begins with none. */
  readonly counted?: { window(identity: string, seconds: number): Pick<SlidingWindow, 'inspect'> }
  /** Called with the URL of each request that a policy would have made. */
  readonly notAsked: (url: string) => void
}

/** Services of policies that run in a lab: buckets of its own, and no request leaves the process. */
export function labServices(lab: Pick<Lab, 'internal'>, parts: LabServicesParts): PolicyServices {
  const { clock, geo = noGeo, random, notAsked } = parts
  const outbound = silent(notAsked)
  const expressions = createExpressions({
    results: resultsOf(actions),
    clock,
    random,
    geo,
    userAgent: new UserAgents()
  })
  const base = {
    ...offline(actions),
    clock,
    expressions,
    outbound,
    documents: new RecentDocuments(),
    bodies: new BodyBuffers({ ...BODIES, broken: refusalOf })
  }
  const login = new Login({
    keys: [randomBytes(32)],
    providers: parts.providers ?? defaultProviders(),
    outbound,
    clock
  })
  return policyServices(base, [
    provide(limiter, limiterOf(clock, parts.counted)),
    provide(rateLimitHeaders, parts.rateLimitHeaders),
    provide(logins, login),
    provide(internalRequests, lab.internal)
  ])
}

/** Answers nothing: what a policy makes of that shows in its explanation. */
function silent(notAsked: (url: string) => void): Outbound {
  return {
    request({ url }) {
      notAsked(url)
      return Promise.resolve(outboundError('CONNECT_FAILED', 0))
    },
    close: () => undefined
  }
}

/** Buckets that begin with what is counted elsewhere, each when it is first asked, and leave that alone. */
function limiterOf(clock: Clock, counted: LabServicesParts['counted']): Limiter {
  const table = new LimiterTable({ budgetBytes: LIMITER_BYTES, clock })
  if (counted === undefined) return table
  return {
    statistics: () => table.statistics(),
    window(identity, seconds) {
      const [own, running] = [table.window(identity, seconds), counted.window(identity, seconds)]
      const begun = new Set<string>()
      return {
        take(key, capacity, cost) {
          if (!begun.has(key)) {
            begun.add(key)
            const { count } = running.inspect(key)
            if (count > 0) own.take(key, Number.MAX_SAFE_INTEGER, count)
          }
          return own.take(key, capacity, cost)
        }
      }
    }
  }
}

export interface PolicyLabParts extends Omit<LabServicesParts, 'notAsked' | 'rateLimitHeaders' | 'clock'> {
  readonly clock: VirtualClock
  readonly policy: { readonly source: string; readonly text: string }
  readonly stub: UpstreamStub
  readonly reveal: boolean
  readonly region: string
}

/** A lab for the requests of one policy, that of an upstream which takes every host. */
export interface PolicyLab {
  readonly lab: Lab
  readonly warnings: readonly UnitProblems[]
  /** URLs that the policy would have asked since the call before. */
  notAsked(): readonly string[]
}

/** The lab of a policy document, or what is wrong with it. */
export function policyLab(parts: PolicyLabParts): PolicyLab | { readonly problems: readonly UnitProblems[] } {
  const { clock, policy, stub, reveal, region } = parts
  const lab = new Lab({ clock, forwarding: trustingProxies(undefined), region, stub, reveal })
  let asked: string[] = []
  const services = labServices(lab, { ...parts, rateLimitHeaders: 'none', notAsked: (url) => asked.push(url) })
  const units = fileUnits({
    listen: { host: '127.0.0.1', port: 80 },
    listeners: [{ listen: { host: '127.0.0.1', port: 443 }, tls: true, public_port: undefined, proxy_protocol: false }],
    path_form: 'strict',
    edges_on_http: 'serve',
    hsts: undefined,
    upstream: { protocol: 'http', host: 'upstream.invalid', port: 80 },
    certificateAuthorities: undefined,
    policy
  })
  const change = { from: 0, to: 1, put: [...units], drop: [] }
  const compiling = { services, actions, persistentState: new PersistentState() }
  const prepared = prepare(Snapshot.empty(), change, new Map(), compiling)
  if (!prepared.ok) return { problems: prepared.problems }
  prepared.commit()
  lab.serves(prepared.snapshot)
  return {
    lab,
    warnings: prepared.warnings,
    notAsked() {
      const urls = asked
      asked = []
      return urls
    }
  }
}
