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

t.test('of equals the least loaded is taken', async (t) => {
  const choice = new WeightedChoice()
  for (let i = 0; i < 10; i++) t.equal(choice.take(shares([3, 3, 3], [4, 1, 2])), 1)
  t.equal(new WeightedChoice().take(shares([1, 100], [0, 50])), 1, 'a lighter one is no equal')
})

t.test('who is away for a while does not catch up, and nobody is nobody', async (t) => {
  const choice = new WeightedChoice()
  const [first, second] = shares([1, 1]) as [Share, Share]
  for (let i = 0; i < 20; i++) t.equal(choice.take([first]), 0)
  const next = Array.from({ length: 4 }, () => choice.take([first, second]))
  t.equal(next.filter((index) => index === 1).length, 2)
  t.equal(choice.take([]), undefined)
})
