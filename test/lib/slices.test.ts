import t from 'tap'
import { atOnce, Passes, Slices, type Steps } from '../../src/lib/slices.js'

function* counting(steps: number): Steps<number> {
  for (let n = 0; n < steps; n++) yield
  return steps
}

/** A clock that goes on by one with each look, and counts turns of the loop. */
function measured() {
  let now = 0
  let turns = 0
  const slices = new Slices({
    now: () => now++,
    turn: async () => {
      turns++
    }
  })
  return { slices, turns: () => turns }
}

t.test('long work gives the loop a turn every few milliseconds', async (t) => {
  const { slices, turns } = measured()
  t.equal(await slices.run(counting(1000)), 1000)
  t.ok(turns() >= 300 && turns() <= 600, `${turns()} turns`)
})

t.test('small work is done in the turn in which it began', async (t) => {
  let now = 0
  const slices = new Slices({ now: () => now, turn: () => t.fail('it needs no turn') as never })
  t.equal(await slices.run(counting(1000)), 1000)
  now = 1.9
  t.equal(slices.due, false)
  now = 2
  t.equal(slices.due, true)
})

t.test('other work of the loop goes on meanwhile', async (t) => {
  let others = 0
  let running = true
  const other = () => {
    others++
    if (running) setImmediate(other)
  }
  setImmediate(other)
  let now = 0
  await new Slices({ now: () => now++ }).run(counting(400))
  running = false
  t.ok(others >= 50, `${others} turns of others`)
})

t.test('work beside traffic rests for longer than it works', async (t) => {
  const begun = performance.now()
  let worked = 0
  function* working(): Steps<number> {
    for (let n = 0; n < 20; n++) {
      const from = performance.now()
      while (performance.now() - from < 1);
      worked += performance.now() - from
      yield
    }
    return 20
  }
  t.equal(await Slices.besideTraffic().run(working()), 20)
  const rested = performance.now() - begun - worked
  t.ok(rested >= worked, `${rested} ms beside ${worked} ms of work`)
})

t.test('a step that fails fails the whole', async (t) => {
  function* failing(): Steps<never> {
    yield
    throw new RangeError('no')
  }
  await t.rejects(measured().slices.run(failing()), { message: 'no' })
  t.throws(() => atOnce(failing()), { message: 'no' })
  t.equal(atOnce(counting(3)), 3)
})

t.test('a loop of short passes makes a step of several', async (t) => {
  function* passing(): Steps<number> {
    const passes = new Passes()
    let steps = 0
    for (let n = 0; n < 1000; n++) {
      if (!passes.due()) continue
      steps++
      yield
    }
    return steps
  }
  t.equal(atOnce(passing()), 62)
})
