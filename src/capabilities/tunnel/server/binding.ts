import { randomBytes } from 'node:crypto'
import { CALLER_LIMITS } from '../../../lib/caller-limits.js'
import { formatAuthority, isHostLabel, parseAuthority } from '../../../lib/host.js'
import type { Fields } from '../protocol/calls.js'
import { type BindDenied, type Grant, isBindDenied } from './authority.js'
import { type EndpointDialer, endpointDialer } from './dialer.js'
import type { Tunnel, TunnelCarrier } from './tunnel.js'

/** Protocols of endpoints. `tls`: the agent, or its target, terminates TLS. */
const ENDPOINT_PROTOS = ['http', 'https', 'tcp', 'tls'] as const

/** Protocol of an endpoint that an agent asks for. */
export type EndpointProto = (typeof ENDPOINT_PROTOS)[number]

/** Requested endpoint. */
export interface EndpointWish<G extends Grant = Grant> {
  readonly proto: EndpointProto
  /** Name of an http, https or tls endpoint; requested address of a tcp endpoint, or ''. */
  readonly host: string
  /** Requested port of a tcp endpoint; undefined for any. */
  readonly port: number | undefined
  /** Its agents take HTTP/2. */
  readonly http2: boolean
  /** The URL is shared with other endpoints that agree too. */
  readonly pooled: boolean
  /** Text of a traffic policy document, or ''. */
  readonly trafficPolicy: string
  readonly name: string
  readonly description: string
  readonly metadata: string
  readonly grant: G
  readonly dialer: EndpointDialer
}

/** An endpoint that visitors reach. */
export interface OpenEndpoint {
  /** `https://name`, `http://name`, `tls://name` or `tcp://host:port`. */
  readonly url: string
  /** Sets the number of its agents: its share of the visitors of a URL that several endpoints share. */
  shares(agents: number): void
  /** Visitors do not reach it any more. */
  close(): void
}

/** Makes endpoints reachable: takes the name or the port and sends visitors to the dialer. */
export interface EndpointOpener<G extends Grant = Grant> {
  /** Opens an endpoint, or rejects a claimed one. Rejects the promise only for internal errors. */
  open(wish: EndpointWish<G>): Promise<OpenEndpoint | BindDenied>
}

interface Entry {
  readonly credential: string
  readonly http2: boolean
  readonly trafficPolicy: string
  readonly pooled: boolean
  readonly opening: Promise<OpenEndpoint | BindDenied>
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

/**
 * The endpoints that agents have opened. Where all say that they share a URL, tunnels of a credential with the same policy and protocol are
 * one endpoint, others are endpoints of their own beside it.
 */
export class Endpoints<G extends Grant = Grant> {
  readonly #opener: EndpointOpener<G>
  readonly #open = new Map<string, readonly Entry[]>()

  constructor(opener: EndpointOpener<G>) {
    this.#opener = opener
  }

  /**
   * Claims an endpoint. `id`: id of the tunnel; a reconnecting tunnel takes its endpoint over from its former instance. If another `session` of
   * its credential has the endpoint, the claim waits until that session has sent a heartbeat, and is rejected, or has ended.
   */
  async claim(wish: Omit<EndpointWish<G>, 'dialer'>, id: string, session: TunnelCarrier): Promise<Place | BindDenied> {
    const named = wish.proto !== 'tcp' || wish.port !== undefined
    const key = named ? `${wish.proto} ${wish.host}:${wish.port ?? ''}` : `any ${randomBytes(16).toString('hex')}`
    const { credential } = wish.grant
    const holder = this.#find(key, wish, id)
    if (holder?.credential === credential && !shares(holder, wish, id)) await ended(holder, session)
    const known = this.#find(key, wish, id)
    if (known !== undefined && !shares(known, wish, id)) {
      return { refused: `${wish.host} is already served by another tunnel` }
    }
    const isPooled = known !== undefined && wish.pooled && known.pooled
    const joined = isPooled && !isAlike(known, wish) ? undefined : known
    if (joined !== undefined && joined.trafficPolicy !== wish.trafficPolicy) {
      return { refused: `${wish.host} is already served with another traffic policy` }
    }
    if (joined !== undefined && joined.http2 !== wish.http2) {
      return { refused: `${wish.host} is already served with ${joined.http2 ? 'http2' : 'http1'} towards the agent` }
    }
    const entry = joined ?? this.#begin(key, wish)
    entry.pending++
    try {
      const opened = await entry.opening
      if (isBindDenied(opened)) {
        this.#leave(key, entry)
        return opened
      }
      return this.#place(key, entry, opened)
    } catch (error) {
      this.#leave(key, entry)
      throw error
    }
  }

  /** Returns the entry that a wish would join; otherwise one that it meets. */
  #find(key: string, wish: Omit<EndpointWish<G>, 'dialer'>, id: string): Entry | undefined {
    const all = this.#open.get(key) ?? []
    const own = all.find((entry) => entry.credential === wish.grant.credential && isAlike(entry, wish))
    const former = all.find((entry) => isOnly(entry, id) && entry.credential === wish.grant.credential)
    return former ?? own ?? all.find((entry) => !shares(entry, wish, id)) ?? all[0]
  }

