import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { asker } from '../../api/asking.js'
import { SluiceProcess } from '../../cli/process.js'
import { Forwarder } from './forwarder.js'
import { freePort, needsPebble, startPebble } from './pebble.js'
import { startResolver } from './resolver.js'

const KEY = 'a-key-of-the-administrator'
/** Times that the authority looks at a name, from several places. */
const LOOKS = 3

t.test('kill −9 in the middle of an order: the next process finishes the same order', needsPebble, async (t) => {
  const resolver = await startResolver(t)
  const port = await freePort()
  const pebble = await startPebble(t, { dns: resolver.port, http: port })
  const directory = new URL(pebble.directory)
  const authority = await Forwarder.start(t)
  authority.targets = [Number(directory.port)]
  directory.port = String(authority.port)
  const cwd = t.testdir()
  await writeFile(join(cwd, 'ca.pem'), pebble.ca)
  const data = join(cwd, 'data')
  const env = {
    SLUICE_API_KEY: KEY,
    SLUICE_DATA: data,
    SLUICE_LIMITER_BUDGET: '64MiB',
    SLUICE_ACME_AGREE_TERMS: 'on',
    SLUICE_ACME_DIRECTORY: directory.href,
    SLUICE_ACME_CA: join(cwd, 'ca.pem')
  }
  const start = async () => {
    const sluice = new SluiceProcess(t, ['start', '--listen', `127.0.0.1:${port}`, '--api', '127.0.0.1:0'], {
      cwd,
      env
    })
    const { api } = (await sluice.logged('listening')) as { api: string }
    const { hostname, port: at } = new URL(api)
    const ask = asker(hostname, Number(at))
    return { sluice, ask: (path: string, asked: object = {}) => ask(path, { key: KEY, ...asked }) }
  }
  // The authority has been told to look, and does. From then on nobody can ask it how the order stands.
  resolver.before = async () => authority.hold()
  const first = await start()
  const body = { domain: 'app.example.com', certificate_management_policy: { authority: 'letsencrypt' } }
  const made = await first.ask('/reserved_domains', { method: 'POST', body })
  t.equal(made.status, 201, made.text)
  await first.sluice.logged('exchange', LOOKS)
  first.sluice.child.kill('SIGKILL')
  await first.sluice.ended()
  const second = await start()
  t.match((await second.ask(`/reserved_domains/${made.json.id}`)).json, {
    certificate: null,
    certificate_management_status: { provisioning_job: { error_code: null } }
  })
  authority.release()
  await second.sluice.logged('a certificate was issued')
  t.match((await second.ask(`/reserved_domains/${made.json.id}`)).json, {
    certificate: { id: /^cert_/ },
    certificate_management_status: { renews_at: /Z$/, provisioning_job: null }
  })
  t.equal(pebble.orders(), 1, 'there was one order only')
  second.sluice.child.kill('SIGTERM')
  t.equal((await second.sluice.ended()).code, 0)
  for (const name of await readdir(data)) {
    if (!name.includes('.db')) continue
    const bytes = await readFile(join(data, name), 'latin1')
    t.notMatch(bytes, /PRIVATE KEY/, `${name}: the keys of the account and of the certificate are sealed`)
    if (name === 'sluice.db') t.ok(bytes.includes(directory.href), 'and this is where they are')
  }
})
