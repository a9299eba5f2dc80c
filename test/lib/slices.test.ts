import { getHeapSpaceStatistics } from 'node:v8'
import t from 'tap'
import { atOnce, Slices, type Steps } from '../../src/lib/slices.js'

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

t.test('tidying up at the end of a stretch counts as work', async (t) => {
  let now = 0
  const worked: number[] = []
  const slices = new Slices({
    now: () => now,
    hold: 1,
    tidy: () => {
      now += 3
    },
    turn: async (took) => {
      worked.push(took)
    }
  })
  function* working(): Steps<void> {
    for (let n = 0; n < 3; n++) {
      now += 1
      yield
    }
  }
  await slices.run(working())
  t.same(worked, [4, 4, 4])
})

t.test('work beside traffic leaves no long collection of what it keeps', async (t) => {
  const kept: object[] = []
  function* keeping(): Steps<void> {
    for (let n = 0; n < 200_000; n++) {
      kept.push({ n })
      yield
    }
  }
  const young: number[] = []
  const looking = setInterval(() => {
    const space = getHeapSpaceStatistics().find(({ space_name: name }) => name === 'new_space')
    young.push(space?.space_used_size ?? Number.NaN)
  }, 1)
  await Slices.besideTraffic().run(keeping())
  clearInterval(looking)
  t.ok(young.length > 3, 'it rested')
  t.ok(Math.max(...young) < 8 * 1024 * 1024, `${Math.max(...young)} bytes of the young generation in use`)
  t.equal((globalThis as { gc?: unknown }).gc, undefined, 'the collector is not shown to the rest of the process')
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
