/*
 * The wire format of Protocol Buffers (protobuf.dev, "Encoding"), as far as OTLP uses it: messages are declared as tables, and
 * plain objects with the names of the JSON mapping are written by them.
 */

/** Encoding of a value. `hex`: hexadecimal digits encoded as bytes. 64-bit numbers are decimal strings or safe integers. */
type Scalar = 'string' | 'hex' | 'bool' | 'enum' | 'uint32' | 'int64' | 'double' | 'fixed32' | 'fixed64'

/** The fields of a message: number, kind, and whether there are several. A list of numbers is packed. */
export interface Message {
  readonly [name: string]: readonly [number: number, kind: Scalar | (() => Message), repeated?: 'repeated']
}

const WIRE = { varint: 0, fixed64: 1, bytes: 2, fixed32: 5 } as const
const FIRST = 1_024
const MORE = 0x80
const LOW = 0x7f
/** Characters of a text whose length is one byte. */
const SHORT = 64

/** Bytes of a varint. */
function sizeOf(value: number): number {
  let size = 1
  for (let rest = value; rest > LOW; rest = Math.floor(rest / MORE)) size++
  return size
}

/** Bytes that grow. */
class Sink {
  #bytes = Buffer.allocUnsafe(FIRST)
  #length = 0

  get written(): Uint8Array {
    return this.#bytes.subarray(0, this.#length)
  }

  varint(value: number | bigint): void {
    if (typeof value === 'number' && value >= 0 && value <= Number.MAX_SAFE_INTEGER) {
      let rest = value
      while (rest > LOW) {
        this.#byte((rest & LOW) | MORE)
        rest = Math.floor(rest / MORE)
      }
      this.#byte(rest)
      return
    }
    let rest = BigInt.asUintN(64, BigInt(value))
    while (rest > 127n) {
      this.#byte(Number(rest & 127n) | MORE)
      rest >>= 7n
    }
    this.#byte(Number(rest))
  }

  tag(field: number, wire: number): void {
    this.varint(field * 8 + wire)
  }

  /** Writes bytes, with their length first. */
  bytes(bytes: Uint8Array): void {
    this.varint(bytes.length)
    this.#room(bytes.length)
    this.#bytes.set(bytes, this.#length)
    this.#length += bytes.length
  }

