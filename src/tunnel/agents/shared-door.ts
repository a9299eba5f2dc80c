import type { Duplex } from 'node:stream'
import type { ConnectionFacts } from '../../flow/exchange.js'
import { unmapIpv4 } from '../../lib/ip.js'
import type { ClientHello, SideDoor, TlsEntry } from '../../transport/contract.js'
import { beginsSession } from '../protocol/frame.js'
import type { TunnelListener } from '../server/tunnel-listener.js'
import { agentEntry, emptied } from './agent-door.js'
import type { CredentialGrant } from './credential-grant.js'
import type { ListenerIdentity } from './listener-identity.js'

export interface SharedDoorParts {
  readonly address: { readonly host: string; readonly port: number }
  /** May an agent come in from this address? */
  readonly admits: (address: string) => boolean
  readonly identity: ListenerIdentity
  readonly listener: TunnelListener<CredentialGrant>
  readonly log: { warn(fields: object, message: string): void }
}

/**
 * Where agents connect when they share a TLS listener with visitors. Who asks for a name of agents, or for none, and offers no
 * protocol may be one; the first byte tells.
 */
export class SharedDoor implements SideDoor {
  #parts: SharedDoorParts | undefined
  #names: ReadonlySet<string> = new Set()
  readonly #sockets = new Set<Duplex>()

  /** Agents may come in. Until then everybody is a visitor. */
  open(parts: SharedDoorParts): void {
    this.#parts = parts
  }

  get address(): SharedDoorParts['address'] {
    return this.#parts?.address ?? { host: '', port: 0 }
  }

  /** Agents ask for these names from now on. */
  names(names: readonly string[]): void {
    this.#names = new Set(names)
  }

  /** Nobody comes in any more; who is here stays. */
  shut(): void {
    this.#parts = undefined
  }

  /** Waits until everybody has gone and breaks what is left after `grace` milliseconds. */
  async emptied(grace: number): Promise<void> {
    await emptied(this.#sockets, grace)
  }

  entryFor({ sni, alpn }: ClientHello): TlsEntry | undefined {
    const parts = this.#parts
    if (parts === undefined || alpn.length > 0) return undefined
    const meant = sni === undefined || this.#names.has(sni) || parts.identity.isOperators(sni)
    return meant ? agentEntry(parts, sni) : undefined
  }

  begins(byte: number): boolean {
    return beginsSession(byte)
  }

  accept(secure: Duplex, { peer, tls }: ConnectionFacts): void {
    const parts = this.#parts
    const ip = unmapIpv4(peer.address)
    if (parts === undefined || !parts.admits(ip)) {
      secure.destroy()
      return
    }
    this.#sockets.add(secure)
    secure.once('close', () => this.#sockets.delete(secure))
    parts.listener.accept(secure, { ip, serverName: tls?.sni })
  }
}
