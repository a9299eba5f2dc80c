import type { CapabilityPage } from '../api/dashboard/dashboard.js'
import type { BoundGroup } from '../api/define-route.js'
import { type ApiServer, createApi } from '../api/server.js'
import type { ControlPlane } from '../control/control-plane.js'
import type { ApiKeys } from '../control/operator-keys.js'
import { AddressCounts } from '../lib/client-limits.js'
import { packageVersion } from '../lib/files.js'
import { reachableUrl } from '../lib/host.js'
import type { Options } from '../options/options.js'
import { resources } from '../resources/registry.js'
import type { Resource } from '../resources/resource.js'
import { reasons } from '../telemetry/health.js'
import type { Foundation } from './foundation.js'
import type { ProcessHealth } from './health.js'

interface ApiStage {
  readonly keys: ApiKeys
  readonly control: ControlPlane
  readonly health: ProcessHealth
  /** Reads the counts of every thread. */
  readonly gather: () => Promise<void>
  /** Routes of capabilities. */
  readonly groups: readonly BoundGroup[]
  /** Pages of capabilities in the dashboard, by the capability's name. */
  readonly pages: ReadonlyMap<string, CapabilityPage>
  readonly describesRecord: (resource: Resource, schema: object) => object
}

/** The management API, which listens; its URL is known from now on. Rejects with the system's error of a bind. */
export async function openApi(
  options: Options,
  foundation: Foundation,
  { keys, control, health, gather, groups, pages, describesRecord }: ApiStage
): Promise<{ readonly api: ApiServer; readonly address: { readonly host: string; readonly port: number } }> {
  const { api, metrics } = options
  const { live, clock, log, lifecycle, turnedAway, publicUrl, trusted, sockets } = foundation
  const hosts = [api.listen.host, ...api.allowed_hosts]
  if (api.public_url !== undefined) hosts.push(new URL(api.public_url).hostname)
  const server = createApi({
    keys,
    hosts,
    crowds: {
      get connections() {
        return Math.min(live.limits.connections, live.limits.descriptors.api)
      },
      ofAddress: new AddressCounts(
        () => live.limits.connectionsPerAddress ?? 0,
        (peer) => trusted?.match(peer) !== undefined
      ),
      turnedAway: (why, address) => {
        const few = why === 'connections' && live.limits.descriptors.api < live.limits.connections
        turnedAway.report('api', few ? 'descriptors' : why, address)
      }
    },
    clock,
    readiness: () => health.readiness(lifecycle.phase),
    degradation: () => health.degradation(),
    account: {
      control,
      resources,
      groups,
      pages,
      describesRecord,
      baseUrl: publicUrl.read,
      version: packageVersion(),
      reasons,
      dashboard: api.dashboard
    },
    rate: api.rate_limit,
    corsOrigins: api.cors_origins,
    metrics: metrics ? () => scrape(foundation, gather) : undefined,
    fault: (error, operationId) => log.error({ err: error, operation_id: operationId }, 'the API failed')
  })
  lifecycle.opens('api', { shared: () => server.close() })
  const address = await server.listen(sockets.at(api.listen))
  publicUrl.set(api.public_url ?? reachableUrl(address))
  return { api: server, address }
}

/** Returns all metrics, with the current counts of every thread. */
async function scrape({ metrics }: Foundation, gather: () => Promise<void>): Promise<string> {
  await gather()
  return await metrics.registry.metrics()
}
