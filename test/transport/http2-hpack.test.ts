import t, { type Test } from 'tap'
import { HpackDecoder } from '../../src/transport/http2/hpack-decoder.js'
import { HpackEncoder } from '../../src/transport/http2/hpack-encoder.js'
import { random } from '../features/rate-limit/limiter/support/random.js'
import { huffmanBlock } from './huffman-block.js'

const LIMIT = 1_000_000

function decoded(t: Test, decoder: HpackDecoder, block: Buffer): string[] {
  t.equal(decoder.decode(block, 0, block.length), true, 'it can be decoded')
  return [...decoder.fields]
}

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(/\s/g, ''), 'hex')

t.test('the examples of RFC 7541 C.2: each form of a field', async (t) => {
  const examples: readonly (readonly [block: string, name: string, value: string, table: number])[] = [
    ['400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572', 'custom-key', 'custom-header', 55],
    ['040c 2f73 616d 706c 652f 7061 7468', ':path', '/sample/path', 0],
    ['1008 7061 7373 776f 7264 0673 6563 7265 74', 'password', 'secret', 0],
    ['82', ':method', 'GET', 0]
  ]
  for (const [block, name, value, table] of examples) {
    const decoder = new HpackDecoder(LIMIT, LIMIT)
    t.same(decoded(t, decoder, hex(block)), [name, value])
    t.equal(decoder.tableSize, table)
  }
})

t.test('the examples of RFC 7541 C.3 and C.4: requests, without and with the Huffman code', async (t) => {
  const plain = [
    '8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d',
    '8286 84be 5808 6e6f 2d63 6163 6865',
    '8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65'
  ]
  const huffman = [
    '8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff',
    '8286 84be 5886 a8eb 1064 9cbf',
    '8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf'
  ]
  for (const blocks of [plain, huffman]) {
    const decoder = new HpackDecoder(LIMIT, LIMIT)
    const common = [':method', 'GET', ':scheme', 'http', ':path', '/', ':authority', 'www.example.com']
    t.same(decoded(t, decoder, hex(blocks[0] as string)), common)
    t.equal(decoder.tableSize, 57)
    t.same(decoded(t, decoder, hex(blocks[1] as string)), [...common, 'cache-control', 'no-cache'])
    t.equal(decoder.tableSize, 110)
    t.same(decoded(t, decoder, hex(blocks[2] as string)), [
      ...[':method', 'GET', ':scheme', 'https', ':path', '/index.html', ':authority', 'www.example.com'],
      ...['custom-key', 'custom-value']
    ])
    t.equal(decoder.tableSize, 164)
  }
})

t.test('the examples of RFC 7541 C.5 and C.6: answers, and a table of 256 bytes that overflows', async (t) => {
  const plain = [
    `4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 474d 546e
     1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d`,
    '4803 3330 37c1 c0bf',
    `88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 666f 6f3d
     4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572
     7369 6f6e 3d31`
  ]
  const huffman = [
    `4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b
     97c8 e9ae 82ae 43d3`,
    '4883 640e ffc1 c0bf',
    `88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf
     cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07`
  ]
  for (const blocks of [plain, huffman]) {
    const decoder = new HpackDecoder(LIMIT, LIMIT)
    const [date, where] = ['Mon, 21 Oct 2013 20:13:21 GMT', 'https://www.example.com']
    t.same(decoded(t, decoder, Buffer.concat([hex('3fe101'), hex(blocks[0] as string)])), [
      ...[':status', '302', 'cache-control', 'private', 'date', date, 'location', where]
    ])
    t.equal(decoder.tableSize, 222)
    t.same(decoded(t, decoder, hex(blocks[1] as string)), [
      ...[':status', '307', 'cache-control', 'private', 'date', date, 'location', where]
    ])
    t.same(decoded(t, decoder, hex(blocks[2] as string)), [
      ...[':status', '200', 'cache-control', 'private', 'date', 'Mon, 21 Oct 2013 20:13:22 GMT', 'location', where],
      ...['content-encoding', 'gzip'],
      ...['set-cookie', 'foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1']
    ])
    t.equal(decoder.tableSize, 215)
  }
})

