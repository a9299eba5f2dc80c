import type { ConnectionFacts } from '../flow/exchange.js'
import type { EntryFacts } from '../flow/flow.js'
import type { SnapshotHolder } from '../runtime/holder.js'
import type { CompiledEdge } from '../runtime/hosts.js'
import type { EdgeTls } from '../runtime/plan.js'
import type { Snapshot } from '../runtime/snapshot.js'
import type { TlsEntry, TlsTable } from '../transport/contract.js'
import type { ServerIdentity, TlsContexts, TlsDemand } from './tls-contexts.js'

/** What a handshake was held against. */
interface Choice {
  readonly identity: ServerIdentity
  readonly tls: EdgeTls | undefined
  /** PEM of the authorities that had to vouch for the client; undefined: none was asked. */
  readonly authorities: readonly string[] | undefined
}

export interface ListenerTlsParts {
  readonly holder: SnapshotHolder
  readonly contexts: TlsContexts
  /** Shown where no certificate fits. */
  readonly development: ServerIdentity
  readonly log: { warn(fields: object, message: string): void }
}

const ALPN = ['h2', 'http/1.1']
/** Names that a warning was given for; beyond that nobody reads them. */
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
  readonly #warned = new Set<string>()

  constructor(parts: ListenerTlsParts) {
    this.#parts = parts
  }

  /** The table of one listener. */
  table(entry: EntryFacts): TlsTable {
    return {
      entryFor: ({ sni }, local) => {
        const choice = this.#choose(this.#parts.holder.current(), sni, entry)
        const chosen = this.#entry(choice, sni)
        if (chosen !== undefined) this.#choices.set(local, choice)
        return chosen
      }
    }
  }

  /**
   * Must a request for `host`, which `edge` serves, not pass on this connection? So it is when the handshake was held
   * against less than the edge asks for now (RFC 9110 7.4), and when it showed another certificate than `host` has.
   */
  misdirected(connection: ConnectionFacts, host: string, edge: CompiledEdge | undefined, snapshot: Snapshot): boolean {
    const { tls } = connection
    const asks = edge?.tls?.authorities !== undefined
    if (tls === undefined) return asks
    const held = this.#choices.get(connection.local)
    if (held === undefined) return true
    if (asks) {
      const authorities = authoritiesOf(edge.tls, snapshot)
      if (tls.clientVerified !== true || !sameList(authorities, held.authorities)) return true
    }
    if (edge?.tls?.minVersion === '1.3' && tls.version !== 'TLSv1.3') return true
    return host !== tls.sni && this.#identity(host, snapshot) !== held.identity
  }

  /** Makes contexts for the certificates of a configuration that is about to serve or serves already. */
  ahead(snapshot: Snapshot): void {
    this.#parts.contexts.ahead(snapshot.tables.certificates, () => {
      // Who asks for it first is refused, and that is logged.
    })
  }

  /** The certificate that a name gets; for none the one of development. */
  identityFor(name: string | undefined): ServerIdentity {
    return this.#identity(name, this.#parts.holder.current())
  }

  #choose(snapshot: Snapshot, name: string | undefined, entry: EntryFacts): Choice {
    const edge = name === undefined ? undefined : snapshot.edge(name, entry.publicPort, entry.port)
    const identity = this.#identity(name, snapshot)
    if (identity === this.#parts.development && edge !== undefined) this.#warn(name as string, edge)
    return { identity, tls: edge?.tls, authorities: authoritiesOf(edge?.tls, snapshot) }
  }

  #identity(name: string | undefined, { tables }: Snapshot): ServerIdentity {
    return (name === undefined ? undefined : tables.certificates.find(name)) ?? this.#parts.development
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
      return { ...context, alpn: ALPN, ...(authorities === undefined ? {} : { clientCertificates: 'require' }) }
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
    const about = edge.hosts === 'every' ? '*' : name
    if (this.#warned.has(about) || this.#warned.size >= MOST_WARNINGS) return
    this.#warned.add(about)
    this.#parts.log.warn(
      { name, edge: edge.id },
      'no certificate for this name: a self-signed one for development is shown, which clients do not trust'
    )
  }
}

/** PEM texts; authorities that are gone vouch for nobody. */
function authoritiesOf(tls: EdgeTls | undefined, { tables }: Snapshot): readonly string[] | undefined {
  return tls?.authorities?.flatMap((key) => tables.certificates.authority(key) ?? [])
}

function sameList(a: readonly string[] | undefined, b: readonly string[] | undefined): boolean {
  if (a === undefined || b === undefined || a.length !== b.length) return false
  return a.every((item, index) => item === b[index])
}
