import { isUtf8 } from 'node:buffer'
import { createHash } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { FunctionDefinition } from '../signatures.js'
import { checkLength, failed, failsWith, weighing } from './bounds.js'

/*
 * The two checksums that Node does not have. Both work on 32-bit halves: 64-bit arithmetic on bigint is some twenty
 * times slower, and the text may be a whole body.
 */

const CRC64_HIGH = new Uint32Array(256)
const CRC64_LOW = new Uint32Array(256)
for (let index = 0; index < 256; index++) {
  let high = 0
  let low = index
  for (let bit = 0; bit < 8; bit++) {
    const carry = low & 1
    low = (low >>> 1) | (high << 31)
    high = (high >>> 1) ^ (carry === 1 ? 0xd800_0000 : 0)
  }
  CRC64_HIGH[index] = high
  CRC64_LOW[index] = low
}

/** CRC-64 with the ISO 3309 polynomial, reflected, eight bytes, most significant first. */
function crc64(data: Buffer): Buffer {
  let high = -1
  let low = -1
  for (const byte of data) {
    const index = (low ^ byte) & 0xff
    low = ((low >>> 8) | (high << 24)) ^ CRC64_LOW[index]!
    high = (high >>> 8) ^ CRC64_HIGH[index]!
  }
  return bytesOf(~high, ~low)
}

function bytesOf(high: number, low: number): Buffer {
  const bytes = Buffer.allocUnsafe(8)
  bytes.writeInt32BE(high | 0, 0)
  bytes.writeInt32BE(low | 0, 4)
  return bytes
}

/** An unsigned 64-bit number that is changed in place. */
class Word {
  high: number
  low: number

  constructor(high: number, low: number) {
    this.high = high
    this.low = low
  }

  set(high: number, low: number): this {
    this.high = high
    this.low = low
    return this
  }

  add(high: number, low: number): this {
    const sum = (this.low >>> 0) + (low >>> 0)
    this.high = (this.high + high + (sum > 0xffff_ffff ? 1 : 0)) | 0
    this.low = sum | 0
    return this
  }

  /** Schoolbook multiplication of the low halves in 16-bit digits; the high halves only reach the high result. */
  multiply({ high, low }: Word): this {
    const a0 = this.low & 0xffff
    const a1 = this.low >>> 16
    const b0 = low & 0xffff
    const b1 = low >>> 16
    const p0 = a0 * b0
    const p1 = a0 * b1
    const p2 = a1 * b0
    const middle = (p0 >>> 16) + (p1 & 0xffff) + (p2 & 0xffff)
    const carry = a1 * b1 + (p1 >>> 16) + (p2 >>> 16) + (middle >>> 16)
    this.high = (carry + Math.imul(this.high, low) + Math.imul(this.low, high)) | 0
    this.low = (middle << 16) | (p0 & 0xffff)
    return this
  }

  xor(high: number, low: number): this {
    this.high ^= high
    this.low ^= low
    return this
  }

  /** Rotates left by 1 to 31 bits. */
  rotate(bits: number): this {
    const { high, low } = this
    this.high = (high << bits) | (low >>> (32 - bits))
    this.low = (low << bits) | (high >>> (32 - bits))
    return this
  }

  /** Exclusive or with itself, shifted right by 1 to 63 bits. */
  fold(bits: number): this {
    const { high, low } = this
    if (bits >= 32) return this.xor(0, high >>> (bits - 32))
    return this.xor(high >>> bits, (low >>> bits) | (high << (32 - bits)))
  }
}

const PRIME1 = new Word(0x9e37_79b1, 0x85eb_ca87)
const PRIME2 = new Word(0xc2b2_ae3d, 0x27d4_eb4f)
const PRIME3 = new Word(0x1656_67b1, 0x9e37_79f9)
const PRIME4 = new Word(0x85eb_ca77, 0xc2b2_ae63)
const PRIME5 = new Word(0x27d4_eb2f, 0x1656_67c5)

/** xxHash64 with seed 0, eight bytes, most significant first (xxHash specification, XXH64). */
function xxhash64(data: Buffer): Buffer {
  const scratch = new Word(0, 0)
  const hash = new Word(0, 0)
  let at = 0
  if (data.length >= 32) at = hashStripes(data, hash, scratch)
  else hash.set(PRIME5.high, PRIME5.low)
  hash.add(Math.floor(data.length / 0x1_0000_0000), data.length | 0)
  hashRest(data, at, hash, scratch)
  hash.fold(33).multiply(PRIME2).fold(29).multiply(PRIME3).fold(32)
  return bytesOf(hash.high, hash.low)
}

/** Takes blocks of 32 bytes in four lanes; answers how many bytes it took. */
function hashStripes(data: Buffer, hash: Word, scratch: Word): number {
  const one = new Word(PRIME1.high, PRIME1.low).add(PRIME2.high, PRIME2.low)
  const two = new Word(PRIME2.high, PRIME2.low)
  const three = new Word(0, 0)
  const four = new Word(~PRIME1.high, ~PRIME1.low).add(0, 1)
  const lanes = [one, two, three, four]
  let at = 0
  while (at + 32 <= data.length) {
    for (const lane of lanes) {
      accumulate(lane, data, at, scratch)
      at += 8
    }
  }
  for (const [index, lane] of lanes.entries()) {
    scratch.set(lane.high, lane.low).rotate([1, 7, 12, 18][index]!)
    hash.add(scratch.high, scratch.low)
  }
  for (const lane of lanes) {
    scratch.set(lane.high, lane.low).multiply(PRIME2).rotate(31).multiply(PRIME1)
    hash.xor(scratch.high, scratch.low).multiply(PRIME1).add(PRIME4.high, PRIME4.low)
  }
  return at
}

