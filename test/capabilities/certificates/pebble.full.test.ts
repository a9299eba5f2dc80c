import { X509Certificate } from 'node:crypto'
import t from 'tap'
import type { Certificates } from '../../../src/capabilities/certificates/certificates.js'
import { hasFailed, isIssued, LETSENCRYPT, Managed, type ManagedSetup, startDns, startHttp } from './managed.js'
import { needsPebble, startPebble } from './pebble.js'
import { startResolver } from './resolver.js'

const DAY = 86_400_000

interface Test {
  teardown(run: () => Promise<void> | void): void
}

/** An authority, a resolver and a Sluice, each of them real. */
async function world(t: Test, setup: { eab?: boolean; badNonces?: number } & ManagedSetup = {}) {
  let current: Certificates | undefined
  const resolver = await startResolver(t)
  const http = await startHttp(t, () => current)
  const secret = 'zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W'
  const pebble = await startPebble(t, {
    dns: resolver.port,
    http,
    ...(setup.badNonces === undefined ? {} : { badNonces: setup.badNonces }),
    ...(setup.eab === true ? { externalAccounts: { 'kid-1': secret } } : {})
  })
  const open = async (more: ManagedSetup = {}) => {
    const externalAccount = setup.eab === true ? { kid: 'kid-1', hmacKey: secret } : undefined
    const authority = { directory: pebble.directory, email: 'operator@example.com', externalAccount }
    const managed = await Managed.open(t, { authority, ca: pebble.ca, ...setup, ...more })
    current = managed.certificates
    resolver.server = await startDns(t, managed)
    return managed
  }
  return { pebble, resolver, open, managed: await open() }
}

t.test('http-01: a domain gets a certificate and presents it', needsPebble, async (t) => {
  const { managed } = await world(t, { badNonces: 20 })
  const { id } = await managed.create('reserved_domain', { domain: 'app.example.com', ...LETSENCRYPT })
  t.equal(managed.presented('app.example.com'), undefined)
  await managed.certificates.tick()
  t.match(await managed.status('reserved_domain', id), {
    renews_at: null,
    provisioning_job: { error_code: null, started_at: /Z$/, retries_at: null }
  })
  const domain = await managed.until('reserved_domain', id, isIssued)
  const record = await managed.get('tls_certificate', String(domain.body.certificate))
  t.match(record.body, { issued_at: /Z$/, private_key_type: 'ecdsa' })
  t.same(record.body.subject_alternative_names, { dns_names: ['app.example.com'], ips: [] })
  const presented = managed.presented('app.example.com')
  const leaf = new X509Certificate(presented?.chain ?? '')
  t.match(leaf.subjectAltName, 'DNS:app.example.com')
  t.ok(presented?.privateKey.includes('PRIVATE KEY'))
  const { renews_at } = (await managed.status('reserved_domain', id)) ?? {}
  const [from, to] = [Date.parse(leaf.validFrom), Date.parse(leaf.validTo)]
  const share = (Date.parse(renews_at ?? '') - from) / (to - from)
  t.ok(share > 0.6 && share <= 2 / 3, `renewed after ${share} of its life`)
  t.equal(managed.certificates.challenges.answer('app.example.com', '/.well-known/acme-challenge/x'), undefined)
  t.same(domain.secrets, {}, 'the key is where the certificate is')
})

t.test('dns-01: a wildcard is proved in our zone', needsPebble, async (t) => {
  const { managed, resolver } = await world(t)
  const policy = { authority: 'letsencrypt', private_key_type: 'rsa' }
  const made = await managed.create('reserved_domain', {
    domain: '*.example.org',
    certificate_management_policy: policy
  })
  resolver.aliases.set('_acme-challenge.example.org', String(made.body.acme_challenge_cname_target))
  const { body } = await managed.until('reserved_domain', made.id, isIssued)
  const { body: certificate } = await managed.get('tls_certificate', String(body.certificate))
  t.match(certificate, { private_key_type: 'rsa', subject_alternative_names: { dns_names: ['*.example.org'] } })
  t.ok(managed.presented('deep.example.org'))
})

t.test('an agent ingress: the names of its regions, in the domain that is delegated to us', needsPebble, async (t) => {
  const { managed } = await world(t)
  const { id } = await managed.create('agent_ingress', { domain: 'connect.example.com', ...LETSENCRYPT })
  const { body } = await managed.until('agent_ingress', id, isIssued)
  const { body: certificate } = await managed.get('tls_certificate', String(body.certificate))
  const names = ['tunnel.global.connect.example.com', 'tunnel.eu.connect.example.com']
  t.same([...(certificate.subject_alternative_names as { dns_names: string[] }).dns_names].sort(), names.sort())
  t.equal(certificate.private_key_type, 'rsa')
  for (const name of names) t.ok(managed.presented(name), name)
})

