import t from 'tap'
import { readGuard } from '../../../src/capabilities/guard/conditions.js'
import { baselineOf, judgeRates, type Tally } from '../../../src/capabilities/guard/judgement.js'
import { random as numbers } from '../../features/rate-limit/limiter/support/random.js'

const BLOCK = 5
const NOTHING: Tally = { requests: 0, failed: 0, refused: 0, clientErrors: 0 }

function sum(tallies: readonly Tally[]): Tally {
  return tallies.reduce(
    (one, other) => ({
      requests: one.requests + other.requests,
      failed: one.failed + other.failed,
      refused: one.refused + other.refused,
      clientErrors: one.clientErrors + other.clientErrors
    }),
    NOTHING
  )
}

function blocksOf(seconds: readonly Tally[]): Tally[] {
  return Array.from({ length: Math.ceil(seconds.length / BLOCK) }, (_, i) =>
    sum(seconds.slice(i * BLOCK, (i + 1) * BLOCK))
  ).filter(({ requests }) => requests > 0)
}

/** How traffic is in one second: rates of what fails and what is refused. */
type Rates = (second: number) => { readonly failed: number; readonly refused: number }

/** Requests of one second, each decided by itself. */
function second(random: () => number, perSecond: number, { failed, refused }: ReturnType<Rates>): Tally {
  // As many as come by chance, around the mean.
  let requests = 0
  for (let slot = 0; slot < perSecond * 2; slot++) if (random() < 0.5) requests++
  const tally = { requests, failed: 0, refused: 0, clientErrors: 0 }
  for (let i = 0; i < requests; i++) {
    const drawn = random()
    if (drawn < failed) tally.failed++
    else if (drawn < failed + refused) {
      tally.refused++
      tally.clientErrors++
    }
  }
  return tally
}

/** The second in which the guard breaks, or undefined; judged each second as the product does. */
function breaksAt(
  text: string,
  {
    before,
    bake,
    perSecond,
    rates,
    random
  }: { before: readonly Tally[]; bake: number; perSecond: number; rates: Rates; random: () => number }
): number | undefined {
  const guard = readGuard(text)
  const baseline = baselineOf(blocksOf(before))
  const seconds: Tally[] = []
  for (let at = 0; at < bake; at++) {
    seconds.push(second(random, perSecond, rates(at)))
    const traffic = seconds.slice(-60).filter(({ requests }) => requests > 0)
    if (judgeRates(guard, { before: baseline, seconds: traffic, elapsed: (at + 1) * 1_000 }) !== undefined)
      return at + 1
  }
  return undefined
}

/** Kinds of noise that healthy traffic has. Each answers rates that do not depend on the write. */
const NOISE: Readonly<Record<string, (random: () => number) => Rates>> = {
  'a constant rate': (random) => {
    const [failed, refused] = [random() * 0.2, random() * 0.3]
    return () => ({ failed, refused })
  },
  'another rate in each second': (random) => {
    const [failed, refused] = [random() * 0.1, random() * 0.2]
    return () => ({ failed: failed * random() * 2, refused: refused * random() * 2 })
  },
  'waves of half a minute': (random) => {
    const [failed, refused, phase] = [random() * 0.05, random() * 0.1, random() * 30]
    return (at) => {
      const wave = 1 + Math.sin(((at + phase) / 30) * 2 * Math.PI)
      return { failed: failed * wave, refused: refused * wave }
    }
  },
  'bursts of a second or two': (random) => {
    const [every, long, high] = [10 + random() * 20, 1 + Math.floor(random() * 2), 0.3 + random() * 0.7]
    const phase = random() * every
    return (at) => ((at + phase) % every < long ? { failed: high, refused: 0 } : { failed: 0.002, refused: 0.01 })
  },
  'bursts of five seconds, now and then': (random) => {
    const [every, high] = [30 + random() * 30, 0.2 + random() * 0.6]
    const phase = random() * every
    return (at) => ((at + phase) % every < 5 ? { failed: 0, refused: high } : { failed: 0.002, refused: 0.01 })
  }
}

/** Of these a short time shows all; a wave must have been seen. */
const MEMORYLESS = new Set(['a constant rate', 'another rate in each second'])
const RUNS = 600
const GUARD = 'bake=30s; error-rate=+2%; refusal-rate=+5%; client-error-rate=+5%; min-requests=50'

for (const [name, noise] of Object.entries(NOISE)) {
  t.test(`healthy traffic is never reverted: ${name}`, async (t) => {
    const broken: number[] = []
    for (let seed = 1; seed <= RUNS; seed++) {
      const random = numbers(seed * 7_919)
      const rates = noise(random)
      const perSecond = [1, 2, 5, 10, 20, 50, 100][seed % 7] as number
      const known = (MEMORYLESS.has(name) ? [10, 60, 300] : [60, 120, 300])[seed % 3] as number
      const bake = seed % 10 === 0 ? 120 : 30
      const before = Array.from({ length: known }, (_, at) => second(random, perSecond, rates(at - known)))
      if (breaksAt(GUARD, { before, bake, perSecond, rates, random }) !== undefined) broken.push(seed)
    }
    t.same(broken, [], `none of ${RUNS} runs`)
  })
}

