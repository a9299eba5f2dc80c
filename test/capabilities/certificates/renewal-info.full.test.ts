import { X509Certificate } from 'node:crypto'
import t from 'tap'
import { ManualClock } from '../../helpers/clock.js'
import { type Renewals, startIssuingAuthority } from './issuing-authority.js'
import { isIssued, LETSENCRYPT, Managed } from './managed.js'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
const NOW = Date.UTC(2027, 0, 1)

interface Test {
  teardown(run: () => Promise<void> | void): void
}

const text = (wall: number) => `${new Date(wall).toISOString().slice(0, 19)}Z`
const window = (start: number, end: number, more: object = {}) => ({
  suggestedWindow: { start: text(start), end: text(end) },
  ...more
})

/** A domain with a certificate of `life`, and an authority that says what the test makes it say. */
async function world(t: Test, first: Partial<Renewals> = {}, life = 90 * DAY, at = ':memory:') {
  const clock = new ManualClock(NOW)
  const ca = await startIssuingAuthority(t, clock, life)
  Object.assign(ca.renewals, first)
  const managed = await Managed.open(t, { at, clock, authority: ca.authority })
  const { id } = await managed.create('reserved_domain', { domain: 'app.example.com', ...LETSENCRYPT })
  const certificate = async () => (await managed.get('reserved_domain', id)).body.certificate
  const status = async () => await managed.status('reserved_domain', id)
  const renewsAt = async () => Date.parse((await status())?.renews_at ?? '')
  await managed.until('reserved_domain', id, isIssued)
  /** Goes on for so many milliseconds in as many ticks as it takes. */
  const pass = async (milliseconds: number, step: number) => {
    for (let gone = 0; gone < milliseconds; gone += step) {
      clock.advance(step)
      // An order takes a few steps.
      for (let n = 0; n < 5; n++) await managed.certificates.tick()
    }
  }
  /** The certificate that follows. */
  const next = async () => {
    const before = await certificate()
    await managed.until('reserved_domain', id, ({ body }) => body.certificate !== before)
    return await certificate()
  }
  await managed.certificates.tick()
  return { ...ca, clock, managed, id, certificate, status, renewsAt, pass, next }
}

t.test('a certificate is renewed within the suggested window, and says which one it replaces', async (t) => {
  const [start, end] = [NOW + 20 * DAY, NOW + 22 * DAY]
  const content = window(start, end, { explanationURL: 'https://ca.test/why' })
  const { managed, asked, orders, status, renewsAt, certificate, clock, next } = await world(t, { content })
  t.match(asked, [/^[A-Za-z0-9_-]+\.fwA$/], 'by the key of its issuer and its serial number')
  t.match(await status(), {
    provisioning_job: null,
    renewal_info: {
      suggested_window: { start: text(start), end: text(end) },
      explanation_url: 'https://ca.test/why'
    }
  })
  const at = await renewsAt()
  t.ok(at >= start && at <= end, text(at))
  t.match(managed.log.texts.join(), /suggests when to renew/)
  const before = await certificate()
  clock.advance(at - clock.wall() - MINUTE)
  await managed.certificates.tick()
  t.equal(await certificate(), before, 'not before')
  t.equal(orders.length, 1)
  clock.advance(MINUTE)
  t.not(await next(), before)
  t.match(orders, [{ replaces: undefined }, { replaces: asked[0] }])
})

t.test('the moment in the window is that of the certificate, in every process', async (t) => {
  const content = window(NOW + 20 * DAY, NOW + 30 * DAY)
  const store = `${t.testdir({})}/sluice.db`
  const { managed, renewsAt, clock, authority, renewals, id } = await world(t, { content }, 90 * DAY, store)
  const at = await renewsAt()
  const moments = new Set([at])
  for (let n = 0; n < 8; n++) {
    const { id } = await managed.create('reserved_domain', { domain: `d${n}.example.com`, ...LETSENCRYPT })
    await managed.until('reserved_domain', id, isIssued)
    await managed.certificates.tick()
    moments.add(Date.parse((await managed.status('reserved_domain', id))?.renews_at ?? ''))
  }
  t.ok(moments.size >= 8, `${moments.size} moments of 9 certificates`)
  renewals.content = window(NOW + 40 * DAY, NOW + 50 * DAY)
  clock.advance(DAY)
  await managed.certificates.tick()
  t.equal((await renewsAt()) - at, 20 * DAY, 'the same place of the next window')
  await managed.stop()
  const other = await Managed.open(t, { at: store, clock, authority })
  renewals.content = content
  clock.advance(DAY)
  for (let n = 0; n < 4; n++) await other.certificates.tick()
  t.equal(Date.parse((await other.status('reserved_domain', id))?.renews_at ?? ''), at)
})

t.test('a window that is past: renewed at once, and more slowly when the next is past, too', async (t) => {
  const { managed, renewals, clock, certificate, orders, next, renewsAt, status } = await world(t, {
    content: window(NOW + 20 * DAY, NOW + 22 * DAY),
    headers: { 'retry-after': '3600' }
  })
  const first = await certificate()
  renewals.content = window(NOW - 2 * DAY, NOW - DAY, { explanationURL: 'https://ca.test/incident' })
  clock.advance(HOUR - 10_000)
  await managed.certificates.tick()
  t.equal(orders.length, 1, 'not asked yet')
  clock.advance(10_000)
  await managed.certificates.tick()
  t.match(await status(), { renewal_info: { explanation_url: 'https://ca.test/incident' } })
  t.match(managed.log.texts.join(), /wants a certificate to be replaced at once/)
  const asking = clock.wall()
  t.not(await next(), first)
  t.ok(clock.wall() - asking < MINUTE, 'at once')
  const waits: number[] = []
  for (let n = 0; n < 3; n++) {
    const issued = clock.wall()
    await managed.certificates.tick()
    await managed.certificates.tick()
    const at = await renewsAt()
    waits.push(Math.round((at - issued) / HOUR))
    clock.advance(at - clock.wall())
    await next()
  }
  t.same(waits, [6, 12, 24], 'an authority that says so of every certificate is not asked for ever more')
  renewals.content = window(clock.wall() + 20 * DAY, clock.wall() + 21 * DAY)
  await managed.certificates.tick()
  t.ok((await renewsAt()) >= clock.wall() + 20 * DAY, 'and is believed again')
})

