import { randomBytes } from 'node:crypto'
import { formatAuthority, parseAuthority } from '../../lib/host.js'
import type { Dialer } from '../../transport/contract.js'
import { type Grant, isRefusal, type Refusal } from './authority.js'
import { endpointDialer } from './dialer.js'
import type { Tunnel } from './tunnel.js'

/** What must become reachable. */
export interface EndpointWish<G extends Grant = Grant> {
  readonly proto: 'http' | 'https' | 'tcp'
  /** Name of an http or https endpoint; of a tcp endpoint what was asked for, or ''. */
  readonly host: string
  /** Of a tcp endpoint: the port that was asked for, or undefined for any. */
  readonly port: number | undefined
  /** Text of a traffic policy document, or ''. */
  readonly trafficPolicy: string
  readonly name: string
  readonly description: string
  readonly metadata: string
  readonly grant: G
  readonly dialer: Dialer
}

/** An endpoint that visitors reach. */
export interface OpenEndpoint {
  /** `https://name`, `http://name` or `tcp://host:port`. */
  readonly url: string
  /** Visitors do not reach it any more. */
  close(): void
}

/** Makes endpoints reachable: takes the name or the port and sends visitors to the dialer. */
export interface EndpointOpener<G extends Grant = Grant> {
  /** Refuses what is taken. Rejects for reasons of ours. */
  open(wish: EndpointWish<G>): Promise<OpenEndpoint | Refusal>
}

interface Entry {
  readonly credential: string
  readonly trafficPolicy: string
  readonly pooled: boolean
  readonly opening: Promise<OpenEndpoint | Refusal>
  readonly tunnels: Set<Tunnel>
  /** Binds that are under way count as users. */
  pending: number
}

/** A place in an endpoint: `join` puts the tunnel in, `leave` ends it. One of the two is called. */
export interface Place {
  readonly url: string
  join(tunnel: Tunnel): void
  leave(): void
}

/** The endpoints that agents have opened. One may be served by several tunnels of a credential when all say that they share it. */
export class Endpoints<G extends Grant = Grant> {
  readonly #opener: EndpointOpener<G>
  readonly #open = new Map<string, Entry>()

  constructor(opener: EndpointOpener<G>) {
    this.#opener = opener
  }

  /** `id`: of the tunnel; the same tunnel coming back takes its endpoint over from its former self. */
  async claim(wish: Omit<EndpointWish<G>, 'dialer'>, id: string, pooled: boolean): Promise<Place | Refusal> {
    const named = wish.proto !== 'tcp' || wish.port !== undefined
    const key = named ? `${wish.proto} ${wish.host}:${wish.port ?? ''}` : `any ${randomBytes(16).toString('hex')}`
    const known = this.#open.get(key)
    if (known !== undefined && !shares(known, wish.grant.credential, pooled, id)) {
      return { refused: `${wish.host} is already served by another tunnel` }
    }
    if (known !== undefined && known.trafficPolicy !== wish.trafficPolicy) {
      return { refused: `${wish.host} is already served with another traffic policy` }
    }
    const entry = known ?? this.#begin(key, wish, pooled)
    entry.pending++
    try {
      const opened = await entry.opening
      if (isRefusal(opened)) {
        this.#leave(key, entry)
        return opened
      }
      return this.#place(key, entry, opened)
    } catch (error) {
      this.#leave(key, entry)
      throw error
    }
  }

  #begin(key: string, wish: Omit<EndpointWish<G>, 'dialer'>, pooled: boolean): Entry {
    const tunnels = new Set<Tunnel>()
    const dialer = endpointDialer(key, tunnels, wish.proto === 'tcp' ? 'tcp' : 'http')
    const opening = this.#opener.open({ ...wish, dialer })
    const { trafficPolicy, grant } = wish
    const entry = { credential: grant.credential, trafficPolicy, pooled, opening, tunnels, pending: 0 }
    this.#open.set(key, entry)
    return entry
  }

  #place(key: string, entry: Entry, opened: OpenEndpoint): Place {
    let joined: Tunnel | undefined
    return {
      url: opened.url,
      join: (tunnel) => {
        joined = tunnel
        entry.tunnels.add(tunnel)
        entry.pending--
      },
      leave: () => {
        if (joined !== undefined) {
          if (!entry.tunnels.delete(joined)) return
          entry.pending++
        }
        if (this.#leave(key, entry)) opened.close()
      }
    }
  }

  /** True when nobody uses it any more. */
  #leave(key: string, entry: Entry): boolean {
    entry.pending--
    if (entry.pending > 0 || entry.tunnels.size > 0) return false
    if (this.#open.get(key) === entry) this.#open.delete(key)
    return true
  }
}

function shares(entry: Entry, credential: string, pooled: boolean, id: string): boolean {
  if (entry.credential !== credential) return false
  if (entry.pooled && pooled) return true
  if (entry.tunnels.size === 0) return false
  for (const tunnel of entry.tunnels) if (tunnel.id !== id) return false
  return true
}

const LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/

/** The name that an agent asks for, as text or URL: in lower case, or undefined when it is none. */
export function readHost(text: string): string | undefined {
  const authority = parseAuthority(text.replace(/^[a-z]+:\/\//i, '').replace(/\/$/, ''))
  const host = authority?.host.replace(/\.$/, '')
  if (host === undefined || host.length > 253 || !host.includes('.')) return undefined
  const labels = host.split('.')
  return labels.every((label) => LABEL.test(label)) && !/^\d+$/.test(labels.at(-1) ?? '') ? host : undefined
}

/** host:port as an agent asks for it, as text or URL. */
export function readAddress(text: string): { readonly host: string; readonly port: number } | undefined {
  const authority = parseAuthority(text.replace(/^tcp:\/\//i, ''))
  return authority?.port === undefined ? undefined : { host: authority.host, port: authority.port }
}

export function addressText({ host, port }: { readonly host: string; readonly port: number }): string {
  return formatAuthority(host, port)
}

/** A name below the zone that nobody guesses. */
export function madeUpHost(zone: string): string {
  return `${randomBytes(8).toString('hex')}.${zone}`
}
