import t from 'tap'
import { type Share, WeightedChoice } from '../../src/proxy/balance.js'
import { random as seeded } from '../features/rate-limit/limiter/support/random.js'

const shares = (weights: readonly number[], loads: readonly number[] = []): Share[] =>
  weights.map((weight, index) => ({ index, weight, load: loads[index] ?? 0 }))

t.test('over each round everyone gets exactly its share, evenly spread', async (t) => {
  const random = seeded(11)
  for (let round = 0; round < 50; round++) {
    const weights = Array.from({ length: 1 + Math.floor(random() * 6) }, () => 1 + Math.floor(random() * 9))
    const total = weights.reduce((sum, weight) => sum + weight, 0)
    const choice = new WeightedChoice()
    const taken = weights.map(() => 0)
    for (let i = 0; i < total * 3; i++) {
      const index = choice.take(shares(weights)) as number
      taken[index] = (taken[index] ?? 0) + 1
    }
    t.same(
      taken,
      weights.map((weight) => weight * 3),
      weights.join(' ')
    )
  }
  const choice = new WeightedChoice()
  t.same(
    Array.from({ length: 7 }, () => choice.take(shares([5, 1, 1]))),
    [0, 0, 1, 0, 2, 0, 0],
    'the heavy one does not take its turns in one row'
  )
})

t.test('turns are kept whatever the load is', async (t) => {
  const random = seeded(12)
  const choice = new WeightedChoice()
  const taken = [0, 0, 0]
  for (let i = 0; i < 600; i++) {
    const loads = [Math.floor(random() * 9), 100, 0]
    const index = choice.take(shares([3, 2, 1], loads)) as number
    taken[index] = (taken[index] ?? 0) + 1
  }
  t.same(taken, [300, 200, 100])
})

t.test('the least loaded for its weight is taken, and of several such each in turn', async (t) => {
  const choice = new WeightedChoice()
  for (let i = 0; i < 10; i++) t.equal(choice.least(shares([3, 3, 3], [4, 1, 2])), 1)
  t.equal(choice.least(shares([1, 100], [0, 50])), 1, 'a load is less where the weight is greater')
  const taken = Array.from({ length: 9 }, () => choice.least(shares([1, 1, 1, 1], [0, 1, 0, 0])))
  for (const index of [0, 2, 3]) t.equal(taken.filter((one) => one === index).length, 3)
  const random = seeded(13)
  const counts = [0, 0, 0]
  const even = new WeightedChoice()
  for (let i = 0; i < 3_000; i++) {
    // One of the three is busy with something else, another one each time.
    const busy = Math.floor(random() * 3)
    const index = even.least(
      shares(
        [1, 1, 1],
        counts.map((_, place) => (place === busy ? 1 : 0))
      )
    ) as number
    t.not(index, busy)
    counts[index] = (counts[index] ?? 0) + 1
  }
  for (const count of counts) t.ok(Math.abs(count - 1_000) < 100, `${counts}`)
})

t.test('who is away for a while does not catch up, and nobody is nobody', async (t) => {
  const choice = new WeightedChoice()
  const [first, second] = shares([1, 1]) as [Share, Share]
  for (let i = 0; i < 20; i++) t.equal(choice.take([first]), 0)
  const next = Array.from({ length: 4 }, () => choice.take([first, second]))
  t.equal(next.filter((index) => index === 1).length, 2)
  t.equal(choice.take([]), undefined)
})
