import type { Logger } from 'pino'
import { createExpressions } from '../expression/expressions.js'
import { breakerRecords } from '../features/circuit-breaker/circuit.js'
import { internalRequests } from '../features/http-request/feature.js'
import { defaultProviders, readOperatorProviders } from '../features/login/operator-providers.js'
import { Login, logins } from '../features/login/service.js'
import { type LimitRelay, limitRelay } from '../features/rate-limit/elsewhere.js'
import { limiter, rateLimitHeaders } from '../features/rate-limit/feature.js'
import type { LimiterTable } from '../features/rate-limit/limiter/table.js'
import { type RefusedKeysMemory, refusedKeys } from '../features/rate-limit/refused-keys.js'
import { actions } from '../features/registry.js'
import type { BuiltRules } from '../features/waf/engine/rule-set.js'
import { FolderRules, GivenRules, wafRules } from '../features/waf/rules.js'
import { buildRulesBeside } from '../features/waf/rules-beside.js'
import { type ReplayMemory, replays } from '../features/webhook/replays.js'
import { BodyBuffers, type Holdings } from '../flow/body-buffers.js'
import { refusalOf } from '../flow/error-codes.js'
import { CALLER_LIMITS } from '../lib/caller-limits.js'
import type { Clock } from '../lib/clock.js'
import { CodedError, codeOf } from '../lib/errors.js'
import { fileErrors, readOptionFile } from '../lib/files.js'
import { type Geo, openGeo } from '../lib/geo.js'
import { createOutbound, type Outbound, type OutboundParts } from '../lib/http-client/outbound.js'
import { unpredictable } from '../lib/id.js'
import type { Names, NamesOptions } from '../lib/names/names.js'
import type { SharedRecords } from '../lib/shared-records.js'
import { fileReason } from '../lib/system-errors.js'
import { UserAgents } from '../lib/user-agent.js'
import { readAuthorityFile } from '../lib/x509.js'
import type { Options } from '../options/options.js'
import { confinedActions, resultsOf } from '../policy/action.js'
import { RecentDocuments } from '../policy/document.js'
import { keyFolders } from '../policy/key-files.js'
import { type BaseServices, type PolicyServices, type Provided, provide } from '../policy/services.js'
import type { Traffic } from '../proxy/data-plane.js'
import type { PolicyRights } from '../runtime/compile.js'
import type { Metrics } from '../telemetry/metrics.js'
import type { LiveOptions } from './live-options.js'
import { policyServices } from './services.js'

/**
 * Returns the permitted destinations and trusted authorities of outbound requests by policies and events, from the options. Fails with
 * `FILE_UNREADABLE`.
 */
export async function outboundRules({
  outbound
}: Options): Promise<Pick<OutboundParts, 'allowPrivate' | 'authorities'>> {
  const { allow_private: allowPrivate, ca } = outbound
  return { allowPrivate, ...(ca === undefined ? {} : { authorities: [await readAuthorityFile(ca, 'outbound.ca')] }) }
}

/** The database of addresses that `geoip.database` names. Fails with `FILE_UNREADABLE`. */
async function geoOf(file: string | undefined): Promise<Geo> {
  try {
    return await openGeo(file)
  } catch (cause) {
    const code = codeOf(cause)
    const why = code === undefined ? 'it is no MMDB database' : fileReason(code)
    const message = `geoip.database: ${file ?? 'the database that is shipped'} cannot be used: ${why}; name an MMDB file, or leave the option out`
    throw new CodedError(fileErrors.FILE_UNREADABLE, message, { cause })
  }
}

/** Returns the DNS settings of the options. */
export function namesOptions({ dns }: Pick<Options, 'dns'>): NamesOptions {
  return { resolver: dns.resolver, servers: dns.servers }
}

interface PolicyServicesParts {
  readonly clock: Clock
  readonly names: Names
  readonly log: Logger
  /** 32 bytes each: see `Login`. */
  readonly loginKeys: readonly Uint8Array[]
  readonly limiter: LimiterTable
  readonly refusedKeys: RefusedKeysMemory | undefined
  readonly metrics: Metrics
  readonly live: LiveOptions
  readonly traffic: Traffic
  /** Memory of buffered bodies. @default that of this thread */
  readonly holdings?: Holdings
  /** Relays limits between threads. @default there is one thread */
  readonly limitRelay?: LimitRelay
  /** Services of cluster limits. @default none */
  readonly cluster?: readonly Provided[]
  /** Shared records of circuit breakers. @default those of this thread */
  readonly records?: SharedRecords
  /** Rules of the firewall that another thread has built. @default those of the folder in the options, if any */
  readonly builtRules?: BuiltRules | undefined
  /** Shared memory of webhook deliveries. @default that of this thread */
  readonly replays?: { of(identity: string): ReplayMemory }
}

/**
 * The actions of policies that agents send to the server. Such a policy has only the rights of its agent: references to the
 * account (internal endpoints, IP policies, certificates) are rejected by name. Access to vaults and files is rejected by
 * its services.
 */
const guestActions = confinedActions(actions, 'guest')

export interface OpenPolicyServices {
  readonly services: PolicyServices
  readonly login: Login
  /** Rights of policies that agents send. */
  readonly guests: PolicyRights
  readonly geo: Geo
  /** Rules of the firewall, from the folder or from another thread; undefined without the option. */
  readonly rules: FolderRules | GivenRules | undefined
  /** Parts that the caller closes at the end. */
  readonly closes: readonly { close(): void }[]
}

/**
 * Creates the services of policies from the options. The caller closes `closes`. Fails with `FILE_UNREADABLE`,
 * and with the errors in a file.
 */
export async function openPolicyServices(options: Options, parts: PolicyServicesParts): Promise<OpenPolicyServices> {
  const { geoip } = options
  const { clock, names, log, metrics, live } = parts
  const outbound = createOutbound({ clock, lookup: names.lookup, ...(await outboundRules(options)) })
  const geo = await geoOf(geoip.database)
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
      ...(parts.holdings === undefined ? {} : { holdings: parts.holdings }),
      broken: refusalOf
    })
  }
  const login = await openLogin(options, parts, outbound)
  const { builtRules } = parts
  const rules = builtRules === undefined ? await FolderRules.open(options.waf, log) : new GivenRules(builtRules)
  const shared = [
    provide(limiter, parts.limiter),
    provide(refusedKeys, parts.refusedKeys),
    provide(rateLimitHeaders, options.rate_limit_headers),
    provide(limitRelay, parts.limitRelay),
    ...(parts.cluster ?? []),
    provide(logins, login),
    provide(wafRules, rules),
    provide(internalRequests, parts.traffic.internal),
    ...(parts.records === undefined ? [] : [provide(breakerRecords, parts.records)]),
    ...(parts.replays === undefined ? [] : [provide(replays, parts.replays)])
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
    rules,
    closes: [outbound, guest.outbound, ...(rules instanceof FolderRules ? [rules] : [])],
    guests: {
      services: policyServices(guest, [...shared, provide(keyFolders, [])]),
      actions: guestActions,
      limits: CALLER_LIMITS.agent.documents
    }
  }
}

/** Reads the rules of the web application firewall and builds them in a thread. Rejects with `WAF_RULES_INVALID`. */
export const firewallRules = buildRulesBeside

async function openLogin(
  { login }: Options,
  { loginKeys: keys, clock }: PolicyServicesParts,
  outbound: Outbound
): Promise<Login> {
  const providers =
    login.providers === undefined
      ? defaultProviders()
      : await readOperatorProviders(await readOptionFile(login.providers, 'login.providers'))
  return new Login({ keys, providers, outbound, clock })
}
