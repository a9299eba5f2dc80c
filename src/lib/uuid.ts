import { randomFillSync } from 'node:crypto'

/** Random bytes of a UUID of version 7 as they are used here: 12 bits after the version, 62 after the variant. */
const BYTES = 10
/** Asking the system for each id costs several times the id. */
const STOCK = BYTES * 400
const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))

/** Makes UUIDs of version 7 (RFC 9562 5.7): 48 bits of time and 74 random bits, so that they sort by time. */
export class UuidSource {
  readonly #stock = new Uint8Array(STOCK)
  #next = STOCK
  #millisecond = -1
  #time = ''

  /** `wall`: milliseconds since the Unix epoch. */
  make(wall: number): string {
    const millisecond = Math.floor(wall)
    if (millisecond !== this.#millisecond) {
      const digits = millisecond.toString(16).padStart(12, '0')
      this.#time = `${digits.slice(0, 8)}-${digits.slice(8, 12)}-7`
      this.#millisecond = millisecond
    }
    if (this.#next >= STOCK) {
      randomFillSync(this.#stock)
      this.#next = 0
    }
    const stock = this.#stock
    const at = this.#next
    this.#next = at + BYTES
    const hex = (offset: number) => HEX[stock[at + offset] as number] as string
    const variant = HEX[((stock[at + 2] as number) & 0x3f) | 0x80] as string
    return `${this.#time}${hex(0).charAt(1)}${hex(1)}-${variant}${hex(3)}-${hex(4)}${hex(5)}${hex(6)}${hex(7)}${hex(8)}${hex(9)}`
  }
}
