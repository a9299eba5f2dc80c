import type { Logger } from 'pino'
import { createExpressions } from '../expression/expressions.js'
import { KeySetPlaces } from '../features/jwt/key-sources.js'
import { defaultProviders, readOperatorProviders } from '../features/login/providers.js'
import { Login } from '../features/login/service.js'
import type { LimiterTable } from '../features/rate-limit/limiter/table.js'
import { actions } from '../features/registry.js'
import { BodyBuffers } from '../flow/body-buffers.js'
import { refusalOf } from '../flow/error-codes.js'
import type { Clock } from '../lib/clock.js'
import { readOptionFile } from '../lib/files.js'
import { openGeo } from '../lib/geo.js'
import { createOutbound, type OutboundParts } from '../lib/http-client/outbound.js'
import { unpredictable } from '../lib/id.js'
import type { Names, NamesOptions } from '../lib/names/names.js'
import type { Sealer } from '../lib/seal.js'
import { UserAgents } from '../lib/user-agent.js'
import type { Options } from '../options/options.js'
import { confinedActions, resultsOf } from '../policy/action.js'
import { RecentDocuments } from '../policy/document.js'
import type { PolicyServices } from '../policy/services.js'
import type { Traffic } from '../proxy/data-plane.js'
import type { PolicyRights } from '../runtime/compile.js'
import type { Metrics } from '../telemetry/metrics.js'

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
  readonly traffic: Traffic
}

/**
 * The actions of policies that agents send to the server. Such a policy has the rights of its agent alone: what belongs to the
 * account (internal endpoints, IP policies, certificates) is refused by name. Vaults and files are refused by the services that
 * it is compiled with.
 */
const guestActions = confinedActions(actions, 'guest')

interface OpenPolicyServices {
  readonly services: PolicyServices & { readonly login: Login }
  /** Of policies that agents send. */
  readonly guests: PolicyRights
}

/**
 * What policies use, as the options want it. The caller closes the `outbound` of both. Fails with `FILE_UNREADABLE` and with
 * what is wrong in a file.
 */
export async function openPolicyServices(options: Options, parts: PolicyServicesParts): Promise<OpenPolicyServices> {
  const { geoip, rate_limit_headers, limits, timeouts, login, jwt } = options
  const { clock, names, log, seal, limiter, metrics, traffic } = parts
  const outbound = createOutbound({ clock, lookup: names.lookup, ...(await outboundRules(options)) })
  const sources = {
    results: resultsOf(actions),
    clock,
    random: unpredictable,
    geo: await openGeo(geoip.database),
    userAgent: new UserAgents()
  }
  const services: OpenPolicyServices['services'] = {
    clock,
    expressions: createExpressions(sources),
    limiter,
    meter: metrics.policy,
    log,
    rateLimitHeaders: rate_limit_headers,
    documents: new RecentDocuments(),
    outbound,
    keySets: new KeySetPlaces({ clock, log, outbound }),
    keyFolders: jwt.key_folders ?? [],
    internal: traffic.internal,
    login: new Login({
      keys: seal.derive('login'),
      providers:
        login.providers === undefined
          ? defaultProviders()
          : await readOperatorProviders(await readOptionFile(login.providers, 'login.providers')),
      outbound,
      clock
    }),
    bodies: new BodyBuffers({
      total: limits.buffered_bodies,
      each: limits.buffered_body,
      perClient: Math.max(2 * limits.buffered_body, limits.buffered_bodies * limits.buffered_bodies_share),
      pace: { clock, deadline: timeouts.buffered_body, rate: limits.buffered_body_rate },
      broken: refusalOf
    })
  }
  return { services, guests: { services: guestServices(services, sources, names), actions: guestActions } }
}

/** Without vaults, without files, and without the private networks that the operator opens to policies of the account. */
function guestServices(services: PolicyServices, sources: Sources, names: Names): PolicyServices {
  const { clock, log } = services
  const outbound = createOutbound({ clock, allowPrivate: false, lookup: names.lookup })
  return {
    ...services,
    expressions: createExpressions(sources, { vaults: false }),
    outbound,
    keySets: new KeySetPlaces({ clock, log, outbound }),
    keyFolders: []
  }
}

type Sources = Parameters<typeof createExpressions>[0]
