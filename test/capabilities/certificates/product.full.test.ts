import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { Agent, get } from 'node:http'
import { join } from 'node:path'
import { connect } from 'node:tls'
import t from 'tap'
import { ACME_TLS } from '../../../src/lib/acme-tls.js'
import { systemClock } from '../../../src/lib/clock.js'
import { account, create } from '../../helpers/account.js'
import { engines, startSluice } from '../../helpers/sluice.js'
import { until } from '../../helpers/until.js'
import { startIssuingAuthority } from './issuing-authority.js'
import { freePort, needsPebble, startPebble } from './pebble.js'
import { startResolver } from './resolver.js'

const CHALLENGE = '/.well-known/acme-challenge/other'
const DENY = 'on_http_request:\n  - actions:\n      - type: deny\n        config: {status_code: 418}\n'

function fetchThrough(agent: Agent, port: number, host: string, path: string): Promise<number> {
  return new Promise((resolve, reject) => {
    get({ agent, port, host: '127.0.0.1', path, headers: { host } }, (answer) => {
      answer.resume().on('end', () => resolve(answer.statusCode ?? 0))
    }).on('error', reject)
  })
}

for (const engine of engines) {
  t.test(`${engine}: a certificate comes to life while traffic goes on`, needsPebble, async (t) => {
    const resolver = await startResolver(t)
    const port = await freePort()
    const secure = await freePort()
    const pebble = await startPebble(t, { dns: resolver.port, http: port })
    const ca = join(t.testdir({}), 'ca.pem')
    await writeFile(ca, pebble.ca)
    const sluice = await startSluice(t, {
      engine,
      upstream: { port: 1 },
      policy: DENY,
      options: {
        LISTEN: `127.0.0.1:${port}`,
        LISTENERS: `https://127.0.0.1:${secure}`,
        ACME_AGREE_TERMS: 'on',
        ACME_DIRECTORY: pebble.directory,
        ACME_CA: ca
      }
    })
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    t.teardown(() => agent.destroy())
    const policy = { authority: 'letsencrypt' }
    const made = await create(sluice, '/reserved_domains', {
      domain: 'app.example.com',
      certificate_management_policy: policy
    })
    const path = `/reserved_domains/${made.id}`
    let isIssued = false
    const issued = sluice
      .line(({ msg }) => msg === 'a certificate was issued')
      .then(() => {
        isIssued = true
      })
    const statuses = new Set<number>()
    await until(async () => {
      statuses.add(await fetchThrough(agent, port, 'app.example.com', CHALLENGE))
      return isIssued
    })
    await issued
    t.same([...statuses], [418], 'what is no challenge goes its way')
    const domain = (await account(sluice)(path)).json
    t.match(domain, { certificate: { id: /^cert_/ }, certificate_management_status: { provisioning_job: null } })
    const socket = connect({
      port: secure,
      host: '127.0.0.1',
      servername: 'app.example.com',
      rejectUnauthorized: false
    })
    await once(socket, 'secureConnect')
    t.match(socket.getPeerCertificate().subjectaltname, 'DNS:app.example.com')
    socket.destroy()
    const refused = await account(sluice)(`${path}/certificate`, { method: 'DELETE' })
    t.match(refused, { status: 400, json: { error_code: /CONFLICTING_FIELDS/ } }, 'it is managed')
    t.equal((await account(sluice)(`${path}/certificate_management_policy`, { method: 'DELETE' })).status, 204)
    t.match((await account(sluice)(path)).json, {
      certificate_management_policy: null,
      certificate_management_status: null
    })
  })
}

