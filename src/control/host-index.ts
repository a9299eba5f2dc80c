import { parseAuthority } from '../lib/host.js'

type Ports = readonly number[]

/** The port of TLS by default: an edge with it is what a host without a port means. */
const DEFAULT_PORT = 443

/**
 * Which edge serves a host. Edges hold `host:port` pairs, each pair one edge; a listener that does not know its public
 * port goes by the host alone, and then the edge on 443 has it, else the one on the lowest port.
 */
export class HostIndex {
  readonly #edges = new Map<string, ReadonlyMap<string, Ports>>()
  readonly #hosts = new Map<string, Map<string, Ports>>()

  /** Hosts that an edge has now, whether they select it or not. */
  hostsOf(edge: string): Iterable<string> {
    return this.#edges.get(edge)?.keys() ?? []
  }

  /** The edge that `host` selects once `edits` are made; undefined when none has it. */
  winner(host: string, edits: ReadonlyMap<string, HostPorts>): string | undefined {
    let best: { edge: string; port: number } | undefined
    const consider = (edge: string, ports: Ports | undefined) => {
      for (const port of ports ?? []) {
        if (best === undefined || rank(port) < rank(best.port)) best = { edge, port }
      }
    }
    for (const [edge, ports] of this.#hosts.get(host) ?? []) if (!edits.has(edge)) consider(edge, ports)
    for (const [edge, hosts] of edits) consider(edge, hosts.get(host))
    return best?.edge
  }

  set(edge: string, hosts: HostPorts): void {
    for (const host of this.hostsOf(edge)) {
      const holders = this.#hosts.get(host)
      holders?.delete(edge)
      if (holders?.size === 0) this.#hosts.delete(host)
    }
    if (hosts.size === 0) this.#edges.delete(edge)
    else this.#edges.set(edge, hosts)
    for (const [host, ports] of hosts) {
      const holders = this.#hosts.get(host) ?? new Map<string, Ports>()
      this.#hosts.set(host, holders.set(edge, ports))
    }
  }
}

/** Hosts with the ports that an edge has on them. */
export type HostPorts = ReadonlyMap<string, Ports>

export function hostPorts(hostports: readonly string[]): HostPorts {
  const hosts = new Map<string, number[]>()
  for (const hostport of hostports) {
    const { host, port } = splitHostport(hostport)
    const ports = hosts.get(host)
    if (ports === undefined) hosts.set(host, [port])
    else ports.push(port)
  }
  return hosts
}

/** Parts of a `host:port` that a field has checked; an IPv6 host loses its brackets. */
export function splitHostport(hostport: string): { readonly host: string; readonly port: number } {
  const parsed = parseAuthority(hostport)
  if (parsed?.port === undefined) throw new RangeError('a stored hostport is no host and port')
  return { host: parsed.host, port: parsed.port }
}

function rank(port: number): number {
  return port === DEFAULT_PORT ? 0 : port
}