  #begin(key: string, wish: Omit<EndpointWish<G>, 'dialer'>): Entry {
    const tunnels = new Set<Tunnel>()
    const others = this.#open.get(key) ?? []
    const pool = others.length === 0 ? key : `${key} ${randomBytes(8).toString('hex')}`
    const dialer = endpointDialer(pool, tunnels, carriesBytes(wish.proto) ? 'tcp' : 'http', wish.http2)
    const opening = this.#opener.open({ ...wish, dialer })
    const { trafficPolicy, grant, http2, pooled } = wish
    const entry = { credential: grant.credential, http2, trafficPolicy, pooled, opening, tunnels, pending: 0 }
    this.#open.set(key, [...others, entry])
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
        if (entry.pooled) opened.shares(entry.tunnels.size)
      },
      leave: () => {
        if (joined !== undefined) {
          if (!entry.tunnels.delete(joined)) return
          entry.pending++
        }
        if (this.#leave(key, entry)) opened.close()
        else if (entry.pooled) opened.shares(entry.tunnels.size)
      }
    }
  }

  /** Returns true if the entry is no longer used. */
  #leave(key: string, entry: Entry): boolean {
    entry.pending--
    if (entry.pending > 0 || entry.tunnels.size > 0) return false
    const others = (this.#open.get(key) ?? []).filter((other) => other !== entry)
    if (others.length > 0) this.#open.set(key, others)
    else this.#open.delete(key)
    return true
  }
}

/** Resolves when a session of this endpoint has sent a sign of life, or all have ended. */
async function ended({ tunnels }: Entry, claimant: TunnelCarrier): Promise<void> {
  const sessions = new Set([...tunnels].map(({ session }) => session))
  if (sessions.has(claimant)) return
  for (const session of sessions) if (await session.alive()) return
}

type Asked = Pick<EndpointWish, 'pooled' | 'trafficPolicy' | 'http2' | 'grant'>

/** True if a wish may have the URL beside or in an entry: both share it, or the entry is the former instance of the same tunnel. */
function shares(entry: Entry, { pooled, grant }: Asked, id: string): boolean {
  if (entry.pooled && pooled) return true
  return entry.credential === grant.credential && isOnly(entry, id)
}

/** True if the entry has this tunnel and no other. */
function isOnly({ tunnels }: Entry, id: string): boolean {
  for (const tunnel of tunnels) if (tunnel.id !== id) return false
  return tunnels.size > 0
}

/** True if tunnels of the two are interchangeable. */
function isAlike(entry: Entry, { trafficPolicy, http2, grant }: Asked): boolean {
  return entry.credential === grant.credential && entry.trafficPolicy === trafficPolicy && entry.http2 === http2
}

