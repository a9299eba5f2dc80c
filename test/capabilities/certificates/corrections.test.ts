import t from 'tap'
import { stageOf, targetOf } from '../../../src/capabilities/certificates/target.js'
import type { SiteFile } from '../../../src/capabilities/site-file/declared/site-file.js'
import { reservedDomain } from '../../../src/resources/domains.js'
import { type Reasons, startRefusingAuthority } from './authority-double.js'
import { hasFailed, LETSENCRYPT, Managed, type ManagedSetup } from './managed.js'

interface Test {
  teardown(run: () => Promise<void> | void): void
}

const KIND = reservedDomain.name
const MINUTE = 60_000
/** A wildcard is proved by DNS alone. */
const DNS: Reasons = { challenge: 'dns', type: 'dns-01' }
const OURS = '192.0.2.1'
const OTHER = '198.51.100.7'

/** A name that its authority refuses, after its first failure. */
async function refused(t: Test, reasons: Reasons = { challenge: 'unauthorized' }, setup: ManagedSetup = {}) {
  const authority = await startRefusingAuthority(t, reasons)
  const addresses: { now: readonly string[] | undefined } = { now: [OTHER] }
  const lookup = async () => {
    if (addresses.now === undefined) throw new Error('ENOTFOUND')
    return addresses.now
  }
  const { orders, ...about } = authority
  const managed = await Managed.open(t, { authority: about, dns: false, lookup, ...setup })
  const { certificates, clock } = managed
  const job = async (id: string) => {
    const found = (await managed.status(KIND, id))?.provisioning_job
    if (found == null) throw new Error('nothing is requested')
    return found
  }
  /** Goes on for so many minutes. */
  const pass = async (minutes: number) => {
    for (let second = 0; second < minutes * 60; second += 10) {
      clock.advance(10_000)
      await certificates.tick()
    }
  }
  return { managed, authority: about, orders, addresses, clock, job, pass }
}

t.test(
  'a failure that its user has to correct is tried again: after minutes, then hours, then a few times a day',
  async (t) => {
    const { managed, orders, clock, job } = await refused(t)
    const { id } = await managed.create(KIND, { domain: 'app.example.com', ...LETSENCRYPT })
    const waits: number[] = []
    for (let attempt = 1; attempt <= 9; attempt++) {
      await managed.until(KIND, id, hasFailed)
      const { error_code, retries_at } = await job(id)
      t.equal(error_code, 'DNS_ERROR')
      t.equal(orders(), attempt)
      const wait = Date.parse(retries_at ?? '') - clock.wall()
      waits.push(Math.floor(wait / MINUTE))
      clock.advance(wait - 20_000)
      await managed.certificates.tick()
      t.equal(orders(), attempt, 'not before its time')
      clock.advance(21_000)
      await managed.certificates.tick()
    }
    t.same(waits, [5, 11, 22, 44, 88, 176, 352, 396, 396], 'minutes')
  }
)

const ARRIVALS = {
  'to ours': { before: [OTHER], after: [OURS], tried: true },
  'from none to ours': { before: undefined, after: [OURS], tried: true },
  'to ours among others': { before: [OTHER], after: [OTHER, OURS], tried: true },
  'of a family whose own addresses are not known': { before: [OTHER], after: ['2001:db8::7'], tried: true },
  'to another one': { before: [OTHER], after: ['198.51.100.8'], tried: false },
  'to none': { before: [OTHER], after: undefined, tried: false }
}

for (const [how, { before, after, tried }] of Object.entries(ARRIVALS)) {
  t.test(`a name whose address changes ${how} is ${tried ? 'tried at once' : 'left to its time'}`, async (t) => {
    const { managed, orders, addresses, pass, job } = await refused(t)
    addresses.now = before
    const { id } = await managed.create(KIND, { domain: 'app.example.com', ...LETSENCRYPT })
    await managed.until(KIND, id, hasFailed)
    await pass(1.5)
    t.equal(orders(), 1)
    addresses.now = after
    await pass(1)
    t.equal(orders(), tried ? 2 : 1)
    if (tried) t.match(managed.log.texts.join(), /the addresses of a name have changed/)
    await managed.until(KIND, id, hasFailed)
    t.match(await job(id), { error_code: 'DNS_ERROR', retries_at: /Z$/ })
  })
}

t.test('addresses that come and go all the time bring an attempt every few minutes at most', async (t) => {
  const { managed, orders, addresses, pass } = await refused(t)
  const { id } = await managed.create(KIND, { domain: 'app.example.com', ...LETSENCRYPT })
  await managed.until(KIND, id, hasFailed)
  for (let n = 0; n < 60; n++) {
    addresses.now = n % 2 === 0 ? [OURS] : [OTHER]
    await pass(1)
  }
  t.ok(orders() >= 4 && orders() <= 10, `${orders()} orders in an hour`)
})

