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
import type { TicketKeys } from './ticket-keys.js'

/** A certificate with its key, as PEM. Contexts are kept for the object: another one means another certificate. */
export interface ServerIdentity {
  /** Leaf first. */
  readonly chain: string
  readonly privateKey: string
  /** One whose key is of another type, for clients that cannot use this one. */
  readonly also?: Omit<ServerIdentity, 'also'>
}

/** The certificate of names that have none. It is made once something can show it: most processes never speak TLS with one. */
export class DevelopmentIdentity {
  readonly #make: () => Promise<ServerIdentity>
  #making: Promise<ServerIdentity> | undefined
  #made: ServerIdentity | undefined

  constructor(make: () => Promise<ServerIdentity>) {
    this.#make = make
  }

  /** One that is made already. */
  static of(made: ServerIdentity): DevelopmentIdentity {
    const identity = new DevelopmentIdentity(async () => made)
    identity.#made = made
    return identity
  }

  /** Undefined until it is made. */
  get made(): ServerIdentity | undefined {
    return this.#made
  }

  /** Makes it, the first time. Rejects as making it does, and then the next call tries again. */
  async ready(): Promise<ServerIdentity> {
    this.#making ??= this.#make()
    try {
      this.#made = await this.#making
      return this.#made
    } catch (error) {
      this.#making = undefined
      throw error
    }
  }
}

/** What is asked of a handshake. */
export interface TlsDemand extends Pick<ServerContextOptions, 'minVersion' | 'maxVersion' | 'clientCertificates'> {
  /** Those that may vouch for clients. */
  readonly authorities?: readonly ClientAuthority[]
}

/** What a handshake is made with. */
type ServerContext = Pick<TlsEntry, 'context' | 'certificate'>

interface TlsContextsParts {
  readonly clock: Clock
  readonly ticketKeys: TicketKeys
  /** Most contexts that are kept. */
  readonly most?: number
}

const MOST = 10_000
/** Certificates whose contexts are made before a client asks for them. */
const MADE_AHEAD = 1_000
/** Milliseconds of one step of making ahead. */
const STEP = 2
const NO_DEMAND: TlsDemand = {}

/** The secure contexts: one for each certificate and demand, kept while they are used and their ticket keys are the same. */
export class TlsContexts {
  readonly #clock: Clock
  readonly #most: number
  /** Made with the first: it takes room for all of them at once. */
  #made: LRUCache<string, ServerContext> | undefined
  readonly #numbers = new WeakMap<ServerIdentity, number>()
  #count = 0
  readonly #ticketKeys: TicketKeys
  /** Those of the contexts that are kept. */
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

  /** Throws when certificate, key or authorities cannot be used. */
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

  /** Makes the contexts of the first certificates, in small steps, so that their first clients need not wait. `failed` is called with those that cannot be used. */
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

  /** Ends making ahead. */
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

/** What a handshake was held against. */
interface Choice {
  readonly identity: ServerIdentity
  readonly tls: EdgeTls | undefined
  /** Those that had to vouch for the client; undefined: none was asked. */
  readonly authorities: readonly ClientAuthority[] | undefined
}

interface ListenerTlsParts {
  readonly clock: Clock
  readonly holder: SnapshotHolder
  readonly contexts: TlsContexts
  /** Shown where no certificate fits. */
  readonly development: DevelopmentIdentity
  /** What a certificate authority is shown that validates a host; undefined: nothing is being validated there. */
  readonly challenge: (host: string, path: string) => Uint8Array | undefined
  /** Gives what carries a connection to `found`, an edge that passes TLS on. */
  readonly passes: (found: EdgeAt, listener: EntryFacts, sni: string | undefined, address: string) => TlsPassthrough
  readonly log: { warn(fields: object, message: string): void }
}

const ALPN = ['h2', 'http/1.1']
/** Names that a warning was given for; more would be of no use. */
const MOST_WARNINGS = 1_000

/**
 * TLS of the listeners: the certificate by the client's name for the server, the demands by the edge of that name. It
 * remembers what each connection was held against, so that no request passes on a connection that its own host would not
 * have accepted.
 */
export class ListenerTls {
  readonly #parts: ListenerTlsParts
  /** By the `local` of a connection, which is an object of its own. */
  readonly #choices = new WeakMap<ConnectionFacts['local'], Choice>()
  /** Of connections whose authorities have other lists since their handshake. */
  readonly #rechecked = new WeakMap<
    ConnectionFacts['local'],
    { readonly authorities: readonly ClientAuthority[]; readonly revoked: boolean }
  >()
  readonly #warned = new Set<string>()
  readonly #validations = new WeakMap<Uint8Array, ServerIdentity>()

