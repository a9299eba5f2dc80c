import type { Logger } from 'pino'
import { createExpressions } from '../expression/expressions.js'
import { internalRequests } from '../features/http-request/feature.js'
import { keyFolders } from '../features/jwt/key-sources.js'
import { defaultProviders, readOperatorProviders } from '../features/login/operator-providers.js'
import { Login, logins } from '../features/login/service.js'
import { limiter, rateLimitHeaders } from '../features/rate-limit/feature.js'
import type { LimiterTable } from '../features/rate-limit/limiter/table.js'
import { actions } from '../features/registry.js'
import { BodyBuffers } from '../flow/body-buffers.js'
import { refusalOf } from '../flow/error-codes.js'
import type { Clock } from '../lib/clock.js'
import { readOptionFile } from '../lib/files.js'
import { type Geo, openGeo } from '../lib/geo.js'
import { createOutbound, type Outbound, type OutboundParts } from '../lib/http-client/outbound.js'
import { unpredictable } from '../lib/id.js'
import type { Names, NamesOptions } from '../lib/names/names.js'
import type { Sealer } from '../lib/seal.js'
import { UserAgents } from '../lib/user-agent.js'
import type { Options } from '../options/options.js'
import { confinedActions, resultsOf } from '../policy/action.js'
import { RecentDocuments } from '../policy/document.js'
import { type BaseServices, type PolicyServices, provide } from '../policy/services.js'
import type { Traffic } from '../proxy/data-plane.js'
import type { PolicyRights } from '../runtime/compile.js'
import type { Metrics } from '../telemetry/metrics.js'
import type { LiveOptions } from './live-options.js'
import { policyServices } from './services.js'

/** Where requests of policies and of events may go, and whom they trust, as the options want it. Fails with `FILE_UNREADABLE`. */
export async function outboundRules({
  outbound
}: Options): Promise<Pick<OutboundParts, 'allowPrivate' | 'authorities'>> {
  const { allow_private: allowPrivate, ca } = outbound
  return { allowPrivate, ...(ca === undefined ? {} : { authorities: [await readOptionFile(ca, 'outbound.ca')] }) }
}

/** Who answers names, as the options want it. */
export function namesOptions({ dns }: Options): NamesOptions {
  return { resolver: dns.resolver, servers: dns.servers }
}

interface PolicyServicesParts {
  readonly clock: Clock
  readonly names: Names
  readonly log: Logger
  readonly seal: Sealer
  readonly limiter: LimiterTable
  readonly metrics: Metrics
  readonly live: LiveOptions
  readonly traffic: Traffic
}

/**
 * The actions of policies that agents send to the server. Such a policy has the rights of its agent alone: what belongs to the
 * account (internal endpoints, IP policies, certificates) is refused by name. Vaults and files are refused by the services that
 * it is compiled with.
 */
const guestActions = confinedActions(actions, 'guest')

interface OpenPolicyServices {
  readonly services: PolicyServices
  readonly login: Login
  /** Of policies that agents send. */
  readonly guests: PolicyRights
  readonly geo: Geo
}

/**
 * What policies use, as the options want it. The caller closes the `outbound` of both. Fails with `FILE_UNREADABLE` and with
 * what is wrong in a file.
 */
export async function openPolicyServices(options: Options, parts: PolicyServicesParts): Promise<OpenPolicyServices> {
  const { geoip } = options
  const { clock, names, log, metrics, live } = parts
  const outbound = createOutbound({ clock, lookup: names.lookup, ...(await outboundRules(options)) })
  const geo = await openGeo(geoip.database)
  const sources = {
    results: resultsOf(actions),
    clock,
    random: unpredictable,
    geo,
    userAgent: new UserAgents()
  }
  const base: BaseServices = {
    clock,
    expressions: createExpressions(sources),
    meter: metrics.policy,
    log,
    documents: new RecentDocuments(),
    outbound,
    bodies: new BodyBuffers({
      get total() {
        return live.bodies.total
      },
      get each() {
        return live.bodies.each
      },
      get perClient() {
        return live.bodies.perClient
      },
      pace: live.bodies.pace,
      broken: refusalOf
    })
  }
  const login = await openLogin(options, parts, outbound)
  const shared = [
    provide(limiter, parts.limiter),
    provide(rateLimitHeaders, options.rate_limit_headers),
    provide(logins, login),
    provide(internalRequests, parts.traffic.internal)
  ]
  // Guests: without vaults, without files, and without the private networks that the operator opens to policies of the account.
  const guest: BaseServices = {
    ...base,
    expressions: createExpressions(sources, { vaults: false }),
    outbound: createOutbound({ clock, allowPrivate: false, lookup: names.lookup })
  }
  return {
    services: policyServices(base, [...shared, provide(keyFolders, options.jwt.key_folders ?? [])]),
    login,
    geo,
    guests: { services: policyServices(guest, [...shared, provide(keyFolders, [])]), actions: guestActions }
  }
}

async function openLogin({ login }: Options, { seal, clock }: PolicyServicesParts, outbound: Outbound): Promise<Login> {
  const providers =
    login.providers === undefined
      ? defaultProviders()
      : await readOperatorProviders(await readOptionFile(login.providers, 'login.providers'))
  return new Login({ keys: seal.derive('login'), providers, outbound, clock })
}
