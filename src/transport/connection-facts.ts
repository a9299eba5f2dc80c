import type { Socket } from 'node:net'
import type { ConnectionFacts } from '../flow/exchange.js'

/** Bytes that have come and gone; those that wait to leave among them. */
export interface ByteCounts {
  readonly bytesRead: number
  readonly bytesWritten: number
}

/** The facts of an accepted socket; the byte counts are read from it, and stay readable after its end. */
export class SocketFacts implements ConnectionFacts {
  readonly id: number
  readonly listener: string
  peer: ConnectionFacts['peer']
  local: ConnectionFacts['local']
  readonly startedAt: number
  via?: NonNullable<ConnectionFacts['via']>
  passed?: ConnectionFacts['passed']
  /** There once the handshake is over. */
  tls?: NonNullable<ConnectionFacts['tls']>
  /** Those of the socket, or of what is used in its place from now on for the same connection. */
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

  /** The addresses come from a PROXY header. */
  relocate(peer: ConnectionFacts['peer'], local: ConnectionFacts['local']): void {
    this.via = { peer: this.peer, local: this.local }
    this.peer = peer
    this.local = local
  }
}
