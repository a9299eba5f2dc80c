import { X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import { LRUCache } from 'lru-cache'
import type { ConnectionFacts } from '../flow/exchange.js'
import type { EntryFacts } from '../flow/flow.js'
import { ACME_TLS } from '../lib/acme-tls.js'
import type { Clock } from '../lib/clock.js'
import { type ClientAuthority, findRevoked } from '../lib/crl.js'
import { ANY_HOST } from '../lib/host.js'
import { canonicalAddress } from '../lib/ip.js'
import type { CompiledEdge, EdgeAt } from '../runtime/http-edges.js'
import type { EdgeTls } from '../runtime/plan.js'
import type { Snapshot, SnapshotHolder } from '../runtime/snapshot.js'
import type { ListenerTlsTable, TlsEntry, TlsPassthrough } from '../transport/contract.js'
import { type ServerContextOptions, serverContext } from '../transport/tls/terminate.js'
import type { DevelopmentIdentity, ServerIdentity } from './server-identity.js'
import type { TicketKeys } from './ticket-keys.js'

/** TLS requirements for a handshake. */
export interface TlsDemand extends Pick<ServerContextOptions, 'minVersion' | 'maxVersion' | 'clientCertificates'> {
  /** Authorities for client certificates. */
  readonly authorities?: readonly ClientAuthority[]
}

/** Context of a handshake. */
type ServerContext = Pick<TlsEntry, 'context' | 'certificate'>

interface TlsContextsParts {
  readonly clock: Clock
  readonly ticketKeys: TicketKeys
  /** Maximum number of cached contexts. */
  readonly most?: number
}

const MOST = 10_000
/** Maximum number of contexts created in advance. */
const MADE_AHEAD = 1_000
/** Duration of one step of creation in advance (ms). */
const STEP = 2
const NO_DEMAND: TlsDemand = {}

/** Cache of secure contexts by certificate and requirements, valid while the ticket keys are unchanged. */
export class TlsContexts {
  readonly #clock: Clock
  readonly #most: number
  /** Created on first use, because it allocates memory for all of them. */
  #made: LRUCache<string, ServerContext> | undefined
  readonly #numbers = new WeakMap<ServerIdentity, number>()
  #count = 0
  readonly #ticketKeys: TicketKeys
  /** Ticket keys of the cached contexts. */
  #keys: Buffer
  #ahead: NodeJS.Immediate | undefined

  constructor({ clock, ticketKeys, most = MOST }: TlsContextsParts) {
    this.#clock = clock
    this.#most = most
    this.#ticketKeys = ticketKeys
    this.#keys = ticketKeys.current()
  }

  get #contexts(): LRUCache<string, ServerContext> {
    this.#made ??= new LRUCache({ max: this.#most })
    return this.#made
  }

  /** Returns the context. Throws if certificate, key or authorities are invalid. */
  of(identity: ServerIdentity, demand: TlsDemand = NO_DEMAND): ServerContext {
    this.#renew()
    const key = this.#key(identity, demand)
    let context = this.#contexts.get(key)
    if (context === undefined) {
      context = this.#make(identity, demand)
      this.#contexts.set(key, context)
    }
    return context
  }

  /**
   * Creates the contexts of the first certificates in small steps, so that their first clients need not wait. `failed` is called for each
   * invalid one.
   */
  ahead(identities: Iterable<ServerIdentity>, failed: (identity: ServerIdentity, error: unknown) => void): void {
    this.stop()
    const wanted = identities[Symbol.iterator]()
    let left = Math.min(MADE_AHEAD, this.#most)
    const step = (): void => {
      const until = this.#clock.monotonic() + STEP
      this.#ahead = undefined
      while (left-- > 0) {
        const { value, done } = wanted.next()
        if (done === true) return
        try {
          this.of(value)
        } catch (error) {
          failed(value, error)
        }
        if (this.#clock.monotonic() >= until) {
          this.#ahead = setImmediate(step)
          return
        }
      }
    }
    this.#ahead = setImmediate(step)
  }

  /** Stops creation in advance. */
  stop(): void {
    if (this.#ahead !== undefined) clearImmediate(this.#ahead)
    this.#ahead = undefined
  }

  #make({ chain, privateKey, also }: ServerIdentity, { authorities, ...demand }: TlsDemand): ServerContext {
    const context = serverContext({
      cert: also === undefined ? chain : [chain, also.chain],
      key: also === undefined ? privateKey : [privateKey, also.privateKey],
      ticketKeys: this.#keys,
      ...demand,
      ...(authorities === undefined ? {} : { ca: authorities.map(({ pem }) => pem) }),
      ...(hasLists(authorities) ? { revocations: listsOf(authorities).join() } : {})
    })
    return also === undefined ? { context, certificate: new X509Certificate(chain).raw } : { context }
  }

  #key(identity: ServerIdentity, demand: TlsDemand): string {
    let number = this.#numbers.get(identity)
    if (number === undefined) {
      number = ++this.#count
      this.#numbers.set(identity, number)
    }
    if (demand === NO_DEMAND) return String(number)
    const { minVersion = '', maxVersion = '', clientCertificates = '', authorities = [] } = demand
    const texts = authorities.map(({ pem }) => pem)
    return [number, minVersion, maxVersion, clientCertificates, ...texts, ...listsOf(authorities)].join('\n')
  }

  #renew(): void {
    const keys = this.#ticketKeys.current()
    if (keys === this.#keys) return
    this.#keys = keys
    this.#made?.clear()
  }
}

