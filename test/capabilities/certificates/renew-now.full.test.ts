import t from 'tap'
import { systemClock } from '../../../src/lib/clock.js'
import { reservedDomain } from '../../../src/resources/domains.js'
import { account, create } from '../../helpers/account.js'
import { ManualClock } from '../../helpers/clock.js'
import { startSluice } from '../../helpers/sluice.js'
import { until } from '../../helpers/until.js'
import { startRefusingAuthority } from './authority-double.js'
import { startIssuingAuthority } from './issuing-authority.js'
import { asUser, hasFailed, isIssued, LETSENCRYPT, Managed } from './managed.js'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
const NOW = Date.UTC(2027, 0, 1)
const KIND = reservedDomain.name

interface Test {
  teardown(run: () => Promise<void> | void): void
}

/** A domain, and what a user does who wants its certificate renewed now. */
async function domain(managed: Managed) {
  const { id } = await managed.create(KIND, { domain: 'app.example.com', ...LETSENCRYPT })
  const renew = () => managed.plane.records.renewCertificate(reservedDomain, { path: { id } }, asUser())
  return { id, renew, certificate: async () => (await managed.get(KIND, id)).body.certificate }
}

/** Asks for a renewal until it is accepted; answers how many steps of the clock that took. */
async function refusedFor({ renew, clock }: { renew(): Promise<unknown>; clock: ManualClock }, step: number) {
  for (let steps = 0; steps < 200; steps++) {
    const refusal = await renew().then(
      () => undefined,
      (error: unknown) => error
    )
    if (refusal === undefined) return steps
    t.match(refusal, { code: 'RENEWAL_TOO_SOON', details: { retries_at: /Z$/ } })
    clock.advance(step)
  }
  throw new Error('never accepted')
}

/** One with a certificate of ninety days. */
async function issued(t: Test) {
  const clock = new ManualClock(NOW)
  const ca = await startIssuingAuthority(t, clock, 90 * DAY)
  const managed = await Managed.open(t, { clock, authority: ca.authority })
  const made = await domain(managed)
  await managed.until(KIND, made.id, isIssued)
  const next = async () => {
    const before = await made.certificate()
    await managed.until(KIND, made.id, (record) => record.body.certificate !== before && isIssued(record))
  }
  return { ...ca, ...made, clock, managed, next }
}

t.test('a certificate is renewed when its user says so, once for all that is said meanwhile', async (t) => {
  const { renew, next, certificate, managed, orders, id } = await issued(t)
  const first = await certificate()
  const { body, committed } = await renew()
  t.match(body, {
    certificate: { id: first },
    certificate_management_status: { provisioning_job: { error_code: null, started_at: /Z$/, retries_at: null } }
  })
  t.equal((await renew()).committed, committed, 'nothing is written while it is being requested')
  await managed.certificates.tick()
  t.equal((await renew()).committed, (await renew()).committed, 'nor while the order is under way')
  await next()
  t.equal(orders.length, 2)
  t.match(orders[1], { replaces: /\./ }, 'the authority knows which one it replaces')
  await t.rejects(managed.get('tls_certificate', String(first)), 'the old one is gone')
  const renews = Date.parse((await managed.status(KIND, id))?.renews_at ?? '')
  t.ok(renews > NOW + 50 * DAY, 'and is renewed by itself as ever')
})

t.test('a user who asks again and again waits longer and longer, and is forgiven after a day', async (t) => {
  const { renew, next, clock, orders } = await issued(t)
  const waits: number[] = []
  for (let n = 0; n < 3; n++) {
    await renew()
    await next()
    waits.push(await refusedFor({ renew, clock }, HOUR))
    await next()
    clock.advance(3 * DAY)
  }
  t.same(waits, [6, 6, 6])
  t.equal(orders.length, 7)
  await renew()
  await next()
  clock.advance(6 * HOUR)
  await renew()
  await next()
  clock.advance(6 * HOUR)
  await t.rejects(renew(), { code: 'RENEWAL_TOO_SOON' }, 'the second in a row has to serve for twice as long')
  clock.advance(6 * HOUR)
  await renew()
})

t.test('after a failure of the authority its pause is kept', async (t) => {
  const authority = await startRefusingAuthority(t, { challenge: 'connection' })
  const managed = await Managed.open(t, { authority, dns: false })
  const { id, renew } = await domain(managed)
  await managed.until(KIND, id, hasFailed)
  const retries = (await managed.status(KIND, id))?.provisioning_job?.retries_at ?? ''
  await t.rejects(renew(), { code: 'RENEWAL_TOO_SOON', message: /the last attempt failed/ })
  managed.clock.advance(Date.parse(retries) - managed.clock.wall())
  await renew()
  await managed.certificates.tick()
  t.equal(authority.orders(), 2)
})

