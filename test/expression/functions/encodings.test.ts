import t from 'tap'
import { UnsignedInt } from '../../../src/expression/cel-parser.js'
import { authFunctions, base64Functions, hashFunctions } from '../../../src/expression/functions/hash.js'
import { jsonFunctions } from '../../../src/expression/functions/json.js'
import { durationOf } from '../../../src/expression/values.js'
import { find, outcome, randomNumbers, randomText } from './call.js'

const LONG = 'x'.repeat(1_048_577)

t.test('hashes give the published check values, in hex and base64, in both forms', async (t) => {
  const values: Record<string, Record<string, string>> = {
    crc32: { '': '00000000', hello: '3610a686', '123456789': 'cbf43926' },
    crc64: { '': '0000000000000000', hello: '3c3eeee2d8100000', '123456789': 'b90956c775a41001' },
    md5: { '': 'd41d8cd98f00b204e9800998ecf8427e', hello: '5d41402abc4b2a76b9719d911017c592' },
    sha1: { hello: 'aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d' },
    sha256: { hello: '2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824' },
    sha512: {
      hello:
        '9b71d224bd62f3785d96d46ad3ea3d73319bfbc2890caadae2dff72519673ca72323c3d99ba5c11d7c7acc6e14b8c5da0c4663475c2e5c3adef46f73bcdec043'
    },
    xxhash64: { '': 'ef46db3751d8e999', a: 'd24ec4f1a98c6e5b', abc: '44bc2cf5ad770999', hello: '26c7827d889f6da3' }
  }
  for (const [name, cases] of Object.entries(values)) {
    for (const [text, hex] of Object.entries(cases)) {
      t.equal(find(hashFunctions, `hash.${name}(string)`)(text), hex, `${name} of '${text}'`)
      t.equal(find(hashFunctions, `string.${name}()`)(text), hex)
      t.equal(find(hashFunctions, `string.${name}(string)`)(text, 'hex'), hex)
      const base64 = find(hashFunctions, `hash.${name}(string, string)`)(text, 'base64')
      t.equal(base64, Buffer.from(hex, 'hex').toString('base64'))
    }
  }
  t.equal(
    outcome(() => find(hashFunctions, 'hash.md5(string, string)')('a', 'HEX')),
    'failed',
    'an unknown format'
  )
})

t.test('xxhash64 and crc64 agree with arithmetic on big integers for every length of the tail', async (t) => {
  const random = randomNumbers(11)
  const xxhash = find(hashFunctions, 'hash.xxhash64(string)')
  const crc = find(hashFunctions, 'hash.crc64(string)')
  for (let length = 0; length < 140; length++) {
    const text = Array.from({ length }, () => String.fromCharCode(random(length % 3 === 0 ? 0x800 : 0x80))).join('')
    const bytes = Buffer.from(text)
    if (xxhash(text) !== hex64(bigXxhash(bytes))) t.fail(`xxhash64 of ${bytes.toString('hex')}`)
    if (crc(text) !== hex64(bigCrc(bytes))) t.fail(`crc64 of ${bytes.toString('hex')}`)
  }
  t.pass('all agree')
})

t.test('base64 is strict about alphabet and padding, and text must be UTF-8', async (t) => {
  const decode = find(base64Functions, 'base64.decode(string)')
  const decodeText = find(base64Functions, 'string.decodeBase64()')
  t.same([...(decode('AP+/') as Buffer)], [0, 255, 191])
  t.equal(find(base64Functions, 'base64.encode(bytes)')(new Uint8Array([0, 255, 191])), 'AP+/')
  t.equal(find(base64Functions, 'base64.encode(bytes)')(new Uint8Array([9, 1, 2, 9]).subarray(1, 3)), 'AQI=')
  t.equal(decodeText('aGVsbG8='), 'hello')
  t.equal(decodeText('aGVsbG8'), 'hello', 'padding may be left out')
  t.equal(find(base64Functions, 'b64.decode(string)')('w6k='), 'é')
  t.equal(find(base64Functions, 'b64.encode(string)')('é'), 'w6k=')
  for (const text of ['a', 'aGVsbG8==', 'aGVs=bG8', 'aGV-', 'aGV_', 'aG Vs', '=', '====']) {
    t.equal(
      outcome(() => decode(text)),
      'failed',
      `'${text}'`
    )
  }
  t.equal(
    outcome(() => decodeText('/w==')),
    'failed',
    'a byte that is not UTF-8'
  )
  t.equal(
    outcome(() => find(base64Functions, 'string.encodeBase64()')(LONG)),
    'failed',
    'too long'
  )
})

