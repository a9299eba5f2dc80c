import t from 'tap'
import { StoreError, type StoreTrouble } from '../../src/store/errors.js'
import { StoreHealth } from '../../src/store/store-health.js'
import { ManualClock } from '../helpers/clock.js'

const failure = (trouble?: StoreTrouble) => new StoreError('STORE_UNAVAILABLE', 'it failed', { trouble })

/** Lets what was begun come to its end. */
const settled = () => new Promise((resolve) => setImmediate(resolve))

t.test('a store that is asked all the time is out of reach when it has not answered for seconds', async (t) => {
  const clock = new ManualClock()
  const health = new StoreHealth(clock)
  const pass = (seconds: number, answers: boolean) => {
    for (let second = 0; second < seconds; second++) {
      clock.advance(1_000)
      if (answers) health.answered()
      health.look()
    }
  }
  pass(60, false)
  t.equal(health.trouble, undefined, 'nobody asks a file all the time')
  health.watch()
  pass(10, true)
  health.failed(failure('unreachable'))
  t.equal(health.trouble, undefined, 'one connection that broke is not the store')
  pass(3, false)
  t.equal(health.trouble, undefined)
  pass(1, false)
  t.equal(health.trouble, 'unreachable')
  health.answered()
  t.equal(health.trouble, undefined)
  clock.advance(600_000)
  health.look()
  t.equal(health.trouble, undefined, 'this process stood still and has heard nobody')
})

t.test('what a write meets stays until writes have succeeded for a while', async (t) => {
  for (const trouble of ['full', 'read_only', 'failing', 'unreachable'] as const) {
    const clock = new ManualClock()
    const health = new StoreHealth(clock)
    health.failed(failure())
    health.failed(new Error('no error of the store'))
    t.equal(health.trouble, undefined)
    health.failed(failure(trouble))
    t.equal(health.trouble, trouble)
    clock.advance(1_000)
    health.wrote()
    t.equal(health.trouble, trouble, 'a small write may have found the last room')
    clock.advance(4_000)
    t.equal(health.trouble, trouble, 'time alone mends nothing')
    health.wrote()
    t.equal(health.trouble, undefined)
  }
})

t.test('while there is trouble the store is tried, one attempt at a time', async (t) => {
  const clock = new ManualClock()
  const health = new StoreHealth(clock)
  let attempts = 0
  let outcome: () => Promise<void> = async () => undefined
  health.probeWith(() => {
    attempts++
    return outcome()
  })
  health.look()
  t.equal(attempts, 0, 'nothing is asked while all goes well')
  health.failed(failure('read_only'))
  outcome = () => Promise.reject(failure('read_only'))
  for (let second = 1; second <= 20; second++) {
    clock.advance(1_000)
    health.look()
    await settled()
    t.equal(attempts, second)
  }
  t.equal(health.trouble, 'read_only')
  let answer: () => void = () => undefined
  outcome = () =>
    new Promise((resolve) => {
      answer = resolve
    })
  health.look()
  health.look()
  t.equal(attempts, 21)
  clock.advance(5_000)
  answer()
  await settled()
  t.equal(health.trouble, undefined)
  health.failed(failure('full'))
  health.probeWith(undefined)
  health.look()
  t.equal(attempts, 21, 'a store that is closed is left alone')
})
