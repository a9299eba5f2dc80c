import { once } from 'node:events'
import { createServer } from 'node:net'
import pg from 'pg'
import t, { type Test as TapTest } from 'tap'
import { migrate } from '../../src/store/migrations.js'
import { PostgresDriver, postgresDatabase } from '../../src/store/postgres.js'
import type { Change } from '../../src/store/records.js'
import { until } from '../helpers/until.js'
import { type CommitFate, startCuttingProxy } from './cutting-proxy.js'
import { migrationSuite } from './migration-suite.js'
import { Lines, opened, operation, over, put, type Test } from './opened.js'
import { startOwnPostgres, through } from './postgres-server.js'
import { storeSuite } from './suite.js'
import { allWhole, startWriter } from './writing-process.js'

const server = await startOwnPostgres(t)

/** A new database without a schema. */
const bare = async (t: Test) => {
  const database = postgresDatabase(new PostgresDriver(await server.database(), new Lines()))
  t.teardown(() => database.close())
  return database
}

/** A connection beside the store. */
const client = async (t: Test, url: string) => {
  const other = new pg.Client(url)
  other.on('error', () => undefined)
  await other.connect()
  t.teardown(() => other.end())
  return other
}

const insert = (id: string) => ({ kind: 'edge', id, body: id })

t.test('PostgreSQL', async (t) => {
  const database = await bare(t)
  await migrate(database)
  await storeSuite(t, database, true)
})

t.test('migrations', async (t) => {
  migrationSuite(t, bare)

  t.test('two processes that start at once', async (t) => {
    const url = await server.database()
    const stores = await Promise.all([opened(t, url), opened(t, url), opened(t, url)])
    t.equal(stores.flatMap(({ log }) => log.texts).length, 1, 'one of them made the schema')
  })
})

t.test('two stores on one database', async (t) => {
  const url = await server.database()
  const a = await opened(t, url)
  const b = await opened(t, url)

  t.test('one of them gets a value', async (t) => {
    for (let round = 0; round < 15; round++) {
      const claim = (store: typeof a.store, id: string) =>
        store.transact(operation(), async (transaction) => {
          await transaction.insert(insert(`${id}${round}`))
          await transaction.claim({ kind: 'edge', id: `${id}${round}` }, 'host', `h${round}`)
        })
      const results = await Promise.allSettled([claim(a.store, 'a'), claim(b.store, 'b')])
      const lost = results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []))
      const keeper = await a.store.keeperOf('host', `h${round}`)
      t.equal(lost.length, 1)
      t.match(lost[0], { code: 'STORE_CLAIMED', keeper })
      t.equal(await a.store.get('edge', keeper?.id === `a${round}` ? `b${round}` : `a${round}`), undefined)
    }
  })

  t.test('who reads after its last revision misses nothing', async (t) => {
    const start = await a.store.revision()
    const writes: Promise<number>[] = []
    for (let count = 0; count < 40; count++) writes.push(put(count % 2 === 0 ? a.store : b.store, 'route', `r${count}`))
    const all = Promise.all(writes)
    const seen: Change[] = []
    for (let last = start; last < start + writes.length; ) {
      const feed = await b.store.changesAfter(last)
      seen.push(...feed.changes)
      last = feed.revision
    }
    t.same(
      seen.map(({ revision }) => revision),
      writes.map((_, index) => start + index + 1)
    )
    const revisions = await all
    t.equal(new Set(revisions).size, writes.length)
    for (const { id, revision } of seen) t.equal(revision, revisions[Number(id.slice(1))])
  })

  t.test('a writer learns that others wrote before it', async (t) => {
    const mine = await put(a.store, 'edge', 'mine')
    await put(b.store, 'edge', 'theirs')
    await a.store.transact(operation(), async (transaction) => {
      t.equal(transaction.previous, mine + 1)
      t.match((await transaction.changesAfter(mine)).changes, [{ id: 'theirs' }])
      t.ok(await transaction.get('edge', 'theirs'))
    })
  })

  t.test('each hears what the other commits', async (t) => {
    const revision = await put(a.store, 'edge', 'heard')
    await b.heard(revision)
    t.same(
      b.revisions,
      [...b.revisions].sort((one, other) => one - other),
      'in rising order'
    )
    t.ok(b.revisions.includes(revision))
  })

  t.test('without a notification it is found all the same', async (t) => {
    const other = await client(t, url)
    const { rows } = await other.query<{ revision: string }>(
      'update meta set revision = revision + 1 returning revision'
    )
    const revision = Number(rows[0]?.revision)
    await Promise.all([a.heard(revision), b.heard(revision)])
    t.equal(a.revisions.filter((heard) => heard === revision).length, 1, 'once')
  })
})