/** Certificate and authorities used in a handshake. */
interface Choice {
  readonly identity: ServerIdentity
  readonly tls: EdgeTls | undefined
  /** Authorities for the client certificate; undefined if none was requested. */
  readonly authorities: readonly ClientAuthority[] | undefined
}

interface ListenerTlsParts {
  readonly clock: Clock
  readonly holder: SnapshotHolder
  readonly contexts: TlsContexts
  /** Used if no other certificate matches. */
  readonly development: DevelopmentIdentity
  /** Returns the validation response for a certificate authority; undefined if no validation is pending. */
  readonly challenge: (host: string, path: string) => Uint8Array | undefined
  /** Returns the handler for a connection to the passthrough edge `found`. */
  readonly passes: (found: EdgeAt, listener: EntryFacts, sni: string | undefined, address: string) => TlsPassthrough
  readonly log: { warn(fields: object, message: string): void }
}

const ALPN = ['h2', 'http/1.1']
/** Maximum number of names with a logged warning. */
const MOST_WARNINGS = 1_000

/**
 * TLS of the listeners: certificate by SNI, requirements by the edge of that name. It remembers the choice for each connection, so that a
 * request is served only on a connection that its own host would have accepted.
 */
export class ListenerTls {
  readonly #parts: ListenerTlsParts
  /** Choices by the `local` object, which is unique for each connection. */
  readonly #choices = new WeakMap<ConnectionFacts['local'], Choice>()
  /** Results of revocation checks for connections whose authorities have new lists. */
  readonly #rechecked = new WeakMap<
    ConnectionFacts['local'],
    { readonly authorities: readonly ClientAuthority[]; readonly revoked: boolean }
  >()
  readonly #warned = new Set<string>()
  readonly #validations = new WeakMap<Uint8Array, ServerIdentity>()

  constructor(parts: ListenerTlsParts) {
    this.#parts = parts
  }

  /** Resolves once every name has a certificate; nothing may listen before that. */
  async ready(): Promise<void> {
    await this.#parts.development.ready()
  }