t.test('healthy traffic without a margin, and with an outage that mends by itself', async (t) => {
  const broken: string[] = []
  for (let seed = 1; seed <= RUNS; seed++) {
    const random = numbers(seed)
    const [failed, perSecond] = [random() * 0.05, 5 + random() * 60]
    const before = Array.from({ length: 120 }, () => second(random, perSecond, { failed, refused: 0.02 }))
    const rates: Rates = () => ({ failed, refused: 0.02 })
    const exact = breaksAt('error-rate=+0%; refusal-rate=+0%', { before, bake: 60, perSecond, rates, random })
    if (exact !== undefined) broken.push(`seed ${seed} without a margin`)
    // Three seconds that begin anywhere within one.
    const from = random() * 25
    const share = (at: number) => Math.max(0, Math.min(at + 1, from + 3) - Math.max(at, from))
    const outage: Rates = (at) => ({ failed: failed + (1 - failed) * share(at), refused: 0.02 * (1 - share(at)) })
    if (breaksAt(GUARD, { before, bake: 30, perSecond, rates: outage, random }) !== undefined) {
      broken.push(`seed ${seed} with an outage from second ${from}`)
    }
  }
  t.same(broken, [])
})

/** What a write does to half a hundred requests a second. */
const FAULTS: Readonly<Record<string, Rates>> = {
  'a policy that denies all': () => ({ failed: 0, refused: 1 }),
  'an upstream that is gone': () => ({ failed: 1, refused: 0 }),
  'a rate limit that is too small': (at) => ({ failed: 0, refused: at === 0 ? 0.6 : 0.8 }),
  'every fifth answer is a 500': () => ({ failed: 0.2, refused: 0 }),
  'it begins after three seconds': (at) => ({ failed: at < 3 ? 0 : 1, refused: 0 })
}

for (const [name, rates] of Object.entries(FAULTS)) {
  t.test(`a fault is found within ten seconds: ${name}`, async (t) => {
    const late: string[] = []
    for (let seed = 1; seed <= 200; seed++) {
      const random = numbers(seed)
      const known = [10, 60, 300][seed % 3] as number
      const before = Array.from({ length: known }, () => second(random, 50, { failed: 0.003, refused: 0.01 }))
      const found = breaksAt(GUARD, { before, bake: 30, perSecond: 50, rates, random })
      if (found === undefined || found > 10) late.push(`seed ${seed}: ${found}`)
    }
    t.same(late, [])
  })
}

t.test('a burst of errors before the write hides no fault', async (t) => {
  const late: string[] = []
  for (let seed = 1; seed <= 200; seed++) {
    const random = numbers(seed)
    const before = Array.from({ length: 300 }, (_, at) =>
      second(random, 50, { failed: at === 100 ? 0.6 : 0, refused: 0 })
    )
    const rates: Rates = () => ({ failed: 0.25, refused: 0 })
    const found = breaksAt(GUARD, { before, bake: 30, perSecond: 50, rates, random })
    if (found === undefined || found > 10) late.push(`seed ${seed}: ${found}`)
  }
  t.same(late, [])
})

t.test('what is not known is not judged, but for errors', async (t) => {
  const random = numbers(1)
  const run = (text: string, rates: Rates, perSecond = 50) =>
    breaksAt(text, { before: [], bake: 30, perSecond, rates, random })
  t.equal(
    run('refusal-rate=+5%', () => ({ failed: 0, refused: 1 })),
    undefined,
    'there is nothing to compare with'
  )
  t.ok(
    run('refusal-rate=5%', () => ({ failed: 0, refused: 1 })),
    'a limit of its own needs no before'
  )
  t.equal(
    run('error-rate=+2%', () => ({ failed: 0.3, refused: 0 })),
    undefined
  )
  t.ok(
    run('error-rate=+2%', () => ({ failed: 0.9, refused: 0 })),
    'no service has so many errors'
  )
  t.equal(
    run('error-rate=5%; min-requests=2000', () => ({ failed: 1, refused: 0 }), 5),
    undefined,
    'too few requests'
  )
})

t.test('a service that failed before the write is not blamed on it', async (t) => {
  const random = numbers(3)
  const rates: Rates = () => ({ failed: 0.97, refused: 0 })
  const before = Array.from({ length: 60 }, () => second(random, 50, rates(0)))
  t.equal(breaksAt(GUARD, { before, bake: 60, perSecond: 50, rates, random }), undefined)
})
