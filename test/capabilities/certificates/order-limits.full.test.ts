import t from 'tap'
import { KIND, openWorld, PUBLIC } from './limited-world.js'
import { hasFailed, isIssued } from './managed.js'

t.test('24 names are done within a minute, by an authority that allows 20 nonces a second', async (t) => {
  const { counts, reserve, count, until } = await openWorld(t, { limits: PUBLIC })
  for (let n = 0; n < 24; n++) await reserve(`d${n}.example.com`)
  const seconds = await until(24, 60)
  t.equal(await count(isIssued), 24)
  t.ok(seconds <= 60, `${seconds} s`)
  t.equal(counts.limited, 0, 'no limit was exceeded')
  t.equal(counts.badNonces, 0)
  t.ok((counts.requests.get('nonce') ?? 0) <= 8, `${counts.requests.get('nonce')} nonces were asked for`)
})

t.test('the same where another client uses up most of the nonces', async (t) => {
  const { counts, reserve, count, until } = await openWorld(t, { limits: { nonce: { burst: 1, perSecond: 0.5 } } })
  for (let n = 0; n < 10; n++) await reserve(`d${n}.example.com`)
  const seconds = await until(10, 60)
  t.equal(await count(isIssued), 10)
  t.ok(seconds <= 60, `${seconds} s`)
  t.ok(counts.limited > 0, 'a nonce was refused, and asked for again')
})

t.test('kept nonces that the authority has forgotten cost one more request each', async (t) => {
  const { counts, reserve, until, forgetNonces } = await openWorld(t, {})
  await reserve('a.example.com')
  await until(1, 30)
  forgetNonces()
  await reserve('b.example.com')
  await until(2, 60)
  t.ok(counts.badNonces >= 1 && counts.badNonces <= 4, `${counts.badNonces} were refused`)
})

t.test('a limit of one name does not stop the others', async (t) => {
  const { reserve, count, until, managed, clock } = await openWorld(t, {
    refuses: ([name = '']) => (name.endsWith('.busy.com') ? 7_200 : undefined)
  })
  const busy: string[] = []
  for (let n = 0; n < 6; n++) {
    busy.push(await reserve(`d${n}.busy.com`))
    await reserve(`d${n}.example.com`)
  }
  const seconds = await until(6, 120)
  t.equal(await count(isIssued), 6)
  t.ok(seconds <= 60, `${seconds} s`)
  for (let n = 0; n < 200 && (await count(hasFailed)) < 6; n++) {
    await managed.certificates.tick()
    clock.advance(1_000)
  }
  for (const id of busy) {
    const job = (await managed.status(KIND, id))?.provisioning_job
    t.match(job, { error_code: 'INTERNAL_ERROR', msg: /rateLimited \(429\)/ })
    t.ok(Date.parse(job?.retries_at ?? '') - clock.wall() > 6_900_000, 'each waits as long as the authority says')
  }
})

t.test('names beyond the limit of orders wait for their turn, and say so', async (t) => {
  const { reserve, count, until, managed, clock, counts, orders } = await openWorld(t, {}, 2)
  const ids: string[] = []
  for (let n = 0; n < 5; n++) ids.push(await reserve(`d${n}.example.com`))
  t.ok((await until(2, 60)) <= 60)
  t.equal(orders.length, 2)
  const started = clock.wall()
  const waits: number[] = []
  for (const id of ids) {
    const job = (await managed.status(KIND, id))?.provisioning_job ?? null
    if (job === null) continue
    t.match(job, { error_code: null, msg: /waits for its turn: the authority allows 2 orders in three hours/ })
    waits.push(Math.round((Date.parse(job.retries_at ?? '') - started) / 360_000) / 10)
  }
  t.same(waits.sort(), [1.5, 3, 4.5], 'hours, one after the other')
  const requests = counts.requests.get('orders')
  const revision = await managed.control.store.revision()
  for (let n = 0; n < 5; n++) await managed.certificates.tick()
  t.equal(counts.requests.get('orders'), requests, 'meanwhile nothing is asked')
  t.equal(await managed.control.store.revision(), revision, 'or written')
  clock.advance(40_000)
  await managed.certificates.tick()
  t.match(
    managed.log.texts.join(),
    /certificates are being requested {"issued":2,"requested":0,"waiting":3,"failed":0}/
  )
  for (let n = 0; n < 3; n++) {
    clock.advance(5_400_000)
    t.ok((await until(3 + n, 60)) > 0)
    t.equal(await count(isIssued), 3 + n)
  }
  t.match(managed.log.texts.join(), /no more certificates are being requested/)
})
