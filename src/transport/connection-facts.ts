import type { Socket } from 'node:net'
import type { ConnectionFacts } from '../flow/exchange.js'

/** Bytes read and written, including pending writes. */
export interface ByteCounts {
  readonly bytesRead: number
  readonly bytesWritten: number
}

/** Facts of an accepted socket; byte counts are read from the socket, and remain readable after its end. */
export class SocketFacts implements ConnectionFacts {
  readonly id: number
  readonly listener: string
  peer: ConnectionFacts['peer']
  local: ConnectionFacts['local']
  readonly startedAt: number
  via?: NonNullable<ConnectionFacts['via']>
  passed?: ConnectionFacts['passed']
  /** Set after the handshake. */
  tls?: NonNullable<ConnectionFacts['tls']>
  /** Counts of the socket, or of its replacement for the same connection. */
  counts: ByteCounts

  constructor(id: number, listener: string, socket: Socket, startedAt: number) {
    this.id = id
    this.listener = listener
    this.peer = { address: socket.remoteAddress ?? '', port: socket.remotePort ?? 0 }
    this.local = { address: socket.localAddress ?? '', port: socket.localPort ?? 0 }
    this.startedAt = startedAt
    this.counts = socket
  }

  get bytesIn(): number {
    return this.counts.bytesRead
  }

  get bytesOut(): number {
    return this.counts.bytesWritten
  }

  /** Sets the addresses from a PROXY header. */
  relocate(peer: ConnectionFacts['peer'], local: ConnectionFacts['local']): void {
    this.via = { peer: this.peer, local: this.local }
    this.peer = peer
    this.local = local
  }
}
