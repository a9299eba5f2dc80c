import { createSocket } from 'node:dgram'
import { Resolver } from 'node:dns/promises'
import { once } from 'node:events'
import { connect } from 'node:net'
import t from 'tap'
import { readQuery, writeAnswer } from '../../../src/capabilities/certificates/dns/message.js'
import { openDnsListener, type ZoneContent, Zones } from '../../../src/capabilities/certificates/dns/server.js'

const NAME = 'aa.bb.acme.sluice.test'
const VALUE = 'x'.repeat(43)

interface Test {
  teardown(run: () => Promise<void> | void): void
}

async function server(t: Test, more: Partial<ZoneContent> = {}) {
  const zones = new Zones({
    apex: 'acme.sluice.test',
    servers: ['ns1.sluice.test', 'ns2.sluice.test'],
    addresses: ['192.0.2.1', '2001:db8::1', '::ffff:192.0.2.7'],
    content: {
      domains: () => ['connect.example.com'],
      texts: (name) => (name === NAME ? [VALUE] : []),
      isAgentHost: (name) => name === 'tunnel.eu.connect.example.com',
      ...more
    }
  })
  const listener = await openDnsListener(
    { host: '127.0.0.1', port: 0 },
    { answer: (query) => zones.answer(query), log: { warn: () => undefined } }
  )
  t.teardown(() => listener.close())
  const { port } = listener.address
  const resolver = new Resolver({ timeout: 2_000, tries: 1 })
  resolver.setServers([`127.0.0.1:${port}`])
  return { port, resolver }
}

/** A query by hand. */
function query(
  name: string,
  type: number,
  { edns, id = 0x1234, flags = 0x0100 }: Partial<Record<'edns' | 'id' | 'flags', number>> = {}
) {
  const labels = name.split('.').flatMap((label) => [label.length, ...Buffer.from(label)])
  const head = Buffer.alloc(12)
  head.writeUInt16BE(id, 0)
  head.writeUInt16BE(flags, 2)
  head.writeUInt16BE(1, 4)
  head.writeUInt16BE(edns === undefined ? 0 : 1, 10)
  const opt = edns === undefined ? [] : [0, 0, 41, edns >> 8, edns & 255, 0, 0, 0, 0, 0, 0]
  return Buffer.from([...head, ...labels, 0, type >> 8, type & 255, 0, 1, ...opt])
}

/** Sends datagrams and answers what comes back until the last one, a good query, is answered. */
async function datagrams(port: number, messages: readonly Uint8Array[]): Promise<Buffer[]> {
  const socket = createSocket('udp4')
  const last = query('last.acme.sluice.test', 16, { id: 0xfffe })
  const answers: Buffer[] = []
  await new Promise<void>((resolve) => {
    socket.on('message', (message) => {
      if (message.readUInt16BE(0) === 0xfffe) resolve()
      else answers.push(message)
    })
    for (const message of [...messages, last]) socket.send(message, port, '127.0.0.1')
  })
  socket.close()
  return answers
}

/** Sends bytes on one connection and answers everything that comes until it ends, or `answers` messages have come. */
async function stream(port: number, bytes: Uint8Array, answers: number): Promise<Buffer[]> {
  const socket = connect(port, '127.0.0.1')
  let all = Buffer.alloc(0)
  const found: Buffer[] = []
  await new Promise<void>((resolve) => {
    socket.on('data', (chunk) => {
      all = Buffer.concat([all, chunk])
      while (all.length >= 2 && all.length >= 2 + all.readUInt16BE(0)) {
        found.push(all.subarray(2, 2 + all.readUInt16BE(0)))
        all = all.subarray(2 + all.readUInt16BE(0))
      }
      if (found.length === answers) resolve()
    })
    socket.on('error', () => resolve())
    socket.on('close', () => resolve())
    socket.write(bytes)
  })
  socket.destroy()
  return found
}

const framed = (message: Uint8Array) => Buffer.concat([Buffer.of(message.length >> 8, message.length & 255), message])
const rcode = (message: Uint8Array) => (message[3] ?? 0) & 15

