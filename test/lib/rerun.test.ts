import t from 'tap'
import { Rerun } from '../../src/lib/rerun.js'

/** Work whose runs end when the test says so. */
function stepped() {
  const ends: (() => void)[] = []
  const rerun = new Rerun(() => new Promise((end) => ends.push(end)))
  const end = async (run: number) => {
    ends[run]?.()
    await new Promise((done) => setImmediate(done))
  }
  return { rerun, end, runs: () => ends.length }
}

t.test('one run at a time, and one more for all who asked meanwhile', async (t) => {
  const { rerun, end, runs } = stepped()
  rerun.ask()
  for (let n = 0; n < 5; n++) rerun.ask()
  t.equal(runs(), 1)
  await end(0)
  t.equal(runs(), 2)
  await end(1)
  t.equal(runs(), 2, 'nobody asked since')
  rerun.ask()
  t.equal(runs(), 3)
})

t.test('settling waits for the run under way and forgets what was asked for meanwhile', async (t) => {
  const { rerun, end, runs } = stepped()
  await rerun.settle()
  rerun.ask()
  rerun.ask()
  let settled = false
  const settling = rerun.settle().then(() => {
    settled = true
  })
  await new Promise((done) => setImmediate(done))
  t.notOk(settled)
  await end(0)
  await settling
  t.equal(runs(), 1)
})