t.test('notifications', async (t) => {
  const url = await server.database()
  const { store } = await opened(t, url)
  const listener = await client(t, url)
  await listener.query('listen sluice_revisions')
  const heard = once(listener, 'notification')
  const dry = store.transact(operation(), async (transaction) => {
    await transaction.insert(insert('dry'))
    transaction.abandon()
  })
  await dry
  await put(store, 'edge', 'a')
  t.match(await heard, [{ payload: '1' }], 'the commit tells its revision, what is undone tells nothing')

  const driver = new PostgresDriver(url, new Lines())
  t.teardown(() => driver.end())
  let notice: () => void = () => undefined
  const woken = new Promise<void>((resolve) => {
    notice = resolve
  })
  const unlisten = await driver.listen({ sluice_revisions: notice }, () => undefined)
  await put(store, 'edge', 'b')
  await woken
  await unlisten()
})

t.test('a lost connection', async (t) => {
  const url = await server.database()
  const proxy = await startCuttingProxy(t, server.port)
  const near = await opened(t, url)
  const far = await opened(t, through(url, proxy.port))
  await far.store.get('edge', 'a')
  proxy.cut()
  await put(near.store, 'edge', 'a')
  const last = await put(near.store, 'edge', 'b')
  await t.rejects(far.store.get('edge', 'a'), { code: 'STORE_UNAVAILABLE' })
  await t.rejects(put(far.store, 'edge', 'c'), { code: 'STORE_UNAVAILABLE' })
  t.same(far.revisions, [])
  proxy.mend()
  await far.heard(last)
  t.same(
    (await far.store.changesAfter(0)).changes.map(({ id }) => id),
    ['a', 'b'],
    'what came meanwhile is found'
  )
  t.equal(await put(far.store, 'edge', 'c'), last + 1)
  t.notMatch(far.log.texts.join('\n'), /hidden-in-logs/)

  const other = await client(t, url)
  const listeners = `select pid from pg_stat_activity where datname = current_database() and query like 'listen%'`
  for (let pids: { pid: number }[] = []; pids.length < 2; ) pids = (await other.query<{ pid: number }>(listeners)).rows
  t.pass('it listens again')
})

t.test('a server that falls silent', async (t) => {
  // Not through the connection with a time-out, which a migration may miss on a busy machine.
  const url = await server.migrated()
  const proxy = await startCuttingProxy(t, server.port)
  const driver = new PostgresDriver(`${through(url, proxy.port)}?query_timeout=200`, new Lines())
  const database = postgresDatabase(driver)
  t.teardown(() => database.close())
  const { store } = over(database)
  proxy.silent = true
  await t.rejects(store.get('edge', 'a'), { code: 'STORE_UNAVAILABLE' })
  proxy.silent = false
  t.equal(await store.get('edge', 'a'), undefined, 'on a fresh connection')
  t.equal(await put(store, 'edge', 'a'), 1)
})

t.test('the server restarts', async (t) => {
  const { store } = await opened(t, await server.database())
  await put(store, 'edge', 'a')
  await server.stop()
  await t.rejects(store.get('edge', 'a'), { code: 'STORE_UNAVAILABLE' })
  await t.rejects(put(store, 'edge', 'b'), { code: 'STORE_UNAVAILABLE' })
  await server.start()
  t.match(await store.get('edge', 'a'), { id: 'a' })
  t.equal(await put(store, 'edge', 'b'), 2)
})