t.test('a resolver that is not ours understands the answers', async (t) => {
  const { resolver } = await server(t)
  t.same(await resolver.resolveTxt(NAME), [[VALUE]])
  t.same(await resolver.resolveTxt(NAME.toUpperCase()), [[VALUE]], 'in any letter case')
  t.same((await resolver.resolveNs('acme.sluice.test')).sort(), ['ns1.sluice.test', 'ns2.sluice.test'])
  t.match(await resolver.resolveSoa('connect.example.com'), { nsname: 'ns1.sluice.test', minttl: 1 })
  t.same(await resolver.resolve4('tunnel.eu.connect.example.com'), ['192.0.2.1'])
  t.same(await resolver.resolve6('tunnel.eu.connect.example.com'), ['2001:db8::1', '::ffff:192.0.2.7'])
  await t.rejects(resolver.resolveTxt('zz.acme.sluice.test'), { code: 'ENODATA' })
  await t.rejects(resolver.resolveTxt('bb.acme.sluice.test'), { code: 'ENODATA' }, 'part of a longer name')
  await t.rejects(resolver.resolve4(NAME), { code: 'ENODATA' })
  await t.rejects(resolver.resolveTxt('example.com'), { code: 'EREFUSED' })
  await t.rejects(resolver.resolveTxt('xacme.sluice.test'), { code: 'EREFUSED' })
})

t.test('the letter case of a question is repeated, and flags are those of an authority', async (t) => {
  const { port } = await server(t)
  const [answer] = await datagrams(port, [query('aA.bB.aCmE.sLuIcE.tEsT', 16, { edns: 4096 })])
  t.ok(answer?.includes('aA\x02bB\x04aCmE'))
  t.equal(answer?.readUInt16BE(2), 0x8500, 'answer, authoritative, no recursion')
  t.equal(answer?.readUInt16BE(10), 1, 'EDNS for EDNS')
  const [bare] = await datagrams(port, [query(NAME, 16, { flags: 0 })])
  t.equal(bare?.readUInt16BE(2), 0x8400)
  t.equal(bare?.readUInt16BE(10), 0)
})

t.test('malformed messages are refused or dropped, never answered with more than came', async (t) => {
  const { port } = await server(t)
  const good = query(NAME, 16)
  const pointer = Buffer.concat([good.subarray(0, 12), Buffer.of(0xc0, 12, 0, 16, 0, 1)])
  const counts = Buffer.from(good)
  counts.writeUInt16BE(2, 4)
  const answers = Buffer.from(good)
  answers.writeUInt16BE(1, 6)
  const long = query(Array<string>(5).fill('a'.repeat(63)).join('.'), 16)
  const optTwice = Buffer.concat([query(NAME, 16, { edns: 512 }), query('x', 16, { edns: 512 }).subarray(-11)])
  optTwice.writeUInt16BE(2, 10)
  const refused = [pointer, counts, answers, long, good.subarray(0, 20), good.subarray(0, 12), optTwice]
  for (const [index, message] of refused.entries()) {
    const [answer] = await datagrams(port, [message])
    t.equal(answer?.length, 12, `message ${index}`)
    t.equal(answer && rcode(answer), 1)
    t.equal(answer?.readUInt16BE(0), 0x1234)
  }
  const [other] = await datagrams(port, [query(NAME, 16, { flags: 0x2800 })])
  t.equal(other && rcode(other), 4, 'an update is not implemented')
  const response = query(NAME, 16, { flags: 0x8180 })
  t.same(
    await datagrams(port, [Buffer.alloc(0), Buffer.alloc(11), response, Buffer.alloc(1025)]),
    [],
    'no answer at all'
  )
})

