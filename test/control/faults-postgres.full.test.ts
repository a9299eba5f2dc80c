import { join } from 'node:path'
import { sql } from 'kysely'
import t, { type Test } from 'tap'
import { PostgresDriver, postgresDatabase } from '../../src/store/postgres.js'
import { type Answer, asker } from '../api/asking.js'
import { API_KEY, startSluice } from '../helpers/sluice.js'
import { until } from '../helpers/until.js'
import { startCuttingProxy } from '../store/cutting-proxy.js'
import { folder, Lines } from '../store/opened.js'
import { startOwnPostgres, through } from '../store/postgres-server.js'
import { open } from './account.js'

const HOST = 'shop.test'
const LONG = process.env.SLUICE_TEST_LONG === '1'
/** What must come back by itself comes back within this time, in milliseconds. */
const PATIENCE = 15_000

const server = await startOwnPostgres(t)

const value = (marker: string) => {
  const config = { status_code: 200, body: marker }
  return JSON.stringify({ on_http_request: [{ actions: [{ type: 'custom-response', config }] }] })
}

/** The product on a database that can be taken from it, with traffic that never stops. */
async function stand(t: Test) {
  const url = await server.database()
  const line = await startCuttingProxy(t, server.port)
  const data = join(await folder(t), 'data')
  const sluice = await startSluice(t, { options: { STORE: through(url, line.port), DATA: data } })
  const ask = asker('127.0.0.1', sluice.apiPort)
  const api = (path: string, method = 'GET', body?: unknown) => ask(path, { key: API_KEY, method, body })
  const edge = await api('/edges/https', 'POST', { hostports: [`${HOST}:443`] })
  const routes = `/edges/https/${edge.json.id}/routes`
  const route = (await api(routes, 'POST', { match: '/', traffic_policy: { value: value('first') } })).json.id
  const write = (marker: string) => api(`${routes}/${route}`, 'PATCH', { traffic_policy: { value: value(marker) } })

  const visit = asker('127.0.0.1', sluice.port)
  const serves = async () => (await visit('/', { headers: { host: HOST } })).text
  const failed: unknown[] = []
  let running = true
  let visits = 0
  const traffic = (async () => {
    while (running) {
      const seen = await visit('/', { headers: { host: HOST } }).catch((error: unknown) => ({ status: error }))
      visits++
      if (seen.status !== 200) failed.push(seen)
    }
  })()
  const calm = async () => {
    running = false
    await traffic
    t.same(failed, [], `none of ${visits} requests failed`)
    t.ok(visits > 10)
  }
  t.teardown(async () => {
    running = false
    await traffic
  })
  /** Waits until the health shows exactly these reasons; what it says is right about the store is in the metrics, too. */
  const health = async (t: Test, ...reasons: string[]) => {
    const asked = async () => (await api('/readyz')).json
    await comesTo(t, `degraded: ${reasons.join()}`, async () => (await asked()).reasons.join() === reasons.join())
    const { status, json } = await api('/readyz')
    t.equal(status, 200, 'it serves all the time')
    t.equal(json.status, reasons.length === 0 ? 'ready' : 'degraded')
    const { text } = await api('/metrics')
    t.match(text, `sluice_store_up ${reasons.includes('store_unreachable') ? 0 : 1}\n`)
    for (const reason of reasons) t.match(text, `sluice_degraded{reason="${reason}"} 1\n`)
    t.equal([...text.matchAll(/^sluice_degraded\{.*\} 1$/gm)].length, reasons.length)
  }
  /** How many lines of the log are about this reason, or have this message. */
  const told = (words: string) => sluice.log.filter(({ reason, msg }) => reason === words || msg === words).length
  return { url, line, api, edge: edge.json.id as string, route: route as string, write, serves, calm, health, told }
}

/** Asks again until it holds; fails the test when that takes too long. */
async function comesTo(t: Test, what: string, holds: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + PATIENCE
  let held = false
  await until(async () => {
    held = await holds()
    return held || performance.now() > end
  })
  t.ok(held, held ? what : `${what}: not within ${PATIENCE} ms`)
}

/** What is tried again and again while the database is out of reach. */
const REPEATED = [
  'cannot look for new revisions',
  'cannot listen for new revisions; polling',
  'cannot tell the other processes how far this one is',
  'cannot follow the store; trying again',
  'managed certificates could not be followed; trying again',
  'managed certificates could not be looked after; trying again',
  'events wait: the store cannot be used'
] as const

const isUnavailable = ({ status, json }: Answer) => status === 503 && json.error_code === 'ERR_SLUICE_UNAVAILABLE'

async function query(url: string, run: (database: ReturnType<typeof postgresDatabase>) => Promise<unknown>) {
  const database = postgresDatabase(new PostgresDriver(url, new Lines()))
  try {
    return await run(database)
  } finally {
    await database.close()
  }
}