  constructor(parts: ListenerTlsParts) {
    this.#parts = parts
  }

  /** Resolves when there is a certificate for every name: before that, nothing may listen. */
  async ready(): Promise<void> {
    await this.#parts.development.ready()
  }

  /** The table of one listener. */
  table(entry: EntryFacts): ListenerTlsTable {
    return {
      entryFor: ({ sni, alpn }, local) => {
        // No choice is kept for it: a request on such a connection is misdirected.
        const validation = alpn[0] === ACME_TLS ? this.#validation(sni, alpn) : undefined
        if (validation !== undefined) return validation
        const snapshot = this.#parts.holder.current()
        const address = canonicalAddress(local.address)
        const found = snapshot.edgeAt(sni ?? address, entry.publicPort, entry.port)
        if (found?.edge.passthrough === true) return this.#parts.passes(found, entry, sni, address)
        const choice = this.#choose(snapshot, sni, address, found?.edge)
        const chosen = this.#entry(choice, sni)
        if (chosen !== undefined) this.#choices.set(local, choice)
        return chosen
      }
    }
  }

  /** The entry for an authority that validates a name by tls-alpn-01 (RFC 8737 3), which offers that protocol alone. */
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
   * Must a request for `host`, which `edge` serves, not pass on this connection? So it is when the handshake was held
   * against less than the edge asks for now (RFC 9110 7.4), and when it showed another certificate than `host` has.
   */
  misdirected(connection: ConnectionFacts, host: string, edge: CompiledEdge | undefined, snapshot: Snapshot): boolean {
    const { tls } = connection
    // The server of such a name ends TLS itself: no request for it can come by a handshake that was made here.
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
    // Who dials an address names none, and got the certificate for it.
    if (host === tls.sni || (tls.sni === undefined && isIP(host) !== 0)) return false
    return this.#identity(host, '', snapshot) !== held.identity
  }

  /** Has its issuer revoked the client's certificate since the handshake? Worked out once for each state of the lists. */
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

  /** Makes contexts for the certificates of a configuration that is about to serve or serves already. */
  ahead(snapshot: Snapshot): void {
    this.#parts.contexts.ahead(snapshot.tables.certificates, () => {
      // The first client that asks for it is refused, and that is logged.
    })
  }

  /**
   * The certificate that a client gets which asks for `name`, or for none and dialled `address`; where none fits the one of development. Throws a
   * TypeError where that would be one before `ready`.
   */
  identityFor(name: string | undefined, address: string): ServerIdentity {
    return this.#identity(name, canonicalAddress(address), this.#parts.holder.current())
  }

  #choose(snapshot: Snapshot, name: string | undefined, address: string, found: CompiledEdge | undefined): Choice {
    // An edge for every host asks nothing of clients that do not say which they want.
    const edge = name === undefined && found?.hosts === 'every' ? undefined : found
    const identity = this.#identity(name, address, snapshot)
    if (identity === this.#parts.development.made && edge !== undefined) this.#warn(name ?? address, edge)
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
        // Below 1.2 nothing is spoken here, whatever an edge allows (RFC 8996).
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

  #warn(name: string, edge: CompiledEdge): void {
    // Names that no edge claims come from clients, and a client must not be able to fill the log.
    const about = edge.hosts === 'every' || edge.hosts.some(({ host }) => host === ANY_HOST) ? ANY_HOST : name
    if (this.#warned.has(about) || this.#warned.size >= MOST_WARNINGS) return
    this.#warned.add(about)
    this.#parts.log.warn(
      { name, edge: edge.id },
      'no certificate for this name: a self-signed one for development is shown, which clients do not trust'
    )
  }
}

/** Authorities that are gone vouch for no client. */
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

/** Tell apart what the authorities have revoked. */
function listsOf(authorities: readonly ClientAuthority[]): string[] {
  return authorities.map(({ listed }) => listed ?? '')
}

function hasLists(authorities: Authorities): authorities is readonly ClientAuthority[] {
  return authorities?.some(({ listed }) => listed !== undefined) === true
}

/** What an entry says of revocation; nothing where no authority has a list. */
export function revocationsOf(authorities: readonly ClientAuthority[]): Pick<TlsEntry, 'revoked'> {
  return hasLists(authorities) ? { revoked: (shown) => findRevoked(authorities, shown) } : {}
}
