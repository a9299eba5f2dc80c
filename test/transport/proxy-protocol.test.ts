import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect, createSecureContext } from 'node:tls'
import t, { type Test } from 'tap'
import type { ConnectionFacts } from '../../src/flow/exchange.js'
import { systemClock } from '../../src/lib/clock.js'
import type { ListenOptions } from '../../src/transport/contract.js'
import { nodeServerTransport } from '../../src/transport/http-proxy/server.js'
import { codecServerTransport } from '../../src/transport/http1/server.js'
import { readHeader } from '../../src/transport/proxy-protocol.js'
import { fixture } from '../helpers/files.js'
import { rawClient } from '../helpers/raw-client.js'
import { until } from '../helpers/until.js'
import { GET, NAME } from './suite/harness.js'

const SIGNATURE = '\r\n\r\n\0\r\nQUIT\n'
const LIMITS = {
  headerBytes: 1000,
  headers: 20,
  targetBytes: 100,
  headTimeout: 300,
  bodyIdle: 0,
  keepAlive: 0,
  connections: 0
}
const at = (name: string) => readFileSync(fixture(`engine/${name}`), 'utf8')

/** A header of version 2. */
function binary(command: number, family: number, block: number[], extra = 0): string {
  const head = Buffer.from([command, family, (block.length + extra) >> 8, (block.length + extra) & 255, ...block])
  return SIGNATURE + head.toString('latin1') + '\x04'.repeat(extra)
}

