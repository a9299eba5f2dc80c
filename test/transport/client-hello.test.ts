import type { ConnectionOptions } from 'node:tls'
import t from 'tap'
import { type HelloRead, HelloReader } from '../../src/transport/tls/client-hello.js'
import { helloOf } from './hello-of.js'

const RECORD = 5
const HANDSHAKE = 22

/** 253 octets. */
const LONGEST = [63, 63, 63, 61].map((length) => 'a'.repeat(length)).join('.')

function record(content: Buffer, type = HANDSHAKE): Buffer {
  return Buffer.concat([Buffer.from([type, 3, 1, content.length >> 8, content.length & 255]), content])
}

/** Vectors of TLS: a length of `size` bytes before the content. */
function vector(size: 1 | 2, ...content: (Buffer | string | number[])[]): Buffer {
  const body = Buffer.concat(content.map((one) => Buffer.from(one as string, 'latin1')))
  const length = Buffer.alloc(size)
  length.writeUIntBE(body.length, 0, size)
  return Buffer.concat([length, body])
}

function extension(type: number, content: Buffer): Buffer {
  return Buffer.concat([Buffer.from([type >> 8, type & 255]), vector(2, content)])
}

const names = (...list: Buffer[]) => extension(0, vector(2, ...list))
const name = (text: string, type = 0) => Buffer.concat([Buffer.from([type]), vector(2, text)])
const protocols = (...list: string[]) => extension(16, vector(2, ...list.map((one) => vector(1, one))))

/** A whole ClientHello; `rest` comes behind its extensions. */
function hello(extensions: Buffer | undefined, rest = '', type = 1): Buffer {
  const body = Buffer.concat([
    Buffer.from([3, 3]),
    Buffer.alloc(32, 7),
    vector(1, 'x'.repeat(32)),
    vector(2, [0x13, 1]),
    vector(1, [0]),
    extensions === undefined ? Buffer.alloc(0) : vector(2, extensions),
    Buffer.from(rest)
  ])
  return Buffer.concat([Buffer.from([type, 0, body.length >> 8, body.length & 255]), body])
}

function read(...chunks: Buffer[]): HelloRead {
  const reader = new HelloReader()
  let result: HelloRead = 'more'
  for (const chunk of chunks) {
    if (result !== 'more') break
    result = reader.take(chunk)
  }
  return result
}

t.test('what real clients say is read alike however it is cut', async (t) => {
  const real: readonly (readonly [string, ConnectionOptions, HelloRead])[] = [
    ['a name', { servername: 'App.Example.Test' }, { sni: 'app.example.test', alpn: [] }],
    ['nobody', {}, { sni: undefined, alpn: [] }],
    [
      'protocols',
      { servername: 'a.test', ALPNProtocols: ['h2', 'http/1.1'] },
      { sni: 'a.test', alpn: ['h2', 'http/1.1'] }
    ],
    ['TLS 1.2', { servername: 'a.test', maxVersion: 'TLSv1.2' }, { sni: 'a.test', alpn: [] }]
  ]
  for (const [what, options, wanted] of real) {
    const bytes = await helloOf(options)
    t.same(read(bytes), wanted, what)
    for (let end = 1; end < bytes.length; end++) {
      if (read(bytes.subarray(0, end)) !== 'more') t.fail(`${what}: ${end} of ${bytes.length} bytes are enough`)
      const halves = read(bytes.subarray(0, end), bytes.subarray(end))
      if (JSON.stringify(halves) !== JSON.stringify(wanted)) t.fail(`${what}: other when it is cut at ${end}`)
    }
    t.same(read(...Array.from(bytes, (byte) => Buffer.from([byte]))), wanted, `${what}, byte by byte`)
    const message = bytes.subarray(RECORD)
    for (let end = 1; end < message.length; end += 7) {
      const two = Buffer.concat([record(message.subarray(0, end)), record(message.subarray(end))])
      if (JSON.stringify(read(two)) !== JSON.stringify(wanted)) t.fail(`${what}: other in two records cut at ${end}`)
    }
    const single = Buffer.concat(Array.from(message, (byte) => record(Buffer.from([byte]))))
    t.same(read(single), wanted, `${what}, a record for each byte`)
    const reader = new HelloReader()
    reader.take(Buffer.concat([bytes, Buffer.from('behind')]))
    t.equal(reader.bytes.length, bytes.length + 6, 'nothing of what came is lost')
  }
})

