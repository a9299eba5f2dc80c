import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import t from 'tap'
import { until } from '../helpers/until.js'
import { folder } from '../store/opened.js'
import { startPostgres } from '../store/postgres-server.js'
import { CopyStand, copied, crashed } from './copy-stand.js'

const DEGRADED = 'degraded: serving revision 4 from its own copy, the store is out of reach'

t.test('PostgreSQL at the start', async (t) => {
  const server = await startPostgres(t)

  /** Runs statements on the server itself, beside every process. */
  async function statement(url: string, texts: readonly string[]): Promise<void> {
    const client = new pg.Client(url)
    await client.connect()
    for (const text of texts) await client.query(text)
    await client.end()
  }

  for (const [fault, breaks, mends] of [
    ['out of reach', 'cut', 'mend'],
    ['mute', 'silence', 'sound'],
    ['read-only', 'lock', 'unlock']
  ] as const) {
    t.test(`${fault}: the copy serves, and the process goes over when the store answers`, async (t) => {
      const { url, name, proxy, cwd, env, route, token } = await crashed(t, server)
      const database = new URL(url).pathname.slice(1)
      const readOnly = (value: string) =>
        statement(url, [
          'set default_transaction_read_only = off',
          `alter database ${database} set default_transaction_read_only = ${value}`
        ])
      const acts = {
        cut: async () => proxy.cut(),
        mend: async () => proxy.mend(),
        silence: async () => {
          proxy.silent = true
        },
        sound: async () => {
          proxy.silent = false
        },
        lock: () => readOnly('on'),
        unlock: () => readOnly('off')
      }
      await acts[breaks]()
      const stand = await CopyStand.start(t, cwd, env)
      t.match(await stand.process.logged('degraded'), { msg: DEGRADED, store: /^postgres:/ })
      t.equal(await stand.serves(), 'first', 'traffic is served')
      t.equal(await stand.health(), 'degraded')
      t.match((await stand.ask('/processes')).json.processes, [
        { last_error: DEGRADED, applied_revision: 4, self: true }
      ])
      t.equal((await stand.ask(route)).status, 200, 'the key of the operator reads what is served')
      t.equal((await stand.ask(route, 'GET', undefined, token)).status, 200, 'and so does a key of the account')
      t.equal((await stand.ask(route, 'GET', undefined, 'a-key-that-nobody-has-given')).status, 401)
      const refused = await stand.change(route, 'too early')
      t.equal(refused.status, 503)
      t.match(refused.json, { error_code: 'ERR_SLUICE_UNAVAILABLE', msg: `${DEGRADED}; nothing was changed` })
      t.equal(await stand.serves(), 'first')
      await acts[mends]()
      if (breaks !== 'lock') {
        // Written by another process meanwhile, which reaches the database.
        const other = await CopyStand.start(t, await folder(t), {
          SLUICE_STORE: url,
          SLUICE_SEAL_KEY: readFileSync(join(cwd, 'data', 'seal.key'), 'utf8').trim()
        })
        t.equal((await other.change(route, 'second')).status, 200)
        await other.stop()
        await until(async () => (await stand.serves()) === 'second')
      }
      await stand.process.logged('the store answers again')
      await until(async () => (await stand.health()) === 'ok')
      const third = await stand.change(route, 'third')
      t.equal(third.status, 200, JSON.stringify(third.json))
      t.equal(await stand.serves(), 'third')
      await copied(join(cwd, 'data'), name, await stand.revision())
      t.equal(await stand.stop(), 0)
    })
  }
})