t.test('the outcome of a broken commit', async (t) => {
  const url = await server.database()
  const proxy = await startCuttingProxy(t, server.port)
  const { store, clock, log } = await opened(t, through(url, proxy.port))
  const other = await client(t, url)

  t.test('lost on the way: nothing happened, and the same operation may be repeated', async (t) => {
    proxy.fate = 'lost'
    const write = () => store.transact('op_lost', (transaction) => transaction.insert(insert('lost')))
    await t.rejects(write(), { code: 'STORE_UNAVAILABLE' })
    t.equal(await store.get('edge', 'lost'), undefined)
    t.match(await write(), { committed: true, revision: 1 })
  })

  t.test('committed, but the answer lost: success', async (t) => {
    proxy.fate = 'answer lost'
    const outcome = await store.transact('op_answer', (transaction) => transaction.insert(insert('answer')))
    t.match(outcome, { committed: true, revision: 2 })
    t.ok(await store.get('edge', 'answer'))
  })

  await t.test('while the server commits', async (t) => {
    await other.query(`
      create function hold() returns trigger language plpgsql as
        $$ begin if new.id like 'held%' then perform pg_advisory_xact_lock(1); end if; return new; end $$;
      create constraint trigger hold after insert on records deferrable initially deferred
        for each row execute function hold()`)
    const waiting = `select pid from pg_stat_activity where query = 'commit' and wait_event_type = 'Lock'`
    const committing = async () => {
      for (;;) {
        const { rows } = await other.query<{ pid: number }>(waiting)
        if (rows[0] !== undefined) return rows[0].pid
      }
    }

    t.test('the client breaks off and the commit goes through: success', async (t) => {
      await other.query('select pg_advisory_lock(1)')
      proxy.fate = 'cut behind'
      let settled = false
      const write = store.transact('op_held1', (transaction) => transaction.insert(insert('held1')))
      const watched = write.finally(() => {
        settled = true
      })
      await committing()
      const asking = `select 1 from pg_stat_activity where query like 'update "meta"%' and wait_event_type = 'Lock'`
      for (let asked = false; !asked && !settled; ) asked = (await other.query(asking)).rows.length > 0
      t.equal(settled, false, 'who asks waits for the server to know')
      await other.query('select pg_advisory_unlock(1)')
      t.match(await watched, { committed: true })
      t.ok(await store.get('edge', 'held1'))
    })

    t.test('the backend is killed: nothing happened', async (t) => {
      await other.query('select pg_advisory_lock(1)')
      const write = store.transact('op_held2', (transaction) => transaction.insert(insert('held2')))
      const failed = t.rejects(write, { code: 'STORE_UNAVAILABLE' })
      await other.query('select pg_terminate_backend($1)', [await committing()])
      await failed
      await other.query('select pg_advisory_unlock(1)')
      t.equal(await store.get('edge', 'held2'), undefined)
    })
  })

  t.test('out of reach for good: unknown', async (t) => {
    proxy.fate = 'cut behind'
    const write = store.transact('op_dark', (transaction) => transaction.insert(insert('dark')))
    const unknown = t.rejects(write, { code: 'STORE_OUTCOME_UNKNOWN' })
    const met = () => (proxy.fate as CommitFate) === 'pass'
    await until(met)
    proxy.cut()
    const asked = () => log.texts.some((text) => text.includes('op_dark'))
    await until(asked)
    clock.advance(60_000)
    await unknown
    proxy.mend()
    t.equal((await store.transact(operation(), (transaction) => transaction.insert(insert('next')))).committed, true)
  })
})

t.test('a failed statement cannot be committed', async (t) => {
  const database = await bare(t)
  await migrate(database)
  const { store } = over(database)
  const careless = store.transact(operation(), async (transaction) => {
    await transaction.insert(insert('a'))
    await t.rejects(transaction.claim({ kind: 'edge', id: 'nobody' }, 'host', 'x'), { code: 'STORE_FAILED' })
  })
  await t.rejects(careless, { code: 'STORE_FAILED' })
  t.equal(await store.get('edge', 'a'), undefined)
  t.equal(await put(store, 'edge', 'b'), 1)
})

t.test('a writer that hangs elsewhere fails a write in time', async (t) => {
  const url = await server.database()
  const { store } = await opened(t, `${url}?lock_timeout=150`)
  const other = await client(t, url)
  await other.query('begin; update meta set revision = revision + 1')
  await t.rejects(put(store, 'edge', 'a'), { code: 'STORE_BUSY', message: /lock timeout/ })
  t.equal(await store.revision(), 0, 'reads go on')
  await other.query('rollback')
  t.equal(await put(store, 'edge', 'a'), 1)
})

t.test('what cannot be reached is named, without its password', async (t) => {
  const refusal = async (url: string, code: string) => {
    const error = await opened(t, url).catch((reason: unknown) => reason)
    t.match(error, { code })
    t.notMatch(JSON.stringify([error, String(error)]), /hidden-in-logs/)
    return String(error)
  }
  const taken = createServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
  const { port } = taken.address() as { port: number }
  taken.close()
  await once(taken, 'close')
  t.match(
    await refusal(`postgres://me:hidden-in-logs@127.0.0.1:${port}/db`, 'STORE_UNAVAILABLE'),
    `cannot reach postgres://127.0.0.1:${port}/db`
  )
  t.match(
    await refusal(`postgres://postgres:not-hidden-in-logs@127.0.0.1:${server.port}/postgres`, 'STORE_REFUSED'),
    /password auth.*28P01/
  )
  t.match(
    await refusal(`postgres://postgres:hidden-in-logs@127.0.0.1:${server.port}/no_such_database`, 'STORE_REFUSED'),
    /does not exist.*3D000/
  )
  t.match(await refusal('postgres://postgres:hidden-in-logs@127.0.0.1:bad port/db', 'STORE_ADDRESS'), /no valid URL/)
})

t.test('kill -9 in the middle of writing keeps what was acknowledged and frees the turn', async (t: TapTest) => {
  const url = await server.database()
  const writer = await startWriter(t, url)
  const acknowledged = await writer.killAfter(60)
  const { store } = await opened(t, url)
  await allWhole(t, store, acknowledged)
  t.ok((await put(store, 'edge', 'after')) > acknowledged)
})
