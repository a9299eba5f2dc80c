import { TOKEN, VALUE } from '../message-scanner.js'
import {
  EMITS,
  FAILS,
  FIELD_OVERHEAD,
  MAY_END,
  STATIC_TABLE,
  STEPS,
  TABLE_SIZE,
  type TableField
} from './hpack-tables.js'

const COLON = 0x3a
/** Class of bytes allowed in names, which are in lower case (RFC 9113 8.2.1). */
const IN_NAME = 1
/** Class of bytes allowed in values. */
const IN_VALUE = 2
/** Classes of each byte. */
const CLASS = new Uint8Array(256)
for (let byte = 0; byte < 256; byte++) {
  const upper = byte >= 0x41 && byte <= 0x5a
  CLASS[byte] = (TOKEN[byte] === 1 && !upper ? IN_NAME : 0) | (VALUE[byte] === 1 ? IN_VALUE : 0)
}

/** Maximum number of fields in a table. */
const PLACES = TABLE_SIZE / FIELD_OVERHEAD
/** Buffer for decoding Huffman texts, shared by all connections. */
let scratch = Buffer.allocUnsafeSlow(4096)

/**
 * Decodes the header blocks of one direction of a connection in order (RFC 7541), and checks their fields against the grammar. A field from a
 * table needs no new string.
 */
export class HpackDecoder {
  /** Flat list of names and values of the last block; the next block overwrites it. */
  readonly fields: string[] = []
  /** True if the last block has an invalid name or value (RFC 9113 8.2.1). */
  malformed = false
  /** True if the last block exceeds a limit; `fields` has its first fields. */
  tooLarge = false
  readonly #listLimit: number
  readonly #fieldLimit: number
  /** The dynamic table. Its last field has index 62; fields before `#oldest` are dropped. */
  readonly #table: (TableField | undefined)[] = []
  #oldest = 0
  #size = 0
  #capacity = TABLE_SIZE
  #bytes: Buffer = scratch
  #at = 0
  #end = 0
  /** True if the last text is within the grammar. */
  #sound = false
  #listSize = 0

  /** `listLimit`: size of a list as SETTINGS_MAX_HEADER_LIST_SIZE counts it (bytes). `fieldLimit`: number of its fields. */
  constructor(listLimit: number, fieldLimit: number) {
    this.#listLimit = listLimit
    this.#fieldLimit = fieldLimit
  }

  /** Releases the strings of the last block. */
  release(): void {
    this.fields.length = 0
    this.#bytes = scratch
  }

  /** Size of the dynamic table in bytes as RFC 7541 4.1 counts it. */
  get tableSize(): number {
    return this.#size
  }

  /**
   * Decodes a complete header block: `bytes` from `from` to `end`. Returns false for an error, after which the tables of the two sides differ, so
   * that the connection must be closed.
   */
  decode(bytes: Buffer, from: number, end: number): boolean {
    this.#bytes = bytes
    this.#at = from
    this.#end = end
    this.fields.length = 0
    this.malformed = this.tooLarge = false
    this.#listSize = 0
    let first = true
    while (this.#at < end) {
      const byte = bytes[this.#at] as number
      if (byte >= 0x80) {
        const found = this.#fieldAt(this.#integer(7))
        if (found === undefined) return false
        this.#take(found.name, found.value, found.nameSound && found.valueSound)
      } else if ((byte & 0xe0) === 0x20) {
        // A table size update is valid only before the first field (RFC 7541 4.2).
        const capacity = first ? this.#integer(5) : -1
        if (capacity < 0 || capacity > TABLE_SIZE) return false
        this.#capacity = capacity
        this.#evict(capacity)
        continue
      } else if (!this.#literal(byte)) return false
      first = false
    }
    return true
  }

  #take(name: string, value: string, sound: boolean): void {
    if (!sound) this.malformed = true
    this.#listSize += name.length + value.length + FIELD_OVERHEAD
    if (this.#listSize > this.#listLimit || this.fields.length >= 2 * this.#fieldLimit) this.tooLarge = true
    else this.fields.push(name, value)
  }

  /** Reads a literal field. Returns false if it cannot be decoded. */
  #literal(byte: number): boolean {
    const indexed = byte >= 0x40
    const index = this.#integer(indexed ? 6 : 4)
    if (index < 0) return false
    let name: string | undefined
    let nameSound: boolean
    if (index === 0) {
      name = this.#text(IN_NAME)
      nameSound = this.#sound
    } else {
      const found = this.#fieldAt(index)
      name = found?.name
      nameSound = found?.nameSound === true
    }
    if (name === undefined) return false
    const value = this.#text(IN_VALUE)
    if (value === undefined) return false
    const valueSound = this.#sound
    if (indexed) this.#insert({ name, value, nameSound, valueSound })
    this.#take(name, value, nameSound && valueSound)
    return true
  }

  /** Returns the field at an index of the static and dynamic tables (RFC 7541 2.3.3). */
  #fieldAt(index: number): TableField | undefined {
    if (index <= STATIC_TABLE.length) return STATIC_TABLE[index - 1]
    return this.#table[this.#table.length + STATIC_TABLE.length - index]
  }

