import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { connect } from 'node:tls'
import t from 'tap'
import { asker } from '../../api/asking.js'
import { SluiceProcess } from '../../cli/process.js'
import { startPostgres } from '../../store/postgres-server.js'
import { Forwarder } from './forwarder.js'
import { freePort, needsPebble, startPebble } from './pebble.js'
import { startResolver } from './resolver.js'

const KEY = 'a-key-of-the-administrator'
const HOST = 'app.example.com'
const ISSUED = 'a certificate was issued'

interface Running {
  readonly sluice: SluiceProcess
  readonly ask: ReturnType<typeof asker>
  readonly plain: number
  readonly secure: number
}

/** Serial number of what a process presents; undefined when it is nobody's. */
async function presented(port: number): Promise<string | undefined> {
  const socket = connect({ port, host: '127.0.0.1', servername: HOST, rejectUnauthorized: false })
  await once(socket, 'secureConnect')
  const { serialNumber, subjectaltname } = socket.getPeerCertificate()
  socket.destroy()
  return subjectaltname === `DNS:${HOST}` ? serialNumber : undefined
}

t.test('two processes on one PostgreSQL: one requests and renews, both answer and serve', needsPebble, async (t) => {
  const server = await startPostgres(t)
  const url = await server.database()
  const resolver = await startResolver(t)
  const forwarder = await Forwarder.start(t)
  const pebble = await startPebble(t, { dns: resolver.port, http: forwarder.port })
  const folder = t.testdir({ one: {}, two: {} })
  await writeFile(join(folder, 'ca.pem'), pebble.ca)
  const start = async (name: string): Promise<Running> => {
    const [plain, secure] = [await freePort(), await freePort()]
    const env = {
      SLUICE_API_KEY: KEY,
      SLUICE_DATA: join(folder, name, 'data'),
      SLUICE_STORE: url,
      SLUICE_SEAL_KEY: Buffer.alloc(32, 's').toString('base64'),
      SLUICE_LISTENERS: `https://127.0.0.1:${secure}`,
      SLUICE_LIMITER_BUDGET: '64MiB',
      SLUICE_ACME_AGREE_TERMS: 'on',
      SLUICE_ACME_DIRECTORY: pebble.directory,
      SLUICE_ACME_CA: join(folder, 'ca.pem')
    }
    const words = ['start', '--listen', `127.0.0.1:${plain}`, '--api', '127.0.0.1:0']
    const sluice = new SluiceProcess(t, words, { cwd: join(folder, name), env })
    const { api } = (await sluice.logged('listening')) as { api: string }
    const { hostname, port } = new URL(api)
    return { sluice, ask: asker(hostname, Number(port)), plain, secure }
  }
  // The first one has the duty when the second one comes.
  const one = await start('one')
  const two = await start('two')
  forwarder.targets = [one.plain, two.plain]
  const policy = (kind: string) => ({
    certificate_management_policy: { authority: 'letsencrypt', private_key_type: kind }
  })
  const made = await two.ask('/reserved_domains', {
    key: KEY,
    method: 'POST',
    body: { domain: HOST, ...policy('ecdsa') }
  })
  t.equal(made.status, 201, made.text)
  const path = `/reserved_domains/${made.json.id}`
  /** Whoever wants another kind of key gets another certificate, as when the time has come. */
  const change = async (kind: string) => {
    const answer = await two.ask(path, { key: KEY, method: 'PATCH', body: policy(kind) })
    t.equal(answer.status, 200, answer.text)
  }
  await Promise.all([one.sluice.logged(ISSUED), two.sluice.logged(ISSUED)])
  t.equal(pebble.orders(), 1, 'one of them requested')
  const first = await presented(one.secure)
  t.ok(first)
  t.equal(await presented(two.secure), first, 'both present it')
  const domain = async () => (await two.ask(path, { key: KEY })).json
  const begun = await domain()

  const open = connect({ port: two.secure, host: '127.0.0.1', servername: HOST, rejectUnauthorized: false })
  await once(open, 'secureConnect')
  await change('rsa')
  await Promise.all([one.sluice.logged(ISSUED, 2), two.sluice.logged(ISSUED, 2)])
  const renewed = await presented(two.secure)
  t.ok(renewed)
  t.not(renewed, first)
  t.equal(await presented(one.secure), renewed, 'both present the next one')
  t.equal(pebble.orders(), 2, 'one of them renewed')
  open.write(`GET /healthy HTTP/1.1\r\nHost: ${HOST}\r\nConnection: close\r\n\r\n`)
  const [answer] = (await once(open, 'data')) as [Buffer]
  t.match(answer.toString(), /^HTTP\/1\.1 404 /, 'a connection that was open goes on')
  open.destroy()
  const after = await domain()
  t.not(after.certificate.id, begun.certificate.id)
  const gone = await two.ask(`/tls_certificates/${begun.certificate.id}`, { key: KEY })
  t.equal(gone.status, 404, 'the old one is gone')

  one.sluice.child.kill('SIGKILL')
  await one.sluice.ended()
  forwarder.targets = [two.plain]
  await change('ecdsa')
  await two.sluice.logged(ISSUED, 3)
  t.not(await presented(two.secure), renewed, 'the other one takes over')
  t.ok(pebble.orders() >= 3)
})
