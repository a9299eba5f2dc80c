import t from 'tap'
import { BACK_OFF } from '../../../src/capabilities/events/deliveries.js'
import { failureOf } from '../../../src/capabilities/events/destinations/payload.js'
import { pauseAfter } from '../../../src/lib/concurrency.js'

t.test('pauses double from a second to five minutes, and up to half of each is taken off', async (t) => {
  const whole = (failures: number) => pauseAfter(failures, BACK_OFF, () => 0)
  t.same([1, 2, 3, 4].map(whole), [1_000, 2_000, 4_000, 8_000])
  for (let failures = 1; failures < 5_000; failures++) {
    const longest = whole(failures)
    t.ok(longest >= 1_000 && longest <= 300_000) || t.fail(`${failures}: ${longest}`)
    for (const random of [0.1, 0.5, 0.999_999]) {
      const pause = pauseAfter(failures, BACK_OFF, () => random)
      t.ok(pause >= longest / 2 && pause < longest) || t.fail(`${failures}: ${pause} of ${longest}`)
    }
  }
  t.equal(whole(5_000), 300_000)
})

t.test('a receiver that asks for more patience gets it, an hour at most', async (t) => {
  const about = { body: new Uint8Array(), address: '192.0.2.1', timeMs: 1 }
  const asked = (value: string) =>
    failureOf({ ok: true, status: 429, headers: ['Retry-After', value], ...about })?.retryAfter
  t.equal(asked('30'), 30_000)
  t.equal(asked('999999'), 3_600_000)
  for (const value of ['', '-1', 'soon', '1.5', 'Wed, 21 Oct 2015 07:28:00 GMT'])
    t.equal(asked(value), undefined, value)
})
