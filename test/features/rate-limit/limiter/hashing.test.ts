import t from 'tap'
import { encodeKey } from '../../../../src/features/rate-limit/limiter/layout.js'
import { SipHash } from '../../../../src/features/rate-limit/limiter/siphash.js'
import { random } from './support/random.js'

const MASK = (1n << 64n) - 1n
const turn = (value: bigint, bits: bigint) => ((value << bits) | (value >> (64n - bits))) & MASK

/** SipHash-c-d as the paper writes it, on big integers. */
function reference(key: Uint8Array, message: Uint8Array, compression: number, finalization: number): bigint {
  const word = (bytes: Uint8Array, at: number) => new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(at, true)
  const [k0, k1] = [word(key, 0), word(key, 8)]
  let [a, b] = [k0 ^ 0x736f6d6570736575n, k1 ^ 0x646f72616e646f6dn]
  let [c, d] = [k0 ^ 0x6c7967656e657261n, k1 ^ 0x7465646279746573n]
  const rounds = (count: number) => {
    for (let round = 0; round < count; round += 1) {
      a = (a + b) & MASK
      b = turn(b, 13n) ^ a
      a = turn(a, 32n)
      c = (c + d) & MASK
      d = turn(d, 16n) ^ c
      a = (a + d) & MASK
      d = turn(d, 21n) ^ a
      c = (c + b) & MASK
      b = turn(b, 17n) ^ c
      c = turn(c, 32n)
    }
  }
  const padded = new Uint8Array(Math.floor(message.length / 8) * 8 + 8)
  padded.set(message)
  padded[padded.length - 1] = message.length & 255
  for (let at = 0; at < padded.length; at += 8) {
    d ^= word(padded, at)
    rounds(compression)
    a ^= word(padded, at)
  }
  c ^= 0xffn
  rounds(finalization)
  return a ^ b ^ c ^ d
}

const key = Uint8Array.from({ length: 16 }, (_, index) => index)
const counting = (length: number) => Uint8Array.from({ length }, (_, index) => index & 255)

function result(hash: SipHash): bigint {
  return (BigInt(hash.high) << 32n) | BigInt(hash.low)
}

t.test('the reference gives the published vectors of SipHash-2-4 and SipHash-1-3', async (t) => {
  t.equal(reference(key, counting(0), 2, 4), 0x726fdb47dd0e0e31n)
  t.equal(reference(key, counting(15), 2, 4), 0xa129ca6149be45e5n)
  t.equal(reference(key, counting(0), 1, 3), 0xabac0158050fc4dcn)
  t.equal(reference(key, counting(1), 1, 3), 0xc9f49bf37d57ca93n)
})

t.test('bytes of every length hash as the reference says', async (t) => {
  const hash = new SipHash(key)
  for (let length = 0; length < 300; length += 1) {
    hash.hashBytes(hash.empty, counting(length))
    if (result(hash) !== reference(key, counting(length), 1, 3)) t.fail(`length ${length}`)
  }
  t.pass('300 lengths')
})

t.test('a text hashes as its UTF-8 bytes', async (t) => {
  const hash = new SipHash(Uint8Array.from({ length: 16 }, (_, index) => 255 - index))
  const other = new SipHash(Uint8Array.from({ length: 16 }, (_, index) => 255 - index))
  const next = random(7)
  const alphabet = ['a', 'Z', '~', '\u0000', '\u007f', '\u0080', 'é', '߿', 'ࠀ', '€', '\uffff', '😀', '\u{10ffff}']
  for (let round = 0; round < 2_000; round += 1) {
    let text = ''
    const ascii = round % 3 === 0
    while (text.length < round % 50) text += alphabet[Math.floor(next() * (ascii ? 4 : alphabet.length))]
    hash.hashText(hash.empty, text)
    other.hashBytes(other.empty, Buffer.from(text))
    if (result(hash) !== result(other)) t.fail(JSON.stringify(text))
  }
  t.pass('2,000 texts')
})

t.test('texts that differ only in a lone surrogate differ', async (t) => {
  const hash = new SipHash(key)
  const seen = new Set<bigint>()
  for (const text of ['\ud800', '\ud801', '\udc00', '\ufffd', 'a\ud800', '\ud800a', '\udc00\ud800']) {
    hash.hashText(hash.empty, text)
    seen.add(result(hash))
  }
  t.equal(seen.size, 7)
})

t.test('a prefix separates what comes before from what comes after', async (t) => {
  const hash = new SipHash(key)
  const seen = new Set<bigint>()
  for (const [before, after] of [
    ['', ''],
    ['', 'ab'],
    ['a', 'b'],
    ['ab', ''],
    ['a\u0000', 'b'],
    ['a', '\u0000b']
  ]) {
    hash.hashText(hash.prefix(before as string), after as string)
    seen.add(result(hash))
  }
  t.equal(seen.size, 6)
})

t.test('a text of a megabyte is hashed, and the secret decides the result', async (t) => {
  const text = 'k'.repeat(2 ** 20)
  const hash = new SipHash(key)
  const other = new SipHash(new Uint8Array(16))
  hash.hashText(hash.empty, text)
  other.hashText(other.empty, text)
  t.equal(result(hash), reference(key, Buffer.from(text), 1, 3))
  t.not(result(hash), result(other))
  t.throws(() => new SipHash(new Uint8Array(15)), RangeError)
})

t.test('tuples of texts have one text each', async (t) => {
  const tuples = [
    ['a', 'bc'],
    ['ab', 'c'],
    ['abc'],
    ['', 'abc'],
    ['abc', ''],
    ['1:a'],
    ['a', ''],
    [],
    [''],
    ['', ''],
    ['1', 'a']
  ]
  t.equal(new Set(tuples.map((parts) => encodeKey(parts))).size, tuples.length)
  t.equal(encodeKey(['a', 'bc']), '1:a2:bc')
})
