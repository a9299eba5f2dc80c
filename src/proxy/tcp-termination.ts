import type { Socket } from 'node:net'
import type { ConnectionFacts } from '../flow/exchange.js'
import type { Termination } from '../flow/flow.js'
import { AddressCounts, type Crowding, type TurnedAway } from '../lib/client-limits.js'
import { ClientAuthority } from '../lib/crl.js'
import type { Snapshot } from '../runtime/snapshot.js'
import type { ListenLimits, TlsEntry } from '../transport/contract.js'
import { type Terminated, terminateTls } from '../transport/tls/terminate.js'
import { type ListenerTls, revocationsOf, type TlsContexts, type TlsDemand } from './tls.js'

/** Limits the concurrent handshakes of all TCP edges. */
export interface TerminationPlaces {
  /** Takes a place; returns the function that releases it, which has an effect once, or the limit that is reached. */
  enter(address: string): (() => void) | Crowding | Promise<(() => void) | Crowding>
}

/** Handshake limits of a process in one thread. */
export class OwnTerminationPlaces implements TerminationPlaces {
  readonly #limits: Pick<ListenLimits, 'handshakes' | 'handshakesPerAddress'>
  readonly #ofAddress: AddressCounts
  #running = 0

  /** `limits` are read at each handshake. */
  constructor(limits: Pick<ListenLimits, 'handshakes' | 'handshakesPerAddress'>, exempt: (address: string) => boolean) {
    this.#limits = limits
    this.#ofAddress = new AddressCounts(() => limits.handshakesPerAddress ?? 0, exempt)
  }

  enter(address: string): (() => void) | Crowding {
    if (this.#running >= (this.#limits.handshakes ?? Number.POSITIVE_INFINITY)) return 'handshakes'
    const leave = this.#ofAddress.enter(address)
    if (leave === undefined) return 'address-handshakes'
    this.#running++
    let here = true
    return () => {
      leave()
      if (here) this.#running--
      here = false
    }
  }
}

interface TcpTerminationParts {
  readonly contexts: TlsContexts
  readonly listeners: ListenerTls
  readonly places: TerminationPlaces
  readonly turnedAway: TurnedAway
  readonly log: { warn(fields: object, message: string): void }
}

/** Terminates TLS on connections of TCP edges by their policies, and of TLS edges. */
export class TcpTermination {
  readonly #parts: TcpTerminationParts

  constructor(parts: TcpTerminationParts) {
    this.#parts = parts
  }

  /** Terminates TLS. Destroys the socket after a failure. `timeout`: milliseconds; 0: no limit. */
  async end(
    socket: Socket,
    { local, listener, peer }: ConnectionFacts,
    how: Termination,
    snapshot: Snapshot,
    timeout: number
  ): Promise<Terminated> {
    const place = { address: local.address, edge: listener }
    const table = { entryFor: ({ sni }: { sni: string | undefined }) => this.#entry(how, sni, place, snapshot) }
    // On failure the handshake fails too, and that is logged.
    if (how.identity === undefined) await this.#parts.listeners.ready().catch(() => undefined)
    const entered = this.#parts.places.enter(peer.address)
    const leave = entered instanceof Promise ? await entered : entered
    if (typeof leave === 'string') {
      socket.destroy()
      this.#parts.turnedAway.report(listener, leave, peer.address)
      return { kind: 'failed', why: 'overloaded', detail: {} }
    }
    return await new Promise((resolve) => {
      const giveUp = terminateTls(socket, { table, local }, (result) => {
        clearTimeout(timer)
        leave()
        if (result.kind === 'secure' && how.clients?.must === 'any' && result.tls.clientCertificate === undefined) {
          result.secure.destroy()
          resolve({ kind: 'failed', why: 'certificate-missing', detail: {} })
        } else resolve(result)
      })
      const timer = timeout > 0 ? setTimeout(() => giveUp('timeout'), timeout) : undefined
    })
  }

  #entry(
    how: Termination,
    sni: string | undefined,
    { address, edge }: { readonly address: string; readonly edge: string },
    snapshot: Snapshot
  ): TlsEntry | undefined {
    const { contexts, listeners, log } = this.#parts
    const { clients, minVersion, maxVersion } = how
    const asked = clients === undefined ? undefined : clients.must === 'verified' ? 'require' : 'request'
    const vouching = clients === undefined ? [] : authorities(clients.authorities, snapshot)
    const demand: TlsDemand = {
      minVersion,
      maxVersion,
      ...(asked === undefined ? {} : { clientCertificates: asked, authorities: vouching })
    }
    try {
      const context = contexts.of(how.identity ?? listeners.identityFor(sni, address, edge), demand)
      const asks = asked === undefined ? {} : { clientCertificates: asked, ...revocationsOf(vouching) }
      return { ...context, alpn: [], ...asks }
    } catch (error) {
      log.warn(
        { err: error, name: sni },
        'a certificate or the authorities of an edge or policy cannot be used; the client is refused'
      )
      return undefined
    }
  }
}

/** Returns the authorities: PEM texts unchanged, ids resolved. */
function authorities(given: readonly string[], { tables }: Snapshot): ClientAuthority[] {
  return given.flatMap((one) =>
    one.includes('-----BEGIN')
      ? new ClientAuthority(one)
      : (tables.certificates.authority(`authority:${one.trim()}`) ?? [])
  )
}
