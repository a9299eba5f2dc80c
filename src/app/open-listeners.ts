import { ANY_HOST } from '../lib/host.js'
import type { ProcessPorts } from '../proxy/ports.js'
import type { CompiledEdge } from '../runtime/http-edges.js'
import type { Snapshot } from '../runtime/snapshot.js'

/** Ports that URLs leave out. */
const USUAL_PORTS = { http: 80, https: 443 } as const

/** One place where traffic is accepted. */
export interface OpenListener {
  readonly host: string
  readonly port: number
  readonly tls: boolean
  /** @default `port` */
  readonly publicPort?: number
}

/** A request that a route of a site serves. */
export interface SiteRequest {
  readonly host: string
  readonly path: string
  readonly listener: OpenListener
}

/** Returns the listeners that are open, in the order of the configuration. */
export function openListeners(ports: Pick<ProcessPorts, 'listener'>, { plan }: Snapshot): OpenListener[] {
  return [...plan.units].flatMap(([key, unit]) => {
    const address = unit.kind === 'listener' ? ports.listener(key) : undefined
    if (unit.kind !== 'listener' || address === undefined) return []
    const { tls, publicPort } = unit
    return [{ host: address.host, port: address.port, tls, ...(publicPort === undefined ? {} : { publicPort }) }]
  })
}

/** Returns a request of the first site on one of the listeners; undefined if there is none. */
export function firstSiteRequest(listeners: readonly OpenListener[], snapshot: Snapshot): SiteRequest | undefined {
  for (const edge of snapshot.tables.edges) {
    if (edge.hosts === 'every' || edge.yields) continue
    const path = pathOf(edge)
    for (const { host, port } of edge.hosts) {
      if (path === undefined || host.endsWith('.internal')) continue
      const serving = listeners.filter((one) => serves(one, port, edge.protocol))
      const hasCertificate = snapshot.tables.certificates.has(host)
      const listener = serving.find(({ tls }) => tls === hasCertificate) ?? serving[0]
      if (listener !== undefined) return { host: concrete(host), path, listener }
    }
  }
  return undefined
}

function serves({ port, publicPort }: OpenListener, wanted: number, protocol: CompiledEdge['protocol']): boolean {
  return (publicPort ?? port) === wanted || (publicPort === undefined && wanted === USUAL_PORTS[protocol])
}

/** Returns a path that a route of the edge takes, `/` rather than another. */
function pathOf({ routes }: CompiledEdge): string | undefined {
  if (routes.find('/') !== undefined) return '/'
  for (const { path } of routes) return path
  return undefined
}

/** Returns a name that matches a host with a star. */
function concrete(host: string): string {
  return host === ANY_HOST ? 'localhost' : host.replaceAll('*', 'www')
}
