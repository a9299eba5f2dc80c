/** Node's memory overhead per queued piece (bytes): a Buffer, the record of its memory, its slot in a list. */
export const PIECE_OVERHEAD = 256

/** Shorter pieces are copied into blocks (bytes). */
const SMALL = 4096
/** Size of the first block (bytes). */
const FIRST_BLOCK = 256
/** Maximum size of a block (bytes). */
const LARGEST_BLOCK = 16_384

/** Queue of bytes. Small pieces are joined in blocks, so that memory is proportional to the bytes for any size of pieces; `memory` returns it. */
export class ByteQueue {
  readonly #pieces: Buffer[] = []
  /** The block being filled, after all pieces. */
  #block: Buffer | undefined = undefined
  #used = 0
  #length = 0
  #memory = 0

  /** Number of queued bytes. */
  get length(): number {
    return this.#length
  }

  /** Upper estimate of the memory retained by the queue (bytes). */
  get memory(): number {
    return this.#memory
  }

  /** Appends bytes: large pieces are not copied and must not change afterwards. */
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

  /** Removes the first contiguous bytes; undefined if the queue is empty. */
  shift(): Buffer | undefined {
    if (this.#pieces.length === 0) this.#closeBlock()
    const piece = this.#pieces.shift()
    if (piece !== undefined) {
      this.#length -= piece.length
      this.#memory -= costOf(piece)
    }
    return piece
  }

  /** Removes all bytes as one piece. */
  takeAll(): Buffer {
    this.#closeBlock()
    const all = this.#pieces.length === 1 ? (this.#pieces[0] as Buffer) : Buffer.concat(this.#pieces, this.#length)
    this.clear()
    return all
  }

  /** Removes all bytes in their existing pieces. */
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

  /** Returns a block with room; `wanted` bytes follow. */
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

/** Copies bytes whose buffer would retain far more memory than their own size. */
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
