import { join } from 'node:path'
import t, { type Test } from 'tap'
import { DeliveryState } from '../../../src/capabilities/events/delivery-state.js'
import { Webhook } from '../../../src/capabilities/events/destinations/http.js'
import type { SendFailure } from '../../../src/capabilities/events/destinations/sender.js'
import { DeliveryQueue } from '../../../src/capabilities/events/queue.js'
import { Refusals, TrafficQueue } from '../../../src/capabilities/events/sources.js'
import { systemClock } from '../../../src/lib/clock.js'
import { createOutbound } from '../../../src/lib/http-client/outbound.js'
import { ManualClock } from '../../helpers/clock.js'
import { until } from '../../helpers/until.js'
import { folder } from '../../store/opened.js'
import { startPostgres } from '../../store/postgres-server.js'
import { through } from './cloud.js'
import { type Received, receiver } from './receiver.js'
import { type Stand, stand } from './stand.js'

const TYPE = 'vault_created.v0'
/** No time has to pass: what is refused three times is refused for good. */
const SOON = { attempts: 3, time: 0 }

async function vaults({ account }: Stand, ...names: string[]): Promise<void> {
  for (const name of names) await account.create('vault', { name })
}

const nameOf = ({ body }: Received) => (JSON.parse(body) as { object: { name?: string } }).object.name ?? ''
const names = (taken: readonly { readonly object: Record<string, unknown> }[]) => taken.map(({ object }) => object.name)

/** Refuses what has one of these names, with the status. */
function refusing(status: number, ...refused: string[]) {
  return (request: Received, response: { writeHead(status: number): { end(): void } }) => {
    response.writeHead(refused.includes(nameOf(request)) ? status : 204).end()
  }
}

interface Letter {
  readonly id: string
  readonly event_id: string
  readonly event_type: string
  readonly attempts: number
  readonly reason: string
}

async function letters(one: Stand, id: string): Promise<readonly Letter[]> {
  return (await one.letters.list(id, { limit: 100 }, one.account.call())).dead_letters as readonly Letter[]
}

async function delivery({ account }: Stand, id: string): Promise<Record<string, unknown>> {
  return (await account.get('event_destination', { id })).delivery as Record<string, unknown>
}

t.test(
  'a refusal is final after enough attempts and enough time; an unclear one only beside others that are taken',
  (t) => {
    const clock = new ManualClock()
    const event: SendFailure = { message: 'no', fault: 'event' }
    const unclear: SendFailure = { message: 'no', fault: 'unclear' }
    const rule = { attempts: 3, time: 1_000 }
    const one = new Refusals(rule, clock)
    t.same(
      [1, 2, 3].map(() => one.isFinal('a', event, 0)),
      [false, false, false]
    )
    clock.advance(999)
    t.equal(one.isFinal('a', event, 0), false)
    clock.advance(1)
    t.equal(one.isFinal('a', { message: 'down' }, 9), false, 'a failure that says nothing of the event')
    t.equal(one.attempts, 4)
    t.equal(one.isFinal('a', event, 0), true)
    t.equal(one.isFinal('b', event, 0), false, 'another one begins anew')
    clock.advance(5_000)
    t.same([one.isFinal('b', event, 0), one.isFinal('b', event, 0)], [false, true], 'time alone is not enough')
    const two = new Refusals(rule, clock)
    for (let n = 0; n < 50; n++) {
      clock.advance(1_000)
      t.equal(two.isFinal('a', unclear, 7), false)
    }
    t.equal(two.isFinal('a', unclear, 8), true)
    t.end()
  }
)

