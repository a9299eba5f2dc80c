import type { Principal } from '../control/calls.js'
import type { ApiKeys } from '../control/operator-keys.js'
import type { Clock } from '../lib/clock.js'
import type { Resource } from '../resources/resource.js'
import { type Account, KnownPaths, type Router } from './calls.js'
import { addDocsPages } from './docs-pages.js'
import { addEventRoutes } from './event-routes.js'
import { addExchanges } from './exchange-routes.js'
import { addExplanations } from './explain-routes.js'
import { type CallerCheck, Cors, guard, type RequestRate, RequestRates, TrustedHosts } from './guard.js'
import { type Crowds, createListener } from './listener.js'
import { openApiDocument } from './openapi.js'
import { addModuleRoutes, addNestedRoutes, addPartRoutes, addResourceRoutes } from './resource-routes.js'
import {
  addBackup,
  addDescription,
  addHealth,
  addMetrics,
  addProcesses,
  addReadiness,
  addRevisions,
  addSessionCommands,
  type Degradation,
  type Readiness
} from './service-routes.js'
import { addShadows } from './shadow-routes.js'
import { addSite } from './site-routes.js'

/** What the API shows of the account. */
interface AccountOptions {
  readonly control: Account
  /** Every resource, `registry.ts` in production. */
  readonly resources: readonly Resource[]
  /** Scheme, host and port of the API as clients see it, without a slash at the end. */
  readonly baseUrl: () => string
  /** Of the program. */
  readonly version: string
  /** Why a process may be degraded, for the description; absent: it does not say. */
  readonly reasons?: readonly { readonly name: string; readonly means: string }[]
}

export interface ApiOptions {
  /** Keys of the operator; with an account it is the account that knows all keys. */
  readonly keys: ApiKeys
  /** Names beside the loopback ones under which clients reach the API; hosts without ports. */
  readonly hosts: readonly string[]
  readonly clock: Clock
  /** Asked for each GET /healthz and /readyz. */
  readiness(): Readiness
  /** Asked for each GET /readyz; absent: nothing is ever wrong. */
  degradation?: (() => Degradation) | undefined
  /** The metrics in the text format of Prometheus; absent: there is no /metrics. */
  metrics?: (() => Promise<string>) | undefined
  /** Absent: there are only /healthz, /readyz and /metrics. */
  readonly account?: AccountOptions | undefined
  /** Of each principal; absent: no limit. */
  readonly rate?: RequestRate | undefined
  /** Origins whose pages may use the API; absent or empty: only its own names. */
  readonly corsOrigins?: readonly string[] | undefined
  /** Milliseconds for a whole request to arrive; beyond: 408. */
  readonly requestTimeout?: number | undefined
  /** Absent: any number of connections. */
  readonly crowds?: Crowds | undefined
  /** Faults of ours; `error` may hold anything but a secret of a client. */
  fault(error: unknown, operationId: string): void
}

export interface ApiServer {
  /** Binds and resolves with the address; rejects with the system's error when it cannot. */
  listen(at: { readonly host: string; readonly port: number }): Promise<{ host: string; port: number }>
  /** Answers what is under way and closes. */
  close(): Promise<void>
}

/** The management listener: names checked against DNS rebinding, a key for everything but the health, one form of errors. */
export function createApi(options: ApiOptions): ApiServer {
  const { account, clock, corsOrigins = [], fault, hosts, keys, metrics, rate, requestTimeout } = options
  const server = createListener({ clock, crowds: options.crowds, fault, requestTimeout })
  const router: Router = { server, paths: new KnownPaths() }
  guard(server, {
    trusted: new TrustedHosts(hosts),
    cors: corsOrigins.length === 0 ? undefined : new Cors(corsOrigins),
    paths: router.paths,
    callers: account?.control.access ?? operatorOnly(keys),
    rates: rate === undefined ? undefined : new RequestRates(rate, clock)
  })
  addHealth(router, () => options.readiness())
  addReadiness(router, () => options.readiness(), options.degradation ?? (() => FINE))
  if (metrics !== undefined) addMetrics(router, metrics)
  if (account !== undefined) addAccount(router, account, metrics !== undefined)
  return {
    async listen(at) {
      await server.listen({ host: at.host, port: at.port })
      const address = server.server.address()
      if (address === null || typeof address === 'string') throw new TypeError('the API listens on no TCP port')
      return { host: address.address, port: address.port }
    },
    close: () => server.close()
  }
}

const FINE: Degradation = { reasons: [], revisionsBehind: 0 }

function addAccount(router: Router, account: AccountOptions, metrics: boolean): void {
  const { control, resources, baseUrl, version, reasons } = account
  for (const resource of resources) {
    addResourceRoutes(router, resource, control)
    addModuleRoutes(router, resource, control)
    addPartRoutes(router, resource, control)
  }
  addNestedRoutes(router, resources, control, baseUrl)
  addProcesses(router, control, baseUrl)
  addRevisions(router, control)
  addBackup(router, control)
  addSite(router, control)
  addExplanations(router, control)
  addExchanges(router, control)
  addShadows(router, control, baseUrl)
  addSessionCommands(router, control)
  addEventRoutes(router, control)
  addDocsPages(router)
  addDescription(router, () => openApiDocument(resources, { baseUrl: baseUrl(), version, metrics, reasons }))
}

const OPERATOR: Principal = { id: 'usr_operator', role: 'administrator', subject: 'operator', key: null }

/** Without an account there are no users and no restrictions: a caller with a key of the operator is the operator. */
function operatorOnly(keys: ApiKeys): CallerCheck {
  return {
    authenticate: async (key) => ((await keys.accepts(key)) ? OPERATOR : undefined),
    otherThanKey: async () => undefined,
    admits: () => true
  }
}
