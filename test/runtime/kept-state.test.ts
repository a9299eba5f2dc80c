import t from 'tap'
import { PersistentState } from '../../src/runtime/persistent-state.js'
import { random as seeded } from '../features/rate-limit/limiter/support/random.js'

const made = () => ({ count: 0 })

t.test('state stays with its key from one configuration to the next', async (t) => {
  const state = new PersistentState()
  const first = state.draft()
  const window = first.for('policy:a').keep(['rate-limit', 'x', 60], made)
  first.commit([])
  const second = state.draft()
  t.equal(second.for('policy:a').keep(['rate-limit', 'x', 60], made), window)
  t.not(second.for('policy:a').keep(['rate-limit', 'x', 120], made), window)
})

t.test('a draft that is dropped neither adds nor removes', async (t) => {
  const state = new PersistentState()
  const first = state.draft()
  const window = first.for('policy:a').keep(['k'], made)
  first.commit([])
  const dropped = state.draft()
  dropped.for('policy:a').keep(['other'], made)
  t.equal(state.size, 1)
  t.equal(state.draft().for('policy:a').keep(['k'], made), window)
})

t.test('state goes with the last unit that uses it', async (t) => {
  const state = new PersistentState()
  const first = state.draft()
  const shared = first.for('policy:a').keep(['k'], made)
  t.equal(first.for('policy:b').keep(['k'], made), shared)
  first.commit([])
  state.draft().commit(['policy:a'])
  t.equal(state.size, 1)
  const second = state.draft()
  second.for('policy:b').keep(['another'], made)
  second.commit([])
  t.equal(state.size, 1, 'what policy:b no longer asks for is swept')
  t.not(state.draft().for('policy:b').keep(['k'], made), shared)
})

t.test('state that moves from one unit to another in one change stays', async (t) => {
  const state = new PersistentState()
  const first = state.draft()
  const window = first.for('policy:a').keep(['k'], made)
  first.commit([])
  const moved = state.draft()
  t.equal(moved.for('policy:b').keep(['k'], made), window)
  moved.commit(['policy:a'])
  t.equal(state.size, 1)
  t.equal(state.draft().for('policy:c').keep(['k'], made), window)
  const both = state.draft()
  both.for('policy:b').keep(['k'], made)
  both.commit(['policy:b'])
  t.equal(state.size, 0, 'a unit that is dropped keeps nothing, compiled or not')
})

/** What kept state means, said the slow way: identity → value and users. */
class Model {
  readonly uses = new Map<string, ReadonlyMap<string, object>>()

  commit(put: ReadonlyMap<string, ReadonlyMap<string, object>>, dropped: readonly string[]): void {
    for (const [unit, uses] of put) this.uses.set(unit, uses)
    for (const unit of dropped) this.uses.delete(unit)
  }

  /** Identity → value of everything that some unit uses. */
  kept(): Map<string, object> {
    return new Map([...this.uses.values()].flatMap((uses) => [...uses]))
  }
}

t.test('any history of drafts keeps exactly what the units use', async (t) => {
  const random = seeded(20_251_121)
  const upTo = (count: number) => Math.floor(random() * count)
  const state = new PersistentState()
  const model = new Model()
  let swept = 0
  for (let step = 0; step < 2_000; step++) {
    const draft = state.draft()
    const before = model.kept()
    const put = new Map<string, Map<string, object>>()
    for (let count = upTo(4); count > 0; count--) {
      const unit = `policy:${upTo(8)}`
      const compiled = draft.for(unit)
      const uses = new Map<string, object>()
      for (let asked = upTo(4); asked > 0; asked--) {
        const key = `k${upTo(10)}`
        const value = compiled.keep([key], made)
        if (before.has(key) && before.get(key) !== value) t.fail(`${key} began again at step ${step}`)
        uses.set(key, value)
      }
      put.set(unit, uses)
    }
    if (random() < 0.2) continue
    const dropped = random() < 0.5 ? [`policy:${upTo(8)}`] : []
    draft.commit(dropped)
    model.commit(put, dropped)
    const after = model.kept()
    swept += [...before.keys()].filter((key) => !after.has(key)).length
    if (state.size !== after.size) t.fail(`${state.size} kept instead of ${after.size} at step ${step}`)
  }
  t.ok(swept > 100, `${swept} were swept`)
})

t.test('a commit costs what its change touches', async (t) => {
  const fill = (count: number) => {
    const state = new PersistentState()
    const draft = state.draft()
    for (let n = 0; n < count; n++) draft.for(`policy:${n}`).keep([n], made)
    draft.commit([])
    return state
  }
  const nanoseconds = (state: PersistentState) => {
    const times: number[] = []
    for (let n = 0; n < 400; n++) {
      const draft = state.draft()
      draft.for('policy:0').keep([n], made)
      const begun = process.hrtime.bigint()
      draft.commit([])
      times.push(Number(process.hrtime.bigint() - begun))
    }
    return times.sort((a, b) => a - b)[200] as number
  }
  const [small, large] = [fill(10), fill(50_000)]
  nanoseconds(small)
  const [few, many] = [nanoseconds(small), nanoseconds(large)]
  // A walk over everything kept would be a thousand times slower here.
  t.ok(many < 100 * few, `${few} ns among 10, ${many} ns among 50,000`)
})
