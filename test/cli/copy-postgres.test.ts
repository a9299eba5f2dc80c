import { join } from 'node:path'
import pg from 'pg'
import t from 'tap'
import { until } from '../helpers/until.js'
import { startCuttingProxy } from '../store/cutting-proxy.js'
import { folder } from '../store/opened.js'
import { startPostgres, through } from '../store/postgres-server.js'
import { CopyStand, copied } from './copy-stand.js'

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

  /** A site that was written and copied, and whose process has crashed. */
  async function crashed() {
    const url = await server.database()
    const proxy = await startCuttingProxy(t, server.port)
    const cwd = await folder(t)
    const env = { SLUICE_STORE: through(url, proxy.port) }
    const first = await CopyStand.start(t, cwd, env)
    const route = await first.site('first')
    const { json: key } = await first.ask('/api_keys', 'POST', {})
    const name = `postgres://127.0.0.1:${proxy.port}${new URL(url).pathname}`
    await copied(join(cwd, 'data'), name, await first.revision())
    await first.kill()
    return { url, proxy, cwd, env, route, token: key.token as string }
  }

  for (const [fault, breaks, mends] of [
    ['out of reach', 'cut', 'mend'],
    ['mute', 'silence', 'sound'],
    ['read-only', 'lock', 'unlock']
  ] as const) {
    t.test(`${fault}: the copy serves, and the process goes over when the store answers`, async (t) => {
      const { url, proxy, cwd, env, route, token } = await crashed()
      const name = new URL(url).pathname.slice(1)
      const readOnly = (value: string) =>
        statement(url, [
          'set default_transaction_read_only = off',
          `alter database ${name} set default_transaction_read_only = ${value}`
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
          SLUICE_SEAL_KEY: 'A'.repeat(43)
        })
        t.equal((await other.change(route, 'second')).status, 200)
        await other.stop()
        await until(async () => (await stand.serves()) === 'second')
      }
      await stand.process.logged('the store answers again')
      await until(async () => (await stand.health()) === 'ok')
      t.equal((await stand.change(route, 'third')).status, 200, 'it takes writes again')
      t.equal(await stand.serves(), 'third')
      await copied(join(cwd, 'data'), new URL(env.SLUICE_STORE).href.replace(/\/\/.*@/, '//'), await stand.revision())
      t.equal(await stand.stop(), 0)
    })
  }

  t.test('a wrong password is told, whatever there is to serve', async (t) => {
    const { cwd, env } = await crashed()
    const wrong = new URL(env.SLUICE_STORE)
    wrong.password = 'no-such-password'
    const { code, err } = await CopyStand.launch(t, cwd, { SLUICE_STORE: wrong.href }).ended()
    t.equal(code, 1)
    t.match(err, /^cannot reach postgres:.*password authentication failed/)
    t.notMatch(err, 'no-such-password')
  })

  t.test('without a copy it waits, with a line each time, and starts when the store answers', async (t) => {
    const { proxy, cwd, env } = await crashed()
    proxy.cut()
    const waiting = CopyStand.launch(t, cwd, env, ['--no-cache'])
    const line = { store: /^postgres:/, reason: /cannot reach/, again_in: '1s' }
    t.match(await waiting.logged('the store is out of reach and there is no copy'), line)
    t.match(await waiting.logged('the store is out of reach and there is no copy', 2), { ...line, again_in: '2s' })
    proxy.mend()
    const stand = await CopyStand.listening(waiting)
    t.equal(await stand.serves(), 'first')
    t.equal(await stand.health(), 'ok')
    t.equal(await stand.stop(), 0)

    proxy.cut()
    const nowhere = CopyStand.launch(t, cwd, env)
    await nowhere.logged('the store is out of reach and there is no copy')
    t.pass('--no-cache has taken the copy away')
    const begun = performance.now()
    nowhere.child.kill('SIGTERM')
    t.match(await nowhere.ended(), { code: 0, out: /stopped before it was ready/ })
    t.ok(performance.now() - begun < 5_000, 'and whoever waits can be stopped')
  })

  t.test('nothing is kept of a store with data in memory', async (t) => {
    const url = await server.database()
    const proxy = await startCuttingProxy(t, server.port)
    const env = { SLUICE_STORE: through(url, proxy.port), SLUICE_DATA: ':memory:', SLUICE_SEAL_KEY: 'A'.repeat(43) }
    const cwd = await folder(t)
    const first = await CopyStand.start(t, cwd, env)
    t.equal((await first.ask('/edges/https', 'POST', {})).status, 201)
    t.equal(await first.stop(), 0)
    proxy.cut()
    const second = CopyStand.launch(t, cwd, env)
    await second.logged('the store is out of reach and there is no copy')
  })
})
