import t from 'tap'
import { startCuttingProxy } from '../store/cutting-proxy.js'
import { folder } from '../store/opened.js'
import { startPostgres, through } from '../store/postgres-server.js'
import { CopyStand, crashed } from './copy-stand.js'

t.test('PostgreSQL at a start without a copy', async (t) => {
  const server = await startPostgres(t)

  t.test('a wrong password is told, whatever there is to serve', async (t) => {
    const { cwd, env } = await crashed(t, server)
    const wrong = new URL(env.SLUICE_STORE)
    wrong.password = 'no-such-password'
    const { code, err } = await CopyStand.launch(t, cwd, { SLUICE_STORE: wrong.href }).ended()
    t.equal(code, 1)
    t.match(err, /^cannot reach postgres:.*password authentication failed/)
    t.notMatch(err, 'no-such-password')
  })

  t.test('without a copy it waits, with a line each time, and starts when the store answers', async (t) => {
    const { proxy, cwd, env } = await crashed(t, server)
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
