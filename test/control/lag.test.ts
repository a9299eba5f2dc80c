import t from 'tap'
import { LatestRevision } from '../../src/control/configuration.js'
import { ManualClock } from '../helpers/clock.js'

t.test('a revision is late when it was heard of two seconds ago and is not applied', (t) => {
  const clock = new ManualClock()
  const lag = new LatestRevision(clock)
  t.equal(lag.behind(0), 0)
  lag.report({ revision: 7, mark: undefined })
  t.equal(lag.behind(5), 0, 'it has just been heard of')
  clock.advance(2_000)
  t.equal(lag.behind(5), 0)
  clock.advance(1)
  t.equal(lag.behind(5), 2)
  lag.report({ revision: 9, mark: undefined })
  t.equal(lag.behind(5), 4, 'the oldest that is missing counts')
  t.equal(lag.behind(7), 0, 'that one has come, and the other one is young')
  clock.advance(2_001)
  t.equal(lag.behind(7), 2)
  t.equal(lag.behind(9), 0)
  clock.advance(60_000)
  t.equal(lag.behind(9), 0)
  t.end()
})

t.test('a process that always follows within two seconds is never behind, however many writes there are', (t) => {
  const clock = new ManualClock()
  const lag = new LatestRevision(clock)
  for (let revision = 1; revision < 200; revision++) {
    lag.report({ revision: revision, mark: undefined })
    clock.advance(100)
    t.equal(lag.behind(Math.max(0, revision - 15)), 0)
  }
  t.end()
})

t.test('a store that went back has nothing that is missing here', (t) => {
  const clock = new ManualClock()
  const lag = new LatestRevision(clock)
  lag.report({ revision: 15, mark: undefined })
  lag.report({ revision: 5, mark: undefined })
  clock.advance(5_000)
  t.equal(lag.behind(15), 0)
  lag.report({ revision: 6, mark: undefined })
  clock.advance(5_000)
  t.equal(lag.behind(5), 1, 'what comes in its new history is missing')
  t.end()
})
