import t from 'tap'
import {
  type Admission,
  Breaker,
  type BreakerSettings,
  type Outcome
} from '../../../src/features/circuit-breaker/breaker.js'
import { ManualClock } from '../../helpers/clock.js'
import { numbers } from '../../helpers/numbers.js'

const usual: BreakerSettings = { volume: 10, threshold: 0.5, tripped: 5_000 }

function breaker(window = 10_000, buckets = 10) {
  const clock = new ManualClock()
  return { clock, breaker: new Breaker({ clock, window, buckets }) }
}

function request(breaker: Breaker, outcome: Outcome, settings = usual) {
  const admission = breaker.admit(settings)
  return { decision: admission.decision, transition: breaker.settle(admission, outcome, settings) }
}

function many(breaker: Breaker, count: number, outcome: Outcome, settings = usual): unknown[] {
  return Array.from({ length: count }, () => request(breaker, outcome, settings).transition)
}

t.test('it opens at exactly the volume and exactly the share', async (t) => {
  for (const buckets of [1, 2, 10, 128]) {
    const { breaker: one } = breaker(10_000, buckets)
    t.same(many(one, 9, 'failed'), new Array(9).fill(undefined), 'nine failures of nine are below the volume')
    t.equal(request(one, 'failed').transition, 'opened', 'the tenth reaches it')

    const { breaker: two } = breaker(10_000, buckets)
    many(two, 6, 'succeeded')
    t.same(many(two, 4, 'failed'), new Array(4).fill(undefined), 'four of ten are below the half')
    t.equal(request(two, 'failed').transition, undefined, 'five of eleven too')
    t.equal(request(two, 'failed').transition, 'opened', 'six of twelve are the half')
  }
})

t.test('the share is compared as it was written', async (t) => {
  for (const [threshold, failures, all] of [
    [0.1, 3, 30],
    [0.7, 7, 10],
    [0.35, 7, 20],
    [0.29, 29, 100],
    [1, 12, 12]
  ] as const) {
    const settings = { volume: all, threshold, tripped: 1_000 }
    const { breaker: one } = breaker()
    many(one, all - failures, 'succeeded', settings)
    t.same(many(one, failures - 1, 'failed', settings), new Array(failures - 1).fill(undefined))
    t.equal(request(one, 'failed', settings).transition, 'opened', `${failures} of ${all} are ${threshold}`)
    const { breaker: other } = breaker()
    many(other, all - failures + 1, 'succeeded', settings)
    t.same(many(other, failures - 1, 'failed', settings), new Array(failures - 1).fill(undefined))
  }
})

t.test('a share of zero and a volume of zero still need a failure', async (t) => {
  const settings = { volume: 0, threshold: 0, tripped: 1_000 }
  const { breaker: one } = breaker()
  t.same(new Set(many(one, 100, 'succeeded', settings)), new Set([undefined]))
  t.equal(request(one, 'failed', settings).transition, 'opened')
})

t.test('a success can reach the volume with a share that failures had reached before', async (t) => {
  const { breaker: one } = breaker()
  many(one, 9, 'failed')
  t.equal(request(one, 'succeeded').transition, 'opened', 'nine of ten failed')
})

t.test('failures leave the window bucket by bucket', async (t) => {
  const { breaker: one, clock } = breaker(10_000, 10)
  // The clock of the tests begins on a line of the grid.
  many(one, 9, 'failed')
  clock.advance(9_999)
  t.equal(request(one, 'failed').transition, 'opened', 'the first second is still in the window')
  const { breaker: two, clock: later } = breaker(10_000, 10)
  many(two, 9, 'failed')
  later.advance(10_000)
  t.equal(request(two, 'failed').transition, undefined, 'the first second has left')
})

t.test('one bucket counts from line to line', async (t) => {
  const { breaker: one, clock } = breaker(1_000, 1)
  clock.advance(999)
  many(one, 9, 'failed')
  clock.advance(1)
  t.equal(request(one, 'failed').transition, undefined)
  many(one, 8, 'failed')
  t.equal(request(one, 'failed').transition, 'opened')
})