t.test('decoding base64 gives back what was encoded', async (t) => {
  const random = randomNumbers(12)
  for (let run = 0; run < 300; run++) {
    const text = randomText(random, 40)
    const encoded = find(base64Functions, 'string.encodeBase64()')(text)
    if (find(base64Functions, 'string.decodeBase64()')(encoded) !== text) t.fail(JSON.stringify(text))
  }
  t.pass()
})

t.test('basic credentials join name and password, and a colon cannot move between them', async (t) => {
  const encode = find(authFunctions, 'basic_auth.encode(string, string)')
  t.equal(encode('Aladdin', 'open sesame'), 'Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==')
  t.equal(encode('a', 'b:c'), `Basic ${Buffer.from('a:b:c').toString('base64')}`)
  t.equal(encode('', ''), 'Basic Og==')
  t.equal(
    outcome(() => encode('a:b', 'c')),
    'failed'
  )
})

t.test('JSON is decoded to maps, lists and doubles', async (t) => {
  const decode = find(jsonFunctions, 'json.decode(string)')
  const value = decode('{"a": [1, 2.5, true, null, "x"], "__proto__": {"b": 1}, "constructor": 2}') as Map<
    string,
    unknown
  >
  t.ok(value instanceof Map)
  t.same([...value.keys()], ['a', '__proto__', 'constructor'], 'every name is data')
  t.same(value.get('a'), [1, 2.5, true, null, 'x'])
  t.equal((value.get('__proto__') as Map<string, unknown>).get('b'), 1)
  t.equal(decode('1234567890123456789'), 1_234_567_890_123_456_789n, 'digits are kept')
  t.equal(decode('12345678901234567890'), '12345678901234567890')
  t.equal(find(jsonFunctions, 'json.encode(dyn)')(decode('{"a":1234567890123456789}')), '{"a":1234567890123456789}')
  t.equal(find(jsonFunctions, 'string.decodeJson()')('"\\ud83d"'), '\ufffd', 'half a pair is no character')
  for (const text of [
    '',
    '{',
    "{'a': 1}",
    '[1,]',
    'NaN',
    '1e400',
    '\ufeff1',
    '['.repeat(200) + ']'.repeat(200),
    `"${LONG}"`
  ]) {
    t.equal(
      outcome(() => decode(text)),
      'failed',
      text.slice(0, 20)
    )
  }
  t.equal(
    outcome(() => decode(`[${'1,'.repeat(100_000)}1]`)),
    'failed',
    'too many items'
  )
  for (const form of ['isJson(string)', 'string.isJson()']) {
    t.same(['{}', '[]', '1', 'x', '', '{"a"}'].map(find(jsonFunctions, form) as never), [
      true,
      true,
      true,
      false,
      false,
      false
    ])
  }
})

t.test('values are encoded as JSON with sorted names and all digits', async (t) => {
  const encode = find(jsonFunctions, 'json.encode(dyn)')
  const table: [unknown, string][] = [
    [
      new Map<unknown, unknown>([
        ['b', 1n],
        ['a', 2.5],
        ['__proto__', null]
      ]),
      '{"__proto__":null,"a":2.5,"b":1}'
    ],
    [
      new Map([
        ['\u{1f600}', 1n],
        ['\uff5e', 2n]
      ]),
      '{"\uff5e":2,"\u{1f600}":1}'
    ],
    [
      new Map<unknown, unknown>([
        [2n, true],
        [true, 'x']
      ]),
      '{"2":true,"true":"x"}'
    ],
    [
      [9_223_372_036_854_775_807n, new UnsignedInt(18_446_744_073_709_551_615n)],
      '[9223372036854775807,18446744073709551615]'
    ],
    [[1, -0, 1e21, 0.1], '[1,0,1e+21,0.1]'],
    ['a"\\\n\ud83d', '"a\\"\\\\\\n\ufffd"'],
    [new Uint8Array([1, 2, 3]), '"AQID"'],
    [new Date('2023-02-03T23:31:20.120Z'), '"2023-02-03T23:31:20.12Z"'],
    [durationOf(-1_500_000_000n), '"-1.5s"']
  ]
  for (const [value, text] of table) t.equal(encode(value), text, text)
  t.equal(find(jsonFunctions, 'list.encodeJson()')([1n]), '[1]')
  t.equal(find(jsonFunctions, 'map.encodeJson()')(new Map([['a', []]])), '{"a":[]}')
  let deep: unknown[] = []
  for (let level = 0; level < 200; level++) deep = [deep]
  for (const value of [
    Number.NaN,
    [Number.POSITIVE_INFINITY],
    deep,
    [LONG],
    new Map<unknown, unknown>([
      [1n, 1n],
      ['1', 2n]
    ])
  ]) {
    t.equal(
      outcome(() => encode(value)),
      'failed'
    )
  }
})

