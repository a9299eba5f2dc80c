import t from 'tap'
import { type BatchRejection, BatchSender } from '../../../src/capabilities/events/destinations/payload.js'

const { signal } = new AbortController()

/** A service that decides about each batch. */
class Service extends BatchSender {
  readonly most = 100
  readonly #take: (batch: readonly string[]) => Promise<BatchRejection | undefined>

  constructor(
    limits: ConstructorParameters<typeof BatchSender>[0],
    take: (batch: readonly string[]) => Promise<BatchRejection | undefined>
  ) {
    super(limits)
    this.#take = take
  }

  protected put(batch: readonly string[]): Promise<BatchRejection | undefined> {
    return this.#take(batch)
  }
}

function numbers(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 48_271) % 2_147_483_647
    return state / 2_147_483_647
  }
}

const event = (n: number, size: number) =>
  JSON.stringify({ event_id: `ev_${n}`, event_type: 'x.v0', object: { text: 'ü'.repeat(size) } })
const idOf = (text: string) => (JSON.parse(text) as { event_id: string }).event_id

t.test(
  'whatever the service takes and refuses: all arrive, none beyond the limits, none twice, the taken in order',
  async (t) => {
    for (let seed = 1; seed <= 200; seed++) {
      const random = numbers(seed)
      const limits = { events: 1 + Math.floor(random() * 20), bytes: 2_000, eventBytes: 1_000, overhead: 10 }
      const taken: string[] = []
      const batches = new Service(limits, async (batch): Promise<BatchRejection | undefined> => {
        const sizes = batch.map((one) => Buffer.byteLength(one) + limits.overhead)
        t.ok(batch.length > 0 && batch.length <= limits.events)
        t.ok(sizes.every((size) => size <= limits.eventBytes))
        t.ok(sizes.reduce((sum, size) => sum + size, 0) <= limits.bytes)
        if (random() < 0.2) return { message: 'all' }
        const places = [...batch.keys()].filter(() => random() < 0.3)
        taken.push(...batch.filter((_one, place) => !places.includes(place)).map(idOf))
        return places.length === 0 ? undefined : { message: 'some', places }
      })
      const count = 1 + Math.floor(random() * 60)
      const events = Array.from({ length: count }, (_, n) => event(n, Math.floor(random() * 400)))
      const batch = { id: 'p', events, list: true }
      let attempts = 0
      while ((await batches.send(batch, signal)) !== undefined) attempts++
      t.ok(attempts < 1_000)
      t.same([...taken].sort(), events.map(idOf).sort(), `seed ${seed}`)
    }
  }
)

t.test('without refusals the order is that of the batch; the next batch begins anew', async (t) => {
  const taken: string[] = []
  const batches = new Service({ events: 3, bytes: 10_000, eventBytes: 10_000, overhead: 0 }, async (batch) => {
    taken.push(...batch.map(idOf))
    return undefined
  })
  const events = Array.from({ length: 8 }, (_, n) => event(n, 1))
  t.equal(await batches.send({ id: 'p', events, list: false }, signal), undefined)
  t.equal(await batches.send({ id: 'p', events, list: false }, signal), undefined)
  const all = events.map(idOf)
  t.same(taken, [...all, ...all])
})

t.test('a longer batch that begins with the same event is not taken for the rest of a shorter one', async (t) => {
  const taken: string[] = []
  let broken = true
  const batches = new Service({ events: 1, bytes: 1_000, eventBytes: 1_000, overhead: 0 }, async (batch) => {
    if (taken.length === 1 && broken) return { message: 'down' }
    taken.push(...batch.map(idOf))
    return undefined
  })
  const events = [event(0, 1), event(1, 1), event(2, 1)]
  t.match(await batches.send({ id: 'p', events: events.slice(0, 2), list: false }, signal), { message: 'down' })
  broken = false
  t.equal(await batches.send({ id: 'p', events, list: false }, signal), undefined)
  t.same(taken, ['ev_0', 'ev_0', 'ev_1', 'ev_2'])
})

t.test('an event that no service of this kind takes goes without its object', async (t) => {
  const sent: string[] = []
  const batches = new Service({ events: 10, bytes: 500, eventBytes: 300, overhead: 0 }, async (batch) => {
    sent.push(...batch)
    return undefined
  })
  t.equal(await batches.send({ id: 'p', events: [event(1, 1_000), event(2, 2)], list: false }, signal), undefined)
  t.same(JSON.parse(sent[0] ?? ''), { event_id: 'ev_1', event_type: 'x.v0', object: null, object_omitted: true })
  t.equal(sent[1], event(2, 2))
})
