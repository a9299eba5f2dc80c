import t from 'tap'
import { KIND, openWorld } from './limited-world.js'
import { isIssued } from './managed.js'

for (const lost of ['orders', 'authorization', 'challenge', 'order', 'finalize', 'certificate']) {
  t.test(`an answer of ${lost} that gets lost`, async (t) => {
    let loses = 1
    const { reserve, until, count, orders, ids, managed } = await openWorld(t, {
      loses: (path) => (path.startsWith(`/${lost}/`) || path === `/${lost}` ? loses-- > 0 : false)
    })
    await reserve('app.example.com')
    const seconds = await until(1, 120)
    t.equal(await count(isIssued), 1, JSON.stringify(await managed.status(KIND, ids[0] ?? '')))
    t.ok(loses <= 0, 'it was lost')
    // An order whose URL is lost is placed again; all others go on.
    t.equal(orders.length, lost === 'orders' ? 2 : 1)
    t.ok(seconds <= (lost === 'orders' ? 90 : 45), `${seconds} s`)
  })
}
