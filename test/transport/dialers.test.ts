import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Server } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import t, { type Test } from 'tap'
import type { BytePipe, ConnectionFacts } from '../../src/flow/exchange.js'
import { DescriptorShares } from '../../src/lib/descriptor-shares.js'
import { DialError, type Dialer } from '../../src/transport/contract.js'
import { AbortList } from '../../src/transport/deadlines.js'
import { tcpDialer, tlsDialer } from '../../src/transport/dialers.js'
import { handshakeFailure } from '../../src/transport/tls/peer.js'
import { fixture } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { RawUpstream } from '../helpers/upstream.js'

const at = (name: string) => readFileSync(fixture(`engine/${name}`), 'utf8')
const client = {} as ConnectionFacts

function open(dialer: Dialer, deadline = 0, signal = new AbortList()): Promise<BytePipe> {
  return dialer.open({ client, deadline, signal })
}

async function failure(opening: Promise<BytePipe>): Promise<string> {
  try {
    await opening
    return 'none'
  } catch (error) {
    return error instanceof DialError ? error.failure : 'another error'
  }
}

async function port(t: Test, server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return (server.address() as AddressInfo).port
}

t.test('TCP: a pipe with half-close', async (t) => {
  const upstream = await RawUpstream.start(t)
  const pipe = await open(tcpDialer({ host: '127.0.0.1', port: upstream.port }))
  const peer = await upstream.next()
  pipe.duplex.write('hello')
  pipe.end()
  await peer.untilEnd()
  t.equal(peer.text, 'hello')
  peer.send('still here')
  const [chunk] = (await once(pipe.duplex, 'data')) as [Buffer]
  t.equal(String(chunk), 'still here')
  peer.end()
  const broken = await open(tcpDialer({ host: '127.0.0.1', port: upstream.port }))
  const other = await upstream.next()
  broken.destroy('client-gone')
  await other.closed
  t.equal(other.error, 'ECONNRESET', 'destroy is no clean end')
})

t.test('TCP: refused, unknown name, given up', async (t) => {
  const server = createServer()
  const free = await port(t, server)
  server.close()
  await once(server, 'close')
  t.equal(await failure(open(tcpDialer({ host: '127.0.0.1', port: free }))), 'dial-refused')
  t.equal(await failure(open(tcpDialer({ host: 'no-such-host.invalid', port: 80 }))), 'dial-refused')
  const signal = new AbortList()
  const opening = open(tcpDialer({ host: '127.0.0.1', port: free }), 0, signal)
  signal.abort('client-gone')
  t.equal(await failure(opening), 'client-gone')
  t.equal(await failure(open(tcpDialer({ host: '127.0.0.1', port: free }), 0, signal)), 'client-gone', 'gone before')
})

t.test('TLS: a trusted certificate of the right name, half-close, and everything else refused', async (t) => {
  const server = createTlsServer(
    { cert: at('upstream.crt'), key: at('upstream.key'), allowHalfOpen: true },
    (socket) => {
      socket.on('error', () => undefined)
      socket.on('data', (chunk: Buffer) => socket.write(chunk))
      socket.on('end', () => socket.end('bye'))
    }
  )
  const to = { host: '127.0.0.1', port: await port(t, server) }
  const pipe = await open(tlsDialer({ ...to, servername: 'upstream.test', ca: at('upstream.crt') }))
  pipe.duplex.end('hello')
  let text = ''
  for await (const chunk of pipe.duplex) text += chunk
  t.equal(text, 'hellobye')
  t.equal(await failure(open(tlsDialer({ ...to, servername: 'upstream.test' }))), 'tls-untrusted', 'nobody vouches')
  t.equal(
    await failure(open(tlsDialer({ ...to, servername: 'other.test', ca: at('upstream.crt') }))),
    'tls-name',
    'another name'
  )
  const lenient = await open(tlsDialer({ ...to, servername: 'other.test', rejectUnauthorized: false }))
  lenient.destroy('client-gone')
})

t.test('TLS: no TLS there, or silence until the deadline', async (t) => {
  const upstream = await RawUpstream.start(t, async (peer) => {
    await peer.until((text) => text.length > 0)
    peer.send('HTTP/1.1 400 Bad Request\r\n\r\n')
  })
  t.equal(await failure(open(tlsDialer({ host: '127.0.0.1', port: upstream.port, servername: 'a.test' }))), 'dial-tls')
  const silent = await RawUpstream.start(t)
  const dialer = tlsDialer({ host: '127.0.0.1', port: silent.port, servername: 'a.test' })
  t.equal(await failure(open(dialer, 50)), 'dial-timeout')
  const closing = await RawUpstream.start(t, (peer) => peer.socket.destroy())
  t.equal(await failure(open(tlsDialer({ host: '127.0.0.1', port: closing.port, servername: 'a.test' }))), 'dial-tls')
})

t.test('connections are interchangeable only where everything that selects them is equal', async (t) => {
  const base = { host: 'h', port: 1, servername: 's' }
  const keys = [
    tcpDialer(base),
    tlsDialer(base),
    tlsDialer({ ...base, servername: 'o' }),
    tlsDialer({ ...base, ca: 'x' }),
    tlsDialer({ ...base, rejectUnauthorized: false }),
    tlsDialer({ ...base, port: 2 })
  ].map(({ key }) => key)
  t.equal(new Set(keys).size, keys.length)
  t.equal(tlsDialer(base).key, tlsDialer({ ...base }).key)
})

t.test(
  'a process without descriptors for upstreams says so and opens nothing; each connection gives its own back',
  async (t) => {
    const upstream = await RawUpstream.start(t)
    const descriptors = new DescriptorShares()
    descriptors.allow(8)
    const dialer = tcpDialer({ host: '127.0.0.1', port: upstream.port, descriptors })
    const pipes: BytePipe[] = []
    for (let i = 0; i < 6; i++) pipes.push(await open(dialer))
    t.equal(await failure(open(dialer)), 'no-descriptor')
    const [first] = pipes
    first?.destroy('client-gone')
    await until(() => descriptors.admitsUpstream)
    pipes.push(await open(dialer))
    for (const pipe of pipes) pipe.destroy('client-gone')
    await until(() => descriptors.admitsUpstream)
    const refused = tcpDialer({ host: '127.0.0.1', port: 1, descriptors })
    for (let i = 0; i < 20; i++) t.equal(await failure(open(refused)), 'dial-refused', 'a failed dial keeps none')
  }
)

t.test('alerts have the same meaning in the words of each OpenSSL', async (t) => {
  for (const words of ['SSLV3', 'SSL/TLS']) {
    t.equal(handshakeFailure(`ERR_SSL_${words}_ALERT_BAD_CERTIFICATE`).failure, 'tls-client-certificate', words)
    t.match(handshakeFailure(`ERR_SSL_${words}_ALERT_HANDSHAKE_FAILURE`).message, /wants a client certificate/, words)
  }
  t.equal(handshakeFailure('ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION').failure, 'tls-version')
})
