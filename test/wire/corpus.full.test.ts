import t from 'tap'
import type { WireCase } from '../fixtures/wire/case.js'
import { corpus } from '../fixtures/wire/corpus.js'
import { type Engine, engines, startSluice } from '../helpers/sluice.js'
import { RawClient, Upstream } from './peers.js'
import { judge } from './verdict.js'

const LONG = process.env.SLUICE_TEST_LONG === '1'
/** Longest message that is also sent byte by byte. */
const BYTEWISE = 450
const SPLITS = LONG ? 64 : 2

/** The same positions in every run, so that a failure comes back. */
function positions(length: number, count: number): number[] {
  if (length - 1 <= count) return Array.from({ length: Math.max(0, length - 1) }, (_, i) => i + 1)
  let state = length * 2_654_435_761
  return Array.from({ length: count }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return 1 + (state % (length - 1))
  })
}

/** The ways to cut a message: whole, at some places, at every byte. */
function cuts({ bytes }: WireCase): { name: string; pieces: string[] }[] {
  const ways = [{ name: 'whole', pieces: [bytes] }]
  for (const at of positions(bytes.length, SPLITS)) {
    ways.push({ name: `cut at ${at}`, pieces: [bytes.slice(0, at), bytes.slice(at)] })
  }
  if (bytes.length <= BYTEWISE) ways.push({ name: 'byte by byte', pieces: [...bytes] })
  return ways
}

t.test('there are no two cases of one name in a class', async (t) => {
  for (const [name, cases] of Object.entries(corpus)) {
    const names = cases.map((wire) => wire.name)
    t.same(
      names.filter((other, i) => names.indexOf(other) !== i),
      [],
      name
    )
  }
})

/** One running product with its upstream, and a client that must stay unharmed. */
async function stand(engine: Engine) {
  const upstream = await Upstream.start(t)
  const sluice = await startSluice(t, { engine, upstream: upstream.address, options: { ACCESS_LOG: 'off' } })
  const probe = await RawClient.open(sluice.port)
  t.teardown(() => probe.close())
  const problems = async (wire: WireCase): Promise<string[]> => {
    for (const { name: cut, pieces } of cuts(wire)) {
      const found = await judge(sluice.port, upstream, wire, pieces, probe)
      if (found.length > 0) return found.map((problem) => `${engine}, ${cut}: ${problem}`)
    }
    return []
  }
  return { problems }
}

const stands = await Promise.all(engines.map(stand))

for (const [name, cases] of Object.entries(corpus)) {
  t.test(`${name}: each message gets its verdict on every engine, however its bytes are cut`, async (t) => {
    for (const wire of cases) {
      // Side by side: nearly all of the time is waiting.
      const found = await Promise.all(stands.map(({ problems }) => problems(wire)))
      t.same(found.flat(), [], wire.name)
    }
  })
}