t.test('open, it blocks until its time is over, and says for how long', async (t) => {
  const { breaker: one, clock } = breaker()
  many(one, 10, 'failed')
  t.match(one.admit(usual), { decision: 'block', retryAfter: 5 })
  clock.advance(4_001)
  t.match(one.admit(usual), { decision: 'block', retryAfter: 1 })
  clock.advance(998)
  t.match(one.admit(usual), { decision: 'block', retryAfter: 1 })
  clock.advance(1)
  t.match(one.admit(usual), { decision: 'allow_while_open', retryAfter: 0 })
})

t.test('a thousand requests at once find one probe', async (t) => {
  const { breaker: one, clock } = breaker()
  many(one, 10, 'failed')
  clock.advance(5_000)
  const all = Array.from({ length: 1_000 }, () => one.admit(usual))
  const probes = all.filter(({ decision }) => decision === 'allow_while_open')
  t.equal(probes.length, 1)
  t.ok(all.filter((admission) => admission !== probes[0]).every(({ decision }) => decision === 'block'))
  t.equal(one.settle(probes[0] as Admission, 'succeeded', usual), 'closed')
  t.equal(one.admit(usual).decision, 'allow')
})

t.test('a probe that succeeds clears the counts, one that fails opens anew', async (t) => {
  const { breaker: one, clock } = breaker()
  many(one, 10, 'failed')
  clock.advance(5_000)
  t.equal(request(one, 'failed').transition, 'opened')
  t.equal(one.admit(usual).decision, 'block')
  clock.advance(5_000)
  t.equal(request(one, 'succeeded').transition, 'closed')
  t.same(many(one, 9, 'failed'), new Array(9).fill(undefined), 'what failed before counts no more')
  t.equal(request(one, 'failed').transition, 'opened')
})

t.test('a probe of unknown outcome hands its role on', async (t) => {
  const { breaker: one, clock } = breaker()
  many(one, 10, 'failed')
  clock.advance(5_000)
  const gone = one.admit(usual)
  t.equal(one.admit(usual).decision, 'block')
  t.equal(one.settle(gone, 'unknown', usual), undefined)
  const next = one.admit(usual)
  t.equal(next.decision, 'allow_while_open')
  t.equal(one.settle(gone, 'succeeded', usual), undefined, 'it has said what it had to say')
  t.equal(one.admit(usual).decision, 'block')
  t.equal(one.settle(next, 'succeeded', usual), 'closed')
})

t.test('a probe that never ends does not keep the others out', async (t) => {
  const { breaker: one, clock } = breaker()
  many(one, 10, 'failed')
  clock.advance(5_000)
  const endless = one.admit(usual)
  clock.advance(4_999)
  t.equal(one.admit(usual).decision, 'block')
  clock.advance(1)
  const next = one.admit(usual)
  t.equal(next.decision, 'allow_while_open')
  t.equal(one.settle(endless, 'succeeded', usual), undefined, 'its answer comes too late')
  t.equal(one.admit(usual).decision, 'block')
  t.equal(one.settle(next, 'failed', usual), 'opened')
})

t.test('answers to requests of an earlier turn change nothing', async (t) => {
  const { breaker: one, clock } = breaker()
  const early = Array.from({ length: 30 }, () => one.admit(usual))
  many(one, 10, 'failed')
  t.equal(one.settle(early[0] as Admission, 'succeeded', usual), undefined)
  clock.advance(5_000)
  const probe = one.admit(usual)
  t.equal(one.settle(early[1] as Admission, 'succeeded', usual), undefined, 'only the probe closes it')
  t.equal(one.admit(usual).decision, 'block')
  one.settle(probe, 'succeeded', usual)
  for (const late of early.slice(2)) t.equal(one.settle(late, 'failed', usual), undefined)
  t.equal(one.admit(usual).decision, 'allow')
})

