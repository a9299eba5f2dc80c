import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { chmod, readFile, stat, unlink, writeFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { connect, createServer } from 'node:tls'
import t from 'tap'
import { openAgentsIdentity } from '../../../src/capabilities/tunnel/agents/listener-identity.js'
import { systemClock } from '../../../src/lib/clock.js'
import { ManualClock } from '../../helpers/clock.js'

const NAMES = ['localhost', '127.0.0.1', '::1', 'tunnel.example.com']
const DAY = 86_400_000

t.test('an authority and its leaf are made once', async (t) => {
  const folder = join(t.testdir({}), 'agents')
  const first = await openAgentsIdentity(folder, NAMES, systemClock)
  t.equal(first.caFile, join(folder, 'ca.pem'))
  t.equal(await readFile(first.caFile ?? '', 'utf8'), first.ca)
  for (const file of ['ca.key', 'server.key']) t.equal((await stat(join(folder, file))).mode & 0o777, 0o600, file)
  const ca = new X509Certificate(first.ca)
  const leaf = new X509Certificate(first.cert)
  t.ok(ca.ca && !leaf.ca, 'strict agents want two certificates')
  t.ok(leaf.verify(ca.publicKey) && leaf.checkIssued(ca))
  for (const name of NAMES.filter((text) => /[a-z]/.test(text))) t.equal(leaf.checkHost(name), name)
  t.equal(leaf.checkIP('127.0.0.1'), '127.0.0.1')
  t.ok(leaf.checkIP('::1'))
  t.same(leaf.keyUsage, ['1.3.6.1.5.5.7.3.1'])
  t.same(await openAgentsIdentity(folder, NAMES.slice(1), systemClock), first, 'what is there is used again')
})

t.test('a client that trusts the authority is served', async (t) => {
  const { ca, cert, key } = await openAgentsIdentity(undefined, ['localhost', '127.0.0.1'], systemClock)
  const server = createServer({ cert, key }, (socket) => socket.end('hello'))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  for (const host of ['127.0.0.1', 'localhost']) {
    const socket = connect({ host, port: (server.address() as AddressInfo).port, ca })
    t.equal(String(Buffer.concat(await socket.toArray())), 'hello', host)
    t.ok(socket.authorized)
  }
})

t.test('the leaf is made anew for another name and when it grows old, the authority is not', async (t) => {
  const folder = t.testdir({})
  const clock = new ManualClock(Date.now())
  const first = await openAgentsIdentity(folder, ['a.example.com'], clock)
  const named = await openAgentsIdentity(folder, ['a.example.com', 'b.example.com'], clock)
  t.not(named.cert, first.cert)
  t.equal(named.ca, first.ca)
  clock.advance(240 * DAY)
  t.equal((await openAgentsIdentity(folder, ['a.example.com'], clock)).cert, named.cert)
  clock.advance(5 * DAY)
  t.ok(named.renewsAt < clock.wall())
  const renewed = await openAgentsIdentity(folder, ['a.example.com'], clock)
  t.not(renewed.cert, named.cert)
  t.equal(renewed.ca, first.ca)
})

t.test('keys that others may read, halves and broken files are refused', async (t) => {
  const folder = t.testdir({})
  await openAgentsIdentity(folder, NAMES, systemClock)
  const attempt = () => openAgentsIdentity(folder, NAMES, systemClock)
  await chmod(join(folder, 'ca.key'), 0o644)
  await t.rejects(attempt(), { code: 'AGENTS_CA_EXPOSED' })
  await chmod(join(folder, 'ca.key'), 0o600)
  const key = await readFile(join(folder, 'ca.key'))
  await writeFile(join(folder, 'ca.key'), 'no key')
  await t.rejects(attempt(), { code: 'AGENTS_CA_BROKEN' })
  await unlink(join(folder, 'ca.key'))
  await t.rejects(attempt(), { code: 'AGENTS_CA_BROKEN' })
  await writeFile(join(folder, 'ca.key'), key, { mode: 0o600 })
  await t.resolves(attempt())
})
