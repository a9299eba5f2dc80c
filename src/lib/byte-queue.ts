/** What node keeps for one piece of bytes that waits, besides the bytes: a Buffer, its memory's own record, its place in a list. */
export const PIECE_OVERHEAD = 256

/** Shorter pieces are copied into blocks. */
const SMALL = 4096
const FIRST_BLOCK = 256
const LARGEST_BLOCK = 16_384

/**
 * Bytes that wait. Small pieces are joined in blocks, so that the memory taken is in proportion to the bytes however small
 * the pieces are in which they come; `memory` says how much it is.
 */
export class ByteQueue {
  readonly #pieces: Buffer[] = []
  /** The block that is being filled, behind all pieces. */
  #block: Buffer | undefined = undefined
  #used = 0
  #length = 0
  #memory = 0

  /** Bytes that wait. */
  get length(): number {
    return this.#length
  }

  /** Memory in bytes that what waits keeps alive, an estimate from above. */
  get memory(): number {
    return this.#memory
  }

  /** Takes bytes over: large ones as they are, so that they must not change any more. */
  push(bytes: Uint8Array): void {
    this.#length += bytes.length
    if (bytes.length >= SMALL && !isFragment(bytes)) {
      this.#closeBlock()
      this.#add(asBuffer(bytes))
      return
    }
    for (let at = 0; at < bytes.length; ) {
      const block = this.#room(bytes.length - at)
      const end = Math.min(bytes.length, at + block.length - this.#used)
      block.set(at === 0 && end === bytes.length ? bytes : bytes.subarray(at, end), this.#used)
      this.#used += end - at
      at = end
    }
  }

  /** The first bytes, at least one and as many as lie together; undefined: there are none. */
  shift(): Buffer | undefined {
    if (this.#pieces.length === 0) this.#closeBlock()
    const piece = this.#pieces.shift()
    if (piece !== undefined) {
      this.#length -= piece.length
      this.#memory -= costOf(piece)
    }
    return piece
  }

  /** Everything in one piece; the queue is empty then. */
  takeAll(): Buffer {
    this.#closeBlock()
    const all = this.#pieces.length === 1 ? (this.#pieces[0] as Buffer) : Buffer.concat(this.#pieces, this.#length)
    this.clear()
    return all
  }

  /** Everything in the pieces in which it lies; the queue is empty then. */
  takePieces(): Buffer[] {
    this.#closeBlock()
    const pieces = [...this.#pieces]
    this.clear()
    return pieces
  }

  clear(): void {
    this.#pieces.length = 0
    this.#block = undefined
    this.#used = this.#length = this.#memory = 0
  }

  /** A block with room; `wanted` bytes are to come. */
  #room(wanted: number): Buffer {
    const former = this.#block
    if (former !== undefined && this.#used < former.length) return former
    this.#closeBlock()
    const size = Math.max(former === undefined ? FIRST_BLOCK : former.length * 2, wanted)
    const block = Buffer.allocUnsafeSlow(Math.min(LARGEST_BLOCK, size))
    this.#block = block
    this.#memory += costOf(block)
    return block
  }

  #closeBlock(): void {
    const block = this.#block
    if (block === undefined) return
    this.#memory -= costOf(block)
    this.#add(block.subarray(0, this.#used))
    this.#block = undefined
    this.#used = 0
  }

  #add(piece: Buffer): void {
    this.#pieces.push(piece)
    this.#memory += costOf(piece)
  }
}

/** Bytes as they may be kept: a copy where the original would keep far more memory alive than its own. */
export function compact(bytes: Buffer): Buffer {
  return isFragment(bytes) ? Buffer.from(bytes) : bytes
}

function isFragment(bytes: Uint8Array): boolean {
  return bytes.length * 2 < bytes.buffer.byteLength
}

function costOf(piece: Buffer): number {
  return piece.buffer.byteLength + PIECE_OVERHEAD
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
}
