import { ownText } from '../../lib/peer-names.js'
import {
  CODE_SIZES,
  CODES,
  FIELD_OVERHEAD,
  STATIC_NAMES,
  STATIC_TABLE,
  STATIC_VALUES,
  TABLE_SIZE
} from './hpack-tables.js'

/** Maximum number of names with cached values per connection. */
const NAMES = 128
/** Maximum number of cached values per name. */
const VALUES = 4
/** Maximum length of a cached value. */
const LONGEST = 256
/** Maximum number of entries in the dynamic table. */
const PLACES = TABLE_SIZE / FIELD_OVERHEAD
/** Fields that enter no table, because an attacker could learn their values from sizes (RFC 7541 7.1.3). */
const SECRET: ReadonlySet<string> = new Set(['set-cookie', 'cookie', 'authorization', 'proxy-authorization'])

/** Buffer for encoding blocks, shared by all connections, because a block is sent as soon as it is complete. */
let scratch = Buffer.allocUnsafeSlow(4096)

/** State of a name: its static index, and the recently sent values. */
interface Name {
  readonly index: number
  readonly secret: boolean
  readonly statics: ReadonlyMap<string, number> | undefined
  values: string[]
  /** Insertion number of each value in the table; 0 if the value was sent once and is not in the table. */
  inserted: number[]
  oldest: number
}

/**
 * Encodes the header blocks of one direction of a connection (RFC 7541). A field enters the dynamic table when it is sent for the second time, so
 * that one-time values evict nothing. Texts use the Huffman code if that is shorter.
 */
export class HpackEncoder {
  readonly #names = new Map<string, Name>()
  /** Sizes of the fields in the table, as a ring by insertion number. */
  readonly #sizes: number[] = []
  #insertions = 0
  #count = 0
  #size = 0
  #capacity = TABLE_SIZE
  /** Smallest capacity since the last block; -1 if unchanged (RFC 7541 4.2). */
  #smallest = -1
  #at = 0

  /** Size of the dynamic table in bytes as RFC 7541 4.1 counts it. */
  get tableSize(): number {
    return this.#size
  }