  /** Returns the table of one listener. */
  table(entry: EntryFacts): ListenerTlsTable {
    return {
      entryFor: ({ sni, alpn }, local) => {
        // Without a recorded choice a request on this connection is misdirected.
        const validation = alpn[0] === ACME_TLS ? this.#validation(sni, alpn) : undefined
        if (validation !== undefined) return validation
        const snapshot = this.#parts.holder.current()
        const address = canonicalAddress(local.address)
        const found = snapshot.drawnAt(sni ?? address, entry.publicPort, entry.port)
        if (found?.edge.passthrough === true) return this.#parts.passes(found, entry, sni, address)
        const choice = this.#choose(snapshot, sni, address, found?.edge)
        const chosen = this.#entry(choice, sni)
        if (chosen !== undefined) this.#choices.set(local, choice)
        return chosen
      }
    }
  }

  /** Returns the entry for an authority that validates a name by tls-alpn-01 (RFC 8737 3), which offers only that protocol. */
  #validation(sni: string | undefined, { length }: readonly string[]): TlsEntry | undefined {
    const { challenge, contexts } = this.#parts
    const proof = sni === undefined || length !== 1 ? undefined : challenge(sni, ACME_TLS)
    if (proof === undefined) return undefined
    const text = Buffer.from(proof).toString()
    const identity = this.#validations.get(proof) ?? { chain: text, privateKey: text }
    this.#validations.set(proof, identity)
    return { ...contexts.of(identity), alpn: [ACME_TLS] }
  }

  /**
   * Returns true if a request for `host` on `edge` must be rejected on this connection: the edge now requires more than the handshake did
   * (RFC 9110 7.4), or the handshake used another certificate than that of `host`.
   */
  misdirected(connection: ConnectionFacts, host: string, edge: CompiledEdge | undefined, snapshot: Snapshot): boolean {
    const { tls } = connection
    // The server of such a name terminates TLS itself, so its requests cannot arrive on this connection.
    if (edge?.passthrough === true) return tls !== undefined
    const asks = edge?.tls?.authorities !== undefined
    if (tls === undefined) return asks
    const held = this.#choices.get(connection.local)
    if (held === undefined) return true
    if (asks) {
      const authorities = authoritiesOf(edge.tls, snapshot)
      if (tls.clientVerified !== true || !sameTexts(authorities, held.authorities)) return true
      if (this.#isRevokedSince(connection, held, authorities)) return true
    }
    if (edge?.tls?.minVersion === '1.3' && tls.version !== 'TLSv1.3') return true
    // A client that dials an address sends no SNI and got the certificate of that address.
    if (host === tls.sni || (tls.sni === undefined && isIP(host) !== 0)) return false
    return this.#identity(host, '', snapshot) !== held.identity
  }

  /** Returns true if the client's certificate was revoked after the handshake. Computed once for each state of the lists. */
  #isRevokedSince({ local, tls }: ConnectionFacts, held: Choice, now: readonly ClientAuthority[] | undefined): boolean {
    if (now === undefined || sameItems(now, held.authorities)) return false
    const known = this.#rechecked.get(local)
    if (known !== undefined && sameItems(now, known.authorities)) return known.revoked
    const certificate = tls?.clientCertificate
    const leaf = certificate === undefined ? undefined : new X509Certificate(certificate)
    const revoked = leaf !== undefined && now.some((authority) => authority.revokes(leaf))
    this.#rechecked.set(local, { authorities: now, revoked })
    return revoked
  }

  /** Creates contexts for the certificates of a current or future configuration in advance. */
  ahead(snapshot: Snapshot): void {
    this.#parts.contexts.ahead(snapshot.tables.certificates, () => {
      // The first client that needs it is rejected, and that is logged.
    })
  }

  /**
   * Returns the certificate for SNI `name`, or without it for the dialled `address`; otherwise the development certificate, with one
   * warning for each `edge`. Throws a TypeError if that is needed before `ready`.
   */
  identityFor(name: string | undefined, address: string, edge: string): ServerIdentity {
    const identity = this.#identity(name, canonicalAddress(address), this.#parts.holder.current())
    if (identity === this.#parts.development.made) this.#warn(edge, name ?? address, edge)
    return identity
  }

  #choose(snapshot: Snapshot, name: string | undefined, address: string, found: CompiledEdge | undefined): Choice {
    // The catch-all edge has no TLS requirements for clients without SNI.
    const edge = name === undefined && found?.hosts === 'every' ? undefined : found
    const identity = this.#identity(name, address, snapshot)
    if (identity === this.#parts.development.made && edge !== undefined) {
      // Names matched by a wildcard or catch-all come from clients, who must not be able to fill the log.
      const one = edge.hosts !== 'every' && edge.hosts.every(({ host }) => host !== ANY_HOST)
      this.#warn(one ? (name ?? address) : ANY_HOST, name ?? address, edge.id)
    }
    return { identity, tls: edge?.tls, authorities: authoritiesOf(edge?.tls, snapshot) }
  }

  #identity(name: string | undefined, address: string, { tables }: Snapshot): ServerIdentity {
    const { clock, development } = this.#parts
    const { certificates } = tables
    const now = clock.wall()
    const found = name === undefined ? certificates.findForAddress(address, now) : certificates.find(name, now)
    const identity = found ?? development.made
    if (identity === undefined) throw new TypeError('the certificate for names without one has not been made')
    return identity
  }

  #entry({ identity, tls, authorities }: Choice, name: string | undefined): TlsEntry | undefined {
    const { contexts, log } = this.#parts
    try {
      if (tls === undefined) return { ...contexts.of(identity), alpn: ALPN }
      const demand: TlsDemand = {
        // Versions below 1.2 are never used, whatever an edge allows (RFC 8996).
        minVersion: tls.minVersion === '1.3' ? 'TLSv1.3' : 'TLSv1.2',
        ...(authorities === undefined ? {} : { clientCertificates: 'require', authorities })
      }
      const context = contexts.of(identity, demand)
      return {
        ...context,
        alpn: ALPN,
        ...(authorities === undefined ? {} : { clientCertificates: 'require', ...revocationsOf(authorities) })
      }
    } catch (error) {
      log.warn(
        { err: error, name },
        'a certificate or the authorities of an edge cannot be used; the client is refused'
      )
      return undefined
    }
  }

  /** Logs once for each `about` that the self-signed certificate is shown. */
  #warn(about: string, name: string, edge: string): void {
    if (this.#warned.has(about) || this.#warned.size >= MOST_WARNINGS) return
    this.#warned.add(about)
    this.#parts.log.warn(
      { name, edge },
      'no certificate for this name: a self-signed one for development is shown, which clients do not trust'
    )
  }
}