  #insert(field: TableField): void {
    const size = field.name.length + field.value.length + FIELD_OVERHEAD
    this.#evict(Math.max(0, this.#capacity - size))
    // A field larger than the table leaves it empty (RFC 7541 4.4).
    if (size > this.#capacity) return
    this.#table.push(field)
    this.#size += size
  }

  /** Drops the oldest fields until the table has at most `most` bytes. */
  #evict(most: number): void {
    const table = this.#table
    while (this.#size > most) {
      const { name, value } = table[this.#oldest] as TableField
      table[this.#oldest++] = undefined
      this.#size -= name.length + value.length + FIELD_OVERHEAD
    }
    if (this.#oldest < PLACES && this.#oldest < table.length) return
    table.splice(0, this.#oldest)
    this.#oldest = 0
  }

  /** Reads an integer with a prefix of `bits` bits (RFC 7541 5.1). Returns -1 if incomplete or above 2^31. */
  #integer(bits: number): number {
    const most = (1 << bits) - 1
    let value = (this.#bytes[this.#at++] as number) & most
    if (value < most) return value
    for (let unit = 1; unit <= 2 ** 28; unit *= 128) {
      if (this.#at >= this.#end) return -1
      const byte = this.#bytes[this.#at++] as number
      value += (byte & 0x7f) * unit
      if (byte < 0x80) return value < 2 ** 31 ? value : -1
    }
    return -1
  }

  /** Reads a text and checks it against the grammar. Returns undefined if it cannot be decoded. */
  #text(allowed: number): string | undefined {
    if (this.#at >= this.#end) return undefined
    const huffman = (this.#bytes[this.#at] as number) >= 0x80
    const length = this.#integer(7)
    if (length < 0 || length > this.#end - this.#at) return undefined
    const from = this.#at
    this.#at += length
    if (!huffman) return this.#judged(this.#bytes, from, from + length, allowed)
    const decoded = this.#huffman(from, from + length)
    return decoded < 0 ? undefined : this.#judged(scratch, 0, decoded, allowed)
  }

  /** Decodes Huffman text into `scratch`. Returns its length, or -1 for an error. */
  #huffman(from: number, to: number): number {
    // The shortest code has five bits.
    if ((to - from) * 1.6 > scratch.length) scratch = Buffer.allocUnsafeSlow(2 * (to - from))
    const bytes = this.#bytes
    const into = scratch
    let state = 0
    let length = 0
    for (let at = from; at < to; at++) {
      const byte = bytes[at] as number
      let step = STEPS[(state << 4) | (byte >> 4)] as number
      if ((step & EMITS) !== 0) into[length++] = step >> 8
      if ((step & FAILS) !== 0) return -1
      step = STEPS[((step & 0xff) << 4) | (byte & 15)] as number
      if ((step & EMITS) !== 0) into[length++] = step >> 8
      if ((step & FAILS) !== 0) return -1
      state = step & 0xff
    }
    return MAY_END[state] === 1 ? length : -1
  }

  #judged(bytes: Buffer, from: number, to: number, allowed: number): string {
    const length = to - from
    const name = allowed === IN_NAME
    const first = bytes[from] as number
    // A colon begins a pseudo-header field, which the reader of the list checks.
    const start = name && first === COLON && length > 1 ? from + 1 : from
    let all = allowed
    for (let at = start; at < to; at++) all &= CLASS[bytes[at] as number] as number
    this.#sound = length === 0 ? !name : all !== 0 && (name || !(isBlank(first) || isBlank(bytes[to - 1] as number)))
    return bytes.toString('latin1', from, to)
  }
}

function isBlank(byte: number): boolean {
  return byte === 0x20 || byte === 0x09
}
