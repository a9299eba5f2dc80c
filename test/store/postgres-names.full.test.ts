import { pbkdf2 } from 'node:crypto'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { TLSSocket } from 'node:tls'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { systemClock } from '../../src/lib/clock.js'
import { createNames } from '../../src/lib/names/names.js'
import { makeServerCertificate } from '../../src/lib/self-signed.js'
import { openStore } from '../../src/store/open-store.js'
import { PostgresDriver } from '../../src/store/postgres.js'
import { startNameServer } from '../helpers/name-server.js'
import { until } from '../helpers/until.js'
import { folder, Lines } from './opened.js'
import { startPostgres } from './postgres-server.js'

const server = await startPostgres(t)

/** The database by another host. */
async function at(host: string, search = ''): Promise<string> {
  const url = new URL(await server.database())
  url.hostname = host
  url.search = search
  return url.href
}

/** Answers one question through a driver that finds names by `lookup`. */
async function answers(t: Test, url: string, lookup: ReturnType<typeof createNames>['forSockets']): Promise<unknown> {
  const driver = new PostgresDriver(url, new Lines(), { lookup })
  t.teardown(() => driver.end())
  const client = await driver.connect()
  try {
    return (await client.query<{ one: number }>('select 1 as one', [])).rows[0]?.one
  } finally {
    client.release()
  }
}

async function names(t: Test, known: Parameters<typeof startNameServer>[1]) {
  const asked = await startNameServer(t, known)
  const found = createNames({ resolver: 'own', servers: [asked.address] }, systemClock)
  t.teardown(() => found.close())
  return { asked, lookup: found.forSockets }
}

t.test('the server is found by the look-up of the process', async (t) => {
  const { asked, lookup } = await names(t, { 'db.test': ['127.0.0.1'] })
  const store = await openStore(await at('db.test'), {
    log: new Lines(),
    clock: systemClock,
    lookup,
    onRevision: () => undefined
  })
  t.teardown(() => store.close())
  t.equal(await store.revision(), 0)
  t.ok(asked.asked.includes('db.test A'))
  await t.rejects(answers(t, await at('none.test'), lookup), { code: 'STORE_UNAVAILABLE', message: /ENOTFOUND/ })
})

t.test('the next address is tried when one does not answer', async (t) => {
  // Nothing listens at the second loopback address. Addresses take turns, so each is the first one once.
  const { lookup } = await names(t, { 'db.test': ['127.0.0.2', '127.0.0.1'] })
  t.equal(await answers(t, await at('db.test'), lookup), 1)
  t.equal(await answers(t, await at('db.test'), lookup), 1)
})

t.test('addresses and Unix sockets need no look-up', async (t) => {
  const { asked, lookup } = await names(t, {})
  t.equal(await answers(t, await at('127.0.0.1'), lookup), 1)
  const path = await folder(t)
  const local = createServer((client) => {
    const upstream = connect(server.port, '127.0.0.1')
    client.pipe(upstream).pipe(client)
    for (const side of [client, upstream]) side.on('error', () => undefined)
  }).listen(join(path, `.s.PGSQL.${server.port}`))
  await once(local, 'listening')
  t.teardown(() => local.close())
  t.equal(await answers(t, await at('db.test', `?host=${encodeURIComponent(path)}`), lookup), 1)
  t.same(asked.asked, [])
})

t.test('certificates are checked against the name', async (t) => {
  const { lookup } = await names(t, { 'db.test': ['127.0.0.1'], 'other.test': ['127.0.0.1'] })
  const identity = await makeServerCertificate('CN=db.test', ['db.test'], { now: Date.now(), life: 3_600_000 })
  const authority = join(await folder(t), 'ca.pem')
  writeFileSync(authority, identity.cert)
  const shown: unknown[] = []
  const front = await secured(t, identity, (name) => shown.push(name))
  const of = async (host: string) => {
    const url = new URL(await at(host, `?sslmode=verify-full&sslrootcert=${encodeURIComponent(authority)}`))
    url.port = String((front.address() as AddressInfo).port)
    return url.href
  }
  t.equal(await answers(t, await of('db.test'), lookup), 1)
  t.same(shown, ['db.test'], 'the name is what the server hears')
  await t.rejects(answers(t, await of('other.test'), lookup), { message: /other\.test/ }, 'and what must be in it')
})

t.test('a name that hangs holds up neither other names nor the thread pool', async (t) => {
  const { asked, lookup } = await names(t, { 'db.test': ['127.0.0.1'], 'hangs.test': 'silent' })
  const url = await at('hangs.test')
  let over = false
  const hanging = Promise.allSettled(Array.from({ length: 8 }, () => answers(t, url, lookup))).then((all) => {
    over = true
    return all
  })
  await until(() => asked.asked.includes('hangs.test A'))
  t.equal(await answers(t, await at('db.test'), lookup), 1)
  await promisify(pbkdf2)('a', 'b', 1, 16, 'sha256')
  t.notOk(over, 'those still wait')
  for (const one of await hanging) t.match(one, { status: 'rejected', reason: { code: 'STORE_UNAVAILABLE' } })
})

/** TLS before the server, as it begins in the protocol: with a question that is answered by one letter. */
async function secured(
  t: Test,
  identity: { readonly cert: string; readonly key: string },
  asked: (name: unknown) => void
): Promise<Server> {
  const front = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.once('data', () => {
      socket.write('S')
      const client = new TLSSocket(socket, { isServer: true, ...identity })
      const upstream = connect(server.port, '127.0.0.1')
      client
        .on('error', () => upstream.destroy())
        .on('secure', () => asked((client as { servername?: unknown }).servername))
      upstream.on('error', () => client.destroy())
      client.pipe(upstream).pipe(client)
    })
  }).listen(0, '127.0.0.1')
  await once(front, 'listening')
  t.teardown(() => front.close())
  return front
}
