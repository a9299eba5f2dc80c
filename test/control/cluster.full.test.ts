import pg from 'pg'
import t from 'tap'
import type { ControlOptions } from '../../src/control/parts.js'
import { StoreError } from '../../src/store/errors.js'
import { until } from '../helpers/until.js'
import { operation } from '../store/opened.js'
import { startPostgres } from '../store/postgres-server.js'
import { type Account, DENY, open, type Setup } from './account.js'

const INVALID = '{"on_http_request":[{"expressions":["req.nothing"],"actions":[{"type":"deny"}]}]}'
const server = await startPostgres(t)

interface Process extends Account {
  /** Resolves once this process serves the revision. */
  serves(revision: number): Promise<void>
}

async function process(t: Parameters<typeof open>[0], at: string, setup: Setup = {}): Promise<Process> {
  const looks = new Set<() => void>()
  const options: Pick<ControlOptions, 'served'> = {
    served: () => {
      for (const look of looks) look()
    }
  }
  const account = await open(t, { at, reportEvery: 50, ...options, ...setup })
  const serves = (revision: number) =>
    new Promise<void>((resolve) => {
      const look = () => {
        if (account.control.configuration.revision < revision) return
        looks.delete(look)
        resolve()
      }
      looks.add(look)
      look()
    })
  return Object.assign(account, { serves })
}

/** Two processes on one new database. */
async function pair(t: Parameters<typeof open>[0]): Promise<[Process, Process]> {
  const at = await server.database()
  return [await process(t, at), await process(t, at)]
}

t.test('two first starts at once make one administrator', async (t) => {
  const at = await server.database()
  // The schema comes first: what the race is about is the account.
  await process(t, at).then(({ control }) => control.close())
  const processes = await Promise.all([process(t, at), process(t, at)])
  t.equal(processes[0].admin.id, processes[1].admin.id)
})

t.test('what one process writes serves on the other within a second', async (t) => {
  const [a, b] = await pair(t)
  const before = performance.now()
  const { edge, route } = await a.site('a.test', DENY)
  await b.serves(a.control.configuration.revision)
  t.ok(performance.now() - before < 1000)
  t.equal(b.holder.current().route('a.test', '/')?.id, route)
  t.ok(b.holder.current().policy(`policy:${route}`))
  const { committed } = await b.remove('https_edge', { id: edge })
  await a.serves(committed)
  t.equal(a.holder.current().route('a.test', '/'), undefined)
  t.equal(a.holder.current().policy(`policy:${route}`), undefined)
  t.same([...a.holder.current().plan.units], [...b.holder.current().plan.units])
  t.equal(b.events.length, 2, 'events come from the process that wrote: its own only')
})

t.test('a writer first applies what others wrote, then checks and derives', async (t) => {
  const [a, b] = await pair(t)
  // Writers in turns, none waits for the other to have heard.
  const edge = await a.create('https_edge', { hostports: ['a.test:443'] })
  const route = await b.create(
    'https_edge_route',
    { match: '/', traffic_policy: { value: DENY } },
    { edge_id: edge.id }
  )
  t.equal(b.holder.current().route('a.test', '/')?.id, route.id)
  await t.rejects(a.create('https_edge_route', { match: '/' }, { edge_id: edge.id }), { code: 'ALREADY_EXISTS' })
  const path = { id: route.id, edge_id: edge.id }
  await a.update('https_edge_route', path, { description: 'a' }, { ifMatch: [route.revision] })
  await t.rejects(b.update('https_edge_route', path, { description: 'b' }, { ifMatch: [route.revision] }), {
    code: 'PRECONDITION_FAILED'
  })
  const writes = Array.from({ length: 20 }, (_, n) =>
    (n % 2 === 0 ? a : b).create('https_edge_route', { match: `/${n}` }, { edge_id: edge.id })
  )
  const committed = (await Promise.all(writes)).map((made) => made.committed).sort((x, y) => x - y)
  const [first = 0] = committed
  t.same(
    committed,
    committed.map((_, n) => first + n),
    'one order over both'
  )
  const last = committed.at(-1) as number
  await Promise.all([a.serves(last), b.serves(last)])
  t.same(a.holder.current().plan.units.get(`edge:${edge.id}`), b.holder.current().plan.units.get(`edge:${edge.id}`))
})

t.test('keys, bots and the restriction of the API follow', async (t) => {
  const [a, b] = await pair(t)
  const bot = await a.create('bot_user', { name: 'robot' })
  const key = await a.create('api_key', { owner_id: bot.id })
  const token = key.answer.token as string
  t.match(await b.control.access.authenticate(token), { id: bot.id })
  const { committed } = await a.update('bot_user', { id: bot.id }, { active: false })
  await b.serves(committed)
  await t.rejects(b.control.access.authenticate(token), { code: 'FORBIDDEN' })
  const policy = await a.create('ip_policy', {})
  await a.create('ip_policy_rule', { ip_policy_id: policy.id, cidr: '127.0.0.0/8', action: 'allow' })
  const rule = await a.create('ip_policy_rule', { ip_policy_id: policy.id, cidr: '10.0.0.0/8', action: 'allow' })
  const made = await a.create('ip_restriction', { type: 'api', enforced: true, ip_policy_ids: [policy.id] })
  await b.serves(made.committed)
  t.same(
    ['127.0.0.1', '10.0.0.1', '192.0.2.1'].map((address) => b.control.access.admits(address)),
    [true, true, false]
  )
  const removed = await a.remove('ip_policy_rule', { id: rule.id })
  await b.serves(removed.committed)
  t.notOk(b.control.access.admits('10.0.0.1'))
})

