import { randomFillSync } from 'node:crypto'

/** Random bytes per version 7 UUID: 12 bits after the version, 62 after the variant. */
const BYTES = 10
/** Bytes of the random stock: requesting them per id costs several times the id. */
const STOCK = BYTES * 400
/** Upper hexadecimal digit of each byte, as a character code. */
const HIGH = Uint8Array.from({ length: 256 }, (_, byte) => (byte >> 4).toString(16).charCodeAt(0))
/** Lower hexadecimal digit of each byte, as a character code. */
const LOW = Uint8Array.from({ length: 256 }, (_, byte) => (byte & 15).toString(16).charCodeAt(0))

/** Creates version 7 UUIDs (RFC 9562 5.7): 48 bits of time and 74 random bits, so that they sort by time. */
export class UuidSource {
  readonly #stock = new Uint8Array(STOCK)
  #next = STOCK
  #millisecond = -1
  /** Reused buffer of the last UUID: joining parts of text costs twice as much. */
  readonly #text = Buffer.from('00000000-0000-7000-8000-000000000000', 'latin1')

  /** `wall`: milliseconds since the Unix epoch. */
  make(wall: number): string {
    const text = this.#text
    const millisecond = Math.floor(wall)
    if (millisecond !== this.#millisecond) {
      const digits = millisecond.toString(16).padStart(12, '0')
      text.write(`${digits.slice(0, 8)}-${digits.slice(8, 12)}`, 'latin1')
      this.#millisecond = millisecond
    }
    if (this.#next >= STOCK) {
      randomFillSync(this.#stock)
      this.#next = 0
    }
    const stock = this.#stock
    const at = this.#next
    this.#next = at + BYTES
    text[15] = LOW[stock[at] as number] as number
    put(text, 16, stock[at + 1] as number)
    put(text, 19, ((stock[at + 2] as number) & 0x3f) | 0x80)
    put(text, 21, stock[at + 3] as number)
    for (let i = 4; i < BYTES; i++) put(text, 16 + 2 * i, stock[at + i] as number)
    return text.toString('latin1')
  }
}

function put(text: Uint8Array, at: number, byte: number): void {
  text[at] = HIGH[byte] as number
  text[at + 1] = LOW[byte] as number
}