t.test('what its user had to correct is tried again, less and less often', async (t) => {
  const authority = await startRefusingAuthority(t, { challenge: 'dns' })
  const managed = await Managed.open(t, { authority, dns: false })
  const { id, renew } = await domain(managed)
  const waits: number[] = []
  for (let attempt = 0; attempt < 4; attempt++) {
    await managed.until(KIND, id, hasFailed)
    const started = Date.parse((await managed.status(KIND, id))?.provisioning_job?.started_at ?? '')
    await refusedFor({ renew, clock: managed.clock }, MINUTE / 2)
    waits.push(Math.round((managed.clock.wall() - started) / MINUTE))
  }
  t.same(waits, [1, 2, 4, 8])
  t.equal(authority.orders(), 4, 'and each time at once')
})

t.test('a renewal before its time that its user has to correct costs none that is due later', async (t) => {
  const { renew, managed, id, clock, orders, refuse } = await refusable(t)
  await renew()
  refuse(true)
  await managed.until(KIND, id, hasFailed)
  t.match(await managed.status(KIND, id), { renews_at: /Z$/, provisioning_job: { error_code: 'DNS_ERROR' } })
  clock.advance(5 * DAY)
  await managed.certificates.tick()
  const before = orders.length
  refuse(false)
  clock.advance(Date.parse((await managed.status(KIND, id))?.renews_at ?? '') - clock.wall())
  const first = (await managed.get(KIND, id)).body.certificate
  await managed.until(KIND, id, (record) => record.body.certificate !== first && isIssued(record))
  t.equal(orders.length, before + 1)
})

/** As `issued`, by an authority that can be made to refuse names. */
async function refusable(t: Test) {
  const world = await issued(t)
  return {
    ...world,
    refuse(on: boolean) {
      world.renewals.refusesOrders = on ? 'rejectedIdentifier' : undefined
    }
  }
}

t.test('what is not managed is not renewed', async (t) => {
  const managed = await Managed.open(t)
  const { id } = await managed.create(KIND, { domain: 'app.example.com' })
  const renew = managed.plane.records.renewCertificate(reservedDomain, { path: { id } }, asUser())
  await t.rejects(renew, { code: 'CERTIFICATE_NOT_MANAGED' })
  const none = managed.plane.records.renewCertificate(reservedDomain, { path: { id: 'rd_none' } }, asUser())
  await t.rejects(none, { code: 'NOT_FOUND' })
})

t.test('through the API: a domain and an agent ingress, by members too', async (t) => {
  const ca = await startIssuingAuthority(t, systemClock, 90 * DAY)
  const options = { ACME_AGREE_TERMS: 'on', ACME_DIRECTORY: ca.authority.directory }
  const sluice = await startSluice(t, { options })
  const ask = account(sluice)
  const bot = await create(sluice, '/bot_users', { name: 'renewer' })
  const { token } = await create(sluice, '/api_keys', { owner_id: bot.id })
  for (const [path, name] of [
    ['/reserved_domains', 'app.example.com'],
    ['/agent_ingresses', 'connect.example.com']
  ] as const) {
    // Its own default is RSA, which takes a second for each key.
    const policy = { authority: 'letsencrypt', private_key_type: 'ecdsa' }
    const made = await create(sluice, path, { domain: name, certificate_management_policy: policy })
    const item = `${path}/${made.id}`
    const job = async () => (await ask(item)).json.certificate_management_status?.provisioning_job
    const orders = () => ca.orders.filter(({ identifiers }) => identifiers.some(({ value }) => value.endsWith(name)))
    await until(async () => (await job()) === null && orders().length === 1)
    const dry = await ask(`${item}/certificate/renew?dry_run=true`, { method: 'POST' })
    t.match(dry, { status: 200, json: { dry_run: true, status_code: 202 } })
    const { status, json, headers } = await ask(`${item}/certificate/renew`, { method: 'POST', key: token })
    t.equal(status, 202)
    t.match(json, { id: made.id, certificate_management_status: { provisioning_job: { error_code: null } } })
    t.match(headers, { etag: /"\d+"/, 'service-revision': /\d+/ })
    await until(async () => (await job()) === null)
    t.equal(orders().length, 2)
    const soon = await ask(`${item}/certificate/renew`, { method: 'POST' })
    t.match(soon, { status: 409, json: { error_code: 'ERR_SLUICE_RENEWAL_TOO_SOON', details: { retries_at: /Z$/ } } })
    const body = await ask(`${item}/certificate/renew`, { method: 'POST', body: { at: 'once' } })
    t.match(body, { status: 400, json: { error_code: 'ERR_SLUICE_FIELD_UNKNOWN' } })
  }
  const { revisions } = (await ask('/revisions')).json
  t.ok(
    revisions.some(({ principal }: { principal: { id: string } | null }) => principal?.id === bot.id),
    'the history says who asked'
  )
})