  /** Applies SETTINGS_HEADER_TABLE_SIZE of the peer (bytes). */
  set limit(bytes: number) {
    const capacity = Math.min(bytes, TABLE_SIZE)
    if (capacity === this.#capacity) return
    this.#smallest = this.#smallest < 0 ? capacity : Math.min(this.#smallest, capacity)
    this.#capacity = capacity
    this.#evict(capacity)
  }

  /** Releases the cached values. The peer's table keeps its fields, but they are not referenced again. */
  release(): void {
    this.#names.clear()
  }

  /** Begins a block. Blocks must be sent in the order in which they were encoded. */
  begin(): void {
    this.#at = 0
    if (this.#smallest < 0) return
    if (this.#smallest < this.#capacity) this.#integer(0x20, 5, this.#smallest)
    this.#integer(0x20, 5, this.#capacity)
    this.#smallest = -1
  }

  /** Adds a field. The name is in lower case and the value in latin1, both within the grammar. */
  field(name: string, value: string): void {
    const known = this.#names.get(name) ?? this.#learn(name)
    const fixed = known.statics?.get(value)
    if (fixed !== undefined) this.#integer(0x80, 7, fixed)
    else if (known.secret) this.#literal(0x10, 4, known.index, name, value)
    else if (value.length > LONGEST) this.#literal(0, 4, known.index, name, value)
    else this.#repeatable(known, name, value)
  }

  /** Returns the block, which is valid until the next `begin`. */
  end(): Buffer {
    return scratch.subarray(0, this.#at)
  }

  #repeatable(known: Name, name: string, value: string): void {
    const place = known.values.indexOf(value)
    if (place < 0) {
      this.#literal(0, 4, known.index, name, value)
      // Copied arrays have no spare capacity; most names have one value.
      if (known.values.length < VALUES) {
        known.values = [...known.values, ownText(value)]
        known.inserted = [...known.inserted, 0]
        return
      }
      const { oldest } = known
      known.values[oldest] = ownText(value)
      known.inserted[oldest] = 0
      known.oldest = (oldest + 1) % VALUES
      return
    }
    const number = known.inserted[place] as number
    const age = this.#insertions - number
    if (number > 0 && age < this.#count) {
      this.#integer(0x80, 7, STATIC_TABLE.length + 1 + age)
      return
    }
    const size = name.length + value.length + FIELD_OVERHEAD
    if (size > this.#capacity) {
      this.#literal(0, 4, known.index, name, value)
      return
    }
    this.#literal(0x40, 6, known.index, name, value)
    this.#evict(this.#capacity - size)
    this.#sizes[++this.#insertions % PLACES] = size
    this.#count++
    this.#size += size
    known.inserted[place] = this.#insertions
  }

  #learn(name: string): Name {
    const known: Name = {
      index: STATIC_NAMES.get(name) ?? 0,
      secret: SECRET.has(name),
      statics: STATIC_VALUES.get(name),
      values: [],
      inserted: [],
      oldest: 0
    }
    if (this.#names.size < NAMES && name.length <= LONGEST) this.#names.set(ownText(name), known)
    return known
  }

  #evict(most: number): void {
    while (this.#size > most) {
      this.#count--
      this.#size -= this.#sizes[(this.#insertions - this.#count) % PLACES] as number
    }
  }

  #literal(pattern: number, bits: number, index: number, name: string, value: string): void {
    this.#integer(pattern, bits, index)
    if (index === 0) this.#text(name)
    this.#text(value)
  }

  #text(text: string): void {
    const { length } = text
    let bits = 7
    for (let i = 0; i < length; i++) bits += CODE_SIZES[text.charCodeAt(i)] as number
    const coded = bits >>> 3
    if (coded < length) {
      this.#integer(0x80, 7, coded)
      this.#room(coded)
      this.#huffman(text)
      return
    }
    this.#integer(0, 7, length)
    this.#room(length)
    if (length > 24) scratch.write(text, this.#at, length, 'latin1')
    else for (let i = 0; i < length; i++) scratch[this.#at + i] = text.charCodeAt(i)
    this.#at += length
  }

  /** Writes a Huffman text (RFC 7541 5.2). */
  #huffman(text: string): void {
    let held = 0
    let count = 0
    for (let i = 0; i < text.length; i++) {
      const byte = text.charCodeAt(i)
      const code = CODES[byte] as number
      let size = CODE_SIZES[byte] as number
      if (size > 16) {
        // Up to seven held bits and a code of up to 30 bits do not fit into 32.
        size -= 16
        held = (held << size) | (code >>> 16)
        for (count += size; count >= 8; count -= 8) scratch[this.#at++] = held >>> (count - 8)
        size = 16
      }
      held = (held << size) | (size === 16 ? code & 0xffff : code)
      for (count += size; count >= 8; count -= 8) scratch[this.#at++] = held >>> (count - 8)
    }
    if (count > 0) scratch[this.#at++] = (held << (8 - count)) | (0xff >>> count)
  }

  /** Writes an integer (RFC 7541 5.1). */
  #integer(pattern: number, bits: number, value: number): void {
    this.#room(6)
    const most = (1 << bits) - 1
    if (value < most) {
      scratch[this.#at++] = pattern | value
      return
    }
    scratch[this.#at++] = pattern | most
    let rest = value - most
    for (; rest >= 128; rest >>>= 7) scratch[this.#at++] = (rest & 0x7f) | 0x80
    scratch[this.#at++] = rest
  }

  #room(bytes: number): void {
    if (this.#at + bytes <= scratch.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(2 * scratch.length, this.#at + bytes))
    scratch.copy(larger, 0, 0, this.#at)
    scratch = larger
  }
}