const V4 = [192, 0, 2, 1, 198, 51, 100, 2, 0x10, 0x92, 1, 187]
const V6 = [
  ...[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
  ...[0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2],
  ...[0x10, 0x92, 1, 187]
]
const MAPPED = [...Array(10).fill(0), 255, 255, 192, 0, 2, 1, ...Array(15).fill(0), 1, 0x10, 0x92, 1, 187]
const GOOD: Readonly<Record<string, readonly [string, string]>> = {
  'v1 TCP4': ['PROXY TCP4 192.0.2.1 198.51.100.2 4242 443\r\n', '192.0.2.1:4242 198.51.100.2:443'],
  'v1 TCP6': ['PROXY TCP6 2001:DB8::1 2001:db8:0:1::2 4242 443\r\n', '2001:db8::1:4242 2001:db8:0:1::2:443'],
  'v1 UNKNOWN': ['PROXY UNKNOWN\r\n', 'own'],
  'v1 UNKNOWN with a rest': ['PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n', 'own'],
  'v2 over IPv4': [binary(0x21, 0x11, V4), '192.0.2.1:4242 198.51.100.2:443'],
  'v2 over IPv6': [binary(0x21, 0x21, V6), '2001:db8::1:4242 2001:db8:0:1::2:443'],
  'v2 with a mapped address': [binary(0x21, 0x21, MAPPED), '::ffff:192.0.2.1:4242 ::1:443'],
  'v2 with TLVs': [binary(0x21, 0x11, V4, 3000), '192.0.2.1:4242 198.51.100.2:443'],
  'v2 LOCAL': [binary(0x20, 0x00, []), 'own'],
  'v2 LOCAL with addresses': [binary(0x20, 0x11, V4), 'own'],
  'v2 of no family': [binary(0x21, 0x00, []), 'own'],
  'v2 of a unix socket': [binary(0x21, 0x31, Array(216).fill(0)), 'own']
}
const BAD: Readonly<Record<string, string>> = {
  'no family': 'PROXY \r\n',
  'another family': 'PROXY UDP4 192.0.2.1 198.51.100.2 1 2\r\n',
  'a family that does not fit': 'PROXY TCP4 2001:db8::1 2001:db8::2 1 2\r\n',
  'two spaces': 'PROXY TCP4  192.0.2.1 198.51.100.2 1 2\r\n',
  'too few': 'PROXY TCP4 192.0.2.1 198.51.100.2 1\r\n',
  'too many': 'PROXY TCP4 192.0.2.1 198.51.100.2 1 2 3\r\n',
  'a port too large': 'PROXY TCP4 192.0.2.1 198.51.100.2 65536 2\r\n',
  'a port with a zero before it': 'PROXY TCP4 192.0.2.1 198.51.100.2 01 2\r\n',
  'a signed port': 'PROXY TCP4 192.0.2.1 198.51.100.2 +1 2\r\n',
  'a zone': 'PROXY TCP6 fe80::1%lo fe80::2 1 2\r\n',
  'bare LF': 'PROXY TCP4 192.0.2.1 198.51.100.2 1 2\n',
  'an endless line': `PROXY UNKNOWN ${'x'.repeat(200)}`,
  'lower-case': 'PROXY tcp4 192.0.2.1 198.51.100.2 1 2\r\n',
  'another version': binary(0x31, 0x11, V4),
  'another command': binary(0x22, 0x11, V4),
  datagrams: binary(0x21, 0x12, V4),
  'too few bytes': binary(0x21, 0x11, V4.slice(1)),
  'too few bytes for IPv6': binary(0x21, 0x21, V4),
  'a huge header': binary(0x21, 0x11, V4, 60_000)
}

t.test('headers are read alike however they are cut', async (t) => {
  for (const [what, [text, wanted]] of Object.entries(GOOD)) {
    const bytes = Buffer.from(`${text}rest`, 'latin1')
    for (let end = 1; end < text.length; end++) t.equal(readHeader(bytes.subarray(0, end)), 'more', `${what} to ${end}`)
    const read = readHeader(bytes)
    if (typeof read === 'string') t.fail(`${what}: ${read}`)
    else {
      const { header, length } = read
      t.equal(length, text.length, what)
      const end = ({ address, port }: { address: string; port: number }) => `${address}:${port}`
      t.equal(header.kind === 'own' ? 'own' : `${end(header.peer)} ${end(header.local)}`, wanted, what)
    }
  }
  for (const [what, text] of Object.entries(BAD)) t.equal(readHeader(Buffer.from(text, 'latin1')), 'malformed', what)
  for (const other of [GET, 'PUT / HTTP/1.1', 'P\r\n', '\r\nGET', '\x16\x03\x01', 'SSH-2.0']) {
    t.equal(readHeader(Buffer.from(other, 'latin1')), 'none', other)
  }
})

for (const [name, make] of Object.entries({ codec: codecServerTransport, 'node:http': nodeServerTransport })) {
  const listen = async (t: Test, trusted: boolean, tls?: ListenOptions['tls']) => {
    const seen: ConnectionFacts[] = []
    const failed: string[] = []
    const closed: number[] = []
    const options = { name: 'p', limits: LIMITS, proxyProtocol: { trusted: () => trusted }, ...(tls && { tls }) }
    const listening = await make({ clock: systemClock }).listen({ host: '127.0.0.1', port: 0 }, options, {
      connection(facts) {
        seen.push(facts)
        return true
      },
      exchange: async (exchange) => void (await exchange.respond({ status: 200, headers: [] }, Buffer.from('ok'))),
      refused: () => undefined,
      handshakeFailed: (_facts, why) => void failed.push(why),
      closed: (facts) => void closed.push(facts.id)
    })
    t.teardown(() => listening.drain(0))
    return { port: listening.address.port, listening, seen, failed, closed }
  }

  t.test(`${name}: a trusted peer says who the client is; the request behind it is read`, async (t) => {
    const { port, seen, listening, closed } = await listen(t, true)
    let count = 0
    for (const [what, [text, wanted]] of Object.entries(GOOD)) {
      for (const cut of ['whole', 'bytes'] as const) {
        if (cut === 'bytes' && text.length > 1000) continue
        const c = await rawClient(port)
        if (cut === 'whole') c.send(text + GET)
        else {
          for (const byte of text) {
            c.send(byte)
            await new Promise(setImmediate)
          }
          c.send(GET)
        }
        t.equal((await c.answer()).body, 'ok', `${what} ${cut}`)
        c.send(GET)
        t.equal((await c.answer()).body, 'ok', `${what}, second request`)
        const facts = seen[count++]
        if (wanted === 'own') t.match(facts, { peer: { address: '127.0.0.1' }, via: undefined }, what)
        else {
          t.equal(`${facts?.peer.address}:${facts?.peer.port} ${facts?.local.address}:${facts?.local.port}`, wanted)
          t.match(facts?.via, { peer: { address: '127.0.0.1', port: c.socket.localPort }, local: { port } }, what)
        }
        c.end()
        await c.closed
      }
    }
    await until(() => listening.open === 0)
    t.equal(closed.length, count)
  })

  t.test(`${name}: no header, a bad one, none in time: closed without a word and counted`, async (t) => {
    const { port, seen, failed, listening } = await listen(t, true)
    for (const text of Object.values(BAD)) {
      const c = await rawClient(port)
      c.send(text + GET)
      await c.untilEnd()
      t.equal(c.text, '', text)
    }
    t.same(new Set(failed), new Set(['proxy-header-malformed']))
    for (const [send, why] of [
      [GET, 'proxy-header-missing'],
      ['PROXY TCP', 'timeout'],
      ['', 'timeout']
    ] as const) {
      const c = await rawClient(port)
      if (send !== '') c.send(send)
      await c.untilEnd()
      t.equal(failed.at(-1), why)
    }
    const left = await rawClient(port)
    left.send('PROXY')
    left.end()
    await left.untilEnd()
    t.equal(failed.at(-1), 'client-gone')
    t.same(seen, [], 'nobody was let in')
    t.equal(listening.open, 0)
  })

  t.test(`${name}: from others there is no header`, async (t) => {
    const { port, seen, failed } = await listen(t, false)
    const c = await rawClient(port)
    c.send('GE')
    await new Promise(setImmediate)
    c.send(GET.slice(2))
    t.equal((await c.answer()).body, 'ok')
    t.equal(seen[0]?.via, undefined)
    for (const text of [GOOD['v1 TCP4']?.[0], GOOD['v2 over IPv4']?.[0]]) {
      const bad = await rawClient(port)
      bad.send(text + GET)
      await bad.untilEnd()
      t.equal(bad.text, '')
    }
    t.same(failed, ['proxy-header-refused', 'proxy-header-refused'])
    c.end()
  })

  t.test(`${name}: the header comes before TLS`, async (t) => {
    const context = createSecureContext({ cert: at('upstream.crt'), key: at('upstream.key') })
    const { port, seen } = await listen(t, true, { entryFor: () => ({ context, alpn: ['http/1.1'] }) })
    const below = await rawClient(port)
    below.socket.removeAllListeners('data')
    below.send(binary(0x21, 0x11, V4, 100))
    const socket = connect({ socket: below.socket, servername: NAME, rejectUnauthorized: false })
    await once(socket, 'secureConnect')
    socket.write(GET)
    const [bytes] = (await once(socket, 'data')) as [Buffer]
    t.match(String(bytes), /^HTTP\/1\.1 200/)
    t.match(seen[0], { peer: { address: '192.0.2.1', port: 4242 }, tls: { sni: NAME } })
    socket.destroy()
  })
}
