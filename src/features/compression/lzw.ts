import { Transform, type TransformCallback } from 'node:stream'

const MAGIC = [0x1f, 0x9d]
const MIN_BITS = 9
const MAX_BITS = 16
/** Bit 7: the table may be cleared; below it the longest code in bits. */
const FLAGS = 0x80 | MAX_BITS
const CLEAR = 256
const FIRST = 257
const FULL = 1 << MAX_BITS
/** Slots of the hash table; a prime, and a quarter of them stays free. */
const SLOTS = 87_383
/** Bytes after a full table until its worth is looked at again. */
const CHECK = 10_000
/** Bytes that are encoded in one turn of the loop: a millisecond or less. */
const STRETCH = 16_384

/**
 * Encodes the coding `compress` (RFC 9110 8.4.1.1): adaptive LZW with codes of 9 to 16 bits, as the program of this name
 * writes it and `gzip -d` reads it. When the table is full and the ratio falls, it is cleared. A code ends inside a byte, so
 * it cannot give out at once what was written.
 */
export class LzwEncoder extends Transform {
  /** Bytes that went in. */
  bytesWritten = 0
  readonly #keys = new Int32Array(SLOTS).fill(-1)
  readonly #codes = new Uint16Array(SLOTS)
  #out = Buffer.allocUnsafe(4096)
  #filled = 0
  #bytesOut = 0
  /** Bits that do not fill a byte yet. */
  #held = 0
  #heldBits = 0
  #width = MIN_BITS
  /** Codes written at this width; they come in groups of eight. */
  #inGroup = 0
  #next = FIRST
  #prefix = -1
  #position = 0
  #ratio = 0
  #checkpoint = CHECK

  constructor() {
    super()
    for (const byte of [...MAGIC, FLAGS]) this.#byte(byte)
  }

  override _transform(chunk: Uint8Array, _encoding: BufferEncoding, done: TransformCallback): void {
    this.#encode(chunk, 0, done)
  }

  /** Encodes the chunk from `start` on; a whole body may come as one. */
  #encode(chunk: Uint8Array, start: number, done: TransformCallback): void {
    const end = Math.min(chunk.length, start + STRETCH)
    for (let at = start; at < end; at++) this.#take(chunk[at] as number)
    this.bytesWritten += end - start
    if (this.#filled >= 4096) this.#give()
    if (end === chunk.length) done()
    else setImmediate(() => (this.destroyed ? done() : this.#encode(chunk, end, done)))
  }

  override _flush(done: TransformCallback): void {
    if (this.#prefix >= 0) this.#code(this.#prefix)
    while (this.#heldBits > 0) this.#shift()
    this.#give()
    done()
  }

  #take(byte: number): void {
    this.#position++
    if (this.#prefix < 0) {
      this.#prefix = byte
      return
    }
    const key = (this.#prefix << 8) | byte
    const slot = this.#slotOf(key)
    if (this.#keys[slot] === key) {
      this.#prefix = this.#codes[slot] as number
      return
    }
    this.#code(this.#prefix)
    this.#prefix = byte
    if (this.#next < FULL) {
      this.#keys[slot] = key
      this.#codes[slot] = this.#next++
    } else if (this.#position >= this.#checkpoint) this.#judge()
  }

  /** The slot that holds `key`, or the free one where it belongs. */
  #slotOf(key: number): number {
    let slot = (Math.imul(key, 0x9e3779b1) >>> 0) % SLOTS
    while (this.#keys[slot] !== -1 && this.#keys[slot] !== key) slot = slot + 1 === SLOTS ? 0 : slot + 1
    return slot
  }

  #judge(): void {
    this.#checkpoint = this.#position + CHECK
    const ratio = this.#position / this.#bytesOut
    if (ratio >= this.#ratio) {
      this.#ratio = ratio
      return
    }
    this.#code(CLEAR)
    this.#pad()
    this.#keys.fill(-1)
    this.#next = FIRST
    this.#width = MIN_BITS
    this.#ratio = 0
  }

  #code(code: number): void {
    this.#held |= code << this.#heldBits
    this.#heldBits += this.#width
    this.#inGroup = (this.#inGroup + 1) % 8
    while (this.#heldBits >= 8) this.#shift()
    // The reader widens its codes when its table, one entry behind this one, is full at this width.
    if (this.#next > (1 << this.#width) - 1 && this.#width < MAX_BITS) {
      this.#pad()
      this.#width++
    }
  }

  /** A group of eight codes is as many bytes as a code has bits; what is left of one at a change of width is filled up. */
  #pad(): void {
    while (this.#inGroup !== 0) {
      this.#heldBits += this.#width
      this.#inGroup = (this.#inGroup + 1) % 8
      while (this.#heldBits >= 8) this.#shift()
    }
  }

  #shift(): void {
    this.#byte(this.#held & 0xff)
    this.#held >>>= 8
    this.#heldBits = Math.max(0, this.#heldBits - 8)
  }

  #byte(byte: number): void {
    if (this.#filled === this.#out.length) this.#out = Buffer.concat([this.#out], this.#out.length * 2)
    this.#out[this.#filled++] = byte
    this.#bytesOut++
  }

  #give(): void {
    if (this.#filled === 0) return
    this.push(Buffer.from(this.#out.subarray(0, this.#filled)))
    this.#filled = 0
  }
}
