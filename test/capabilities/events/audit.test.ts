import t from 'tap'
import { resources } from '../../../src/resources/registry.js'
import { EVENT_TYPES } from '../../../src/resources/resource.js'
import { BASE } from '../../control/account.js'
import { bodies, MARK } from '../../resources/bodies.js'
import { receiver } from './receiver.js'
import { stand } from './stand.js'

const TRAFFIC = /^(http_request|tcp_connection|agent_session)_/
/** Of no resource: what traffic finds, and the site file, which is one for all. */
const OTHERS = /^(backend_server|site_file)_/
const AUDIT = EVENT_TYPES.filter((type) => !TRAFFIC.test(type) && !OTHERS.test(type))

t.test('every resource tells of its records: created, updated, deleted', async (t) => {
  const { account, hook } = await stand(t)
  const sink = await receiver(t)
  const main = await hook(sink.url, AUDIT, MARK)
  const ids: Record<string, string> = { usr: account.admin.id }
  const expected: [string, unknown][] = []
  const tell = (kind: string, change: string, object: unknown) => {
    const noun = resources.find(({ name }) => name === kind)?.events
    if (noun !== undefined) expected.push([`${noun}_${change}.v0`, object])
  }
  const made: { kind: string; path: Record<string, string> }[] = []
  for (const { name: kind, idPrefix, operations, path, fields } of resources) {
    if (!operations.includes('create')) continue
    const { full = {}, change = {} } = pointing(bodies[kind] ?? {}, ids) as Record<string, Record<string, unknown>>
    const parents: Record<string, string> = {}
    for (const [, name = ''] of path.matchAll(/\{(\w+)\}/g)) parents[name] = ids[PARENTS[name] ?? ''] ?? ''
    const { id, answer } = await account.create(kind, full, parents)
    ids[idPrefix] ??= id
    const at = { ...parents, id }
    made.push({ kind, path: at })
    // What an answer shows once is in no event.
    tell(kind, 'created', 'token' in answer ? { ...answer, token: null } : undefined)
    const { description, name } = change
    const given = description === undefined ? { name } : { description }
    if (!operations.includes('update') || fields[Object.keys(given)[0] ?? ''] === undefined) continue
    await account.update(kind, at, given)
    tell(kind, 'updated', await account.get(kind, at))
  }
  for (const { kind, path } of made.reverse()) {
    const last = await account.get(kind, path)
    await account.remove(kind, path)
    tell(kind, 'deleted', kind === 'event_destination' ? undefined : last)
  }
  const isDeleted = (type: string) => type.endsWith('_deleted.v0') && AUDIT.includes(type)
  const deleted = expected.filter(([type]) => isDeleted(type)).length
  await sink.until(() => sink.taken.filter(({ event_type }) => isDeleted(event_type)).length >= deleted)
  const told = sink.taken.filter(({ object }) => object.id !== main)
  // The subscription of the test itself was made with it.
  const own = told.findIndex(({ event_type }) => event_type === 'event_subscription_created.v0')
  t.equal(own, 0, 'a subscription is told of itself')
  t.same(
    told.slice(1).map(({ event_type }) => event_type),
    expected.filter(([type]) => AUDIT.includes(type)).map(([type]) => type),
    'each once, in order'
  )
  for (const [index, [type, object]] of expected.entries()) {
    if (object !== undefined && !type.startsWith('event_destination'))
      t.same(told[index + 1]?.object, bare(object), type)
  }
  const types = new Set(told.map(({ event_type }) => event_type.replace(/_(created|updated|deleted)\.v0$/, '')))
  // Guards of writes tell what became of them, and commands what they did: nothing of records.
  const ofRecords = AUDIT.filter((type) => !/^(?:guard|limit_bucket)_/.test(type))
  t.same(
    ofRecords.filter((type) => !types.has(type.replace(/_(created|updated|deleted)\.v0$/, ''))),
    [],
    'every noun'
  )
  for (const { body } of sink.all) {
    t.notMatch(body, MARK)
    t.notMatch(body, /PRIVATE KEY/)
    t.notMatch(body, /"token":"/)
  }
})

/** References of the bodies that tests share, turned into those of records that are there. */
function pointing(value: unknown, ids: Record<string, string>): unknown {
  const text = JSON.stringify(value).replace(/"([a-z]+)_0{20,}[12]"/g, (whole, prefix: string) => {
    return ids[prefix] === undefined ? whole : JSON.stringify(ids[prefix])
  })
  return JSON.parse(text.replaceAll(/"([a-z]+_[0-9A-Za-z]{27})","\1"/g, '"$1"'))
}

/** Secrets that answers show to their owner are in no event. */
function bare(object: unknown): unknown {
  return JSON.parse(JSON.stringify(object).replaceAll(`"${MARK}"`, 'null'))
}

const PARENTS: Readonly<Record<string, string>> = { edge_id: 'edghts' }

t.test('the envelope', async (t) => {
  const { account, hook } = await stand(t)
  const sink = await receiver(t)
  await hook(sink.url, ['ip_policy_created.v0', 'ip_policy_deleted.v0'])
  const { id: bot } = await account.create('bot_user', { name: 'ci' })
  const key = await account.create('api_key', { owner_id: bot })
  const principal = await account.control.access.authenticate(String(key.answer.token))
  const { id, answer } = await account.create('ip_policy', { description: 'd' }, {}, principal)
  await account.remove('ip_policy', { id })
  await sink.until(() => sink.taken.length === 2)
  const [created, deleted] = sink.taken as unknown as [Record<string, unknown>, Record<string, unknown>]
  t.same(Object.keys(created), ['event_id', 'event_type', 'event_timestamp', 'account_id', 'principal', 'object'])
  t.match(created, { event_id: /^ev_\w{27}$/, event_type: 'ip_policy_created.v0', account_id: /^ac_\w{27}$/ })
  t.same(created.object, answer)
  t.same(created.principal, {
    id: bot,
    subject: 'ci',
    source: 'API',
    credential: { id: key.id, uri: `${BASE}/api_keys/${key.id}` }
  })
  t.match(deleted.principal, { id: account.admin.id, subject: 'administrator', credential: null })
  t.equal(deleted.account_id, created.account_id)
  t.not(deleted.event_id, created.event_id)
  t.equal(sink.all[0]?.headers['webhook-id'], created.event_id)
  // The clock of the stand stands still; that of the store is the one that counts.
  t.equal(new Date(String(created.event_timestamp)).getTime(), account.clock.wall())
})

t.test('who was subscribed when it happened gets it, once, and nobody else', async (t) => {
  const { account, hook, stop } = await stand(t)
  const sink = await receiver(t)
  await account.create('vault', { name: 'before' })
  const destination = await hook(sink.url, ['vault_created.v0', 'vault_deleted.v0'])
  await account.create('event_subscription', {
    sources: [{ type: 'vault_created.v0' }],
    destination_ids: [destination]
  })
  const { id } = await account.create('vault', { name: 'one' })
  await account.create('ip_policy', {})
  await account.update('vault', { id }, { description: 'not subscribed' })
  await t.rejects(account.create('vault', { name: 'one' }), { code: 'ALREADY_EXISTS' }, 'what is refused is no event')
  const dry = { path: {}, body: { name: 'dry' }, dryRun: true }
  const vault = resources.find(({ name }) => name === 'vault')
  if (vault !== undefined) await account.control.records.create(vault, dry, account.call())
  await account.remove('vault', { id })
  await sink.until(() => sink.taken.length >= 2)
  t.same(
    sink.taken.map(({ event_type, object }) => [event_type, object.name]),
    [
      ['vault_created.v0', 'one'],
      ['vault_deleted.v0', 'one']
    ]
  )
  await stop()
  t.equal(await account.store.outbox.count(destination), 0)
})

t.test('what nobody subscribed to is not stored; a deleted destination takes its queue with it', async (t) => {
  const { account, hook } = await stand(t)
  const sink = await receiver(t, (_request, response) => response.writeHead(500).end())
  const destination = await hook(sink.url, ['vault_created.v0'])
  await account.create('vault', { name: 'a' })
  await sink.requests(1)
  t.equal(await account.store.outbox.count(destination), 1)
  const list = await account.control.records.list(
    resources.find(({ name }) => name === 'event_subscription') as never,
    { path: {}, limit: 10 } as never,
    account.call()
  )
  const { event_subscriptions } = list as unknown as { event_subscriptions: { id: string }[] }
  await account.remove('event_subscription', { id: event_subscriptions[0]?.id ?? '' })
  await account.create('vault', { name: 'b' })
  t.equal(await account.store.outbox.count(destination), 1, 'what was promised stays promised')
  await account.remove('event_destination', { id: destination })
  t.equal(await account.store.outbox.count(destination), 0)
  t.same((await account.store.outbox.postedAfter(0)).destinations, [])
})

t.test('the destination says how it goes; a test says what is wrong and hurries', async (t) => {
  const { account, hook, events, letters } = await stand(t)
  let broken = true
  const sink = await receiver(t, (_request, response) => response.writeHead(broken ? 500 : 204).end())
  const id = await hook(sink.url, ['vault_created.v0'])
  const state = async () => (await account.get('event_destination', { id })).delivery
  t.match(await state(), { state: 'ok', delivered: 0, failures: 0, last_error: null, last_success_at: null })
  await account.create('vault', { name: 'a' })
  await account.create('vault', { name: 'b' })
  await sink.requests(3)
  t.match(await state(), { state: 'failing', last_error: 'the receiver answered 500', delivered: 0 })
  t.match(await letters.test(id, account.call()), {
    delivered: false,
    error: 'the receiver answered 500'
  })
  broken = false
  t.match(await letters.test(id, account.call()), {
    delivered: true,
    error: null
  })
  await sink.until(() => sink.taken.length === 3)
  t.match(
    sink.taken.find(({ event_type }) => event_type === 'test.v0'),
    { event_type: 'test.v0', object: { id } }
  )
  await account.create('vault', { name: 'c' })
  await sink.until(() => sink.taken.length === 4)
  t.match(await state(), { state: 'ok', failures: 0, last_error: 'the receiver answered 500', last_success_at: /Z$/ })
  await t.rejects(letters.test('ed_no', account.call()), {
    code: 'NOT_FOUND'
  })
  t.ok([...events.counts()].some(([which, { delivered }]) => which === id && delivered >= 2))
})
