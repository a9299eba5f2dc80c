import type { PieceLender, PieceSink } from '../../flow/exchange.js'
import { ByteQueue } from '../../lib/byte-queue.js'
import { textOf } from './wire.js'

/** Destination of a body. Few bytes arrive as latin1 text, which joins head and body in one write. */
export interface BodySink extends PieceSink {
  text(data: string): void
}

/** Maximum number of bytes passed as text. */
export const SMALL = 4096
/** Bytes of an empty body. */
export const NOTHING = Buffer.alloc(0)

/** A piece in the memory of its lender. */
interface Borrowed {
  readonly chunk: Buffer
  readonly from: number
  readonly to: number
  readonly lender: PieceLender
}

/**
 * Bytes waiting for a consumer of the body. A first small piece stays text, because it is sent in one write with its head; further ones are
 * joined, so that a body in one-byte chunks takes no more memory than its bytes.
 */
export class Held {
  /** First and only piece, valid until `keepBorrowed` is called. */
  #borrowed: Borrowed | undefined
  #text: string | undefined = undefined
  #more: ByteQueue | undefined = undefined
  length: number

  constructor(borrowed: Borrowed | undefined) {
    this.#borrowed = borrowed
    this.length = borrowed === undefined ? 0 : borrowed.to - borrowed.from
  }

  /** Makes the bytes independent of the memory that they arrived in. */
  keepBorrowed(): void {
    const borrowed = this.#borrowed
    if (borrowed === undefined) return
    this.#borrowed = undefined
    this.#more = new ByteQueue()
    holdPiece(this.#more, borrowed.chunk, borrowed.from, borrowed.to, borrowed.lender)
  }

  push(chunk: Buffer, from: number, to: number, lender: PieceLender | undefined): void {
    this.keepBorrowed()
    if (this.length === 0 && to - from <= SMALL) this.#text = textOf(chunk, from, to)
    else {
      this.#more ??= new ByteQueue()
      holdPiece(this.#more, chunk, from, to, lender)
    }
    this.length += to - from
  }

  sendTo(sink: BodySink): void {
    const borrowed = this.#borrowed
    if (borrowed !== undefined) sink.chunk(borrowed.chunk, borrowed.from, borrowed.to, borrowed.lender)
    if (this.#text !== undefined) sink.text(this.#text)
    for (const piece of this.#more?.takePieces() ?? []) sink.chunk(piece, 0, piece.length, undefined)
  }

  /** Returns all bytes as one piece, without removing them. */
  whole(): Buffer {
    this.keepBorrowed()
    const first = Buffer.from(this.#text ?? '', 'latin1')
    const more = this.#more?.takeAll() ?? NOTHING
    const all = first.length === 0 ? more : more.length === 0 ? first : Buffer.concat([first, more])
    this.#text = undefined
    this.#more = new ByteQueue()
    this.#more.push(all)
    return all
  }
}

/** Stores bytes that are valid only now. */
export function holdPiece(
  queue: ByteQueue,
  chunk: Buffer,
  from: number,
  to: number,
  lender: PieceLender | undefined
): void {
  // The queue copies small pieces.
  const copied = lender === undefined || to - from < SMALL
  queue.push(copied ? chunk.subarray(from, to) : lender.keep(chunk, from, to))
}
