import t from 'tap'
import { KeptState } from '../../src/snapshot/kept-state.js'

const made = () => ({ count: 0 })

t.test('state stays with its key from one configuration to the next', async (t) => {
  const state = new KeptState()
  const first = state.draft()
  const window = first.for('policy:a').keep(['rate-limit', 'x', 60], made)
  first.commit([])
  const second = state.draft()
  t.equal(second.for('policy:a').keep(['rate-limit', 'x', 60], made), window)
  t.not(second.for('policy:a').keep(['rate-limit', 'x', 120], made), window)
})

t.test('a draft that is dropped neither adds nor removes', async (t) => {
  const state = new KeptState()
  const first = state.draft()
  const window = first.for('policy:a').keep(['k'], made)
  first.commit([])
  const dropped = state.draft()
  dropped.for('policy:a').keep(['other'], made)
  t.equal(state.size, 1)
  t.equal(state.draft().for('policy:a').keep(['k'], made), window)
})

t.test('state goes with the last unit that uses it', async (t) => {
  const state = new KeptState()
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