t.test('the refused one goes to the list, the others arrive in order; mended, it is delivered again', async (t) => {
  const one = await stand(t, { refusals: SOON })
  const sink = await receiver(t, refusing(422, 'bad'))
  const id = await one.hook(sink.url, [TYPE])
  await vaults(one, 'a', 'b', 'bad', 'c', 'd')
  await sink.until(() => sink.taken.length === 4)
  t.same(names(sink.taken), ['a', 'b', 'c', 'd'])
  t.equal(sink.all.filter((request) => nameOf(request) === 'bad').length, 3)
  const [letter, ...others] = await letters(one, id)
  t.same(others, [])
  t.match(letter, { id: 'dl_1', event_type: TYPE, attempts: 3, reason: 'the receiver answered 422' })
  await until(async () => (await delivery(one, id)).delivered === 4)
  t.match(await delivery(one, id), { state: 'ok', delivered: 4, failures: 0, dead_letters: 1, dead_letters_dropped: 0 })
  const told = one.log.texts.filter((line) => line.includes('dead letter'))
  t.equal(told.length, 1, 'one line')
  for (const part of [id, letter?.event_id ?? '?', '422']) t.match(told[0], part)
  const shown = await one.letters.get(id, 'dl_1', one.account.call())
  t.match(shown, { id: 'dl_1', event: { event_id: letter?.event_id, object: { name: 'bad' } } })
  sink.answering = refusing(422)
  t.equal(await one.letters.redeliver(id, 'dl_1', one.account.call()), 1)
  await sink.until(() => sink.taken.length === 5)
  t.same(names(sink.taken).at(-1), 'bad')
  t.equal(sink.taken.at(-1)?.event_id, letter?.event_id, 'it is the same event')
  t.same(await letters(one, id), [])
  t.match(await delivery(one, id), { dead_letters: 0 })
})

for (const status of [401, 403, 404, 407, 408, 429, 500, 503]) {
  t.test(`a receiver that answers ${status} to all keeps everything, in order`, async (t) => {
    const one = await stand(t, { refusals: SOON })
    let open = false
    const sink = await receiver(t, (_request, response) => response.writeHead(open ? 204 : status).end())
    const id = await one.hook(sink.url, [TYPE])
    await vaults(one, 'a', 'b', 'c')
    await sink.requests(8)
    t.equal(new Set(sink.all.map(nameOf)).size, 1)
    t.same(await letters(one, id), [])
    open = true
    await sink.until(() => sink.taken.length === 3)
    t.same(names(sink.taken), ['a', 'b', 'c'])
  })
}

for (const status of [403, 500]) {
  t.test(`${status} for one event is its fault once the receiver has taken another, here a test`, async (t) => {
    const one = await stand(t, { refusals: SOON })
    const { account } = one
    const sink = await receiver(t, refusing(status, 'bad'))
    const id = await one.hook(sink.url, [TYPE])
    await vaults(one, 'bad', 'a')
    await sink.requests(6)
    t.same(await letters(one, id), [])
    t.match(await one.letters.test(id, account.call()), { delivered: true })
    await sink.until(() => names(sink.taken).includes('a'))
    t.match(await letters(one, id), [{ reason: `the receiver answered ${status}` }])
  })
}

t.test('credentials that are refused are no fault of an event, whatever else was taken', async (t) => {
  const one = await stand(t, { refusals: SOON })
  const { account } = one
  const sink = await receiver(t, refusing(401, 'bad'))
  const id = await one.hook(sink.url, [TYPE])
  await vaults(one, 'bad', 'a')
  await sink.requests(4)
  t.match(await one.letters.test(id, account.call()), { delivered: true })
  const seen = sink.all.length
  await sink.requests(seen + 6)
  t.same(await letters(one, id), [])
})

