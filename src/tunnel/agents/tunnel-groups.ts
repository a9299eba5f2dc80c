import type { ConnectionFacts } from '../../flow/exchange.js'
import { DialError, type Dialer } from '../../transport/contract.js'
import type { CredentialGrant, Labels } from '../server/authority.js'
import { labelDialer } from '../server/dialer.js'
import type { Registry } from '../server/registry.js'

/** A label whose name no record and no agent can have: its value is the id of an endpoint that an agent has opened. */
const ENDPOINT = ''

/** The labels of an upstream that leads to the tunnels of one endpoint. */
export function endpointLabels(id: string): Labels {
  return { [ENDPOINT]: id }
}

/** Says whether a visitor came to a TCP edge: the stream says so to the agent, which answers for a dead upstream accordingly. */
export type IsTcp = (visitor: ConnectionFacts) => boolean

/** The live tunnels as the upstreams of routes and edges use them. */
export class LiveTunnelGroups {
  readonly #registry: Registry<CredentialGrant>
  readonly #isTcp: IsTcp
  readonly #endpoints = new Map<string, Dialer>()

  constructor(registry: Registry<CredentialGrant>, isTcp: IsTcp) {
    this.#registry = registry
    this.#isTcp = isTcp
  }

  /** Opens pipes through the tunnels that carry all of `labels`; rejects with `no-tunnel` when there is none. */
  dialer(labels: Labels): Dialer {
    const endpoint = labels[ENDPOINT]
    if (endpoint !== undefined) return new EndpointDialer(endpoint, this.#endpoints)
    const http = labelDialer(this.#registry, labels, 'http')
    const tcp = labelDialer(this.#registry, labels, 'tcp')
    const open: Dialer['open'] = (why) => (why.bytes === true || this.#isTcp(why.client) ? tcp : http).open(why)
    return {
      key: http.key,
      reusable: http.reusable,
      get http2() {
        return http.http2 === true
      },
      open
    }
  }

  /** Is there a tunnel that carries the labels and can take one more visitor? */
  has(labels: Labels): boolean {
    const endpoint = labels[ENDPOINT]
    return endpoint === undefined ? this.#registry.leastBusy(labels) !== undefined : this.#endpoints.has(endpoint)
  }

  addEndpoint(id: string, dialer: Dialer): void {
    this.#endpoints.set(id, dialer)
  }

  /** `dialer`: the one that was added; an endpoint that was opened anew since then keeps its own. */
  removeEndpoint(id: string, dialer: Dialer): void {
    if (this.#endpoints.get(id) === dialer) this.#endpoints.delete(id)
  }
}

/** Asks for the tunnels of its endpoint with each pipe, because the endpoint may be opened anew under the same name. */
class EndpointDialer implements Dialer {
  readonly key: string
  readonly reusable = true
  readonly #id: string
  readonly #endpoints: ReadonlyMap<string, Dialer>

  constructor(id: string, endpoints: ReadonlyMap<string, Dialer>) {
    this.key = `tunnels ${id}`
    this.#id = id
    this.#endpoints = endpoints
  }

  get http2(): boolean {
    return this.#endpoints.get(this.#id)?.http2 === true
  }

  async open(why: Parameters<Dialer['open']>[0]): ReturnType<Dialer['open']> {
    const dialer = this.#endpoints.get(this.#id)
    if (dialer === undefined) throw new DialError('no-tunnel', `the endpoint has gone (${this.#id})`)
    return await dialer.open(why)
  }
}
