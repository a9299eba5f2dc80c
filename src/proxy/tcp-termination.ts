import type { Socket } from 'node:net'
import type { ConnectionFacts } from '../flow/exchange.js'
import type { Termination } from '../flow/flow.js'
import type { AddressCounts } from '../lib/address-counts.js'
import type { TurnedAway } from '../lib/turned-away.js'
import type { Snapshot } from '../runtime/snapshot.js'
import type { TlsEntry } from '../transport/contract.js'
import { type Terminated, terminateTls } from '../transport/tls/terminate.js'
import type { TlsContexts, TlsDemand } from './tls-contexts.js'
import type { ListenerTls } from './tls-table.js'

export interface TcpTerminationParts {
  readonly contexts: TlsContexts
  readonly listeners: ListenerTls
  /** Most handshakes at a time. */
  readonly handshakes: number
  /** Those of each address. */
  readonly ofAddress: AddressCounts
  readonly turnedAway: TurnedAway
  readonly log: { warn(fields: object, message: string): void }
}

/** Ends TLS on connections of TCP edges, as their policies say. */
export class TcpTermination {
  readonly #parts: TcpTerminationParts
  #running = 0

  constructor(parts: TcpTerminationParts) {
    this.#parts = parts
  }

  /** After a failure the socket is destroyed. `timeout`: milliseconds; 0: no limit. */
  end(
    socket: Socket,
    { local, listener, peer }: ConnectionFacts,
    how: Termination,
    snapshot: Snapshot,
    timeout: number
  ): Promise<Terminated> {
    const table = { entryFor: ({ sni }: { sni: string | undefined }) => this.#entry(how, sni, snapshot) }
    const full = this.#running >= this.#parts.handshakes
    const shaken = full ? undefined : this.#parts.ofAddress.enter(peer.address)
    if (shaken === undefined) {
      socket.destroy()
      this.#parts.turnedAway.tell(listener, full ? 'handshakes' : 'address-handshakes', peer.address)
      return Promise.resolve({ kind: 'failed', why: 'overloaded' })
    }
    this.#running++
    return new Promise((resolve) => {
      const giveUp = terminateTls(socket, { table, local }, (result) => {
        clearTimeout(timer)
        this.#running--
        shaken()
        if (result.kind === 'secure' && how.clients?.must === 'any' && result.tls.clientCertificate === undefined) {
          result.secure.destroy()
          resolve({ kind: 'failed', why: 'certificate-missing' })
        } else resolve(result)
      })
      const timer = timeout > 0 ? setTimeout(() => giveUp('timeout'), timeout) : undefined
    })
  }

  #entry(how: Termination, sni: string | undefined, snapshot: Snapshot): TlsEntry | undefined {
    const { contexts, listeners, log } = this.#parts
    const { clients, minVersion, maxVersion } = how
    const asked = clients === undefined ? undefined : clients.must === 'verified' ? 'require' : 'request'
    const demand: TlsDemand = {
      minVersion,
      maxVersion,
      ...(clients === undefined || asked === undefined
        ? {}
        : { clientCertificates: asked, authorities: authorities(clients.authorities, snapshot) })
    }
    try {
      const context = contexts.of(how.identity ?? listeners.identityFor(sni), demand)
      return { ...context, alpn: [], ...(asked === undefined ? {} : { clientCertificates: asked }) }
    } catch (error) {
      log.warn(
        { err: error, name: sni },
        'a certificate or the authorities of a policy cannot be used; the client is refused'
      )
      return undefined
    }
  }
}

/** PEM texts as they are, ids by what they name. */
function authorities(given: readonly string[], { tables }: Snapshot): string[] {
  return given.flatMap((one) =>
    one.includes('-----BEGIN') ? one : (tables.certificates.authority(`authority:${one.trim()}`) ?? [])
  )
}
