import { formatAuthority } from '../lib/host.js'
import type { HostPort, RouteUnit, Unit, UpstreamUnit } from './plan.js'

/** Id and name of the entry that the options define for all other hosts. */
const DEFAULT = 'default'
/** Port that names omit. */
const USUAL_PORT = 443

/**
 * Returns the name of a site: its own, or its first host, with the port unless it is 443. The catch-all edge of the options is `default`.
 */
export function siteNameOf(hosts: readonly HostPort[] | 'every', name?: string): string {
  if (name !== undefined) return name
  const [first] = hosts === 'every' ? [] : hosts
  if (first === undefined) return DEFAULT
  return first.port === USUAL_PORT ? first.host : formatAuthority(first.host, first.port)
}

/** Returns the path of a route as a site file writes it: a prefix ends with a slash, an exact path does not. */
function routePathOf({ match, path }: Pick<RouteUnit, 'match' | 'path'>): string {
  return match === 'prefix' && !path.endsWith('/') ? `${path}/` : path
}

/** The part of a route's name that does not depend on its site. */
export interface RouteName {
  readonly own: string | undefined
  readonly path: string
}

/** Returns the name of a route: its own, or site and path, such as `shop.example.com/api/`. */
export function routeNameOf(site: string, { own, path }: RouteName): string {
  return own ?? (site === DEFAULT && path === '/' ? DEFAULT : `${site}${path}`)
}

/** Prepares the name of a route. */
export function compileRouteName(route: Pick<RouteUnit, 'match' | 'path' | 'name'>): RouteName {
  return { own: route.name, path: routePathOf(route) }
}

/** Returns the destination of a backend; undefined for one that only combines others. */
export function destinationOf(unit: UpstreamUnit): string | undefined {
  switch (unit.form) {
    case 'address':
      return `${unit.protocol}://${unit.service ?? (unit.socket === undefined ? formatAuthority(unit.host, unit.port) : `unix:${unit.socket}`)}${unit.pathPrefix ?? ''}`
    case 'response':
      return `answer ${unit.status}`
    case 'files':
      return `file://${unit.folder}`
    case 'tunnels':
      return Object.entries(unit.labels)
        .map(([name, value]) => `${name}=${value}`)
        .join(', ')
    default:
      return undefined
  }
}

/** Units by key. */
interface Units {
  get(key: string): Unit | undefined
}

/** Names of the units of a plan for people: logs, metrics, lists. An id without a unit is its own name. */
export class UnitNames {
  readonly #units: () => Units

  /** `units`: returns the units of the current plan. */
  constructor(units: () => Units) {
    this.#units = units
  }

  /** Returns the name of an HTTP or TCP edge; undefined if there is no such edge. */
  siteOf(id: string): string | undefined {
    const units = this.#units()
    const edge = units.get(`edge:${id}`)
    const tcp = units.get(`tcp_edge:${id}`)
    if (edge?.kind === 'edge' && tcp === undefined) return siteNameOf(edge.hosts, edge.name)
    return tcp?.kind === 'tcp_edge' ? siteNameOf(tcp.ports, tcp.name) : undefined
  }

  /** Returns the name of a route; undefined if there is no such route. */
  routeOf(id: string): string | undefined {
    const route = this.#units().get(`route:${id}`)
    return route?.kind === 'route'
      ? routeNameOf(this.siteOf(route.edge) ?? route.edge, compileRouteName(route))
      : undefined
  }

  /** Returns the name of the site of a route. */
  siteOfRoute(id: string): string | undefined {
    const route = this.#units().get(`route:${id}`)
    return route?.kind === 'route' ? this.siteOf(route.edge) : undefined
  }

  /** Returns the name of a backend; undefined if there is no such backend. */
  backendOf(id: string): string | undefined {
    const unit = this.#units().get(`upstream:${id}`)
    return unit?.kind === 'upstream' ? (unit.name ?? id) : undefined
  }

  /** Returns the name of the route or edge that owns a policy; undefined if it no longer exists. */
  ownerOf(owner: string): string | undefined {
    const id = ownerIdOf(owner)
    return this.routeOf(id) ?? this.siteOf(id)
  }
}

/** Suffix of the owner of the policy that fields of a route become. */
export const OF_FIELDS = '.fields'

/** Returns the id of the route or edge behind the owner of a policy. */
export function ownerIdOf(owner: string): string {
  return owner.endsWith(OF_FIELDS) ? owner.slice(0, -OF_FIELDS.length) : owner
}

/** Maximum length of a name in characters. */
const MAX_NAME = 100
/** Characters that are not allowed in a name. */
const UNFIT = /[\p{Cc}\p{Cs}"\\]/u

/** Returns the text `name` of metadata that is a JSON object; undefined if there is none that can be shown. */
export function nameInMetadata(metadata: string | undefined): string | undefined {
  if (metadata?.trimStart().startsWith('{') !== true) return undefined
  try {
    const { name } = JSON.parse(metadata) as { readonly name?: unknown }
    const fits = typeof name === 'string' && name !== '' && name.length <= MAX_NAME && !UNFIT.test(name)
    return fits ? name : undefined
  } catch {
    return undefined
  }
}

/** Returns the member `name` of a unit. */
export function named(name: string | undefined): { readonly name?: string } {
  return name === undefined ? {} : { name }
}