/** Returns the existing authorities of the TLS rules. */
function authoritiesOf(tls: EdgeTls | undefined, { tables }: Snapshot): readonly ClientAuthority[] | undefined {
  return tls?.authorities?.flatMap((key) => tables.certificates.authority(key) ?? [])
}

type Authorities = readonly ClientAuthority[] | undefined

function sameTexts(a: Authorities, b: Authorities): boolean {
  if (a === undefined || b === undefined || a.length !== b.length) return false
  return a.every(({ pem }, index) => pem === b[index]?.pem)
}

function sameItems(a: Authorities, b: Authorities): boolean {
  return a?.length === b?.length && a?.every((item, index) => item === b?.[index]) === true
}

/** Returns the revocation lists, which distinguish the state of the authorities. */
function listsOf(authorities: readonly ClientAuthority[]): string[] {
  return authorities.map(({ listed }) => listed ?? '')
}

function hasLists(authorities: Authorities): authorities is readonly ClientAuthority[] {
  return authorities?.some(({ listed }) => listed !== undefined) === true
}

/** Returns the revocation check of an entry; empty if no authority has a list. */
export function revocationsOf(authorities: readonly ClientAuthority[]): Pick<TlsEntry, 'revoked'> {
  return hasLists(authorities) ? { revoked: (shown) => findRevoked(authorities, shown) } : {}
}
