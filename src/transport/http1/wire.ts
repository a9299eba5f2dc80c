import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { PieceLender } from '../../flow/exchange.js'
import { lostBytesOf, readAfterReset, readsAfterReset } from '../broken-writes.js'
import type { ByteCounts } from '../connection-facts.js'
import { BufferPool, type LentBuffer } from '../lent-buffer.js'
import { cut, ignore } from '../pipes.js'
import { withOwnReads } from './own-reads.js'

/** Reader of a wire. */
export interface WireOwner {
  /** Bytes came: `chunk` from 0 to `length`, valid only during the call (see `Wire.keep`). */
  received(chunk: Buffer, length: number): void
  /** The written bytes have been sent; called if `Wire.congested` was true. */
  drained(): void
  /** The other side ended its direction. */
  wireEnded(): void
  /** Nothing flows any more; called once. */
  wireClosed(): void
}

/** Holder of a piece of the chunk at hand. */
export interface Borrower {
  /** Called before the memory of the chunk is used again: the piece must be kept or given up. */
  keepBorrowed(): void
}

/**
 * A part of a chunk as latin1 text. What `toString` does for its other encodings and for bounds that are none costs more
 * than the copying of a head.
 */
export function textOf(chunk: Buffer, from: number, to: number): string {
  return (chunk as Buffer & { latin1Slice(from: number, to: number): string }).latin1Slice(from, to)
}

/** Size of one read: a body of 64 KiB and its head come in one. */
export const READ_BYTES = 73_728
/** Size of one read of many bytes: half as many reads and writes, and TLS still writes it in one go (up to 160 KiB). */
const BULK_BYTES = 131_072
/** Buffers of wires that expect many bytes. At most 2 MiB of them stay when none does. */
const pool = new BufferPool(BULK_BYTES, 16)
/** Least bytes that a buffer of the pool is used for: it stays until they have left, however few they are. */
const LEAST_POOLED = 16_384
/** Text of one wire that waits for the end of the turn. */
const MOST_TEXT = 8_192
/** Wires that wait for it together: the first one must not wait for long. */
const MOST_WIRES = 64

/**
 * Wires with text that was written in this turn of the event loop. It is sent at the end of the turn, one wire right after the other:
 * a write that comes alone finds its reader asleep and has to wake it, which costs more than the rest of the write.
 */
class Outbox {
  #wires: Wire[] = []
  #scheduled = false

  add(wire: Wire): void {
    this.#wires.push(wire)
    if (this.#wires.length === MOST_WIRES) this.#send()
    else if (!this.#scheduled) {
      this.#scheduled = true
      setImmediate(this.#onTurn)
    }
  }

  readonly #onTurn = (): void => {
    this.#scheduled = false
    this.#send()
  }

  #send(): void {
    const wires = this.#wires
    this.#wires = []
    for (const wire of wires) wire.sendText()
  }
}

const outbox = new Outbox()

/**
 * One byte pipe with the least work per byte.
 *
 * A TCP socket is read into one buffer that all wires of a side share, so that a read allocates nothing, an idle
 * connection holds no buffer, and node's readable stream is not in the way. Other pipes (TLS, tunnels) are read as the
 * streams they are.
 */
export class Wire implements ByteCounts, PieceLender {
  readonly stream: Duplex
  #owner: WireOwner
  readonly #shared: Buffer
  readonly #lends: boolean
  /** Is it a socket of the system, TLS or not? Other streams gather what they are given by themselves. */
  readonly #gathers: boolean
  /** Does Node encrypt what is written to it? */
  readonly #encrypts: boolean
  readonly #readsAfterReset: boolean
  /** Waits until everything has left; over TLS alone. */
  #flushed: (() => void) | undefined = undefined
  /** Only this wire reads into it, so that it may be kept without a copy. */
  #own: LentBuffer | undefined = undefined
  #bulk = false
  #borrower: Borrower | undefined = undefined
  #paused = false
  /** Written in this turn, and sent at its end. */
  #text = ''

