import type { Socket } from 'node:net'
import type { ConnectionFacts } from '../../flow/exchange.js'
import type { ClientHello, HandshakeFailure, SideDoor, TlsEntry, TlsTable } from '../contract.js'
import { readAhead } from '../read-ahead.js'

/**
 * Chooses for one handshake at a listener with a side door. Both are asked, because what HTTP asks of its clients holds for
 * whoever turns out to be one.
 */
export class SharedTable implements TlsTable {
  readonly door: SideDoor
  /** The side door may be meant: the first byte tells. */
  undecided = false
  readonly #table: TlsTable

  constructor(table: TlsTable, door: SideDoor) {
    this.#table = table
    this.door = door
  }

  entryFor(hello: ClientHello, local: ConnectionFacts['local']): TlsEntry | undefined {
    const entry = this.#table.entryFor(hello, local)
    // Where a certificate is asked for, nobody gets past that by looking like somebody else.
    const other = entry?.clientCertificates === undefined ? this.door.entryFor(hello) : undefined
    this.undecided = other !== undefined
    return other ?? entry
  }
}

/**
 * Waits for the first byte behind a handshake and puts it back. `done` is called once, with the byte or with why there is
 * none; then the socket is destroyed. Returns the way to give up.
 */
export function readFirstByte(
  secure: Socket,
  done: (first: number | HandshakeFailure) => void
): (why: HandshakeFailure) => void {
  let over = false
  const finish = (first: number | HandshakeFailure): void => {
    if (over) return
    over = true
    stop()
    secure.removeListener('close', onClose)
    if (typeof first === 'string') secure.destroy()
    done(first)
  }
  const onClose = (): void => finish('client-gone')
  const stop = readAhead(
    secure,
    (chunk) => {
      secure.unshift(chunk)
      finish(chunk[0] as number)
      return 'enough'
    },
    onClose
  )
  secure.once('close', onClose)
  if (secure.destroyed) process.nextTick(onClose)
  return finish
}