t.test('a site file that is saved again brings the next attempt forward', async (t) => {
  const { managed, orders, pass, clock } = await refused(t)
  const serve = () => {
    const certificates = { keyType: 'ecdsa', hosts: [{ host: 'app.example.com', line: 3 }] }
    const site = { certificates } as unknown as SiteFile
    managed.control.declared.replace({ source: 'sites.yaml', text: '', records: [], site })
  }
  serve()
  await pass(1)
  t.equal(orders(), 1)
  await pass(2)
  t.equal(orders(), 1, 'it waits')
  serve()
  await pass(0.2)
  t.equal(orders(), 2)
  await pass(1)
  serve()
  await pass(0.5)
  t.equal(orders(), 2, 'one that is saved again soon does not hurry the authority')
  await pass(1)
  t.equal(orders(), 3)
  const revision = await managed.control.store.revision()
  clock.advance(1_000)
  await pass(0.5)
  t.equal(await managed.control.store.revision(), revision, 'nothing more is written')
})

const WILDCARD = '*.example.com'

t.test(
  'a wildcard has no address to watch: a policy that is written again, and a renewal that is asked for, try it',
  async (t) => {
    const { managed, orders, addresses, pass, job } = await refused(t, DNS, { dns: true })
    const { id } = await managed.create(KIND, { domain: WILDCARD, ...LETSENCRYPT })
    await managed.until(KIND, id, hasFailed)
    t.match(await job(id), { error_code: 'DNS_ERROR' })
    addresses.now = [OURS]
    await pass(3)
    t.equal(orders(), 1, 'addresses say nothing of a record in the DNS')
    await managed.update(KIND, id, LETSENCRYPT)
    await pass(0.2)
    t.equal(orders(), 2, 'at once')
    await managed.until(KIND, id, hasFailed)
    await managed.update(KIND, id, { description: 'says nothing of the cause' })
    await pass(0.2)
    t.equal(orders(), 2)
    await managed.update(KIND, id, LETSENCRYPT)
    await pass(0.2)
    t.equal(orders(), 3, 'however young the last attempt is')
  }
)

t.test('a site file with a wildcard that is saved again brings the next attempt forward', async (t) => {
  const { managed, orders, pass } = await refused(t, DNS, { dns: true })
  const serve = () => {
    const certificates = { keyType: 'ecdsa', hosts: [{ host: WILDCARD, line: 3 }] }
    const site = { certificates } as unknown as SiteFile
    managed.control.declared.replace({ source: 'sites.yaml', text: '', records: [], site })
  }
  serve()
  await pass(3)
  t.equal(orders(), 1, 'it waits')
  serve()
  await pass(0.2)
  t.equal(orders(), 2)
})

t.test('a wildcard that failed for want of a DNS listener is tried when the process has one', async (t) => {
  const at = `${t.testdir()}/store.db`
  const first = await refused(t, DNS, { dns: false, at })
  const { id } = await first.managed.create(KIND, { domain: WILDCARD, ...LETSENCRYPT })
  await first.managed.until(KIND, id, hasFailed)
  t.match(await first.job(id), { error_code: 'INTERNAL_ERROR', msg: /option dns\.listen/ })
  // Failures in a row put the next attempt hours away.
  for (let failures = 1; failures < 7; failures++) {
    first.clock.advance(Date.parse((await first.job(id)).retries_at ?? '') - first.clock.wall() + 1_000)
    await first.managed.certificates.tick()
    await first.managed.until(KIND, id, hasFailed)
  }
  const waits = Date.parse((await first.job(id)).retries_at ?? '') - first.clock.wall()
  t.ok(waits > 10 * MINUTE, `${waits} ms`)
  await first.managed.stop()
  const { orders: tried } = first
  const before = tried()
  const next = await Managed.open(t, { authority: first.authority, dns: true, at, clock: first.clock })
  for (let second = 0; second < 120; second += 10) {
    first.clock.advance(10_000)
    await next.certificates.tick()
  }
  t.equal(tried(), before + 1)
  t.match(next.log.texts.join(), /a wildcard can be proved by DNS now/)
  t.match((await next.status(KIND, id))?.provisioning_job, { error_code: 'DNS_ERROR' }, 'its authority has looked')
})

t.test('what an older version has given up is tried', async (t) => {
  const { managed, orders } = await refused(t)
  const { id } = await managed.create(KIND, { domain: 'app.example.com', ...LETSENCRYPT })
  await managed.until(KIND, id, hasFailed)
  const target = targetOf(await managed.get(KIND, id), { regions: [], dns: false })
  const job = target?.status?.provisioning_job
  if (target?.status == null || job == null) throw new Error('no job')
  const given = { ...target, status: { ...target.status, provisioning_job: { ...job, retries_at: null } } }
  t.match(stageOf(given, managed.clock.wall()), { is: 'begin' })
  t.match(stageOf(target, managed.clock.wall()), { is: 'wait' })
  t.equal(orders(), 1)
})