t.test('an agent ingress: agents are shown its certificate once it is there', needsPebble, async (t) => {
  const resolver = await startResolver(t)
  const port = await freePort()
  const pebble = await startPebble(t, { dns: resolver.port, http: port })
  const ca = join(t.testdir({}), 'ca.pem')
  await writeFile(ca, pebble.ca)
  const sluice = await startSluice(t, {
    options: {
      LISTEN: `127.0.0.1:${port}`,
      AGENTS: '127.0.0.1:0',
      ACME_AGREE_TERMS: 'on',
      ACME_DIRECTORY: pebble.directory,
      ACME_CA: ca
    }
  })
  const agents = Number((await sluice.line(({ msg }) => msg === 'agents may connect')).port)
  const shown = async (servername: string) => {
    const socket = connect({ port: agents, host: '127.0.0.1', servername, rejectUnauthorized: false })
    await once(socket, 'secureConnect')
    const { issuer } = socket.getPeerCertificate()
    socket.destroy()
    return String(issuer.CN)
  }
  const policy = { authority: 'letsencrypt', private_key_type: 'ecdsa' }
  const body = { domain: 'connect.example.com', certificate_management_policy: policy }
  const made = await create(sluice, '/agent_ingresses', body)
  const [name = ''] = made.region_domains as string[]
  t.notMatch(await shown(name), /^Pebble/, 'before, one of our own authority')
  await sluice.line(({ msg }) => msg === 'a certificate was issued')
  t.match(await shown(name), /^Pebble/)
  t.notMatch(await shown('localhost'), /^Pebble/)
})

/** The certificate of a validation by TLS, as an authority asks for it (RFC 8737 3). */
async function validated(port: number, servername: string): Promise<Buffer> {
  const about = { servername, ALPNProtocols: [ACME_TLS], rejectUnauthorized: false }
  const socket = connect({ port, host: '127.0.0.1', ...about })
  await once(socket, 'secureConnect')
  const { raw, subjectaltname } = socket.getPeerCertificate()
  t.equal(socket.alpnProtocol, ACME_TLS)
  t.equal(subjectaltname, `DNS:${servername}`)
  socket.destroy()
  return raw
}

/** id-pe-acmeIdentifier, critical, and the beginning of its digest. */
const IDENTIFIER = Buffer.from('06082b0601050507011f0101ff04220420', 'hex')

for (const workers of [0, 2]) {
  t.test(`${workers} threads: a name is proved by a TLS handshake`, async (t) => {
    const secure = await freePort()
    let asked = 0
    const proof = async (host: string) => {
      asked++
      const raw = await validated(secure, host)
      return raw.includes(IDENTIFIER) ? raw : undefined
    }
    const ca = await startIssuingAuthority(t, systemClock, 90 * 86_400_000, { type: 'tls-alpn-01', proof })
    const sluice = await startSluice(t, {
      options: {
        LISTENERS: `https://127.0.0.1:${secure}`,
        WORKERS: String(workers),
        ACME_AGREE_TERMS: 'on',
        ACME_DIRECTORY: ca.authority.directory
      }
    })
    const policy = { certificate_management_policy: { authority: 'letsencrypt' } }
    const made = await create(sluice, '/reserved_domains', { domain: 'app.example.com', ...policy })
    await until(async () => (await account(sluice)(`/reserved_domains/${made.id}`)).json.certificate !== null)
    t.equal(asked, 1)
    await t.rejects(validated(secure, 'app.example.com'), 'nothing is being validated any more')
  })
}

t.test(
  'a name whose port 80 does not answer is proved by a TLS handshake in the next attempt',
  needsPebble,
  async (t) => {
    const resolver = await startResolver(t)
    const [closed, secure] = [await freePort(), await freePort()]
    const pebble = await startPebble(t, { dns: resolver.port, http: closed, tls: secure })
    const ca = join(t.testdir({}), 'ca.pem')
    await writeFile(ca, pebble.ca)
    let ahead = 0
    const clock = { wall: () => systemClock.wall() + ahead, monotonic: () => systemClock.monotonic() + ahead }
    const options = { ACME_AGREE_TERMS: 'on', ACME_DIRECTORY: pebble.directory, ACME_CA: ca }
    const listeners = { LISTENERS: `https://127.0.0.1:${secure}` }
    const sluice = await startSluice(t, { clock, options: { ...options, ...listeners } })
    const policy = { certificate_management_policy: { authority: 'letsencrypt' } }
    const made = await create(sluice, '/reserved_domains', { domain: 'app.example.com', ...policy })
    const domain = async () => (await account(sluice)(`/reserved_domains/${made.id}`)).json
    await until(async () => (await domain()).certificate_management_status?.provisioning_job?.error_code != null)
    ahead = 90_000
    await until(async () => (await domain()).certificate !== null)
    t.match((await domain()).certificate_management_status, { provisioning_job: null })
  }
)
