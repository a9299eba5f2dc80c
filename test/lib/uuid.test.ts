import t from 'tap'
import { UuidSource } from '../../src/lib/uuid.js'

const FORM = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

t.test('a UUID of version 7 holds its time, and sorts by it', async (t) => {
  const source = new UuidSource()
  const times = [0, 1, 255, 2 ** 32 - 1, 2 ** 32, 1_700_000_000_000, 2 ** 48 - 1]
  for (let i = 0; i < 500; i++) times.push(Math.floor(Math.random() * 2 ** 48))
  const ids = times.map((wall) => source.make(wall + 0.25))
  t.same(
    ids.filter((id) => !FORM.test(id)),
    []
  )
  t.same(
    ids.map((id) => Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16)),
    times
  )
  const sorted = [...times].sort((a, b) => a - b).map((wall) => ids[times.indexOf(wall)])
  t.same([...ids].sort(), sorted, 'as text they sort by time')
})

t.test('no two are alike, and every random bit is used', async (t) => {
  const source = new UuidSource()
  const ids = new Set<string>()
  const ones = new Set<number>()
  const zeros = new Set<number>()
  for (let i = 0; i < 10_000; i++) {
    const id = source.make(1_700_000_000_000)
    ids.add(id)
    if (i > 200) continue
    const bits = BigInt(`0x${id.replaceAll('-', '')}`)
    for (let bit = 0; bit < 128; bit++) ((bits >> BigInt(bit)) & 1n ? ones : zeros).add(bit)
  }
  t.equal(ids.size, 10_000)
  const both = [...ones].filter((bit) => zeros.has(bit))
  t.equal(both.length, 74, 'of 128 bits 48 are time and 6 say what it is')
})