t.test('new settings apply at once', async (t) => {
  const { breaker: one, clock } = breaker()
  many(one, 8, 'failed')
  t.equal(request(one, 'failed', { ...usual, volume: 9 }).transition, 'opened')
  clock.advance(1_000)
  t.equal(one.admit(usual).decision, 'block')
  t.equal(one.admit({ ...usual, tripped: 1_000 }).decision, 'allow_while_open')
})

/** The same rules over a list of everything that ever happened. */
class Model {
  #events: { at: number; failed: boolean }[] = []
  #open: { since: number; probe: object | undefined } | undefined
  #admitted = new Set<object>()

  constructor(
    readonly window: number,
    readonly buckets: number
  ) {}

  admit(now: number, { tripped }: BreakerSettings, admission: object): string {
    if (this.#open === undefined) {
      this.#admitted.add(admission)
      return 'allow'
    }
    if (now - this.#open.since < tripped) return 'block'
    this.#open = { since: now, probe: admission }
    return 'allow_while_open'
  }

  settle(now: number, { volume, threshold, tripped }: BreakerSettings, admission: object, outcome: Outcome): string {
    if (this.#open !== undefined) {
      if (this.#open.probe !== admission) return 'nothing'
      if (outcome === 'unknown') this.#open = { since: now - tripped, probe: undefined }
      if (outcome === 'failed') this.#open = { since: now, probe: undefined }
      if (outcome !== 'succeeded') return outcome === 'failed' ? 'opened' : 'nothing'
      this.#open = undefined
      return 'closed'
    }
    if (!this.#admitted.delete(admission) || outcome === 'unknown') return 'nothing'
    this.#events.push({ at: now, failed: outcome === 'failed' })
    const bucket = (at: number) => Math.floor((at * this.buckets) / this.window)
    const seen = this.#events.filter(({ at }) => bucket(at) > bucket(now) - this.buckets)
    const failures = seen.filter(({ failed }) => failed).length
    if (failures === 0 || seen.length < volume || failures / seen.length < threshold) return 'nothing'
    this.#events = []
    this.#admitted = new Set()
    this.#open = { since: now, probe: undefined }
    return 'opened'
  }
}

t.test('it does what an exact model does, at random times with random outcomes', async (t) => {
  const next = numbers(11)
  const seen = new Map<string, number>()
  for (let round = 0; round < 300; round++) {
    const buckets = [1, 2, 3, 8, 10, 128][next(6)] as number
    // A multiple of the buckets, so that the grid of the model has no rounding.
    const window = buckets * (1 + next(400))
    const settings = { volume: next(12), threshold: next(11) / 10, tripped: 1 + next(2 * window) }
    const { breaker: one, clock } = breaker(window, buckets)
    const model = new Model(window, buckets)
    const failing = next(100)
    const under: Admission[] = []
    const known = new Map<Admission, object>()
    for (let step = 0; step < 400; step++) {
      clock.advance(next(10) === 0 ? next(window) : next(Math.ceil(window / 50)))
      const now = clock.monotonic()
      if (under.length === 0 || next(2) === 0) {
        const admission = one.admit(settings)
        const key = {}
        const expected = model.admit(now, settings, key)
        if (admission.decision !== expected) t.fail(`round ${round}, step ${step}: ${admission.decision}, ${expected}`)
        seen.set(expected, (seen.get(expected) ?? 0) + 1)
        known.set(admission, key)
        if (expected !== 'block') under.push(admission)
      } else {
        const [admission] = under.splice(next(under.length), 1) as [Admission]
        const outcome = next(8) === 0 ? 'unknown' : next(100) < failing ? 'failed' : 'succeeded'
        const transition = one.settle(admission, outcome, settings) ?? 'nothing'
        const expected = model.settle(now, settings, known.get(admission) as object, outcome)
        if (transition !== expected) t.fail(`round ${round}, step ${step}: ${transition}, ${expected}`)
        seen.set(expected, (seen.get(expected) ?? 0) + 1)
      }
    }
  }
  for (const happening of ['allow', 'block', 'allow_while_open', 'opened', 'closed', 'nothing'])
    t.ok((seen.get(happening) ?? 0) > 100, `${happening}: ${seen.get(happening)}`)
})