t.test('encoding what JSON decoded gives the same value again', async (t) => {
  const random = randomNumbers(13)
  const decode = find(jsonFunctions, 'json.decode(string)')
  const encode = find(jsonFunctions, 'json.encode(dyn)')
  const make = (depth: number): unknown => {
    switch (random(depth > 0 ? 6 : 4)) {
      case 0:
        return randomText(random, 8)
      case 1:
        return (random(2_000_000) - 1_000_000) / 2 ** random(20)
      case 2:
        return random(2) === 0
      case 3:
        return null
      case 4:
        return Array.from({ length: random(4) }, () => make(depth - 1))
      default:
        return new Map(Array.from({ length: random(4) }, () => [randomText(random, 4), make(depth - 1)]))
    }
  }
  for (let run = 0; run < 300; run++) {
    const value = make(4)
    const text = encode(value) as string
    if (encode(decode(text)) !== text) t.fail(text)
    if (!sameValue(decode(text), value)) t.fail(text)
  }
  t.pass()
})

function sameValue(left: unknown, right: unknown): boolean {
  if (left instanceof Map && right instanceof Map) {
    return (
      left.size === right.size && [...left].every(([key, value]) => right.has(key) && sameValue(value, right.get(key)))
    )
  }
  if (Array.isArray(left) && Array.isArray(right)) {
    return left.length === right.length && left.every((item, index) => sameValue(item, right[index]))
  }
  return left === right
}

const MASK = (1n << 64n) - 1n
const [P1, P2, P3, P4, P5] = [
  0x9e3779b185ebca87n,
  0xc2b2ae3d27d4eb4fn,
  0x165667b19e3779f9n,
  0x85ebca77c2b2ae63n,
  0x27d4eb2f165667c5n
] as const

function hex64(value: bigint): string {
  return value.toString(16).padStart(16, '0')
}

function rotate(value: bigint, bits: bigint): bigint {
  return ((value << bits) | (value >> (64n - bits))) & MASK
}

function round(lane: bigint, input: bigint): bigint {
  return (rotate((lane + input * P2) & MASK, 31n) * P1) & MASK
}

/** XXH64 with seed 0, as its specification writes it. */
function bigXxhash(data: Buffer): bigint {
  let at = 0
  let hash: bigint = P5
  if (data.length >= 32) {
    const lanes = [(P1 + P2) & MASK, P2, 0n, -P1 & MASK]
    for (; at + 32 <= data.length; at += 32) {
      for (let lane = 0; lane < 4; lane++) lanes[lane] = round(lanes[lane]!, data.readBigUInt64LE(at + lane * 8))
    }
    hash = [1n, 7n, 12n, 18n].reduce((sum, bits, lane) => sum + rotate(lanes[lane]!, bits), 0n) & MASK
    for (const lane of lanes) hash = ((hash ^ round(0n, lane)) * P1 + P4) & MASK
  }
  hash = (hash + BigInt(data.length)) & MASK
  for (; at + 8 <= data.length; at += 8)
    hash = (rotate(hash ^ round(0n, data.readBigUInt64LE(at)), 27n) * P1 + P4) & MASK
  if (at + 4 <= data.length) {
    hash = (rotate(hash ^ ((BigInt(data.readUInt32LE(at)) * P1) & MASK), 23n) * P2 + P3) & MASK
    at += 4
  }
  for (; at < data.length; at++) hash = (rotate(hash ^ ((BigInt(data[at]!) * P5) & MASK), 11n) * P1) & MASK
  hash = ((hash ^ (hash >> 33n)) * P2) & MASK
  hash = ((hash ^ (hash >> 29n)) * P3) & MASK
  return hash ^ (hash >> 32n)
}

/** CRC-64 (ISO) bit by bit. */
function bigCrc(data: Buffer): bigint {
  let crc = MASK
  for (const byte of data) {
    crc ^= BigInt(byte)
    for (let bit = 0; bit < 8; bit++) crc = crc & 1n ? (crc >> 1n) ^ 0xd800000000000000n : crc >> 1n
  }
  return crc ^ MASK
}