t.test('what a process leaves in the list is there for the next one', async (t) => {
  const at = join(await folder(t), 'sluice.db')
  const sink = await receiver(t, refusing(413, 'bad', 'worse'))
  let id = ''
  await t.test('one life', async (t) => {
    const one = await stand(t, { at, refusals: SOON })
    id = await one.hook(sink.url, [TYPE])
    await vaults(one, 'bad', 'worse', 'a')
    await sink.until(() => sink.taken.length === 1)
  })
  await t.test('the next', async (t) => {
    const two = await stand(t, { at, refusals: SOON })
    t.match(await letters(two, id), [{ id: 'dl_2' }, { id: 'dl_1' }])
    t.match(await delivery(two, id), { delivered: 1, dead_letters: 2 })
    sink.answering = refusing(413)
    const call = two.account.call()
    t.equal(await two.letters.redeliver(id, undefined, call), 2)
    await sink.until(() => sink.taken.length === 3)
    t.same(names(sink.taken), ['a', 'bad', 'worse'], 'the oldest first')
    t.equal((await two.account.store.history({ limit: 1 }))[0]?.operationId, call.operationId)
  })
})

t.test('the list is bounded, can be emptied and goes with its destination', async (t) => {
  const one = await stand(t, { refusals: SOON, letterBounds: { letters: 2, bytes: 1_000_000 } })
  const { store } = one.account
  const sink = await receiver(t, refusing(400, 'b1', 'b2', 'b3', 'b4'))
  const id = await one.hook(sink.url, [TYPE])
  await vaults(one, 'b1', 'b2', 'b3', 'b4', 'a')
  await sink.until(() => sink.taken.length === 1)
  t.match(await letters(one, id), [{ id: 'dl_4' }, { id: 'dl_3' }])
  t.match(await delivery(one, id), { dead_letters: 2, dead_letters_dropped: 2 })
  const call = one.account.call()
  t.equal(await one.letters.drop(id, 'dl_4', call), 1)
  await t.rejects(one.letters.drop(id, 'dl_4', call), { code: 'NOT_FOUND' })
  await t.rejects(one.letters.redeliver(id, 'dl_4', call), { code: 'NOT_FOUND' })
  await t.rejects(one.letters.get(id, 'x', call), { code: 'NOT_FOUND' })
  await t.rejects(one.letters.list('ed_no', { limit: 1 }, call), { code: 'NOT_FOUND' })
  t.match(await delivery(one, id), { dead_letters: 1, dead_letters_dropped: 2 })
  await one.account.remove('event_subscription', { id: await subscription(one) })
  await one.account.remove('event_destination', { id })
  t.same([await store.deadLetters.list(id, { limit: 9 }), await store.deadLetters.counts()], [[], []])
})

async function subscription({ account }: Stand): Promise<string> {
  const page = await account.store.list('event_subscription', { limit: 1 })
  return page?.records[0]?.id ?? ''
}

t.test('what the store holds of an event and is none holds up nothing', async (t) => {
  const one = await stand(t, { refusals: SOON })
  const { store } = one.account
  let open = false
  const sink = await receiver(t, (_request, response) => response.writeHead(open ? 204 : 503).end())
  const id = await one.hook(sink.url, [TYPE])
  await vaults(one, 'a')
  await sink.requests(1)
  await store.transact('damage', async (tx) => {
    await tx.insert({ kind: 'other', id: 'x', body: 1 })
    await tx.post([{ destination: id, body: '{"event_id": "ev_' }])
  })
  await vaults(one, 'b')
  open = true
  await sink.until(() => sink.taken.length === 2)
  t.same(names(sink.taken), ['a', 'b'])
  const [letter] = await letters(one, id)
  t.match(letter, { event_id: null, event_type: null, attempts: 0, reason: /damaged/ })
  const get = one.letters.get(id, letter?.id ?? '', one.account.call())
  t.match(await get, { event: '{"event_id": "ev_' })
})

