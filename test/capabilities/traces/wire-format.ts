/** One field of a message of Protocol Buffers, without knowledge of what it means. */
export interface WireField {
  readonly number: number
  readonly wire: 0 | 1 | 2 | 5
  /** Of a varint, or of fixed bytes as an unsigned little-endian number. */
  readonly number64: bigint
  /** Of a field with a length, or fixed bytes. */
  readonly bytes: Buffer
}

/** Splits a message into its fields; anything that is none is an error. */
function wireFields(message: Buffer): WireField[] {
  const fields: WireField[] = []
  let offset = 0
  const need = (condition: boolean, what: string): void => {
    if (!condition) throw new Error(`no protobuf message: ${what} at ${offset} of ${message.length}`)
  }
  const readVarint = (): bigint => {
    let result = 0n
    let place = 1n
    for (let count = 0; ; count++) {
      need(offset < message.length && count < 10, 'a varint without an end')
      const byte = message.readUInt8(offset++)
      result += BigInt(byte % 128) * place
      place *= 128n
      if (byte < 128) return result
    }
  }
  while (offset < message.length) {
    const key = readVarint()
    const number = Number(key / 8n)
    const wire = Number(key % 8n)
    need(number > 0, 'field 0')
    if (wire === 0) {
      fields.push({ number, wire, number64: readVarint(), bytes: Buffer.alloc(0) })
      continue
    }
    need(wire === 1 || wire === 2 || wire === 5, `wire type ${wire}`)
    const size = wire === 1 ? 8 : wire === 5 ? 4 : Number(readVarint())
    need(offset + size <= message.length, `${size} bytes`)
    const bytes = message.subarray(offset, offset + size)
    offset += size
    const number64 = wire === 1 ? bytes.readBigUInt64LE() : wire === 5 ? BigInt(bytes.readUInt32LE()) : 0n
    fields.push({ number, wire: wire as 1 | 2 | 5, number64, bytes })
  }
  return fields
}

/** A message whose fields are looked up by their numbers. */
export class WireMessage {
  readonly #fields: readonly WireField[]

  constructor(bytes: Buffer) {
    this.#fields = wireFields(bytes)
  }

  #of(number: number): readonly WireField[] {
    return this.#fields.filter((field) => field.number === number)
  }

  has(number: number): boolean {
    return this.#of(number).length > 0
  }

  messages(number: number): WireMessage[] {
    return this.#of(number).map(({ bytes }) => new WireMessage(bytes))
  }

  text(number: number): string {
    return this.#of(number).at(-1)?.bytes.toString('utf8') ?? ''
  }

  hex(number: number): string {
    return this.#of(number).at(-1)?.bytes.toString('hex') ?? ''
  }

  integer(number: number): bigint {
    return this.#of(number).at(-1)?.number64 ?? 0n
  }

  double(number: number): number {
    return this.#of(number).at(-1)?.bytes.readDoubleLE() ?? 0
  }

  /** Eight bytes each, packed. */
  packed(number: number): Buffer[] {
    const all = Buffer.concat(this.#of(number).map(({ bytes }) => bytes))
    return Array.from({ length: all.length / 8 }, (_, index) => all.subarray(index * 8, index * 8 + 8))
  }
}