for (const [said, asks] of [
  ['7200', 2 * HOUR],
  ['1', MINUTE],
  ['999999', DAY],
  [undefined, 6 * HOUR],
  ['soon', 6 * HOUR]
] as const) {
  t.test(`the next question comes after ${asks / MINUTE} minutes: Retry-After ${said}`, async (t) => {
    const headers: Record<string, string> = said === undefined ? {} : { 'retry-after': said }
    const { asked, pass } = await world(t, { content: window(NOW + 20 * DAY, NOW + 22 * DAY), headers })
    t.equal(asked.length, 1)
    await pass(asks - 10_000, asks - 10_000)
    t.equal(asked.length, 1)
    await pass(10_000, 10_000)
    t.equal(asked.length, 2)
  })
}

const USELESS: Readonly<Record<string, Partial<Renewals>>> = {
  'no renewal information': { offered: false },
  'a certificate that it does not know': { status: 404 },
  'a fault': { status: 500 },
  'a window that ends before it begins': { content: window(NOW + 2 * DAY, NOW + DAY) },
  'a window without an end': { content: { suggestedWindow: { start: text(NOW) } } },
  'no times': { content: { suggestedWindow: { start: 'now', end: 'later' } } },
  'no object': { content: null },
  'a page': { content: '<html>' }
}

for (const [what, first] of Object.entries(USELESS)) {
  t.test(`${what}: the certificate is renewed after its share of life`, async (t) => {
    const { managed, renewsAt, clock, certificate, next, pass, status } = await world(t, first)
    t.equal((await status())?.renewal_info, null)
    const at = await renewsAt()
    const share = (at - NOW) / (90 * DAY)
    t.ok(share > 0.6 && share < 0.67, `${share} of its life`)
    await pass(DAY, 2 * HOUR)
    const warned = managed.log.texts.filter((line) => /cannot be asked when to renew/.test(line)).length
    t.ok(warned <= 1, `${warned} warnings`)
    const before = await certificate()
    clock.advance(at - clock.wall())
    t.not(await next(), before)
  })
}

t.test('what was suggested counts for a day while the authority cannot be asked', async (t) => {
  const { renewals, renewsAt, pass, status, asked } = await world(t, {
    content: window(NOW + 80 * DAY, NOW + 81 * DAY)
  })
  renewals.status = 503
  await pass(18 * HOUR, HOUR)
  t.ok((await renewsAt()) >= NOW + 80 * DAY)
  const tries = asked.length
  t.ok(tries > 4 && tries < 20, `asked ${tries} times, less and less often`)
  await pass(2 * DAY, HOUR)
  t.ok((await renewsAt()) < NOW + 61 * DAY, 'then the share of life does')
  t.equal((await status())?.renewal_info, null)
  renewals.status = 200
  await pass(DAY, HOUR)
  t.ok((await renewsAt()) >= NOW + 80 * DAY, 'until it answers again')
})

for (const kind of ['alreadyReplaced', 'malformed']) {
  t.test(`an authority that answers ${kind} to a replacement gets an order without one`, async (t) => {
    const { renewals, renewsAt, clock, certificate, next, orders } = await world(t)
    renewals.refusesReplaces = kind
    const before = await certificate()
    clock.advance((await renewsAt()) - clock.wall())
    t.not(await next(), before)
    t.match(orders, [{ replaces: undefined }, { replaces: /\./ }, { replaces: undefined }])
    t.equal(orders.length, 3)
  })
}

t.test('a replacement is named to no authority that offers no renewal information', async (t) => {
  const { renewsAt, clock, next, orders } = await world(t, { offered: false })
  clock.advance((await renewsAt()) - clock.wall())
  await next()
  t.equal(orders.length, 2)
  t.notOk(orders.some((order) => 'replaces' in order))
})

t.test('a certificate of six days is renewed in the middle of its life, and asked about often', async (t) => {
  const { managed, clock, renewsAt, pass, certificate, asked, renewals } = await world(t, { status: 404 }, 6 * DAY)
  const share = ((await renewsAt()) - NOW) / (6 * DAY)
  t.ok(share > 0.46 && share <= 0.5, `${share} of its life`)
  const seen = new Set([await certificate()])
  for (let day = 0; day < 30; day++) {
    await pass(DAY, HOUR)
    seen.add(await certificate())
    const { validTo } = new X509Certificate(managed.presented('app.example.com')?.chain ?? '')
    t.ok(Date.parse(validTo) - clock.wall() > 2 * DAY, `day ${day}: valid until ${validTo}`)
  }
  t.ok(seen.size >= 10 && seen.size <= 12, `${seen.size} certificates in 30 days`)
  renewals.status = 200
  renewals.content = window(NOW + 40 * DAY, NOW + 41 * DAY)
  await pass(DAY, HOUR)
  const before = asked.length
  await pass(DAY, HOUR)
  t.ok(asked.length - before >= 4, `${asked.length - before} questions a day`)
})