t.test('no bytes make it throw', async (t) => {
  let seed = 42
  const random = () => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
    return seed / 2_147_483_648
  }
  const zones = new Zones({
    apex: 'acme.sluice.test',
    servers: ['ns1.sluice.test'],
    addresses: [],
    content: { domains: () => [], texts: (name) => (name === NAME ? [VALUE] : []), isAgentHost: () => false }
  })
  for (let i = 0; i < 50_000; i++) {
    const message = Buffer.from(query(NAME, [16, 6, 2, 255, 1][i % 5] as number, i % 2 === 0 ? { edns: 1232 } : {}))
    for (let change = 0; change < 1 + (i % 4); change++) {
      message[2 + Math.floor(random() * (message.length - 2))] = Math.floor(random() * 256)
    }
    const cut = message.subarray(0, i % 3 === 0 ? Math.floor(random() * message.length) : message.length)
    const reading = readQuery(cut)
    if (reading === undefined) continue
    const answer = reading.ok ? writeAnswer(reading.query, zones.answer(reading.query), 'udp') : reading.refusal
    if (answer.length > 1232 || (answer.length > 512 && reading.ok && reading.query.edns === undefined))
      t.fail('too long')
    if (answer.length > Math.max(12, cut.length * 3)) t.fail(`${answer.length} bytes for ${cut.length}`)
  }
})

t.test('no amplification: asking for everything, and many values at once', async (t) => {
  const { port, resolver } = await server(t, { texts: (name) => (name === NAME ? Array<string>(40).fill(VALUE) : []) })
  const any = query('acme.sluice.test', 255, { edns: 4096 })
  const [small] = await datagrams(port, [any])
  t.ok((small?.length ?? 999) < any.length * 3, `${small?.length} bytes for ${any.length}`)
  for (const edns of [undefined, 4096]) {
    const [cut] = await datagrams(port, [query(NAME, 16, edns === undefined ? {} : { edns })])
    t.equal((cut?.readUInt16BE(2) ?? 0) & 0x0200, 0x0200, 'cut')
    t.equal(cut?.readUInt16BE(6), 0)
    t.ok((cut?.length ?? 999) < 100)
  }
  t.equal((await resolver.resolveTxt(NAME)).length, 40, 'the whole over TCP')
})

t.test('TCP: several queries on one connection, in pieces; what is wrong ends it', async (t) => {
  const { port } = await server(t)
  const good = framed(query(NAME, 16))
  t.equal((await stream(port, Buffer.concat([good, good, good]), 3)).length, 3)
  const socket = connect(port, '127.0.0.1')
  const answer = new Promise<Buffer>((resolve) => socket.once('data', resolve))
  for (const byte of good) {
    socket.write(Buffer.of(byte))
    await new Promise((resolve) => setImmediate(resolve))
  }
  t.ok((await answer).length > 60)
  socket.destroy()
  t.same(await stream(port, Buffer.of(0xff, 0xff, 1, 2, 3), 1), [], 'too long')
  t.same(await stream(port, framed(Buffer.alloc(3)), 1), [], 'too short')
  t.equal((await stream(port, Buffer.concat(Array<Buffer>(150).fill(good)), 150)).length, 100, 'enough is enough')
})

t.test('a port in use is told', async (t) => {
  const { port } = await server(t)
  const parts = { answer: () => ({ rcode: 0, authoritative: true, answers: [] }), log: { warn: () => undefined } }
  await t.rejects(openDnsListener({ host: '127.0.0.1', port }, parts), { code: 'EADDRINUSE' })
})

t.test('one client holds a share of the connections, and others are served', async (t) => {
  const { port } = await server(t)
  const open = async (localAddress: string) => {
    const socket = connect({ port, host: '127.0.0.1', localAddress })
    t.teardown(() => void socket.destroy())
    socket.on('error', () => undefined)
    await once(socket, 'connect')
    return socket
  }
  const message = query(NAME, 16)
  const ask = async (localAddress: string) => {
    const socket = await open(localAddress)
    socket.write(Buffer.concat([Buffer.from([0, message.length]), message]))
    const answered = await Promise.race([
      once(socket, 'data').then(() => true),
      once(socket, 'close').then(() => false)
    ])
    return { socket, answered }
  }
  const held = []
  for (let i = 0; i < 10; i++) held.push(await ask('127.0.0.1'))
  t.same([...new Set(held.map(({ answered }) => answered))], [true])
  t.equal((await ask('127.0.0.1')).answered, false, 'the eleventh is closed')
  t.equal((await ask('127.0.0.2')).answered, true)
})