/** Parses the name that an agent requests, as text or URL, into lower case; undefined if invalid. */
export function readHost(text: string): string | undefined {
  const authority = parseAuthority(text.replace(/^[a-z]+:\/\//i, '').replace(/\/$/, ''))
  const host = authority?.host.replace(/\.$/, '')
  if (host === undefined || host.length > 253 || !host.includes('.')) return undefined
  const labels = host.split('.')
  return labels.every(isHostLabel) && !/^\d+$/.test(labels.at(-1) ?? '') ? host : undefined
}

/** host:port as an agent asks for it, as text or URL. */
export function readAddress(text: string): { readonly host: string; readonly port: number } | undefined {
  const authority = parseAuthority(text.replace(/^tcp:\/\//i, ''))
  return authority?.port === undefined ? undefined : { host: authority.host, port: authority.port }
}

export function addressText({ host, port }: { readonly host: string; readonly port: number }): string {
  return formatAuthority(host, port)
}

/** A name below the zone that cannot be guessed. */
export function madeUpHost(zone: string): string {
  return `${randomBytes(8).toString('hex')}.${zone}`
}

/** An endpoint as an agent asks for it. */
export interface BindRequest {
  readonly proto: EndpointProto
  /** Name, or host:port; undefined for a generated one. */
  readonly at: string | undefined
  readonly proxyProtocol: 0 | 1 | 2
  /** HTTP/2 is spoken towards the agent. */
  readonly http2: boolean
  readonly pooled: boolean
  readonly trafficPolicy: string
  readonly forwardsTo: string
  readonly name: string
  readonly description: string
  readonly metadata: string
  /** Token that the agent received before. */
  readonly token: string
  /** Options as received: agents expect them back. */
  readonly options: Readonly<Record<string, unknown>>
}

/** Options that the agent itself handles, or that locate the endpoint. */
const UNDERSTOOD = new Set([
  'url',
  'domain',
  'hostname',
  'subdomain',
  'addr',
  'localurlscheme',
  'mutualtlsatagent',
  'proxyproto',
  'trafficpolicy'
])

const NAMES: Readonly<Record<string, string>> = {
  auth: 'Auth',
  basicauth: 'BasicAuth',
  circuitbreaker: 'CircuitBreaker',
  compression: 'Compression',
  hostheaderrewrite: 'HostHeaderRewrite',
  iprestriction: 'IPRestriction',
  mutualtlsca: 'MutualTLSCA',
  mutualtlsatedge: 'MutualTLSAtEdge',
  oauth: 'OAuth',
  oidc: 'OIDC',
  policy: 'Policy',
  requestheaders: 'RequestHeaders',
  responseheaders: 'ResponseHeaders',
  tlstermination: 'TLSTermination',
  useragentfilter: 'UserAgentFilter',
  webhookverification: 'WebhookVerification',
  websockettcpconverter: 'WebsocketTCPConverter'
}

/** Maximum bytes of texts that a tunnel keeps of its agent; the first three are those of the API's records. */
const MOST_BYTES = {
  Name: 255,
  Description: 255,
  Metadata: 4096,
  ForwardsTo: 4096,
  TrafficPolicy: CALLER_LIMITS.agent.documents.bytes
} as const

/** Rejects, by its name, a text that is too long for a tunnel. */
export function refuseLong(texts: Readonly<Partial<Record<keyof typeof MOST_BYTES, string>>>): BindDenied | undefined {
  for (const [name, text] of Object.entries(texts)) {
    const most = MOST_BYTES[name as keyof typeof MOST_BYTES]
    if (Buffer.byteLength(text) > most) return { refused: `${name} is longer than ${most} bytes` }
  }
  return undefined
}

/** Reads the request for an endpoint; unsupported options are rejected by name, never ignored. */
export function readBindRequest(fields: Fields, zone: string): BindRequest | BindDenied {
  const asked = fields.text('proto')
  const proto = ENDPOINT_PROTOS.find((one) => one === asked)
  if (proto === undefined) {
    return { refused: `endpoints of protocol "${printable(asked)}" are not offered; http, https, tcp and tls are` }
  }
  const http2 = readForwardsProto(fields)
  if (typeof http2 === 'object') return http2
  if (carriesBytes(proto) && http2)
    return { refused: `http2 towards the agent is not for endpoints of protocol ${proto}` }
  const extra = fields.object('extra')
  const binding = extra.texts('bindings').find((name) => name !== 'public')
  if (binding !== undefined) return { refused: `binding "${printable(binding)}" is not offered; public is` }
  if (extra.text('ippolicyref') !== '') return { refused: 'IPPolicyRef is not offered; use a traffic policy' }
  const options = fields.object('opts')
  for (const name of options.filled()) {
    if (UNDERSTOOD.has(name)) continue
    return { refused: `the option ${NAMES[name] ?? printable(name)} is not offered; a traffic policy can do it` }
  }
  const version = options.number('proxyproto') ?? 0
  if (version !== 0 && version !== 1 && version !== 2) return { refused: 'ProxyProto must be 0, 1 or 2' }
  const at = proto === 'tcp' ? askedAddress(options) : askedHost(options, zone)
  if (typeof at === 'object') return at
  const trafficPolicy = options.text('trafficpolicy')
  const forwardsTo = fields.text('forwardsto')
  const [name, description, metadata] = [extra.text('name'), extra.text('description'), extra.text('metadata')]
  const long = refuseLong({
    Name: name,
    Description: description,
    Metadata: metadata,
    ForwardsTo: forwardsTo,
    TrafficPolicy: trafficPolicy
  })
  if (long !== undefined) return long
  return {
    proto,
    at,
    proxyProtocol: version,
    http2,
    pooled: extra.flag('poolingenabled'),
    trafficPolicy,
    forwardsTo,
    name,
    description,
    metadata,
    token: extra.text('token'),
    options: fields.raw('opts')
  }
}

/** Are the bytes of its visitors forwarded as they come? */
function carriesBytes(proto: EndpointProto): boolean {
  return proto === 'tcp' || proto === 'tls'
}

/** Is HTTP/2 requested towards the agent? Other values are rejected. */
export function readForwardsProto(fields: Fields): boolean | BindDenied {
  const forwards = fields.text('forwardsproto')
  if (forwards === '' || forwards === 'http1' || forwards === 'http2') return forwards === 'http2'
  return { refused: `"${printable(forwards)}" towards the agent is not offered; http1 and http2 are` }
}

function askedHost(options: Fields, zone: string): string | undefined | BindDenied {
  const subdomain = options.text('subdomain')
  const asked =
    options.text('url') ||
    options.text('domain') ||
    options.text('hostname') ||
    (subdomain === '' ? '' : `${subdomain}.${zone}`)
  // Go writes a URL without a host when it wants any.
  if (asked === '' || /^(https?|tls):\/\/$/i.test(asked)) return undefined
  return readHost(asked) ?? { refused: `"${printable(asked)}" is no host name` }
}

function askedAddress(options: Fields): string | undefined | BindDenied {
  const asked = options.text('url') || options.text('addr')
  if (asked === '' || /^tcp:\/\/$/i.test(asked)) return undefined
  const address = readAddress(asked)
  return address === undefined ? { refused: `"${printable(asked)}" is no host:port` } : addressText(address)
}

/** A peer's text as part of a message of one line. */
function printable(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, '?').slice(0, 100)
}