  /** `shared` must have `READ_BYTES`; `pipe` must not have been read. */
  constructor(pipe: Duplex, shared: Buffer, owner: WireOwner) {
    this.#owner = owner
    this.#shared = shared
    const taken = withOwnReads(pipe, {
      buffer: () => this.#next(),
      callback: (length, buffer) => {
        this.#received(buffer as Buffer, length)
        return true
      }
    })
    this.#lends = taken !== undefined
    this.#encrypts = 'encrypted' in pipe
    this.#gathers = taken !== undefined || this.#encrypts
    this.#readsAfterReset = taken !== undefined && readsAfterReset(pipe)
    this.stream = taken ?? pipe
    const { stream } = this
    if (taken === undefined) {
      stream.on('data', (chunk: Buffer) => this.#received(chunk, chunk.length))
      stream.resume()
    }
    stream.on('drain', () => this.#owner.drained())
    stream.on('end', () => this.#owner.wireEnded())
    stream.on('close', () => this.#owner.wireClosed())
    // A break is heard as 'close'; without a listener an 'error' would end the process.
    stream.on('error', ignore)
    if (stream.destroyed) process.nextTick(() => this.#owner.wireClosed())
  }

  set owner(owner: WireOwner) {
    this.#owner = owner
  }

  get paused(): boolean {
    return this.#paused
  }

  /** More was written than the other side took; writing should wait for `drained`. */
  get congested(): boolean {
    return this.stream.writableNeedDrain
  }

  /** Bytes that were written and have not left; those that a reset has discarded never do. */
  get waiting(): number {
    return this.stream.writableLength + this.#text.length + lostBytesOf(this.stream)
  }

  /** The other side has reset the connection, and what it sent before is still being read. */
  get wasReset(): boolean {
    return lostBytesOf(this.stream) > 0
  }

  /** Pending bytes that have not been passed to the socket. */
  get unsent(): number {
    return this.#text.length
  }

  /** Bytes read from a stream that counts them, as sockets do. */
  get bytesRead(): number {
    return (this.stream as Socket).bytesRead
  }

  /** Bytes written to a stream that counts them. */
  get bytesWritten(): number {
    return (this.stream as Socket).bytesWritten + this.#text.length
  }

  /** Expect many bytes: they are read into a buffer of this wire alone, which can be sent on without a copy. */
  set bulk(bulk: boolean) {
    this.#bulk = bulk
  }

  /**
   * Keeps the wire open for reading when its peer closes while we write, where its pipe was dialled so. Called before a body or a pipe: an
   * answer that comes before all was written is found there alone, and each write costs a call more from here on.
   */
  readAfterReset(): void {
    if (this.#readsAfterReset) readAfterReset(this.stream)
  }

  pause(): void {
    if (this.#paused) return
    this.#paused = true
    this.stream.pause()
  }

  resume(): void {
    if (!this.#paused) return
    this.#paused = false
    this.stream.resume()
  }

  #received(chunk: Buffer, length: number): void {
    this.#owner.received(chunk, length)
    if (this.#borrower !== undefined) this.#endLoan()
  }

  /** Lets `borrower` refer to the chunk at hand until the end of the call; one at a time. */
  borrow(borrower: Borrower): void {
    if (this.#borrower !== undefined) this.#endLoan()
    this.#borrower = borrower
  }

  #endLoan(): void {
    const borrower = this.#borrower
    this.#borrower = undefined
    borrower?.keepBorrowed()
  }

  /** A part of the chunk at hand that stays valid. */
  keep(chunk: Buffer, from: number, to: number): Buffer {
    if (this.#lends && chunk === this.#shared) return Buffer.from(chunk.subarray(from, to))
    if (chunk === this.#own?.bytes) this.#own.keep()
    return chunk.subarray(from, to)
  }

  /** See `PieceLender`. A buffer that all wires share is not lent. */
  lend(chunk: Buffer): (() => void) | undefined {
    return chunk === this.#own?.bytes ? this.#own.lend() : undefined
  }

  /** Latin1 text. On a socket it leaves at the end of the turn, or before what is done to the wire next. */
  write(text: string): void {
    if (!this.#gathers) {
      this.stream.write(text, 'latin1')
      return
    }
    if (this.#text === '') {
      this.#text = text
      outbox.add(this)
    } else this.#text += text
    if (this.#text.length > MOST_TEXT) this.sendText()
  }

  /** Sends the text that waits for the end of the turn. */
  sendText(): void {
    const text = this.#text
    if (text === '') return
    this.#text = ''
    this.stream.write(text, 'latin1', this.#encrypts ? this.#onWritten : undefined)
  }

  /** Forgets the text that waits for the end of the turn. */
  dropText(): void {
    this.#text = ''
  }

  writeBytes(bytes: Uint8Array): void {
    this.sendText()
    this.#send(bytes, undefined)
  }

  /** Gives bytes to the stream. `written` is called when they have left. */
  #send(bytes: Uint8Array, written: (() => void) | undefined): void {
    if (!this.#encrypts || written === undefined) {
      this.stream.write(bytes, this.#encrypts ? this.#onWritten : written)
      return
    }
    this.stream.write(bytes, () => {
      written()
      this.#onWritten()
    })
  }

  /**
   * Sends a part of the chunk at hand of `source` on to this wire, in one write with `before` (latin1) and what waits for the end of the turn.
   * Without a source the chunk belongs to the wire.
   */
  forward(source: PieceLender | undefined, chunk: Buffer, from: number, to: number, before = ''): void {
    const { stream } = this
    const isFree = source === undefined || this.#encryptsAtOnce
    // A stream that is no socket may keep bytes after it has said that they are written.
    const written = isFree || !this.#gathers ? undefined : source.lend(chunk)
    const text = this.#text + before
    const isCopied = written === undefined && (isFree ? text !== '' && source !== undefined : to - from >= LEAST_POOLED)
    if (isCopied && this.#gathers && text.length + to - from <= BULK_BYTES) {
      this.#text = ''
      this.#writeCopy(text, chunk.subarray(from, to), isFree)
      return
    }
    if (text !== '') {
      stream.cork()
      if (before !== '') this.write(before)
      this.sendText()
    }
    const piece = from === 0 && to === chunk.length ? chunk : chunk.subarray(from, to)
    this.#send(written !== undefined || isFree ? piece : source.keep(chunk, from, to), written)
    if (text !== '') stream.uncork()
  }

  /** Writes text and bytes from a buffer of the pool: one write of one piece, and nothing is allocated. `isFree`: see `#encryptsAtOnce`. */
  #writeCopy(text: string, piece: Buffer, isFree: boolean): void {
    const buffer = pool.take()
    const head = text === '' ? 0 : buffer.bytes.write(text, 'latin1')
    buffer.bytes.set(piece, head)
    const bytes = buffer.bytes.subarray(0, head + piece.length)
    this.#send(bytes, isFree ? undefined : buffer.lend())
    buffer.leave()
  }

  /**
   * True if the bytes of the next write are encrypted before it returns, so that their memory is free then. Node encrypts into memory of its own
   * as soon as it is given something; only what waits for an earlier write stays where it is. That is not documented, so a test checks it.
   */
  get #encryptsAtOnce(): boolean {
    const { stream } = this
    return (
      this.#encrypts && stream.writableLength === 0 && stream.writableCorked === 0 && !(stream as Socket).connecting
    )
  }

  /** Runs `then` when everything that was written has left, or will at the end of the turn. */
  flushed(then: () => void): void {
    const { stream } = this
    const earlier = this.#flushed
    if (stream.writableLength === 0 || stream.destroyed) then()
    // A write without bytes costs TLS a system call, so that each write says when it has left.
    else if (!this.#encrypts) stream.write('', 'latin1', () => then())
    else if (earlier === undefined) this.#flushed = then
    else
      this.#flushed = () => {
        earlier()
        then()
      }
  }

  readonly #onWritten = (): void => {
    const then = this.#flushed
    if (then === undefined || (this.stream.writableLength > 0 && !this.stream.destroyed)) return
    this.#flushed = undefined
    then()
  }

  /** FIN. */
  end(): void {
    this.sendText()
    this.stream.end()
  }

  /** FIN once everything has left; nothing is read any more then. */
  endSoon(): void {
    this.sendText()
    const socket = this.stream as Socket
    socket.destroySoon()
  }

  destroy(): void {
    this.sendText()
    this.stream.destroy()
  }

  /** RST where there is TCP. */
  cut(): void {
    this.sendText()
    cut(this.stream)
  }

  /** Returns the buffer for the next read. */
  #next(): Buffer {
    const own = this.#own
    if (own?.reusable === true && this.#bulk) return own.bytes
    own?.leave()
    this.#own = this.#bulk ? pool.take() : undefined
    return this.#own?.bytes ?? this.#shared
  }
}

/**
 * Byte counts of the socket below the TLS of a wire; bytes pending at the wire are sent first, because their size is known only after
 * encryption.
 */
export function countsBelow(socket: ByteCounts, wire: Wire): ByteCounts {
  return {
    get bytesRead() {
      return socket.bytesRead
    },
    get bytesWritten() {
      wire.sendText()
      return socket.bytesWritten
    }
  }
}
