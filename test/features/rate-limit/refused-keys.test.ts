import t from 'tap'
import { mostRefused, RefusedKeys, RefusedKeysMemory } from '../../../src/features/rate-limit/refused-keys.js'
import { random } from './limiter/support/random.js'

const MINUTE = 60_000

const note = (keys: RefusedKeys, at: number, key: string, times = 1) => {
  for (let i = 0; i < times; i++) keys.note(at, key, () => JSON.stringify([key]), false)
}

const shown = (keys: RefusedKeys, at: number) =>
  mostRefused(keys.numbers(at).keys, 10).map(({ key, most, least }) => [key, most, least])

t.test('it is about the last five minutes', (t) => {
  const keys = new RefusedKeys(new RefusedKeysMemory())
  note(keys, 0, '1:a', 5)
  note(keys, MINUTE, '1:b', 3)
  note(keys, 4.5 * MINUTE, '1:a')
  t.same(shown(keys, 4.9 * MINUTE), [
    ['1:a', 6, 6],
    ['1:b', 3, 3]
  ])
  t.same(shown(keys, 5 * MINUTE), [
    ['1:b', 3, 3],
    ['1:a', 1, 1]
  ])
  t.same(shown(keys, 8.9 * MINUTE), [['1:a', 1, 1]])
  t.same(shown(keys, 9 * MINUTE), [])
  t.end()
})

t.test('bounds hold over minutes, for more keys than are kept', (t) => {
  for (let seed = 1; seed <= 20; seed++) {
    const next = random(seed)
    const keys = new RefusedKeys(new RefusedKeysMemory())
    const truth = new Map<string, number>()
    const events = 5_000
    for (let i = 0; i < events; i++) {
      const key = `2:${Math.floor(400 * next() ** 4)}`
      truth.set(key, (truth.get(key) ?? 0) + 1)
      note(keys, (i / events) * 4.99 * MINUTE, key)
    }
    const found = mostRefused(keys.numbers(4.99 * MINUTE).keys, 1_000)
    const wrong = found.filter(({ key = '', most, least }) => {
      const real = truth.get(key) ?? 0
      return most < real || least > real
    })
    const has = new Set(found.map(({ key }) => key))
    const missing = [...truth].filter(([key, real]) => !has.has(key) && real > events / 64)
    t.same([wrong, missing], [[], []], `seed ${seed}`)
    t.ok(
      found.every(({ most }, i) => most - (found[i + 1]?.most ?? 0) >= -events / 64),
      'most first'
    )
  }
  t.end()
})

t.test('texts are made for keys that get a counter; long keys are counted without one', (t) => {
  const keys = new RefusedKeys(new RefusedKeysMemory())
  let made = 0
  const text = () => {
    made++
    return '["x"]'
  }
  for (let i = 0; i < 100; i++) keys.note(0, '2:sx', text, false)
  for (const end of ['a', 'b', 'a']) keys.note(0, `999:s${'k'.repeat(1_000)}${end}`, text, true)
  t.equal(made, 1)
  t.same(
    mostRefused(keys.numbers(0).keys, 10).map(({ key, text, most, failed }) => [key, text, most, failed]),
    [
      ['2:sx', '["x"]', 100, false],
      [undefined, undefined, 2, true],
      [undefined, undefined, 1, true]
    ]
  )
  t.end()
})

t.test('the memory of all limits together is bounded: those that rested longest forget', (t) => {
  const memory = new RefusedKeysMemory(100_000)
  const limits = Array.from({ length: 40 }, () => new RefusedKeys(memory))
  for (const [i, keys] of limits.entries()) {
    for (let key = 0; key < 64; key++) note(keys, i, `k${key}`)
    t.ok(memory.bytes <= 100_000, `${memory.bytes} bytes`)
  }
  t.same(shown(limits[0] as RefusedKeys, 50), [])
  t.equal((limits[39] as RefusedKeys).numbers(50).keys.length, 64)
  t.ok(memory.bytes > 50_000)
  memory.sweep(20 * MINUTE)
  t.equal(memory.bytes, 0, 'what is over is forgotten, also of limits that are gone')
  note(limits[39] as RefusedKeys, 20 * MINUTE, 'k')
  t.ok(memory.bytes > 0)
  t.end()
})