t.test('messages that only a test writes', async (t) => {
  const good: Readonly<Record<string, readonly [Buffer, HelloRead]>> = {
    'no extensions': [hello(undefined), { sni: undefined, alpn: [] }],
    'no extension': [hello(Buffer.alloc(0)), { sni: undefined, alpn: [] }],
    'a final dot': [hello(names(name('a.test.'))), { sni: 'a.test', alpn: [] }],
    'the longest name': [hello(names(name(`${LONGEST}.`))), { sni: LONGEST, alpn: [] }],
    'what nobody knows': [
      hello(Buffer.concat([extension(0x0a0a, Buffer.alloc(9)), names(name('a'))])),
      { sni: 'a', alpn: [] }
    ],
    'a protocol nobody knows': [hello(protocols('\x0a\x0a', 'h2')), { sni: undefined, alpn: ['\x0a\x0a', 'h2'] }]
  }
  for (const [what, [message, wanted]] of Object.entries(good)) t.same(read(record(message)), wanted, what)
  const sni = (content: Buffer) => record(hello(extension(0, content)))
  const bad: Readonly<Record<string, Buffer>> = {
    'HTTP in plain': Buffer.from('GET / HTTP/1.1\r\n\r\n'),
    'one byte of HTTP': Buffer.from('G'),
    'SSL 2': Buffer.from([0x80, 0x2e, 1, 0, 2, 0, 0x15, 0, 0, 0, 0x10]),
    garbage: Buffer.from('\xff\x00\xfe\x01\xaa', 'latin1'),
    'an alert': record(Buffer.from([1, 0]), 21),
    'application data': record(Buffer.from('x'), 23),
    'another major version': Buffer.from([HANDSHAKE, 2, 0, 0, 4, 1, 0, 0, 0]),
    'an empty record': record(Buffer.alloc(0)),
    'another message': record(hello(undefined, '', 2)),
    'a huge record': Buffer.from([HANDSHAKE, 3, 1, 0xff, 0xff]),
    'a huge message': record(Buffer.from([1, 1, 0, 0])),
    'an endless message': Buffer.concat(
      Array.from({ length: 9 }, () => record(Buffer.from([1, 0, 0x3f, 0xff, ...Array(2000).fill(0)])))
    ),
    'an empty message': record(Buffer.from([1, 0, 0, 0])),
    'bytes behind the extensions': record(hello(names(name('a')), 'x')),
    'an extension twice': record(hello(Buffer.concat([names(name('a')), names(name('b'))]))),
    'an extension longer than it is': record(hello(Buffer.from([0, 0, 0, 9, 0]))),
    'half an extension': record(hello(Buffer.from([0, 0, 0]))),
    'no name': sni(Buffer.alloc(0)),
    'an empty list of names': sni(vector(2)),
    'an empty name': record(hello(names(name('')))),
    'two names': record(hello(names(name('a'), name('b')))),
    'a name of another type': record(hello(names(name('a', 1)))),
    'bytes behind the names': sni(Buffer.concat([vector(2, name('a')), Buffer.from('x')])),
    'a NUL in a name': record(hello(names(name('a\0.test')))),
    'a space in a name': record(hello(names(name('a b')))),
    'a name above ASCII': record(hello(names(name('\xe4.test')))),
    'a name too long': record(hello(names(name(`${LONGEST}a`)))),
    'a label too long': record(hello(names(name(`${'a'.repeat(64)}.test`)))),
    'a protocol longer than its list': record(hello(extension(16, Buffer.from([0, 2, 9, 0x68])))),
    'bytes behind the protocols': record(
      hello(extension(16, Buffer.concat([vector(2, vector(1, 'h2')), Buffer.from('x')])))
    )
  }
  for (const [what, bytes] of Object.entries(bad)) {
    t.equal(read(bytes), 'malformed', what)
    // How far it is read before that may differ, not what comes of it.
    t.equal(read(...Array.from(bytes, (byte) => Buffer.from([byte]))), 'malformed', `${what}, byte by byte`)
  }
})

t.test('whatever is made of a hello, the reader gives an answer', async (t) => {
  const whole = record(hello(Buffer.concat([names(name('app.example.test')), protocols('h2', 'http/1.1')])))
  let seed = 1
  const random = (below: number): number => {
    seed = (Math.imul(seed, 48271) >>> 0) % 0x7fffffff
    return seed % below
  }
  const results = { more: 0, malformed: 0, read: 0 }
  for (let run = 0; run < 20_000; run++) {
    const bytes = Buffer.from(whole)
    for (let i = random(3) + 1; i > 0; i--) bytes[random(bytes.length)] = random(256)
    const cut = random(bytes.length)
    const at = random(bytes.length)
    const sent = run % 3 === 0 ? bytes.subarray(0, cut) : bytes
    const result = read(sent)
    if (JSON.stringify(read(sent.subarray(0, at), sent.subarray(at))) !== JSON.stringify(result)) t.fail(`run ${run}`)
    if (typeof result === 'string') results[result]++
    else {
      results.read++
      if (result.sni !== undefined && !/^[\w\-.:]{1,255}$/.test(result.sni)) t.fail(`run ${run}: ${result.sni}`)
    }
  }
  t.ok(results.more > 1000 && results.malformed > 1000 && results.read > 1000, JSON.stringify(results))
})
