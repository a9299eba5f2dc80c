import { createServer, type RequestListener } from 'node:http'
import t from 'tap'
import type { Authority, OpenChallenge, OrderState } from '../../../src/capabilities/certificates/acme.js'
import { Issuance } from '../../../src/capabilities/certificates/issuance.js'
import { Ledger } from '../../../src/capabilities/certificates/ledger.js'
import { renewalTime } from '../../../src/capabilities/certificates/renewal-times.js'
import { stageOf, targetOf } from '../../../src/capabilities/certificates/target.js'
import { selfSigned } from '../../../src/lib/self-signed.js'
import type { ManagementStatus } from '../../../src/resources/domains.js'
import { type Reasons, startRefusingAuthority } from './authority-double.js'
import { hasFailed, isIssued, LETSENCRYPT, Managed } from './managed.js'

interface Test {
  teardown(run: () => Promise<void> | void): void
}

/** A server that answers every request in the same wrong way. */
async function wrongAuthority(t: Test, listener: RequestListener) {
  let asked = 0
  const server = createServer((request, response) => {
    asked++
    listener(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as { port: number }
  const directory = `http://127.0.0.1:${port}/dir`
  return { directory, email: undefined, externalAccount: undefined, asked: () => asked }
}

const json = { 'content-type': 'application/json' }
const problem = (kind: string) =>
  JSON.stringify({ type: `urn:ietf:params:acme:error:${kind}`, detail: 'a\u0007 reason' })

const WRONG: Readonly<Record<string, { answer: RequestListener; says: RegExp }>> = {
  'a page': { answer: (_, to) => to.writeHead(200).end('<html>'), says: /not understood/ },
  'JSON that is none': { answer: (_, to) => to.writeHead(200, json).end('{'), says: /no JSON/ },
  null: { answer: (_, to) => to.writeHead(200, json).end('null'), says: /not understood/ },
  'a directory without entries': { answer: (_, to) => to.writeHead(200, json).end('{}'), says: /not understood/ },
  'entries that are no URLs': {
    answer: (_, to) => to.writeHead(200, json).end('{"newNonce": 1, "newAccount": {}}'),
    says: /cannot be reached|not understood/
  },
  'a redirect': { answer: (_, to) => to.writeHead(302, { location: '/' }).end(), says: /redirect/ },
  'a fault': { answer: (_, to) => to.writeHead(500).end(), says: /status 500/ },
  'a refusal with a reason': {
    answer: (_, to) => to.writeHead(403, { 'content-type': 'application/problem+json' }).end(problem('unauthorized')),
    says: /unauthorized \(403\): a {1,2}reason/
  },
  'a body without an end': {
    answer: (_, to) => {
      to.writeHead(200, json)
      to.write(' '.repeat(1_000_000))
    },
    says: /cannot be reached: the response is too large/
  },
  'a cut connection': { answer: (_, to) => void to.socket?.destroy(), says: /cannot be reached/ }
}

for (const [name, { answer, says }] of Object.entries(WRONG)) {
  t.test(`an authority that answers with ${name}`, async (t) => {
    const authority = await wrongAuthority(t, answer)
    const managed = await Managed.open(t, { authority })
    const { id } = await managed.create('reserved_domain', { domain: 'app.example.com', ...LETSENCRYPT })
    await managed.until('reserved_domain', id, hasFailed)
    const job = (await managed.status('reserved_domain', id))?.provisioning_job
    t.match(job, { error_code: 'INTERNAL_ERROR', msg: says, retries_at: /Z$/ })
    const asked = authority.asked()
    await managed.certificates.tick()
    t.equal(authority.asked(), asked, 'is left alone until it is asked again')
  })
}

const GIVEN_UP: Readonly<Record<string, { reasons: Reasons; code: string; says: RegExp }>> = {
  'in the challenge alone': {
    reasons: { challenge: 'dns' },
    code: 'DNS_ERROR',
    says: /app\.example\.com: because of dns/
  },
  'in the order alone': { reasons: { order: 'caa' }, code: 'DNS_ERROR', says: /app\.example\.com: because of caa/ },
  'in both, the challenge more precisely': {
    reasons: { challenge: 'unauthorized', order: 'malformed' },
    code: 'DNS_ERROR',
    says: /because of unauthorized/
  },
  'in both, for a while': {
    reasons: { challenge: 'connection', order: 'unauthorized' },
    code: 'INTERNAL_ERROR',
    says: /because of connection/
  },
  'in neither': { reasons: {}, code: 'INTERNAL_ERROR', says: /gave no reason/ },
  'in the order, and its authorizations cannot be read': {
    reasons: { order: 'dns', challenge: 'dns', unreadable: true },
    code: 'DNS_ERROR',
    says: /because of dns/
  },
  'where it cannot be read': {
    reasons: { challenge: 'dns', unreadable: true },
    code: 'INTERNAL_ERROR',
    says: /status 500/
  }
}

for (const [where, { reasons, code, says }] of Object.entries(GIVEN_UP)) {
  t.test(`an authority gives an order up with the reason ${where}`, async (t) => {
    const authority = await startRefusingAuthority(t, reasons)
    const managed = await Managed.open(t, { authority, dns: false })
    const { id } = await managed.create('reserved_domain', { domain: 'app.example.com', ...LETSENCRYPT })
    await managed.until('reserved_domain', id, hasFailed)
    const job = (await managed.status('reserved_domain', id))?.provisioning_job
    t.match(job, { error_code: code, msg: says, retries_at: /Z$/ })
    const minutes = (Date.parse(job?.retries_at ?? '') - managed.clock.wall()) / 60_000
    const first = code === 'DNS_ERROR' ? 5 : 1
    t.ok(minutes >= first && minutes <= first * 1.2 + 0.1, `after ${minutes} minutes`)
    managed.clock.advance(3_600_000)
    await managed.certificates.tick()
    t.equal(authority.orders(), 2, 'is tried again')
  })
}

t.test('attempts come less and less often', async (t) => {
  const authority = await wrongAuthority(t, (_, to) => to.writeHead(500).end())
  const managed = await Managed.open(t, { authority })
  const { id } = await managed.create('reserved_domain', { domain: 'app.example.com', ...LETSENCRYPT })
  const waits: number[] = []
  for (let attempt = 0; attempt < 14; attempt++) {
    await managed.certificates.tick()
    const job = (await managed.status('reserved_domain', id))?.provisioning_job
    const retries = Date.parse(job?.retries_at ?? '')
    waits.push(Math.round((retries - managed.clock.wall()) / 60_000))
    managed.clock.advance(retries - managed.clock.wall())
  }
  t.same(waits.slice(0, 4), [1, 2, 4, 9])
  t.equal(waits.at(-1), 792, 'half a day and a tenth at most')
})

t.test('what an authority asks for in Retry-After is kept', async (t) => {
  const authority = await wrongAuthority(t, (_, to) => {
    to.writeHead(429, { 'retry-after': '7200', 'content-type': 'application/problem+json' }).end(problem('rateLimited'))
  })
  const managed = await Managed.open(t, { authority })
  const { id } = await managed.create('reserved_domain', { domain: 'app.example.com', ...LETSENCRYPT })
  await managed.until('reserved_domain', id, hasFailed)
  const asked = authority.asked()
  managed.clock.advance(7_190_000)
  await managed.certificates.tick()
  t.equal(authority.asked(), asked)
  managed.clock.advance(1_450_000)
  await managed.certificates.tick()
  t.ok(authority.asked() > asked)
})

for (const [status, seconds, wait] of [
  [429, 7200, 3_600],
  [503, 600, 600],
  [503, 86_400, 3_600]
] as const) {
  t.test(`an authority that answers ${status} is left alone by all domains`, async (t) => {
    const authority = await wrongAuthority(t, (_, to) => to.writeHead(status, { 'retry-after': String(seconds) }).end())
    const managed = await Managed.open(t, { authority })
    for (let n = 0; n < 9; n++) await managed.create('reserved_domain', { domain: `d${n}.example.com`, ...LETSENCRYPT })
    await managed.certificates.tick()
    const asked = authority.asked()
    t.ok(asked >= 1 && asked <= 4, `${asked} requests that were under way at once`)
    managed.clock.advance((wait - 5) * 1_000)
    await managed.certificates.tick()
    t.equal(authority.asked(), asked)
    managed.clock.advance(6_000)
    await managed.certificates.tick()
    t.ok(authority.asked() > asked, 'others are tried again')
  })
}

t.test('without an authority the user learns why', async (t) => {
  const managed = await Managed.open(t, { authority: 'the terms of the authority are not agreed to' })
  const { id } = await managed.create('reserved_domain', { domain: 'app.example.com', ...LETSENCRYPT })
  await managed.certificates.tick()
  const status = await managed.status('reserved_domain', id)
  t.match(status?.provisioning_job, {
    error_code: 'INTERNAL_ERROR',
    msg: 'the terms of the authority are not agreed to'
  })
})

/** An authority whose order is done, and which sends this chain for it. */
function sending(chain: string): Authority {
  const places = { finalize: 'https://ca.test/finalize', certificate: 'https://ca.test/certificate' }
  const order: OrderState = { url: 'https://ca.test/order', status: 'valid', retryAfter: 0, ...places }
  const challenge: OpenChallenge = { type: 'http-01', token: 't', url: 'u', value: 'v', begun: false }
  const open = [{ name: 'app.example.com', wildcard: false, challenges: [challenge] }]
  return {
    order: async () => ({ order: { ...order, status: 'pending' }, open }),
    look: async () => ({ order, open: [] }),
    certificate: async () => chain
  } as unknown as Authority
}

const CHAINS: Readonly<Record<string, (now: number) => Promise<{ chain: string; says: RegExp; key?: string }>>> = {
  'no certificate': async () => ({ chain: 'hello', says: /cannot be used/ }),
  'a certificate for another key': async (now) => {
    const { chain } = await selfSigned('x', ['app.example.com'], now)
    return { chain, says: /another key/ }
  },
  'a certificate for another name': async (now) => {
    const { chain, privateKey: key } = await selfSigned('x', ['b.example.com'], now)
    return { chain, key, says: /without app\.example\.com/ }
  },
  'a certificate that has expired': async (now) => {
    const { chain, privateKey: key } = await selfSigned('x', ['app.example.com'], now - 366 * 86_400_000)
    return { chain, key, says: /expired/ }
  }
}

/** A domain whose order is about to be finished with what an authority sends. */
async function ordered(t: Test, chain: string, key: string) {
  const managed = await Managed.open(t)
  const options = { regions: ['global'], dns: true }
  const ledger = new Ledger(managed.control, managed.clock, options)
  const authority = async () => sending(chain)
  const parts = {
    ledger,
    authority,
    clock: managed.clock,
    random: () => 0,
    log: managed.log,
    noDns: undefined,
    hasTls: () => false,
    accountLost: () => undefined,
    pause: () => undefined
  }
  const issuance = new Issuance(parts)
  const { id } = await managed.create('reserved_domain', { domain: 'app.example.com', ...LETSENCRYPT })
  const target = async () => {
    const found = targetOf(await managed.get('reserved_domain', id), options)
    if (found === undefined) throw new Error('no target')
    return found
  }
  const finish = async () => {
    await issuance.begin(await target())
    const { status, work } = await target()
    if (status === null || work === null) throw new Error('not begun')
    await ledger.step(await target(), { status, work, requestedKey: key })
    await issuance.proceed(await target(), 0)
  }
  return { managed, id, target, finish }
}

for (const [name, make] of Object.entries(CHAINS)) {
  t.test(`what serves stays when the authority sends ${name}`, async (t) => {
    const now = Date.now()
    const { chain, key, says } = await make(now)
    const other = (await selfSigned('y', ['y.test'], now)).privateKey
    const { managed, id, finish } = await ordered(t, chain, key ?? other)
    await finish()
    const record = await managed.get('reserved_domain', id)
    t.notOk(isIssued(record))
    const failed = record.body.certificate_management_status as ManagementStatus
    t.match(failed.provisioning_job, { error_code: 'INTERNAL_ERROR', msg: says })
    t.same(record.secrets, {}, 'the key is not kept')
    t.same((record.body.certificate_work as { challenges: unknown }).challenges, [])
  })
}

const HOUR = 3_600_000
const DAY = 24 * HOUR

t.test('a clock that is ahead does not order again and again', async (t) => {
  // Issued 300 of 365 days ago, by this clock.
  const { chain, privateKey } = await selfSigned('x', ['app.example.com'], Date.now() - 300 * DAY)
  const { managed, target, finish } = await ordered(t, chain, privateKey)
  const hours: number[] = []
  for (let n = 0; n < 5; n++) {
    await finish()
    const stage = stageOf(await target(), managed.clock.wall())
    if (stage.is !== 'wait') throw new Error(`${stage.is} at once`)
    hours.push(Math.round((stage.moment - managed.clock.wall()) / HOUR))
    managed.clock.advance(stage.moment - managed.clock.wall())
  }
  t.same(hours, [6, 12, 24, 48, 96], 'each time later')
  t.match(managed.log.texts.join(), /is the clock right\?.*due for renewal already/)
})

t.test('a clock that is behind, and then right, renews in time', async (t) => {
  const { chain, privateKey } = await selfSigned('x', ['app.example.com'], Date.now() + 200 * DAY)
  const { managed, target, finish } = await ordered(t, chain, privateKey)
  await finish()
  const stage = stageOf(await target(), managed.clock.wall())
  t.match(stage, { is: 'wait' })
  const days = stage.is === 'wait' ? (stage.moment - managed.clock.wall()) / DAY : 0
  t.ok(days > 200 && days < 244, `${days} days from now, and not from a time that has not come`)
  t.match(managed.log.texts.join(), /is the clock right\?.*issued in the future/)
})

t.test('times of a record that a clock ahead has written are ignored', async (t) => {
  const { chain, privateKey } = await selfSigned('x', ['app.example.com'], Date.now())
  const { managed, target, finish } = await ordered(t, chain, privateKey)
  await finish()
  const now = managed.clock.wall()
  const good = await target()
  const at = (time: number) => new Date(time).toISOString()
  const { notBefore = 0, notAfter = 0 } = good.work?.issued?.validity ?? {}
  t.ok(notAfter > now)
  const renews = { ...good, status: { renews_at: at(notAfter + 1_000), provisioning_job: null } }
  t.match(stageOf(renews, now), { is: 'wait', moment: renewalTime(notBefore, notAfter, 0), wrong: 'renews_at' })
  t.match(stageOf(renews, renewalTime(notBefore, notAfter, 0)), { is: 'begin' }, 'in time all the same')
  const job = { error_code: 'INTERNAL_ERROR', msg: '', started_at: at(now), retries_at: at(now + 40 * DAY) } as const
  const retries = { ...good, status: { renews_at: null, provisioning_job: job } }
  t.match(stageOf(retries, now), { is: 'begin', wrong: 'retries_at' })
  const soon = { ...job, retries_at: at(now + 14 * HOUR) }
  t.match(stageOf({ ...good, status: { renews_at: null, provisioning_job: soon } }, now), { is: 'wait' })
})

t.test('a retry time that lies years ahead is told, and tried again', async (t) => {
  const authority = await wrongAuthority(t, (_, to) => to.writeHead(500).end())
  const managed = await Managed.open(t, { authority })
  const now = managed.clock.wall()
  managed.clock.setWall(now + 1_000 * DAY)
  const { id } = await managed.create('reserved_domain', { domain: 'app.example.com', ...LETSENCRYPT })
  await managed.certificates.tick()
  t.ok(Date.parse((await managed.status('reserved_domain', id))?.provisioning_job?.retries_at ?? '') > now + 999 * DAY)
  const asked = authority.asked()
  managed.clock.setWall(now)
  await managed.certificates.tick()
  t.ok(authority.asked() > asked)
  t.match(managed.log.texts.join(), /cannot be right and is ignored.*retries_at/)
})