/** Mixes eight bytes at `at` into a lane. */
function accumulate(lane: Word, data: Buffer, at: number, scratch: Word): void {
  scratch.set(data.readInt32LE(at + 4), data.readInt32LE(at)).multiply(PRIME2)
  lane.add(scratch.high, scratch.low).rotate(31).multiply(PRIME1)
}

/** Takes what is left after the blocks: words of eight, then of four bytes, then single bytes. */
function hashRest(data: Buffer, start: number, hash: Word, scratch: Word): void {
  let at = start
  for (; at + 8 <= data.length; at += 8) {
    scratch.set(0, 0)
    const lane = new Word(0, 0)
    accumulate(lane, data, at, scratch)
    hash.xor(lane.high, lane.low).rotate(27).multiply(PRIME1).add(PRIME4.high, PRIME4.low)
  }
  if (at + 4 <= data.length) {
    scratch.set(0, data.readInt32LE(at)).multiply(PRIME1)
    hash.xor(scratch.high, scratch.low).rotate(23).multiply(PRIME2).add(PRIME3.high, PRIME3.low)
    at += 4
  }
  for (; at < data.length; at++) {
    scratch.set(0, data[at]!).multiply(PRIME5)
    hash.xor(scratch.high, scratch.low).rotate(11).multiply(PRIME1)
  }
}

type Digest = (text: string) => Buffer

const cryptographic =
  (algorithm: string): Digest =>
  (text) =>
    createHash(algorithm).update(text, 'utf8').digest()

const digests: Readonly<Record<string, Digest>> = {
  crc32: (text) => {
    const bytes = Buffer.allocUnsafe(4)
    bytes.writeUInt32BE(crc32(text))
    return bytes
  },
  crc64: (text) => crc64(Buffer.from(text)),
  md5: cryptographic('md5'),
  sha1: cryptographic('sha1'),
  sha256: cryptographic('sha256'),
  sha512: cryptographic('sha512'),
  xxhash64: (text) => xxhash64(Buffer.from(text))
}

/** Digests that are worked out here take longer than those of Node. */
const WORK = new Map([
  ['crc64', weighing(4)],
  ['xxhash64', weighing(2)]
])

function digestText(digest: Digest, text: string, format: string): string {
  if (format !== 'hex' && format !== 'base64') throw failed(`a hash is written as 'hex' or 'base64'`)
  return digest(text).toString(format)
}

/**
 * Digests of the UTF-8 form of a string: `hash.sha256(s)`, `hash.sha256(s, 'base64')`, `s.sha256()`, `s.sha256('hex')`,
 * for crc32 (IEEE), crc64 (ISO), md5, sha1, sha256, sha512 and xxhash64 (seed 0). Numbers are written as big-endian
 * bytes; the default is lower-case hex. Another format fails.
 */
export const hashFunctions: readonly FunctionDefinition[] = Object.entries(digests).flatMap(([name, digest]) => {
  const run = (text: string, format = 'hex') => digestText(digest, text, format)
  const work = WORK.get(name)
  const made = work === undefined ? { run } : { run, work }
  const refuses = failsWith(run, ['', 'hex'])
  return [
    { signature: `hash.${name}(string): string`, ...made },
    { signature: `hash.${name}(string, string): string`, ...made, refuses },
    { signature: `string.${name}(): string`, ...made },
    { signature: `string.${name}(string): string`, ...made, refuses }
  ]
})

/** The standard alphabet (RFC 4648 section 4); padding may be left out, but what there is must be right. */
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/

function decode(text: string): Buffer {
  const padded = text.endsWith('=')
  const wrong = padded ? text.length % 4 !== 0 : text.length % 4 === 1
  if (wrong || !BASE64.test(text)) throw failed('the text is not base64')
  return Buffer.from(text, 'base64')
}

function decodeText(text: string): string {
  const bytes = decode(text)
  if (!isUtf8(bytes)) throw failed('the decoded bytes are not UTF-8 text')
  return bytes.toString('utf8')
}

/** Base64 of the UTF-8 form of `text`. */
function encodeText(text: string): string {
  checkLength(Math.ceil(text.length / 3) * 4)
  const encoded = Buffer.from(text).toString('base64')
  checkLength(encoded.length)
  return encoded
}

function encodeBytes(bytes: Uint8Array): string {
  checkLength(Math.ceil(bytes.length / 3) * 4)
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')
}

/**
 * Base64 with the standard alphabet. `base64.*` works on bytes; `b64.*` and the receiver forms on strings, in UTF-8.
 * Decoding fails on another alphabet, on wrong padding, and (to a string) on bytes that are not UTF-8.
 */
export const base64Functions: readonly FunctionDefinition[] = [
  { signature: 'base64.decode(string): bytes', run: decode },
  { signature: 'base64.encode(bytes): string', run: encodeBytes },
  { signature: 'b64.decode(string): string', run: decodeText },
  { signature: 'b64.encode(string): string', run: encodeText },
  { signature: 'string.decodeBase64(): string', run: decodeText },
  { signature: 'string.encodeBase64(): string', run: encodeText }
]

/** A colon would move the border between name and password (RFC 7617 section 2). */
function basic(user: string, password: string): string {
  if (user.includes(':')) throw failed('a user name for basic authentication holds no colon')
  return `Basic ${encodeText(`${user}:${password}`)}`
}

/** `basic_auth.encode(user, password)`: the value of an `Authorization` header (RFC 7617, UTF-8). */
export const authFunctions: readonly FunctionDefinition[] = [
  { signature: 'basic_auth.encode(string, string): string', run: basic, refuses: failsWith(basic, ['', '']) }
]