t.test('renewal: the new one takes the place of the old one', needsPebble, async (t) => {
  const { managed } = await world(t)
  const { id } = await managed.create('reserved_domain', { domain: 'app.example.com', ...LETSENCRYPT })
  const first = await managed.until('reserved_domain', id, isIssued)
  const renews = Date.parse((await managed.status('reserved_domain', id))?.renews_at ?? '')
  managed.clock.advance(renews - managed.clock.wall() - DAY)
  await managed.certificates.tick()
  t.equal((await managed.get('reserved_domain', id)).body.certificate, first.body.certificate, 'not a day too early')
  managed.clock.advance(DAY)
  const before = managed.presented('app.example.com')?.chain
  const second = await managed.until('reserved_domain', id, ({ body }) => body.certificate !== first.body.certificate)
  t.ok(isIssued(second))
  t.not(managed.presented('app.example.com')?.chain, before)
  await t.rejects(managed.get('tls_certificate', String(first.body.certificate)), 'the old one is gone')
  // The user wants another kind of key.
  await managed.update('reserved_domain', id, {
    certificate_management_policy: { authority: 'letsencrypt', private_key_type: 'rsa' }
  })
  t.equal((await managed.get('reserved_domain', id)).body.certificate, second.body.certificate, 'serves meanwhile')
  const third = await managed.until('reserved_domain', id, ({ body }) => body.certificate !== second.body.certificate)
  const { body } = await managed.get('tls_certificate', String(third.body.certificate))
  t.equal(body.private_key_type, 'rsa')
})

t.test('a process that ends in the middle: the next one goes on', needsPebble, async (t) => {
  const folder = t.testdir({})
  const at = `${folder}/sluice.db`
  const { managed, open } = await world(t, { at })
  const { id } = await managed.create('reserved_domain', { domain: 'app.example.com', ...LETSENCRYPT })
  await managed.certificates.tick()
  const order = (await managed.get('reserved_domain', id)).body.certificate_work
  t.match(order, { order: /^https:/, challenges: [{ type: 'http-01', host: 'app.example.com' }] })
  await managed.stop()
  const next = await open({ clock: managed.clock })
  await next.certificates.tick()
  t.same((await next.get('reserved_domain', id)).body.certificate_work, order, 'the same order')
  const between = await next.until('reserved_domain', id, ({ secrets }) => Object.keys(secrets).length > 0)
  await next.stop()
  const last = await open({ clock: managed.clock })
  const key = Object.values(between.secrets)[0]
  const { body } = await last.until('reserved_domain', id, isIssued)
  const { secrets } = await last.get('tls_certificate', String(body.certificate))
  t.equal(secrets.private_key_pem, key, 'the key that was made before')
})

t.test(
  'DNS that is wrong is tried again, and at once when its user says that it is corrected',
  needsPebble,
  async (t) => {
    const { managed, resolver } = await world(t)
    const made = await managed.create('reserved_domain', { domain: '*.example.org', ...LETSENCRYPT })
    await managed.until('reserved_domain', made.id, hasFailed)
    t.match(await managed.status('reserved_domain', made.id), {
      renews_at: null,
      provisioning_job: { error_code: 'DNS_ERROR', retries_at: /Z$/, msg: /example\.org/ }
    })
    managed.clock.advance(DAY)
    await managed.until('reserved_domain', made.id, hasFailed)
    t.match((await managed.status('reserved_domain', made.id))?.provisioning_job, { error_code: 'DNS_ERROR' })
    resolver.aliases.set('_acme-challenge.example.org', String(made.body.acme_challenge_cname_target))
    await managed.update('reserved_domain', made.id, LETSENCRYPT)
    t.ok(isIssued(await managed.until('reserved_domain', made.id, isIssued)))
  }
)

t.test('an authority that is down is asked again; one that has forgotten us knows us anew', needsPebble, async (t) => {
  const { managed, pebble } = await world(t)
  await pebble.kill()
  const { id } = await managed.create('reserved_domain', { domain: 'app.example.com', ...LETSENCRYPT })
  await managed.until('reserved_domain', id, hasFailed)
  const failed = (await managed.status('reserved_domain', id))?.provisioning_job
  t.match(failed, { error_code: 'INTERNAL_ERROR', msg: 'the authority cannot be reached: no connection could be made' })
  const wait = Date.parse(failed?.retries_at ?? '') - managed.clock.wall()
  t.ok(wait >= 59_000 && wait <= 75_000, `${wait} ms`)
  await pebble.start()
  t.ok(isIssued(await managed.until('reserved_domain', id, isIssued)))
  await pebble.kill()
  await pebble.start()
  const other = await managed.create('reserved_domain', { domain: 'b.example.com', ...LETSENCRYPT })
  t.ok(isIssued(await managed.until('reserved_domain', other.id, isIssued)))
})

t.test('an authority that wants an external account', needsPebble, async (t) => {
  const { managed } = await world(t, { eab: true })
  const { id } = await managed.create('reserved_domain', { domain: 'app.example.com', ...LETSENCRYPT })
  t.ok(isIssued(await managed.until('reserved_domain', id, isIssued)))
})

t.test('whoever ends the management ends its certificate', needsPebble, async (t) => {
  const { managed } = await world(t)
  const { id } = await managed.create('reserved_domain', { domain: 'app.example.com', ...LETSENCRYPT })
  const { body } = await managed.until('reserved_domain', id, isIssued)
  await managed.update('reserved_domain', id, { certificate_management_policy: null })
  t.match((await managed.get('reserved_domain', id)).body, { certificate: null, certificate_management_status: null })
  await managed.certificates.tick()
  await managed.certificates.tick()
  await t.rejects(managed.get('tls_certificate', String(body.certificate)))
  t.equal(managed.presented('app.example.com'), undefined)
})
