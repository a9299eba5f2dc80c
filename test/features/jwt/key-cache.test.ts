import t from 'tap'
import { KeySetCache, type LoadedKeySet, RELOAD_FLOOR, STALE_LIMIT } from '../../../src/features/jwt/jwks-cache.js'
import { ManualClock } from '../../helpers/clock.js'
import { jwkOf, signer } from './issuer.js'

const MINUTE = 60_000
const FRESH = 15 * MINUTE
const RS = signer('RS256', 'one')
const ES = signer('ES256', 'two')
const textOf = (...keys: object[]) => JSON.stringify({ keys })

/** A cache whose loads a test answers. */
function stand(answer: LoadedKeySet = { ok: true, text: textOf(jwkOf(RS)), freshFor: FRESH }) {
  const clock = new ManualClock()
  const state = { answer, loads: [] as number[], reasons: [] as string[], hold: undefined as Promise<void> | undefined }
  const cache = new KeySetCache({
    clock,
    secrets: false,
    load: async () => {
      state.loads.push(clock.monotonic())
      await state.hold
      return state.answer
    },
    failed: (reason) => state.reasons.push(reason)
  })
  const kids = async () => (await cache.ready())?.keys.map(({ kid }) => kid).join()
  return { clock, cache, state, kids }
}

const DOWN: LoadedKeySet = { ok: false, reason: 'down' }
/** Waits for the load that was begun behind, if there is one: within the floor after a load no other begins. */
const settled = (cache: KeySetCache) => cache.renewed()

t.test('all who need a load share one', async (t) => {
  const { cache, state, kids } = stand()
  t.equal(cache.current(), undefined)
  t.equal(state.loads.length, 0, 'nothing is loaded before it is needed')
  t.same(await Promise.all([kids(), kids(), cache.renewed().then(() => kids())]), ['one', 'one', 'one'])
  t.equal(state.loads.length, 1)
  t.ok(cache.current())
})

t.test(
  'fresh keys serve at once; a little later they serve while they are renewed; much later they are renewed first',
  async (t) => {
    const { clock, cache, state, kids } = stand()
    await kids()
    clock.advance(FRESH - 1)
    t.ok(cache.current())
    t.equal(state.loads.length, 1)
    state.answer = { ok: true, text: textOf(jwkOf(ES)), freshFor: FRESH }
    clock.advance(2)
    t.equal(cache.current()?.keys[0]?.kid, 'one')
    t.equal(cache.current()?.keys[0]?.kid, 'one')
    t.equal(state.loads.length, 2)
    await settled(cache)
    t.equal(state.loads.length, 2)
    t.equal(cache.current()?.keys[0]?.kid, 'two')
    clock.advance(FRESH + 2 * MINUTE)
    t.equal(cache.current(), undefined, 'a withdrawn key does not come back after a quiet time')
    state.answer = { ok: true, text: textOf(jwkOf(RS)), freshFor: FRESH }
    t.equal(await kids(), 'one')
  }
)

t.test('while loads fail the keys serve for a day, and nobody waits', async (t) => {
  const { clock, cache, state, kids } = stand()
  await kids()
  state.answer = DOWN
  clock.advance(FRESH + 2 * MINUTE)
  t.equal(await kids(), 'one')
  t.ok(cache.failing)
  state.hold = new Promise<void>(() => undefined)
  clock.advance(RELOAD_FLOOR)
  t.equal(cache.current()?.keys[0]?.kid, 'one', 'a server that hangs keeps nobody')
  t.equal(state.loads.length, 3)
  const late = stand()
  await late.kids()
  late.state.answer = DOWN
  late.clock.advance(STALE_LIMIT)
  t.equal(await late.kids(), 'one')
  late.clock.advance(MINUTE)
  t.equal(await late.kids(), undefined)
  late.state.answer = { ok: true, text: textOf(jwkOf(RS)), freshFor: FRESH }
  late.clock.advance(MINUTE)
  t.equal(await late.kids(), 'one')
  t.notOk(late.cache.failing)
})

t.test('without any keys a failure is answered at once for a while', async (t) => {
  const { clock, state, kids } = stand(DOWN)
  t.equal(await kids(), undefined)
  for (let i = 0; i < 5; i++) t.equal(await kids(), undefined)
  t.equal(state.loads.length, 1)
  t.same(state.reasons, ['down'])
  clock.advance(2_000)
  state.answer = { ok: true, text: textOf(jwkOf(RS)), freshFor: FRESH }
  t.equal(await kids(), 'one')
})

t.test('garbage does not replace keys', async (t) => {
  const { clock, cache, state, kids } = stand()
  await kids()
  for (const text of ['', '<html>', '{"keys":7}', '[]']) {
    state.answer = { ok: true, text, freshFor: FRESH }
    clock.advance(RELOAD_FLOOR)
    t.equal((await cache.renewed())?.keys[0]?.kid, 'one', text)
    t.ok(cache.failing)
  }
  t.equal(state.reasons.length, 4)
  state.answer = { ok: true, text: textOf(), freshFor: FRESH }
  clock.advance(RELOAD_FLOOR)
  t.same((await cache.renewed())?.keys, [], 'but an empty set is one')
})

t.test('whatever is asked and whatever the server does, loads are apart', async (t) => {
  let seed = 42
  const random = () => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
    return seed / 2_147_483_648
  }
  const answers: LoadedKeySet[] = [
    { ok: true, text: textOf(jwkOf(RS)), freshFor: MINUTE },
    { ok: true, text: textOf(jwkOf(ES)), freshFor: FRESH },
    { ok: true, text: 'garbage', freshFor: FRESH },
    DOWN
  ]
  for (let round = 0; round < 50; round++) {
    const { clock, cache, state } = stand()
    await cache.ready()
    for (let i = 0; i < 200; i++) {
      state.answer = answers[Math.floor(random() * answers.length)] as LoadedKeySet
      clock.advance(random() < 0.05 ? random() * 3_600_000 : random() * 1_000)
      const asked = random()
      if (asked < 0.3) cache.current()
      else if (asked < 0.6) await cache.ready()
      else await Promise.all([cache.renewed(), cache.renewed()])
      await new Promise<void>((done) => setImmediate(done))
    }
    const gaps = state.loads.slice(1).map((at, i) => at - (state.loads[i] as number))
    if (gaps.some((gap) => gap < RELOAD_FLOOR)) t.fail(`round ${round}: ${Math.min(...gaps)} ms`)
    t.ok(gaps.length > 1)
  }
})