t.test('what is encoded is decoded, and both tables stay alike, whatever the size of the table', async (t) => {
  const next = random(7541)
  const below = (most: number): number => Math.floor(next() * most)
  const values = Array.from({ length: 30 }, (_, i) => `${i}`.repeat(1 + below(i < 25 ? 20 : 200)))
  let indexed = 0
  for (let round = 0; round < 20; round++) {
    const encoder = new HpackEncoder()
    const decoder = new HpackDecoder(LIMIT, LIMIT)
    for (let i = 0; i < 200; i++) {
      if (below(20) === 0) encoder.limit = [0, 31, 100, 1000, 4096, 100_000][below(6)] as number
      if (below(40) === 0) encoder.limit = below(4096)
      const fields: string[] = [':status', ['200', '404', '418'][below(3)] as string]
      for (let n = below(10); n > 0; n--) {
        const name = ['content-type', 'x-a', `x-${below(200)}`, 'set-cookie', 'date'][below(5)] as string
        fields.push(name, below(8) === 0 ? '\x80'.repeat(below(6000)) : (values[below(values.length)] as string))
      }
      encoder.begin()
      for (let at = 0; at < fields.length; at += 2) encoder.field(fields[at] as string, fields[at + 1] as string)
      const block = Buffer.from(encoder.end())
      t.equal(decoder.decode(block, 0, block.length), true)
      t.same(decoder.fields, fields)
      t.equal(decoder.tableSize, encoder.tableSize)
      indexed += encoder.tableSize > 0 ? 1 : 0
      if (below(15) === 0) encoder.release()
      if (below(15) === 0) decoder.release()
    }
  }
  t.ok(indexed > 1000, `${indexed} blocks had a table`)
})

t.test('a text is sent in the Huffman code where that is shorter, and every byte comes through', async (t) => {
  const encoder = new HpackEncoder()
  const decoder = new HpackDecoder(LIMIT, LIMIT)
  const block = (value: string): Buffer => {
    encoder.begin()
    encoder.field('location', value)
    return Buffer.from(encoder.end())
  }
  // The text of RFC 7541 C.4.1, behind the index of the name.
  t.same(block('www.example.com').subarray(2), hex('8c f1e3 c2e5 f23a 6ba0 ab90 f4ff'))
  t.ok(block('\xff'.repeat(40)).includes('\xff'.repeat(40), 'latin1'), 'else as it is')
  const next = random(52)
  for (let i = 0; i < 2_000; i++) {
    // Bytes of all lengths of codes at all places of a byte: one in four is rare.
    const bytes = Array.from({ length: Math.floor(next() * 60) }, () =>
      next() < 0.75 ? 97 + next() * 26 : next() * 256
    )
    const value = Buffer.from(bytes).toString('latin1')
    const sent = block(value)
    decoder.decode(sent, 0, sent.length)
    t.equal(decoder.fields[1], value)
  }
})

t.test('a field that comes again takes one byte, and one that must stay secret never does', async (t) => {
  const encoder = new HpackEncoder()
  const sizes = (name: string, value: string) =>
    Array.from({ length: 3 }, () => {
      encoder.begin()
      encoder.field(name, value)
      return encoder.end().length
    })
  t.equal(sizes('x-served-by', 'a value')[2], 1)
  t.same(new Set(sizes('set-cookie', 'session=secret')).size, 1)
  t.equal(sizes(':status', '200')[0], 1)
})

t.test('every byte with the Huffman code, judged as a value and as a name', async (t) => {
  for (let byte = 0; byte < 256; byte++) {
    const character = String.fromCharCode(byte)
    const value = huffmanBlock([['x', `a${character}b`]])
    const decoder = new HpackDecoder(LIMIT, LIMIT)
    t.same(decoded(t, decoder, value), ['x', `a${character}b`])
    t.equal(decoder.malformed, !(byte === 9 || (byte >= 0x20 && byte !== 0x7f)), `value ${byte}`)
    const name = huffmanBlock([[`a${character}b`, '1']])
    decoded(t, decoder, name)
    t.equal(decoder.malformed, !/^[!#$%&'*+\-.^_`|~0-9a-z]$/.test(character), `name ${byte}`)
  }
})

t.test('a list that is too large is cut short, and the table stays in step', async (t) => {
  const decoder = new HpackDecoder(10_000, 50)
  // One field of 4 KB in the table, and then a thousand references to it.
  const large = Buffer.concat([Buffer.from([0x40, 1, 0x78, 0x7f, 0xa1, 0x1e]), Buffer.alloc(4000, 'v')])
  t.equal(decoder.decode(Buffer.concat([large, Buffer.alloc(1000, 0xbe)]), 0, large.length + 1000), true)
  t.equal(decoder.tooLarge, true)
  t.ok(decoder.fields.length <= 4, `${decoder.fields.length / 2} fields`)
  t.same(decoded(t, decoder, Buffer.from([0xbe])), ['x', 'v'.repeat(4000)])
  t.equal(decoder.tooLarge, false)
  decoder.decode(Buffer.alloc(60, 0x82), 0, 60)
  t.equal(decoder.tooLarge, true, 'too many')
  t.equal(decoder.fields.length, 100)
})

t.test('random bytes are decoded or refused', async (t) => {
  const next = random(9113)
  const results = new Set<boolean>()
  for (let i = 0; i < 20_000; i++) {
    const bytes = Buffer.from(Array.from({ length: Math.floor(next() * 40) }, () => Math.floor(next() * 256)))
    const decoder = new HpackDecoder(LIMIT, LIMIT)
    results.add(decoder.decode(bytes, 0, bytes.length))
    t.ok(decoder.tableSize <= 4096)
  }
  t.same([...results].sort(), [false, true])
})
