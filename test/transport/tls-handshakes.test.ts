import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, connect as connectTcp, createServer, type Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls'
import t, { type Test } from 'tap'
import type { ConnectionFacts } from '../../src/flow/exchange.js'
import type { HandshakeFailure, Listening, ListenLimits, TlsEntry, TlsTable } from '../../src/transport/contract.js'
import { codecServerTransport } from '../../src/transport/http1/server.js'
import { cut } from '../../src/transport/pipes.js'
import {
  GROUPS,
  type ServerContextOptions,
  serverContext,
  type Terminated,
  terminateTls
} from '../../src/transport/tls/terminate.js'
import { ManualClock } from '../helpers/clock.js'
import { fixture } from '../helpers/files.js'
import { heldMemory } from '../helpers/memory.js'
import { rawClient } from '../helpers/raw-client.js'
import { eventually, GET, NAME } from './suite/harness.js'

const at = (path: string) => readFileSync(fixture(`${path}`), 'utf8')
const SERVER = { cert: at('engine/upstream.crt'), key: at('engine/upstream.key') }
const OTHER_SERVER = { cert: at('tls/localhost.crt'), key: at('tls/localhost.key') }
const CLIENTS_CA = at('tls/clients-ca.crt')
const GOOD = { cert: at('tls/client.crt'), key: at('tls/client.key') }
const EXPIRED = { cert: at('tls/client-expired.crt'), key: GOOD.key }
const STRANGER = { cert: at('tls/stranger.crt'), key: at('tls/stranger.key') }
const TICKET_KEYS = Buffer.alloc(48, 7)
const VERSIONS = ['TLSv1.2', 'TLSv1.3'] as const
const LIMITS: ListenLimits = {
  headerBytes: 1000,
  headers: 20,
  targetBytes: 100,
  headTimeout: 10_000,
  bodyIdle: 0,
  keepAlive: 0,
  connections: 0
}

interface Running {
  readonly port: number
  readonly clock: ManualClock
  readonly listening: Listening
  readonly opened: ConnectionFacts[]
  readonly failed: HandshakeFailure[]
  readonly closed: ConnectionFacts[]
  /** A finished handshake, or the code of the error that the client saw; 'closed' when there was none. */
  handshake(options?: ConnectionOptions): Promise<TLSSocket | string>
  /** The body of one answer, or what came instead: as `handshake`. */
  ask(options?: ConnectionOptions): Promise<string>
}

async function listen(t: Test, table: TlsTable, limits: Partial<ListenLimits> = {}): Promise<Running> {
  const clock = new ManualClock()
  const opened: ConnectionFacts[] = []
  const closed: ConnectionFacts[] = []
  const failed: HandshakeFailure[] = []
  const options = { name: 'tls', limits: { ...LIMITS, ...limits }, tls: table }
  const listening = await codecServerTransport({ clock }).listen({ host: '127.0.0.1', port: 0 }, options, {
    connection: (facts) => opened.push(facts) > 0,
    exchange: async (exchange) => void (await exchange.respond({ status: 200, headers: [] }, Buffer.from('ok'))),
    refused: () => undefined,
    handshakeFailed: (_facts, why) => void failed.push(why),
    closed: (facts) => void closed.push(facts)
  })
  t.teardown(() => listening.drain(0))
  const { port } = listening.address
  const begin = (options: ConnectionOptions): TLSSocket =>
    connect({ host: '127.0.0.1', port, servername: NAME, rejectUnauthorized: false, ...options })
  return {
    port,
    clock,
    listening,
    opened,
    failed,
    closed,
    handshake: (options = {}) => outcome(t, begin(options), 'secureConnect', (socket) => socket),
    ask: (options = {}) => {
      const socket = begin(options)
      socket.write(GET)
      return outcome(t, socket, 'data', (_socket, bytes) => String(bytes).slice(-2))
    }
  }
}