  text(text: string, encoding: 'utf8' | 'hex'): void {
    if (encoding === 'utf8' && text.length <= SHORT && this.#ascii(text)) return
    const length = Buffer.byteLength(text, encoding)
    this.varint(length)
    this.#room(length)
    this.#length += this.#bytes.write(text, this.#length, length, encoding)
  }

  /** Writes the output of `write`, with its length first: one byte is reserved for the length, and more inserted if needed. */
  nested(write: () => void): void {
    this.#room(1)
    const start = ++this.#length
    write()
    const length = this.#length - start
    if (length <= LOW) {
      this.#bytes[start - 1] = length
      return
    }
    const shift = sizeOf(length) - 1
    this.#room(shift)
    this.#bytes.copyWithin(start + shift, start, this.#length)
    this.#length = start - 1
    this.varint(length)
    this.#length += length
  }

  /** Writes a short ASCII text; returns false for any other text. A native call would cost more than copying its characters. */
  #ascii(text: string): boolean {
    this.#room(text.length + 1)
    const bytes = this.#bytes
    let at = this.#length
    bytes[at++] = text.length
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i)
      if (code > LOW) return false
      bytes[at++] = code
    }
    this.#length = at
    return true
  }

  fixed32(value: number): void {
    this.#room(4)
    this.#length = this.#bytes.writeUInt32LE(value, this.#length)
  }

  fixed64(value: bigint): void {
    this.#room(8)
    this.#length = this.#bytes.writeBigUInt64LE(BigInt.asUintN(64, value), this.#length)
  }

  double(value: number): void {
    this.#room(8)
    this.#length = this.#bytes.writeDoubleLE(value, this.#length)
  }

  #byte(value: number): void {
    this.#room(1)
    this.#bytes[this.#length++] = value
  }

  #room(more: number): void {
    const needed = this.#length + more
    if (needed <= this.#bytes.length) return
    const larger = Buffer.allocUnsafe(Math.max(needed, this.#bytes.length * 2))
    larger.set(this.written)
    this.#bytes = larger
  }
}

/** Encodes `value` as the message; missing members are left out. Throws a TypeError for a member that the message does not declare. */
export function encodeMessage(message: Message, value: object): Uint8Array {
  const sink = new Sink()
  writeMessage(sink, message, value)
  return sink.written
}

function writeMessage(sink: Sink, message: Message, value: object): void {
  for (const name in value) {
    const member = (value as Readonly<Record<string, unknown>>)[name]
    if (member === undefined) continue
    const declared = message[name]
    if (declared === undefined) throw new TypeError(`the message has no field ${name}`)
    const [field, kind, repeated] = declared
    if (repeated === undefined) one(sink, field, kind, member)
    else if (typeof kind === 'function' || kind === 'string')
      for (const item of member as readonly unknown[]) one(sink, field, kind, item)
    else packed(sink, field, kind, member as readonly unknown[])
  }
}

function one(sink: Sink, field: number, kind: Message[string][1], value: unknown): void {
  if (typeof kind === 'function') {
    sink.tag(field, WIRE.bytes)
    if (value instanceof Uint8Array) sink.bytes(value)
    else sink.nested(() => writeMessage(sink, kind(), value as object))
    return
  }
  sink.tag(field, WIRE_OF[kind])
  scalar(sink, kind, value)
}

function packed(sink: Sink, field: number, kind: Scalar, values: readonly unknown[]): void {
  if (values.length === 0) return
  const inner = new Sink()
  for (const value of values) scalar(inner, kind, value)
  sink.tag(field, WIRE.bytes)
  sink.bytes(inner.written)
}

const WIRE_OF: Readonly<Record<Scalar, number>> = {
  string: WIRE.bytes,
  hex: WIRE.bytes,
  bool: WIRE.varint,
  enum: WIRE.varint,
  uint32: WIRE.varint,
  int64: WIRE.varint,
  double: WIRE.fixed64,
  fixed32: WIRE.fixed32,
  fixed64: WIRE.fixed64
}

function scalar(sink: Sink, kind: Scalar, value: unknown): void {
  switch (kind) {
    case 'string':
      sink.text(value as string, 'utf8')
      return
    case 'hex':
      sink.text(value as string, 'hex')
      return
    case 'bool':
      sink.varint(value === true ? 1 : 0)
      return
    case 'enum':
    case 'uint32':
      sink.varint(value as number)
      return
    case 'int64':
      sink.varint(BigInt(value as string | number))
      return
    case 'double':
      sink.double(value as number)
      return
    case 'fixed32':
      sink.fixed32(value as number)
      return
    default:
      sink.fixed64(BigInt(value as string | number))
  }
}

/** One decoded field of a message: its number, and a number or bytes. */
interface ReadField {
  readonly field: number
  readonly value: bigint | Uint8Array
}

/** The fields of a message in their order; undefined when the bytes are none. Numbers are without sign. */
export function readFields(bytes: Uint8Array): ReadField[] | undefined {
  const fields: ReadField[] = []
  let at = 0
  const varint = (): bigint | undefined => {
    let value = 0n
    for (let shift = 0n; shift < 64n && at < bytes.length; shift += 7n) {
      const byte = bytes[at++] as number
      value |= BigInt(byte & LOW) << shift
      if (byte < MORE) return BigInt.asUintN(64, value)
    }
    return undefined
  }
  while (at < bytes.length) {
    const tag = varint()
    if (tag === undefined) return undefined
    const wire = Number(tag & 7n)
    let value: bigint | Uint8Array | undefined
    if (wire === WIRE.varint) value = varint()
    else {
      const length =
        wire === WIRE.bytes ? varint() : wire === WIRE.fixed64 ? 8n : wire === WIRE.fixed32 ? 4n : undefined
      if (length !== undefined && length <= BigInt(bytes.length - at)) {
        value = bytes.subarray(at, at + Number(length))
        at += Number(length)
      }
    }
    if (value === undefined) return undefined
    fields.push({ field: Number(tag >> 3n), value })
  }
  return fields
}
