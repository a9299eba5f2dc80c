import type { Socket } from 'node:net'
import type { Principal } from '../control/calls.js'
import type { ApiKeys } from '../control/operator-keys.js'
import { noGuards } from '../control/write-guards.js'
import { CALLER_LIMITS } from '../lib/caller-limits.js'
import type { Clock } from '../lib/clock.js'
import { atMost } from '../lib/concurrency.js'
import { WorkBudget } from '../lib/work-budget.js'
import { aliases } from '../resources/registry.js'
import type { Resource } from '../resources/resource.js'
import { type Account, serving } from './calls.js'
import { addDashboard, type CapabilityPage } from './dashboard/dashboard.js'
import { addGroup, type BoundGroup, bindRoutes, type RouteGroup } from './define-route.js'
import { addDescription, addDocsPages, redirectToDocs } from './docs-pages.js'
import { type CallerCheck, Cors, guard, type RequestRate, RequestRates, TrustedHosts } from './guard.js'
import { type Degradation, healthRoutes, type Readiness } from './health-routes.js'
import { begin, type HeldConnections, HoldableConnections } from './held-connections.js'
import { type Crowds, createListener } from './listener.js'
import { openApiDocument } from './openapi.js'
import { addModuleRoutes, addNestedRoutes, addPartRoutes, addResourceRoutes } from './resource-routes.js'
import { createRouter, type Router } from './routes.js'
import { serviceRoutes } from './service-routes.js'
import { sessionCookies, sessionRoutes } from './session-routes.js'

/** The account that the API serves. */
interface AccountOptions {
  readonly control: Account
  /** Every resource, `registry.ts` in production. */
  readonly resources: readonly Resource[]
  /** Routes of capabilities. */
  readonly groups?: readonly BoundGroup[]
  /** Pages of capabilities in the dashboard, by the capability's name. */
  readonly pages?: ReadonlyMap<string, CapabilityPage>
  /** Adds fields of capabilities to the described answers about a record. @default none */
  readonly describesRecord?: (resource: Resource, schema: object) => object
  /** Scheme, host and port of the API as clients see it, without a slash at the end. */
  readonly baseUrl: () => string
  /** Version of the program. */
  readonly version: string
  /** Is the dashboard served, with sign-in? @default true */
  readonly dashboard?: boolean
  /** Reasons of a degraded state, for the description. @default not documented */
  readonly reasons?: readonly { readonly name: string; readonly means: string }[]
}

export interface ApiOptions {
  /** Keys of the operator; unused with an account, which knows all keys. */
  readonly keys: ApiKeys
  /** Names beside the loopback ones under which clients reach the API; hosts without ports. */
  readonly hosts: readonly string[]
  readonly clock: Clock
  /** Called for each GET /healthz and /readyz. */
  readiness(): Readiness
  /** Returns the state for each GET /readyz. @default never degraded */
  degradation?: (() => Degradation) | undefined
  /** Returns the metrics in the text format of Prometheus. @default /metrics is not served */
  metrics?: (() => Promise<string>) | undefined
  /** The account. @default only /healthz, /readyz and /metrics are served */
  readonly account?: AccountOptions | undefined
  /** Rate of each principal. @default no limit */
  readonly rate?: RequestRate | undefined
  /** Further origins whose pages may use the API. @default none */
  readonly corsOrigins?: readonly string[] | undefined
  /** Milliseconds for a whole request to arrive; beyond: 408. */
  readonly requestTimeout?: number | undefined
  /** Limits of connections. @default no limit */
  readonly crowds?: Crowds | undefined
  /** Faults of ours; `error` may hold anything but a secret of a client. */
  fault(error: unknown, operationId: string): void
}

/** The management listener of a process. */
export interface ApiServer {
  /** Binds and resolves with the address; rejects with the system's error when it cannot. */
  listen(
    at: { readonly host: string; readonly port: number } | { readonly fd: number }
  ): Promise<{ host: string; port: number }>
  /** See `HoldableConnections`. */
  hold(): Promise<HeldConnections>
  /** Serves a connection that another process has accepted and not read. */
  take(socket: Socket): void
  /** Finishes running requests and closes. */
  close(): Promise<void>
}