function outcome<T>(
  t: Test,
  socket: TLSSocket,
  event: string,
  result: (socket: TLSSocket, bytes: Buffer) => T
): Promise<T | string> {
  t.teardown(() => socket.destroy())
  let code = 'closed'
  socket.on('error', (error: NodeJS.ErrnoException) => {
    code = error.code ?? error.message
  })
  return new Promise((resolve) => {
    socket.once(event, (bytes: Buffer) => resolve(result(socket, bytes)))
    socket.once('close', () => resolve(code))
  })
}

/** An entry for everybody, whose context is built anew. */
function entry(options: Partial<ServerContextOptions> = {}): TlsEntry {
  const { clientCertificates } = options
  const context = serverContext({ ...SERVER, ticketKeys: TICKET_KEYS, ...options })
  return { context, alpn: ['http/1.1'], ...(clientCertificates && { clientCertificates }) }
}

const mutual = (clientCertificates: 'request' | 'require', options: Partial<ServerContextOptions> = {}) =>
  entry({ clientCertificates, ca: CLIENTS_CA, ...options })
const der = (pem: string) => new X509Certificate(pem).raw
const facts = (running: Running) => running.opened.at(-1)?.tls

for (const version of VERSIONS) {
  const only = { minVersion: version, maxVersion: version }

  t.test(`${version}: a certificate that is required must come and be verified`, async (t) => {
    const running = await listen(t, { entryFor: () => mutual('require') })
    t.equal(await running.ask({ ...only, ...GOOD }), 'ok')
    t.match(facts(running), { version, clientVerified: true, sni: NAME })
    t.same(facts(running)?.clientCertificate, der(GOOD.cert))
    t.same(facts(running)?.serverCertificate, der(SERVER.cert))
    for (const [who, why] of [
      [{}, 'certificate-missing'],
      [STRANGER, 'certificate-refused'],
      [EXPIRED, 'certificate-refused'],
      // Its own issuer, but no authority of ours.
      [{ ...STRANGER, ca: STRANGER.cert }, 'certificate-refused']
    ] as const) {
      const before = running.failed.length
      t.not(await running.ask({ ...only, ...who }), 'ok', why)
      await eventually(() => running.failed.length === before + 1 && running.listening.open === 1)
      t.equal(running.failed.at(-1), why)
      t.equal(facts(running), undefined, 'nobody may believe what was not verified')
    }
    t.equal(running.closed.length, 4)
  })

  t.test(`${version}: a certificate that is requested may come`, async (t) => {
    const running = await listen(t, { entryFor: () => mutual('request') })
    for (const [who, verified] of [
      [undefined, false],
      [STRANGER, false],
      [EXPIRED, false],
      [GOOD, true]
    ] as const) {
      t.equal(await running.ask({ ...only, ...who }), 'ok')
      t.equal(facts(running)?.clientVerified, verified)
      t.same(facts(running)?.clientCertificate, who && der(who.cert))
    }
    t.same(running.failed, [])
    const unasked = await listen(t, { entryFor: () => entry() })
    t.equal(await unasked.ask({ ...only, ...GOOD }), 'ok')
    t.same([facts(unasked)?.clientVerified, facts(unasked)?.clientCertificate], [undefined, undefined])
  })

  /** Two visits; the second brings the session of the first. */
  const revisit = async (
    t: Test,
    [first, second]: readonly [TlsEntry, TlsEntry],
    who: ConnectionOptions = {},
    whoThen: ConnectionOptions = who
  ): Promise<{ running: Running; answer: string }> => {
    let visited = false
    const running = await listen(t, { entryFor: () => (visited ? second : first) })
    const socket = await running.handshake({ ...only, ...who })
    if (typeof socket === 'string') throw new Error(socket)
    let session: Buffer | undefined = socket.getSession()
    socket.on('session', (ticket: Buffer) => {
      session = ticket
    })
    socket.write(GET)
    await once(socket, 'data')
    // With TLS 1.3 tickets come behind the handshake; by the answer they are there.
    socket.destroy()
    visited = true
    const answer = await running.ask({ ...only, ...whoThen, ...(session && { session }) })
    return { running, answer }
  }

  t.test(`${version}: sessions resume where everything that was settled is the same`, async (t) => {
    const demands = [undefined, 'request', 'require'] as const
    const as = (demand: (typeof demands)[number]) => (demand === undefined ? entry() : mutual(demand))
    for (const demand of demands) {
      // Contexts of their own, as two threads would have them.
      const { running, answer } = await revisit(t, [as(demand), as(demand)], GOOD)
      t.equal(answer, 'ok')
      t.equal(facts(running)?.resumed, true, `${demand}`)
      if (demand === undefined) continue
      t.equal(facts(running)?.clientVerified, true, 'as it was in the session')
      t.same(facts(running)?.clientCertificate, der(GOOD.cert))
    }
    const unverified = await revisit(t, [as('request'), as('request')], STRANGER)
    t.equal(unverified.answer, 'ok')
    t.match(facts(unverified.running), { resumed: true, clientVerified: false })
    const without = await revisit(t, [as('request'), as('request')])
    t.match(facts(without.running), { clientVerified: false, clientCertificate: undefined })
  })

  t.test(`${version}: no session crosses from one entry to another`, async (t) => {
    const others: Readonly<Record<string, TlsEntry>> = {
      'other ticket keys': entry({ ticketKeys: Buffer.alloc(48, 8) }),
      'another certificate': entry(OTHER_SERVER),
      'a request': mutual('request'),
      'another lowest version': entry({ minVersion: version, maxVersion: version })
    }
    for (const [what, other] of Object.entries(others)) {
      const { running, answer } = await revisit(t, [entry(), other])
      t.equal(answer, 'ok', what)
      t.equal(facts(running)?.resumed, false, what)
    }
    // Whoever got a ticket without showing anything must not be let in by it.
    for (const first of [entry(), mutual('request')]) {
      const { running, answer } = await revisit(t, [first, mutual('require')])
      t.not(answer, 'ok')
      await eventually(() => running.failed.length === 1)
      t.same(running.failed, ['certificate-missing'])
    }
    const authorities = await revisit(t, [mutual('require'), mutual('require', { ca: STRANGER.cert })], GOOD)
    t.not(authorities.answer, 'ok', 'other authorities')
    await eventually(() => authorities.running.failed.length === 1)
    t.same(authorities.running.failed, ['certificate-refused'])
  })

  t.test(`${version}: a hello in pieces is one hello`, async (t) => {
    const running = await listen(t, { entryFor: ({ sni }) => (sni === NAME ? entry() : undefined) })
    for (const cutting of ['bytes', 'records'] as const) {
      const below = connectTcp({ host: '127.0.0.1', port: running.port, noDelay: true })
      t.teardown(() => below.destroy())
      const socket = connect({ socket: pieces(below, cutting), servername: NAME, rejectUnauthorized: false, ...only })
      socket.write(GET)
      t.equal(await outcome(t, socket, 'data', (_socket, bytes) => String(bytes).slice(-2)), 'ok', cutting)
    }
    t.same(running.failed, [])
  })
}