/** Connections of processes that wait for notifications. */
async function listeners(url: string): Promise<number> {
  const run = async (database: ReturnType<typeof postgresDatabase>) => {
    const listening = sql<{ count: number }>`
      select count(*) from pg_stat_activity where datname = current_database() and query like 'listen %'`
    return (await listening.execute(database.reads)).rows[0]?.count
  }
  return Number(await query(url, run))
}

t.test('a cut connection: traffic runs on, writes are refused, and what others wrote meanwhile arrives', async (t) => {
  const { url, line, api, edge, route, write, serves, calm, health, told } = await stand(t)
  await health(t)
  const other = await open(t, { at: url })
  t.equal(await listeners(url), 2)
  line.cut()
  const refused = await write('while cut')
  t.ok(isUnavailable(refused), refused.text)
  t.ok(isUnavailable(await api('/edges/https')), 'reads need the store too')
  t.equal(await serves(), 'first', 'the last snapshot serves')
  await health(t, 'store_unreachable')
  t.equal(told('store_unreachable'), 1, 'the log says it once')
  const body = { traffic_policy: { value: value('of another') } }
  await other.update('https_edge_route', { id: route, edge_id: edge }, body)
  t.equal(await serves(), 'first')
  line.mend()
  await comesTo(t, 'the other process write arrives', async () => (await serves()) === 'of another')
  await comesTo(t, 'it listens again', async () => (await listeners(url)) === 2)
  const answer = await write('mended')
  t.equal(answer.status, 200, answer.text)
  t.equal(await serves(), 'mended')
  await health(t)
  t.equal(told('store_unreachable'), 2, 'and once that it is over')
  for (const repeated of REPEATED) t.ok(told(repeated) <= 1, `${repeated}: ${told(repeated)}`)
  t.equal(told(REPEATED[0]), 1)
  await calm()
})

t.test('a commit that is cut: the answer is what the store has, whatever became of it', async (t) => {
  const { line, api, edge, route, write, serves, calm } = await stand(t)
  let last = 'first'
  for (const fate of ['lost', 'answer lost', 'cut behind'] as const) {
    line.fate = fate
    const answer = await write(fate)
    t.ok(answer.status === 200 || isUnavailable(answer), `${fate}: ${answer.status}`)
    if (fate === 'lost') t.equal(answer.status, 503)
    if (answer.status === 200) last = fate
    t.equal(await serves(), last, `${fate}: traffic`)
    const { json } = await api(`/edges/https/${edge}/routes/${route}`)
    t.equal(json.traffic_policy.value, value(last), `${fate}: store`)
  }
  t.not(last, 'first', 'a commit whose answer was lost was found')
  await calm()
})

t.test('ended sessions and a restart of the server are survived', async (t) => {
  const { url, write, serves, calm } = await stand(t)
  await query(url, (database) =>
    sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`.execute(
      database.reads
    )
  )
  await comesTo(t, 'a write after all sessions were ended', async () => (await write('again')).status === 200)
  await server.stop()
  t.ok(isUnavailable(await write('while stopped')))
  t.equal(await serves(), 'again')
  await server.start()
  await comesTo(t, 'a write after the server has started again', async () => (await write('back')).status === 200)
  t.equal(await serves(), 'back')
  await comesTo(t, 'it listens again', async () => (await listeners(url)) === 1)
  await calm()
})

t.test('a database that only reads', async (t) => {
  const { url, api, write, serves, calm, health, told } = await stand(t)
  const only = async (state: 'on' | 'off') => {
    await query(url, async (database) => {
      await sql`set default_transaction_read_only = off`.execute(database.reads)
      await sql`alter system set default_transaction_read_only = ${sql.raw(state)}`.execute(database.reads)
      await sql`select pg_reload_conf()`.execute(database.reads)
    })
  }
  await only('on')
  await comesTo(t, 'writes are refused', async () => isUnavailable(await write('refused')))
  const last = await serves()
  t.equal((await api('/edges/https')).status, 200, 'reads go on')
  const refused = await write('refused')
  t.ok(isUnavailable(refused))
  t.equal(refused.json.msg, 'the store is read-only; nothing was changed')
  await health(t, 'store_read_only')
  t.equal(await serves(), last)
  await only('off')
  await comesTo(t, 'writes go on by themselves', async () => (await write('writable')).status === 200)
  t.equal(await serves(), 'writable')
  await health(t)
  t.equal(told('store_read_only'), 2)
  await calm()
})

t.test(
  'a silent connection is given up',
  { skip: LONG ? false : 'it takes as long as the time-out: SLUICE_TEST_LONG=1' },
  async (t) => {
    const { line, write, serves, calm, health } = await stand(t)
    line.silent = true
    const written = write('into the silence')
    await health(t, 'store_unreachable')
    t.ok(isUnavailable(await written))
    t.equal(await serves(), 'first')
    line.silent = false
    await comesTo(t, 'writes go on', async () => (await write('heard')).status === 200)
    t.equal(await serves(), 'heard')
    await health(t)
    await calm()
  }
)