t.test('a process that cannot apply a part serves the rest, says so to all, and holds nobody back', async (t) => {
  const [a, b] = await pair(t)
  const good = await a.site('good.test', DENY)
  const bad = await a.site('bad.test', DENY)
  const revision = a.control.configuration.revision
  await b.serves(revision)
  // As a newer version on the same store would write it.
  await a.store.transact(operation(), async (tx) => {
    const stored = await tx.get('https_edge_route', bad.route)
    const body = { ...(stored?.body as object), match: '/moved', traffic_policy: { enabled: true, value: INVALID } }
    await tx.update('https_edge_route', bad.route, { body })
    const other = await tx.get('https_edge_route', good.route)
    await tx.update('https_edge_route', good.route, { body: { ...(other?.body as object), match: '/also' } })
  })
  await b.serves(revision + 1)
  t.equal(b.holder.current().route('good.test', '/also')?.id, good.route)
  t.equal(b.holder.current().route('bad.test', '/moved')?.id, bad.route)
  t.ok(b.holder.current().policy(`policy:${bad.route}`), 'the former policy protects it')
  t.match(b.control.configuration.lastError, /EXPRESSION/)
  const seen = await b.control.configuration.processes()
  t.equal(seen.length, 2)
  t.match(
    seen.find(({ self }) => self),
    { appliedRevision: revision + 1, lastError: /EXPRESSION/ }
  )
  const written = await b.create('ip_policy', {})
  t.equal(written.committed, revision + 2)
})

t.test('a process that cannot read says so, tries again and catches up', async (t) => {
  const at = await server.database()
  const a = await process(t, at)
  let reachable = true
  let refused: () => void = () => undefined
  const failed = new Promise<void>((resolve) => {
    refused = resolve
  })
  const b = await process(t, at, {
    wrap: (store) =>
      new Proxy(store, {
        get: (target, name) => {
          const value = Reflect.get(target, name) as unknown
          if (typeof value !== 'function') return value
          if (name !== 'changesAfter' || reachable) return value.bind(target)
          return async () => {
            // The one who waits looks after the refusal has been dealt with.
            setImmediate(refused)
            throw new StoreError('STORE_UNAVAILABLE', 'out of reach')
          }
        }
      })
  })
  reachable = false
  const { route } = await a.site('a.test', DENY)
  await failed
  t.equal(b.control.configuration.lastError, 'cannot follow the store: STORE_UNAVAILABLE')
  t.equal(b.holder.current().route('a.test', '/'), undefined)
  reachable = true
  await b.serves(a.control.configuration.revision)
  t.equal(b.holder.current().route('a.test', '/')?.id, route)
  t.equal(b.control.configuration.lastError, null)
})

/** The tables of a database, to be kept and put back under the processes that use it, as a restored backup does. */
async function backup(t: Parameters<typeof open>[0], at: string) {
  const client = new pg.Client(at)
  await client.connect()
  t.teardown(() => client.end())
  const { rows } = await client.query<{ name: string }>(
    "select quote_ident(tablename) as name from pg_tables where schemaname = 'public'"
  )
  const names = rows.map(({ name }) => name)
  await client.query('create schema kept')
  for (const name of names) await client.query(`create table kept.${name} as table public.${name}`)
  return {
    client,
    async restore(): Promise<void> {
      await client.query('begin')
      await client.query("set local session_replication_role = 'replica'")
      for (const name of names) await client.query(`delete from public.${name}`)
      for (const name of names) await client.query(`insert into public.${name} select * from kept.${name}`)
      await client.query('commit')
    }
  }
}

t.test('a store that goes back in time is noticed, read anew and told by every process', async (t) => {
  const at = await server.database()
  const [a, b] = [await process(t, at), await process(t, at)]
  await a.site('a.test', DENY)
  const before = a.control.configuration.revision
  const kept = await backup(t, at)
  const { edge } = await a.site('b.test', DENY)
  await b.serves(a.control.configuration.revision)
  await kept.restore()
  for (const { control, holder, log } of [a, b]) {
    await until(() => control.configuration.revision === before && control.configuration.divergences === 1)
    t.ok(holder.current().route('a.test', '/'))
    t.equal(holder.current().route('b.test', '/'), undefined, 'what the store does not know is not served')
    t.equal(log.texts.filter((line) => line.includes('the store is not the one that was followed')).length, 1)
    t.equal(control.configuration.lastError, null)
  }
  await until(async () => (await a.control.configuration.processes()).every(({ divergedAt }) => divergedAt !== null))
  await t.rejects(a.remove('https_edge', { id: edge }), { code: 'NOT_FOUND' })
  const { route } = await a.site('c.test', DENY)
  t.equal(a.control.configuration.revision, before + 2, 'revision numbers come again')
  await b.serves(a.control.configuration.revision)
  t.equal(b.holder.current().route('c.test', '/')?.id, route)
})

t.test('another history with the same number is noticed too, also by a write that comes first', async (t) => {
  const at = await server.database()
  const a = await process(t, at)
  const { edge } = await a.site('a.test', DENY)
  const revision = a.control.configuration.revision
  const { client } = await backup(t, at)
  // As if the last write had been lost, and another one had got its number.
  await client.query('begin')
  await client.query("delete from records where kind = 'https_edge_route'")
  await client.query("update revisions set operation_id = 'op_of_the_other_history' where revision = $1", [revision])
  await client.query('commit')
  await a.site('b.test', DENY)
  t.equal(a.control.configuration.divergences, 1)
  t.equal(a.holder.current().route('a.test', '/'), undefined, 'its route is gone there')
  t.ok(a.holder.current().route('b.test', '/'))
  t.ok(edge)
})