/** Sends the first message, a ClientHello, byte by byte or in two records; the rest as it is. */
function pieces(below: Socket, cutting: 'bytes' | 'records'): Duplex {
  let first = true
  const duplex = new Duplex({
    read: () => below.resume(),
    write(chunk: Buffer, _encoding, done) {
      const whole = first ? (cutting === 'bytes' ? chunk : twoRecords(chunk)) : chunk
      const step = first && cutting === 'bytes' ? 1 : whole.length
      first = false
      const send = async (): Promise<void> => {
        for (let from = 0; from < whole.length; from += step) {
          below.write(whole.subarray(from, from + step))
          await new Promise(setImmediate)
        }
      }
      send().then(() => done(), done)
    },
    final: (done) => void below.end(done)
  })
  below.on('data', (chunk) => {
    if (!duplex.push(chunk)) below.pause()
  })
  below.on('end', () => duplex.push(null))
  below.on('error', () => duplex.destroy())
  return duplex
}

function twoRecords(bytes: Buffer): Buffer {
  const message = bytes.subarray(5)
  const half = message.length >> 1
  return Buffer.concat(
    [message.subarray(0, half), message.subarray(half)].flatMap((part) => [
      Buffer.from([22, 3, 1, part.length >> 8, part.length & 255]),
      part
    ])
  )
}