t.test('of a batch that is refused only the bad one goes to the list', async (t) => {
  const taken: string[] = []
  let open = false
  let requests = 0
  const sink = await receiver(t, (request, response) => {
    const messages = (JSON.parse(request.body) as { message: string }[]).map(({ message }) => message)
    const found = messages.map((message) => (JSON.parse(message) as { object: { name: string } }).object.name)
    requests += 1
    if (!open) return response.writeHead(503).end()
    if (found.some((name) => name.startsWith('bad'))) return response.writeHead(400).end()
    taken.push(...found)
    return response.writeHead(202).end()
  })
  const one = await stand(t, { refusals: SOON, outbound: through(sink.url, []) })
  const { id } = await one.account.create('event_destination', { target: { datadog: { api_key: 'k' } } })
  await one.account.create('event_subscription', { sources: [{ type: TYPE }], destination_ids: [id] })
  const all = Array.from({ length: 40 }, (_, n) => (n === 17 || n === 18 ? `bad${n}` : `v${n}`))
  await vaults(one, ...all)
  open = true
  const good = all.filter((name) => !name.startsWith('bad'))
  await until(() => taken.length >= good.length)
  t.same(taken, good, 'in order, each once')
  t.match(await letters(one, id), [{ attempts: 3 }, { attempts: 3 }])
  t.ok(requests < 200)
})

t.test('two processes on one database: each letter once, seen by both, given back by either', async (t: Test) => {
  const server = await startPostgres(t)
  const at = await server.database()
  const sink = await receiver(t, refusing(422, 'bad', 'worse'))
  const one = await stand(t, { at, process: 'one', refusals: SOON })
  const two = await stand(t, { at, process: 'two', refusals: SOON })
  const id = await one.hook(sink.url, [TYPE])
  await vaults(one, 'a', 'bad', 'b')
  await vaults(two, 'worse', 'c')
  await sink.until(() => sink.taken.length === 3)
  t.same(names(sink.taken), ['a', 'b', 'c'])
  for (const each of [one, two]) {
    t.equal((await letters(each, id)).length, 2)
    await until(async () => (await delivery(each, id)).dead_letters === 2)
  }
  sink.answering = refusing(422)
  const [lease] = await one.account.store.outbox.leases()
  const other = lease?.holder === 'one' ? two : one
  t.equal(await other.letters.redeliver(id, undefined, other.account.call()), 2)
  await sink.until(() => sink.taken.length === 5)
  t.same(names(sink.taken), ['a', 'b', 'c', 'bad', 'worse'])
  for (const each of [one, two]) await until(async () => (await delivery(each, id)).dead_letters === 0)
  t.equal(one.log.texts.concat(two.log.texts).filter((line) => line.includes('dead letter')).length, 2)
})

t.test(
  'traffic: a list that is too long goes in shorter ones; an event that is refused alone is dropped and counted',
  async (t) => {
    const sink = await receiver(t, (request, response) => {
      const list = JSON.parse(request.body) as { n: number }[]
      response.writeHead(list.length > 64 ? 413 : list.some(({ n }) => n === 150) ? 400 : 204).end()
    })
    const clock = systemClock
    const state = new DeliveryState('ed_1', clock)
    const queue = new TrafficQueue({ state, clock, budget: 1_000_000, refusals: SOON })
    const outbound = createOutbound({ clock, allowPrivate: true })
    const sender = new Webhook({ url: sink.url, secret: undefined, outbound, clock })
    const fault = (error: unknown) => t.fail(String(error))
    const lane = new DeliveryQueue({
      source: queue,
      sender,
      backOff: { first: 1, longest: 2 },
      random: Math.random,
      fault
    })
    for (let n = 0; n < 400; n++) queue.put(JSON.stringify({ n }))
    queue.release()
    lane.wake()
    await lane.idle()
    const taken = sink.taken as unknown as { n: number }[]
    t.same(
      taken.map(({ n }) => n),
      [...Array(400).keys()].filter((n) => n !== 150),
      'in order, each once'
    )
    t.match(state.answer(undefined), { state: 'ok', delivered: 399, dropped: 1, dead_letters: 0 })
    t.ok(sink.all.length < 60)
    t.equal(queue.put('x'.repeat(1_000_000)), true, 'nothing of the budget is lost')
  }
)
