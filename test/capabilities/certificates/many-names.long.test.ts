import t from 'tap'
import { openWorld, PUBLIC } from './limited-world.js'
import { isIssued } from './managed.js'

t.test('500 names take as long as the authority allows for their orders, and exceed no limit', async (t) => {
  const { counts, reserve, count, until, orders } = await openWorld(t, { limits: PUBLIC })
  for (let n = 0; n < 500; n++) await reserve(`d${n}.example.com`)
  t.ok((await until(300, 300)) <= 300, 'the first 300 within minutes')
  t.equal(orders.length, await count(isIssued))
  const seconds = await until(500, 3 * 3_600, 30_000)
  t.equal(await count(isIssued), 500)
  // 200 beyond the first 300, one in 36 seconds.
  t.ok(seconds >= 7_000 && seconds <= 7_800, `${seconds} s`)
  t.equal(counts.limited, 0)
  t.ok((counts.requests.get('nonce') ?? 0) <= 20, `${counts.requests.get('nonce')} nonces were asked for`)
})