t.test('a context is strict about what it is built of and what it speaks', async (t) => {
  t.throws(() => serverContext({ cert: SERVER.cert, key: OTHER_SERVER.key }), 'key and certificate must fit')
  t.throws(() => serverContext({ cert: 'x', key: SERVER.key }))
  const usual = await listen(t, { entryFor: () => entry() })
  const old = { minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT:@SECLEVEL=0' } as const
  t.type(await usual.handshake(old), 'string')
  t.type(await usual.handshake({ maxVersion: 'TLSv1.2', ciphers: 'AES128-SHA:ECDHE-RSA-AES128-SHA' }), 'string')
  t.type(await usual.handshake({ ALPNProtocols: ['spdy/3'] }), 'string', 'no protocol in common (RFC 7301 3.2)')
  await eventually(() => usual.failed.length === 3)
  t.same(usual.failed, Array(3).fill('handshake-failed'))
  t.equal(await usual.ask({ maxVersion: 'TLSv1.2' }), 'ok')
  const modern = await listen(t, { entryFor: () => entry({ minVersion: 'TLSv1.3' }) })
  t.type(await modern.handshake({ maxVersion: 'TLSv1.2' }), 'string')
  t.equal(await modern.ask(), 'ok')
})

t.test('what is no handshake is closed without a word and counted', async (t) => {
  const running = await listen(t, { entryFor: () => entry() })
  const nonsense: Readonly<Record<string, string>> = {
    'HTTP in plain': GET,
    garbage: '\xff\xfe\xfd\xfc'.repeat(100),
    'an alert': '\x15\x03\x01\x00\x02\x01\x00',
    'a huge record': `\x16\x03\x01\xff\xff${'x'.repeat(1000)}`,
    'HTTP/2 in plain': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
  }
  for (const [what, text] of Object.entries(nonsense)) {
    const before = running.failed.length
    const c = await rawClient(running.port)
    c.send(text)
    await c.untilEnd()
    t.equal(c.text, '', what)
    await eventually(() => running.failed.length === before + 1)
    t.equal(running.failed.at(-1), 'not-tls', what)
  }
  const left = await rawClient(running.port)
  left.send('\x16\x03\x01')
  left.end()
  await left.untilEnd()
  t.equal(running.failed.at(-1), 'client-gone')
  t.equal(running.listening.open, 0)
  t.equal(running.closed.length, 6)
})

t.test('a name that nobody has is refused with its alert, and never handed a certificate', async (t) => {
  const running = await listen(t, { entryFor: ({ sni }) => (sni === NAME ? entry() : undefined) })
  t.equal(await running.handshake({ servername: 'nobody.test' }), 'ERR_SSL_TLSV1_UNRECOGNIZED_NAME')
  t.type(await running.handshake({ servername: '' }), 'string', 'no name')
  await eventually(() => running.failed.length === 2 && running.listening.open === 0)
  t.same(running.failed, ['unknown-name', 'unknown-name'])
  t.equal(await running.ask(), 'ok')
})

t.test('a new certificate is for new connections; the old ones live', async (t) => {
  let current = entry()
  const running = await listen(t, { entryFor: () => current })
  const old = await running.handshake()
  if (typeof old === 'string') throw new Error(old)
  current = entry(OTHER_SERVER)
  const fresh = await running.handshake()
  if (typeof fresh === 'string') throw new Error(fresh)
  t.same(fresh.getPeerCertificate().raw, der(OTHER_SERVER.cert))
  old.write(GET)
  t.match(String((await once(old, 'data'))[0]), '200 OK')
  t.same(
    running.opened.map(({ tls }) => tls?.serverCertificate).sort(),
    [der(SERVER.cert), der(OTHER_SERVER.cert)].sort()
  )
})

t.test('handshakes have a time and a number', async (t) => {
  const running = await listen(t, { entryFor: () => entry() }, { handshakes: 3, headTimeout: 1000 })
  const mute = await rawClient(running.port)
  const slow = await rawClient(running.port)
  slow.send('\x16\x03\x01')
  // Gets the server's messages and never says the last one of its own.
  const half = await rawClient(running.port)
  const stalled = connect({ socket: silentBehind(half.socket), servername: NAME, rejectUnauthorized: false })
  stalled.on('error', () => undefined)
  t.teardown(() => stalled.destroy())
  await eventually(() => half.text.length > 500)
  t.equal(running.listening.open, 3)
  const fourth = await running.handshake()
  t.type(fourth, 'string')
  t.same(running.failed, ['overloaded'])
  running.clock.advance(1001)
  await Promise.all([mute.untilEnd(), slow.untilEnd(), half.untilEnd()])
  t.same(running.failed, ['overloaded', 'timeout', 'timeout', 'timeout'])
  t.equal(running.listening.open, 0)
  t.equal(mute.text + slow.text, '')
  t.equal(running.closed.length, 3)
  const many = await Promise.all(Array.from({ length: 3 }, () => running.ask()))
  t.same(many, ['ok', 'ok', 'ok'], 'there is room again')
  t.equal(running.listening.open, 3)
  t.equal(await running.ask(), 'ok', 'connections whose handshake is over do not count')
})

/** Passes on the first message to `below` and nothing else. */
function silentBehind(below: Socket): Duplex {
  let first = true
  const duplex = new Duplex({
    read: () => undefined,
    write(chunk: Buffer, _encoding, done) {
      if (first) below.write(chunk)
      first = false
      done()
    }
  })
  below.on('close', () => duplex.destroy())
  return duplex
}

t.test('a raw connection can be secured, and is one with half-close and reset as before', async (t) => {
  const results: Terminated[] = []
  const giveUps: ((why: HandshakeFailure) => void)[] = []
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => {
    const local = { address: socket.localAddress ?? '', port: socket.localPort ?? 0 }
    const table: TlsTable = { entryFor: () => mutual('request') }
    giveUps.push(terminateTls(socket, { table, local }, (result) => results.push(result)))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const open = async () => {
    const below = connectTcp({ host: '127.0.0.1', port, allowHalfOpen: true })
    const socket = connect(
      Object.assign({ socket: below, rejectUnauthorized: false, servername: NAME, ...GOOD }, { allowHalfOpen: true })
    )
    t.teardown(() => below.destroy())
    let error: string | undefined
    for (const one of [below, socket]) {
      one.on('error', ({ code }: NodeJS.ErrnoException) => {
        error ??= code
      })
    }
    const before = results.length
    await once(socket, 'secureConnect')
    await eventually(() => results.length > before)
    const result = results.at(-1)
    if (result?.kind !== 'secure') throw new Error(result?.why)
    return { socket, below, secure: result.secure, tls: result.tls, error: () => error }
  }
  const { socket, secure, tls } = await open()
  t.match(tls, { sni: NAME, version: 'TLSv1.3', clientVerified: true })
  socket.write('ping')
  t.equal(String((await once(secure, 'data'))[0]), 'ping')
  socket.end()
  await once(secure.resume(), 'end')
  t.equal(secure.destroyed, false)
  const rest = once(socket, 'data')
  secure.end('pong')
  t.equal(String((await rest)[0]), 'pong')
  if (!socket.readableEnded) await once(socket.resume(), 'end')

  const broken = await open()
  const gone = new Promise<void>((resolve) => broken.below.once('close', () => resolve()))
  broken.secure.write('x')
  // A reset right behind unread bytes looks like an end to libuv.
  await once(broken.socket, 'data')
  broken.socket.resume()
  cut(broken.secure)
  await gone
  t.equal(broken.error(), 'ECONNRESET')

  const mute = await rawClient(port)
  await eventually(() => giveUps.length === 3)
  giveUps[2]?.('timeout')
  await mute.untilEnd()
  t.same(results.at(-1), { kind: 'failed', why: 'timeout', detail: {} })
  for (const giveUp of giveUps) giveUp('timeout')
  t.equal(results.length, 3, 'once each')
})

t.test('nothing of a handshake stays with its connection', async (t) => {
  const secured: Socket[] = []
  let ofHandshake: WeakRef<object> | undefined
  const server = createServer({ pauseOnConnect: true }, (socket) => {
    const options = { table: { entryFor: () => entry() }, local: { address: '', port: 0 } }
    ofHandshake = new WeakRef(options)
    terminateTls(socket, options, (result) => {
      if (result.kind === 'secure') secured.push(result.secure)
    })
  }).listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  const client = connect({ port: (server.address() as AddressInfo).port, servername: NAME, rejectUnauthorized: false })
  t.teardown(() => client.destroy())
  await once(client, 'secureConnect')
  await eventually(() => secured.length === 1)
  await eventually(() => heldMemory() > 0 && ofHandshake?.deref() === undefined)
  secured[0]?.write('ping')
  t.equal(String((await once(client, 'data'))[0]), 'ping', 'and the connection is there')
})

t.test('TLS 1.2: a client does not shake hands twice on one connection', async (t) => {
  const running = await listen(t, { entryFor: () => entry() })
  const client = await running.handshake({ maxVersion: 'TLSv1.2' })
  if (typeof client === 'string') throw new Error(client)
  const told = await new Promise<unknown>((resolve) => {
    client.once('error', resolve)
    client.resume()
    client.renegotiate({ rejectUnauthorized: false }, resolve)
  })
  t.match(told, { code: 'ERR_SSL_NO_RENEGOTIATION' })
})

t.test('TLS 1.2: ciphers are chosen in our order, and ChaCha20 for those who put it first', async (t) => {
  const running = await listen(t, { entryFor: () => entry() })
  const cases: readonly (readonly [offered: string, chosen: string])[] = [
    ['ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-GCM-SHA256', 'ECDHE-ECDSA-AES128-GCM-SHA256'],
    ['ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305', 'ECDHE-ECDSA-AES256-GCM-SHA384'],
    ['ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES128-GCM-SHA256', 'ECDHE-ECDSA-CHACHA20-POLY1305']
  ]
  for (const [ciphers, chosen] of cases) {
    t.equal(await running.ask({ maxVersion: 'TLSv1.2', ciphers }), 'ok')
    t.equal(facts(running)?.cipher, chosen, ciphers)
  }
})

t.test('curves: the cheapest that is offered, and none that costs many times as much', async (t) => {
  const running = await listen(t, { entryFor: () => entry() })
  for (const [maxVersion, ecdhCurve, name] of [
    ['TLSv1.2', 'P-384:P-256:X25519', 'X25519'],
    ['TLSv1.2', 'P-384:P-256', 'prime256v1'],
    // The first is sent along, and a better one is not worth another round trip.
    ['TLSv1.3', 'X25519:P-256', 'X25519'],
    ['TLSv1.3', 'P-521:P-384', 'secp384r1']
  ] as const) {
    const client = await running.handshake({ maxVersion, ecdhCurve })
    t.match(typeof client === 'string' ? client : client.getEphemeralKeyInfo(), { name }, `${maxVersion} ${ecdhCurve}`)
  }
  t.type(await running.handshake({ ecdhCurve: 'P-521' }), 'string')
})

t.test('keys are exchanged by the hybrid of X25519 and ML-KEM-768 where OpenSSL has it', async (t) => {
  const [major = 0, minor = 0] = process.versions.openssl.split('.').map(Number)
  const has = major > 3 || (major === 3 && minor >= 5)
  t.equal(GROUPS, has ? 'X25519MLKEM768:X25519:P-256:P-384' : 'X25519:P-256:P-384')
  const running = await listen(t, { entryFor: () => entry() })
  const client = await running.handshake({})
  const name = has ? 'X25519MLKEM768' : 'X25519'
  t.match(typeof client === 'string' ? client : client.getEphemeralKeyInfo(), { name }, 'with a client that offers all')
  const former = await running.handshake({ ecdhCurve: 'X25519' })
  t.match(
    typeof former === 'string' ? former : former.getEphemeralKeyInfo(),
    { name: 'X25519' },
    'and with one that has it not'
  )
})
