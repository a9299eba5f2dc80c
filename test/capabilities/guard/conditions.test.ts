import t from 'tap'
import { guardText, readGuard } from '../../../src/capabilities/guard/conditions.js'

t.test('a guard is read with its defaults, and written as it is read', async (t) => {
  const guard = readGuard('bake=1m30s; error-rate=+2%; refusal-rate=5%; min-requests=20; changed-decisions=0.5%')
  t.same(guard, {
    bake: 90_000,
    least: 20,
    rates: [
      { name: 'error-rate', relative: true, share: 0.02 },
      { name: 'refusal-rate', relative: false, share: 0.05 }
    ],
    changed: 0.005
  })
  t.same(readGuard(guardText(guard)), guard)
  t.equal(guardText(readGuard('client-error-rate=+0%')), 'bake=30s; client-error-rate=+0%; min-requests=50')
  t.same(readGuard('bake="10s", error-rate="+0.125%",'), readGuard(' error-rate = +0.125% ;; bake=10s'))
})

const WRONG: Readonly<Record<string, RegExp>> = {
  '': /no condition that could break/,
  'bake=30s': /no condition that could break; there are error-rate, refusal-rate/,
  'bake=500ms; error-rate=1%': /bake of the guard must be a duration from 1s to 24h/,
  'bake=25h; error-rate=1%': /bake of the guard must be/,
  'bake=30x; error-rate=1%': /bake of the guard must be/,
  'error-rate=2': /error-rate of the guard must be a share such as 2%/,
  'error-rate=101%': /error-rate of the guard must be/,
  'error-rate=-2%': /error-rate of the guard must be/,
  'error-rate=1%; error-rate=2%': /error-rate of the guard stands twice/,
  'error-rate=1%; latency=+5%': /latency=\+5% of the guard is no condition; there are bake, /,
  'error-rate=1%; min-requests=0': /min-requests of the guard must be a whole number/,
  'changed-decisions=+5%': /changed-decisions of the guard is a share such as 5%, without \+/,
  [`error-rate=1%${' '.repeat(1_000)}`]: /the guard is longer than 1000 characters/
}

for (const [text, message] of Object.entries(WRONG)) {
  t.test(`refused: ${text.slice(0, 40)}`, async (t) => {
    t.throws(() => readGuard(text), { code: 'GUARD_INVALID', message })
  })
}
