import t from 'tap'
import { GrowingPauses, WorkBudget } from '../../src/lib/work-budget.js'
import { ManualClock } from '../helpers/clock.js'

t.test('work is given while the balance is above zero, and a debt is waited for', async (t) => {
  const clock = new ManualClock()
  const budget = new WorkBudget(clock, { burst: 1_000, perSecond: 100 })
  t.equal(budget.wait('a'), 0)
  budget.spend('a', 900)
  t.equal(budget.wait('a'), 0)
  budget.spend('a', 1_100)
  t.ok(Math.abs(budget.wait('a') - 10.01) < 0.001, 'the whole work is taken, at once')
  t.equal(budget.wait('b'), 0, 'another caller has its own')
  clock.advance(5_000)
  t.ok(Math.abs(budget.wait('a') - 5.01) < 0.001)
  clock.advance(5_011)
  t.equal(budget.wait('a'), 0)
  clock.advance(3_600_000)
  budget.spend('a', 1_000)
  t.ok(budget.wait('a') > 0, 'the balance never grows beyond the burst')
})

t.test('no caller gets more than the burst and what has grown since, whatever it asks for and when', async (t) => {
  for (let seed = 1; seed <= 200; seed++) {
    const clock = new ManualClock()
    const limits = { burst: 100 + (seed % 7) * 50, perSecond: 1 + (seed % 13) * 10 }
    const budget = new WorkBudget(clock, limits)
    const largest = 1 + (seed % 5) * 40
    let done = 0
    let passed = 0
    let state = seed
    const random = () => {
      state = (state * 1_103_515_245 + 12_345) % 2 ** 31
      return state / 2 ** 31
    }
    for (let step = 0; step < 300; step++) {
      if (budget.wait('a') === 0) {
        const amount = Math.ceil(random() * largest)
        budget.spend('a', amount)
        done += amount
      }
      const wait = Math.floor(random() * 400)
      clock.advance(wait)
      passed += wait
    }
    const most = limits.burst + (passed / 1_000) * limits.perSecond + largest
    if (done > most) t.fail(`seed ${seed}: ${done} of ${most}`)
  }
  t.pass('two hundred runs')
})

t.test('callers with a whole balance are forgotten, debts are not', async (t) => {
  const clock = new ManualClock()
  const budget = new WorkBudget(clock, { burst: 10, perSecond: 1 })
  budget.spend('debtor', 100_000)
  for (let caller = 0; caller < 3_000; caller++) {
    budget.spend(`caller ${caller}`, 1)
    clock.advance(10)
  }
  t.ok(budget.wait('debtor') > 0)
})

t.test('pauses grow with each refusal and end with what is accepted', async (t) => {
  const clock = new ManualClock()
  const pauses = new GrowingPauses(clock, { free: 2, first: 1_000, longest: 8_000 })
  const waits: number[] = []
  for (let time = 0; time < 8; time++) {
    pauses.refused('a')
    waits.push(pauses.wait('a'))
    clock.advance((waits.at(-1) as number) * 1_000)
    t.equal(pauses.wait('a'), 0)
  }
  t.same(waits, [0, 0, 1, 2, 4, 8, 8, 8])
  t.equal(pauses.wait('b'), 0)
  pauses.accepted('a')
  pauses.refused('a')
  t.equal(pauses.wait('a'), 0)
  for (let time = 0; time < 3; time++) pauses.refused('a')
  t.equal(pauses.wait('a'), 2)
  clock.advance(10_001)
  pauses.refused('a')
  t.equal(pauses.wait('a'), 0, 'nothing was refused for as long as the longest pause')
})
