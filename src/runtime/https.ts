import { isInternal } from '../flow/flow.js'
import { takesIpv6 } from '../lib/host.js'
import { Passes, type Steps } from '../lib/slices.js'
import { type CompiledEdge, type EdgeAt, hstsValue } from './http-edges.js'
import type { HttpsUnit, ListenerUnit, OnHttp } from './plan.js'
import { asKind, type UnitChange } from './plan-changes.js'

/** Default port of HTTPS. */
const HTTPS_PORT = 443

/** Address of a name over HTTPS: its public port, or the listener with that port. */
export type HttpsPlace = { readonly port: number } | { readonly listener: string }

/**
 * Names that use HTTPS, the action for their clients without TLS, and their HTTPS address. A name uses HTTPS if its edge does and its port
 * is 443 or that of a TLS listener. Immutable.
 */
export class HttpsRules {
  static readonly empty = new HttpsRules(undefined, new Map())

  readonly #onHttp: OnHttp
  readonly #hsts: string | undefined
  readonly #unit: HttpsUnit | undefined
  /** By the keys of their units. */
  readonly #listeners: ReadonlyMap<string, ListenerUnit>

  private constructor(unit: HttpsUnit | undefined, listeners: ReadonlyMap<string, ListenerUnit>) {
    this.#unit = unit
    this.#onHttp = unit?.onHttp ?? 'serve'
    this.#hsts = unit?.hsts === undefined ? undefined : hstsValue(unit.hsts)
    this.#listeners = listeners
  }

  /** Returns true if a listener accepts IPv6 clients from other machines. */
  get takesIpv6(): boolean {
    return [...this.#listeners.values()].some(({ host }) => takesIpv6(host))
  }

  /** Returns true if there are listeners with TLS and listeners without. */
  get isServedBothWays(): boolean {
    const listeners = [...this.#listeners.values()]
    return listeners.some(({ tls }) => tls) && listeners.some(({ tls }) => !tls)
  }

  /** Returns true if a listener uses the lenient form of paths. */
  get takesLenientPaths(): boolean {
    return [...this.#listeners.values()].some(({ pathForm = 'strict' }) => pathForm !== 'strict')
  }

  /** Returns the Strict-Transport-Security value of an edge over TLS; undefined for none. */
  hsts(edge: CompiledEdge): string | undefined {
    return edge.protocol === 'https' ? (edge.hsts ?? this.#hsts) : undefined
  }

  /**
   * Returns the action for clients without TLS. An edge's own setting applies to all of its names and ports. The catch-all edge, and
   * endpoints that only policies forward to, are served.
   */
  onHttp({ edge, endpoint }: EdgeAt): OnHttp {
    if (edge.protocol !== 'https' || endpoint === undefined || isInternal(endpoint.host)) return 'serve'
    return edge.onHttp ?? (this.#onHttp !== 'serve' && this.#isHttps(endpoint.port) ? this.#onHttp : 'serve')
  }

  /** Returns the HTTPS address of the same name; undefined if there is none. */
  place({ edge, endpoint }: EdgeAt): HttpsPlace | undefined {
    if (endpoint === undefined || edge.hosts === 'every') return undefined
    const others = edge.hosts.filter(({ host, port }) => host === endpoint.host && port !== endpoint.port)
    for (const { port } of [endpoint, ...others]) {
      const place = this.#placeOf(port)
      if (place !== undefined) return place
    }
    return undefined
  }

  *editing(changes: readonly UnitChange[]): Steps<HttpsRules> {
    const passes = new Passes()
    let unit = this.#unit
    let listeners: Map<string, ListenerUnit> | undefined
    for (const { key, before, after } of changes) {
      if (passes.due()) yield
      if (before?.kind === 'https' || after?.kind === 'https') unit = asKind(after, 'https')
      if (before?.kind !== 'listener' && after?.kind !== 'listener') continue
      listeners ??= new Map(this.#listeners)
      const listener = asKind(after, 'listener')
      if (listener === undefined) listeners.delete(key)
      else listeners.set(key, listener)
    }
    return unit === this.#unit && listeners === undefined ? this : new HttpsRules(unit, listeners ?? this.#listeners)
  }

  #isHttps(port: number): boolean {
    if (port === HTTPS_PORT) return true
    for (const { tls, publicPort, port: own } of this.#listeners.values())
      if (tls && (publicPort ?? own) === port) return true
    return false
  }

  /**
   * Returns the TLS listener with exactly this port; for 443 otherwise the lowest port of the listeners without a public port, which serve
   * it too.
   */
  #placeOf(wanted: number): HttpsPlace | undefined {
    let found: readonly [key: string, port: number] | undefined
    for (const [key, { tls, port, publicPort }] of this.#listeners) {
      if (!tls) continue
      if ((publicPort ?? port) === wanted) return { port: wanted }
      const isServed = wanted === HTTPS_PORT && publicPort === undefined
      if (isServed && (found === undefined || port < found[1])) found = [key, port]
    }
    return found === undefined ? undefined : { listener: found[0] }
  }
}
