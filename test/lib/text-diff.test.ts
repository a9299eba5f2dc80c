import t from 'tap'
import { unifiedDiff } from '../../src/lib/text-diff.js'

const lines = (...all: readonly (string | number)[]) => all.map((line) => `${line}\n`).join('')

t.test('changed lines are shown with those around them', async (t) => {
  const numbers = Array.from({ length: 20 }, (_, at) => at + 1)
  const before = lines(...numbers)
  const after = lines(...numbers.map((one) => (one === 10 ? 'ten' : one)))
  t.equal(
    unifiedDiff(before, after),
    ['@@ -7,7 +7,7 @@', ' 7', ' 8', ' 9', '-10', '+ten', ' 11', ' 12', ' 13'].join('\n')
  )
  t.equal(unifiedDiff(before, before), '')
  t.equal(unifiedDiff('', lines('a', 'b')), '@@ -0,0 +1,2 @@\n+a\n+b')
  t.equal(unifiedDiff(lines('a'), ''), '@@ -1 +0,0 @@\n-a')
})

t.test('texts that have nothing in common are shown whole, and soon', async (t) => {
  const text = (sign: string) => lines(...Array.from({ length: 20_000 }, (_, at) => `${sign}${at}`))
  const begun = performance.now()
  const shown = unifiedDiff(text('a'), text('b')).split('\n')
  t.ok(performance.now() - begun < 2_000)
  t.same([shown.length, shown[0], shown[1], shown.at(-1)], [40_001, '@@ -1,20000 +1,20000 @@', '-a0', '+b19999'])
})