/** The management listener: names checked against DNS rebinding, a key for everything but the health, one form of errors. */
export function createApi(options: ApiOptions): ApiServer {
  const { account, clock, corsOrigins = [], fault, hosts, keys, metrics, rate, requestTimeout } = options
  const server = createListener({ clock, crowds: options.crowds, fault, requestTimeout })
  const connections = new HoldableConnections(server.server)
  server.decorate('readGuard', account?.control.guards.read ?? noGuards.read)
  const router = createRouter(server)
  guard(server, {
    trusted: new TrustedHosts(hosts),
    cors: corsOrigins.length === 0 ? undefined : new Cors(corsOrigins),
    routes: router.routes,
    callers: account?.control.access ?? operatorOnly(keys),
    sessions: account === undefined || account.dashboard === false ? undefined : sessionCookies(account.control),
    rates: rate === undefined ? undefined : new RequestRates(rate, clock),
    work: new WorkBudget(clock, CALLER_LIMITS.member.work)
  })
  const health = healthRoutes({ metrics: metrics !== undefined, reasons: account?.reasons })
  const bound = bindRoutes(health, {
    readiness: () => options.readiness(),
    degradation: options.degradation ?? (() => FINE),
    metrics: metrics ?? (async () => '')
  })
  addGroup(router, bound, (reply) => reply)
  if (account !== undefined) addAccount(router, account, health)
  return {
    async listen(at) {
      // Node takes a descriptor before a host, and Fastify does not know that there are descriptors.
      const place = 'fd' in at ? { fd: at.fd, host: '127.0.0.1' } : { host: at.host, port: at.port }
      await server.listen(place)
      const address = server.server.address()
      if (address === null || typeof address === 'string') throw new TypeError('the API listens on no TCP port')
      return { host: address.address, port: address.port }
    },
    hold: () => connections.hold(),
    take: (socket) => begin(server.server, socket),
    async close() {
      const closed = server.close()
      await (connections.given ? atMost(LAST_ANSWERS, closed) : closed)
    }
  }
}

/** Maximum time for running requests once another process serves (ms). */
const LAST_ANSWERS = 250

const FINE: Degradation = { reasons: [], revisionsBehind: 0 }

function addAccount(router: Router, account: AccountOptions, health: RouteGroup<never>): void {
  const {
    control,
    resources,
    groups = [],
    pages = new Map(),
    describesRecord,
    baseUrl,
    version,
    dashboard = true
  } = account
  const service = { account: control, baseUrl }
  const all = [
    ...serviceRoutes.map((group) => bindRoutes(group, service)),
    ...groups,
    ...(dashboard ? [bindRoutes(sessionRoutes, service)] : [])
  ]
  const others = aliases.filter(({ of }) => resources.includes(of))
  const named = others.map(({ alias, of }) => ({ ...alias, name: of.name }))
  for (const resource of [...resources, ...named]) {
    addResourceRoutes(router, resource, control)
    addModuleRoutes(router, resource, control)
    addPartRoutes(router, resource, control)
  }
  addNestedRoutes(router, resources, control, baseUrl)
  for (const group of all) addGroup(router, group, (reply) => serving(reply, control))
  addDocsPages(router)
  if (dashboard) addDashboard(router, pages)
  else redirectToDocs(router)
  addDescription(router, () =>
    openApiDocument([...resources, ...others.map(({ alias }) => alias)], {
      baseUrl: baseUrl(),
      version,
      groups: [health, ...all],
      describesRecord
    })
  )
}

const OPERATOR: Principal = { id: 'usr_operator', role: 'administrator', subject: 'operator', key: null }

/** Returns the caller check without an account, and so without users and restrictions: a caller with a key of the operator is the operator. */
function operatorOnly(keys: ApiKeys): CallerCheck {
  return {
    authenticate: async (key) => ((await keys.accepts(key)) ? OPERATOR : undefined),
    otherThanKey: async () => undefined,
    admits: () => true,
    keepsOut: () => false
  }
}
