import { createServer, type Server, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { ConnectionFacts } from '../../../flow/exchange.js'
import { AddressCounts, type TurnedAway } from '../../../lib/client-limits.js'
import type { Clock } from '../../../lib/clock.js'
import { canonicalAddress } from '../../../lib/ip.js'
import { bind } from '../../../transport/bind.js'
import { SocketFacts } from '../../../transport/connection-facts.js'
import type {
  ClientHello,
  HandshakeFailure,
  SharedPortHandler,
  TlsEntry,
  TlsTable
} from '../../../transport/contract.js'
import { ignore } from '../../../transport/pipes.js'
import { terminateTls } from '../../../transport/tls/terminate.js'
import { beginsSession } from '../protocol/frame.js'
import type { CredentialGrant } from '../server/authority.js'
import type { TunnelListener } from '../server/listener.js'
import type { ListenerIdentity } from './listener-identity.js'
import { refuseSsh } from './ssh-refusal.js'

interface AgentListenerParts {
  /** May an agent come in from this address? */
  readonly admits: (address: string) => boolean
  readonly identity: ListenerIdentity
  readonly listener: TunnelListener<CredentialGrant>
  readonly clock: Clock
  readonly limits: AgentListenerLimits
  readonly turnedAway: TurnedAway
  /** For a handshake. Milliseconds. */
  readonly timeout: number
  readonly handshakeFailed: (why: HandshakeFailure) => void
  readonly log: { warn(fields: object, message: string): void }
}

export interface AgentListenerLimits {
  /** Most connections at their handshake at a time; more wait. */
  readonly handshakes: number
  /** Maximum number of handshakes from one address, which then does not block others; 0 for no limit. */
  readonly handshakesPerAddress: number
  /** Most connections of one address; more are closed. 0: no limit. */
  readonly connectionsPerAddress: number
  /** Peers that the limits per address do not hold for. */
  readonly exempt: (address: string) => boolean
}

/** A connection that waits for its handshake. */
interface Arrival {
  readonly socket: Socket
  readonly ip: string
  readonly local: SocketFacts['local']
}

/** Connections that may wait for their handshake. */
const MOST_WAITING = 4096

/**
 * Listener for agents: address filter, handshake, and then the tunnel listener. Handshakes beyond the limit are queued
 * unread, because a rejection would keep some agents away for minutes: they double their pauses with every failure.
 */
export class AgentListener {
  readonly address: { readonly host: string; readonly port: number }
  readonly #server: Server
  readonly #parts: AgentListenerParts
  readonly #table: TlsTable
  readonly #sockets = new Set<Socket>()
  readonly #ofAddress: AddressCounts
  readonly #handshakesOfAddress: AddressCounts
  #waiting: Arrival[] = []
  #handshakes = 0
  #count = 0

  private constructor(address: AgentListener['address'], server: Server, parts: AgentListenerParts) {
    this.address = address
    this.#server = server
    this.#parts = parts
    this.#table = { entryFor: ({ sni }) => agentEntry(parts, sni) }
    const { limits } = parts
    this.#ofAddress = new AddressCounts(() => limits.connectionsPerAddress, limits.exempt)
    this.#handshakesOfAddress = new AddressCounts(() => limits.handshakesPerAddress, limits.exempt)
  }

  /** Binds. Rejects with the system's error. */
  static async open(
    at: AgentListener['address'] | { readonly fd: number },
    parts: AgentListenerParts
  ): Promise<AgentListener> {
    const server = createServer({ allowHalfOpen: true, noDelay: true, pauseOnConnect: true })
    let opened: AgentListener | undefined
    const before: Socket[] = []
    // Connections may arrive in the same turn as the result of the bind.
    server.on('connection', (socket) => {
      if (opened === undefined) before.push(socket)
      else opened.#arrive(socket)
    })
    opened = new AgentListener(await bind(server, at), server, parts)
    for (const socket of before) opened.#arrive(socket)
    return opened
  }

  /** Stops accepting; connected agents stay. */
  shut(): void {
    this.#server.close()
    for (const { socket } of this.#waiting) socket.destroy()
    this.#waiting = []
  }

  /** Waits until all agents have disconnected, and cuts the rest after `grace` milliseconds: the shutdown notice takes a moment to send. */
  async emptied(grace: number): Promise<void> {
    await emptied(this.#sockets, grace)
  }

  #arrive(socket: Socket): void {
    const { admits, clock } = this.#parts
    socket.on('error', ignore)
    const facts = new SocketFacts(++this.#count, 'agents', socket, clock.wall())
    const ip = canonicalAddress(facts.peer.address)
    if (!admits(ip)) {
      socket.destroy()
      return
    }
    const full = this.#waiting.length >= MOST_WAITING
    const leave = full ? undefined : this.#ofAddress.enter(ip)
    if (leave === undefined) {
      socket.destroy()
      this.#parts.handshakeFailed('overloaded')
      this.#parts.turnedAway.report(facts.listener, full ? 'handshakes' : 'address-connections', ip)
      return
    }
    this.#sockets.add(socket)
    socket.once('close', () => {
      this.#sockets.delete(socket)
      leave()
    })
    this.#waiting.push({ socket, ip, local: facts.local })
    this.#next()
  }

  /** Starts the oldest handshakes first, but an address at its limit does not block others. */
  #next(): void {
    const { handshakes } = this.#parts.limits
    for (let at = 0; at < this.#waiting.length && this.#handshakes < handshakes; ) {
      const arrival = this.#waiting[at] as Arrival
      const shaken = arrival.socket.destroyed ? ignore : this.#handshakesOfAddress.enter(arrival.ip)
      if (shaken === undefined) at++
      else {
        this.#waiting.splice(at, 1)
        if (!arrival.socket.destroyed) this.#shakeHands(arrival, shaken)
      }
    }
  }

  /** The handshake of a client that has disconnected meanwhile fails at its first read. */
  #shakeHands({ socket, ip, local }: Arrival, shaken: () => void): void {
    const { timeout, handshakeFailed, listener } = this.#parts
    this.#handshakes++
    const giveUp = terminateTls(socket, { table: this.#table, local, answerOther: refuseSsh }, (result) => {
      clearTimeout(timer)
      this.#handshakes--
      shaken()
      if (result.kind === 'failed') handshakeFailed(result.why)
      else listener.accept(result.secure, { ip, serverName: result.tls.sni })
      this.#next()
    })
    const timer = setTimeout(() => giveUp('timeout'), timeout)
  }
}

/** Returns the TLS settings for the name `name`. */
function agentEntry(
  { identity, log }: Pick<AgentListenerParts, 'identity' | 'log'>,
  name: string | undefined
): TlsEntry | undefined {
  try {
    // Agents offer no protocols of the application layer.
    return { context: identity.contextFor(name), alpn: [] }
  } catch (error) {
    log.warn({ err: error, name }, 'the certificate of an agent ingress cannot be used; the agent is refused')
    return undefined
  }
}

/** Waits until all sockets have closed, and destroys the rest after `grace` milliseconds. */
async function emptied(sockets: ReadonlySet<Duplex>, grace: number): Promise<void> {
  const leaving = [...sockets].map((socket) => new Promise((resolve) => socket.once('close', resolve)))
  const timer = setTimeout(() => {
    for (const socket of sockets) socket.destroy()
  }, grace)
  await Promise.all(leaving)
  clearTimeout(timer)
}

interface SharedPortAgentsParts {
  readonly address: { readonly host: string; readonly port: number }
  /** May an agent come in from this address? */
  readonly admits: (address: string) => boolean
  readonly identity: ListenerIdentity
  readonly listener: TunnelListener<CredentialGrant>
  readonly log: { warn(fields: object, message: string): void }
}

/**
 * Listener for agents on a TLS port that is shared with visitors. A client that sends a name of agents, or none, and no ALPN
 * protocol may be an agent; its first byte decides.
 */
export class SharedPortAgents implements SharedPortHandler {
  #parts: SharedPortAgentsParts | undefined
  #names: ReadonlySet<string> = new Set()
  readonly #sockets = new Set<Duplex>()

  /** Agents are accepted. Until then every client is a visitor. */
  open(parts: SharedPortAgentsParts): void {
    this.#parts = parts
  }

  get address(): SharedPortAgentsParts['address'] {
    return this.#parts?.address ?? { host: '', port: 0 }
  }

  /** Agents ask for these names from now on. */
  names(names: readonly string[]): void {
    this.#names = new Set(names)
  }

  /** Stops accepting; connected agents stay. */
  shut(): void {
    this.#parts = undefined
  }

  /** Waits until all agents have disconnected, and cuts the rest after `grace` milliseconds. */
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

  answerOther(first: Buffer): Buffer | 'more' | undefined {
    return this.#parts === undefined ? undefined : refuseSsh(first)
  }

  accept(secure: Duplex, { peer, tls }: ConnectionFacts): void {
    const parts = this.#parts
    const ip = canonicalAddress(peer.address)
    if (parts === undefined || !parts.admits(ip)) {
      secure.destroy()
      return
    }
    this.#sockets.add(secure)
    secure.once('close', () => this.#sockets.delete(secure))
    parts.listener.accept(secure, { ip, serverName: tls?.sni })
  }
}
